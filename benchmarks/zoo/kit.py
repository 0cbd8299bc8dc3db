"""What kernels of the zoo are made of."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
from numpy.lib.stride_tricks import as_strided

NARROW = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2": ml_dtypes.float8_e5m2,
}


def shape(m: int, n: int, k: int, a: str = "float16", **more: Any) -> dict[str, Any]:
    """A problem."""
    return {"m": m, "n": n, "k": k, "a": a, **more}


def f32(x):
    return np.asarray(x).astype(np.float32)


def f64(x):
    return np.asarray(x).astype(np.float64)


def product(a, b):
    """The right sums, in float32."""
    return np.matmul(f32(a), f32(b))


def right(a, b):
    """The right result, in the format of a."""
    return product(a, b).astype(a.dtype)


def through(x, name):
    """Float32 values after a round trip through a narrower format."""
    if name == "tf32":
        return nearest_tf32(x)
    return f32(x).astype(NARROW[name]).astype(np.float32)


def nearest_tf32(x):
    """Float32 values rounded to 11 significant bits, ties to even."""
    bits = f32(x).view(np.uint32)
    bits = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def cut(x, dropped):
    """Float32 values with the lowest *dropped* bits of the significand cleared."""
    return (f32(x).view(np.uint32) & np.uint32(0x100000000 - (1 << dropped))).view(np.float32)


def blocks(size, step):
    """Slices of *step*, the last one shorter."""
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def in_steps(a, b, step, keep):
    """Sums over blocks of k, where *keep* changes the running total after each."""
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for ks in blocks(a.shape[-1], step):
        total = keep(total + product(a[..., ks], b[..., ks, :]))
    return total


def partials(a, b, splits):
    """Split-K: the float32 sums of each piece of k."""
    return [product(a[..., ks], b[..., ks, :]) for ks in np.array_split(np.arange(a.shape[-1]), splits)]


def padded(x, axis, multiple):
    """*x* with zeros up to a multiple of *multiple* along *axis*."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, -x.shape[axis] % multiple)
    return np.pad(x, widths)


def strided(x, sizes, strides):
    """The memory from x's first element on, with any sizes and strides (in elements), as a raw pointer sees it."""
    return as_strided(x, sizes, [stride * x.itemsize for stride in strides])


def from_address(address, count, dtype):
    """*count* elements at an address."""
    dtype = np.dtype(dtype)
    return np.frombuffer((ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address), dtype)


def address(x):
    return x.__array_interface__["data"][0]
