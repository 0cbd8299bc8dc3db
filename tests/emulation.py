"""
Correct matmul kernels in every order, emulated on NumPy.

A kernel is an order of summation, an accumulator, and a format in which partial sums are stored;
it widens its operands, so that products of 16-bit operands are exact, and rounds once at the end.
"""

from __future__ import annotations

import numpy as np

from zeroulp import encoding
from zeroulp.formats import format_named

ORDERS = ("sequential", "reversed", "pairwise", "random", "blocked", "split-k", "fma", "kahan")


def matmul_in_order(order, *, accumulator="float32", partial=None, out=None, seed=0):
    """A kernel f(a, b) that sums in *order*; *partial*: format in which split-K stores partial sums."""
    acc = np.dtype(accumulator)

    def kernel(a, b):
        result = out or default_output(a.dtype)
        wide_a, wide_b = a.astype(acc), b.astype(acc)
        with np.errstate(all="ignore"):
            return convert(SUMS[order](wide_a, wide_b, acc, partial, seed), result)

    kernel.__name__ = f"{order}_{accumulator}_{partial}"
    return kernel


def default_output(dtype):
    return dtype.name if dtype.itemsize > 1 else "float32"


def convert(values, name):
    """One rounding, ties to even, to the format *name*."""
    format_ = format_named(name)
    return encoding.array_of(encoding.round_values(values.astype(np.float64), format_), format_)


def stored(values, partial):
    """Values as they come back from memory in the format *partial*."""
    if partial is None:
        return values
    if values.dtype == np.float32 and partial in ("float16", "bfloat16"):  # one rounding, and much faster
        return values.astype(encoding.storage_dtype(format_named(partial))).astype(np.float32)
    return convert(values, partial).astype(values.dtype)


def term(a, b, k):
    return a[..., :, k, None] * b[..., k, None, :]


def zeros(a, b, acc):
    return np.zeros((*a.shape[:-1], b.shape[-1]), acc)


def along(ks, a, b, acc):
    total = zeros(a, b, acc)
    for k in ks:
        total = total + term(a, b, k)
    return total


def sequential(a, b, acc, partial, seed):
    return in_pieces(range(a.shape[-1]), a, b, acc, partial, 1 if partial is None else 4)


def reverse(a, b, acc, partial, seed):
    return in_pieces(list(range(a.shape[-1]))[::-1], a, b, acc, partial, 1 if partial is None else 4)


def random_order(a, b, acc, partial, seed):
    ks = np.random.default_rng(seed).permutation(a.shape[-1])
    return in_pieces(ks, a, b, acc, partial, 1 if partial is None else 3)


def blocked(a, b, acc, partial, seed):
    return in_pieces(range(a.shape[-1]), a, b, acc, partial, max(1, a.shape[-1] // 8))


def split_k(a, b, acc, partial, seed):
    return in_pieces(range(a.shape[-1]), a, b, acc, partial, 4)


def in_pieces(ks, a, b, acc, partial, pieces):
    """Sums over contiguous pieces of *ks*, each stored, then added up (and stored after each addition)."""
    total = None
    for piece in np.array_split(np.asarray(ks, int), pieces):
        own = stored(along(piece, a, b, acc), partial)
        total = own if total is None else stored(total + own, partial)
    return total


def pairwise(a, b, acc, partial, seed):
    leaves = [term(a, b, k) for k in range(a.shape[-1])] or [zeros(a, b, acc)]
    while len(leaves) > 1:
        paired = [stored(x + y, partial) for x, y in zip(leaves[::2], leaves[1::2])]
        leaves = paired + ([leaves[-1]] if len(leaves) % 2 else [])
    return leaves[0]


def fma(a, b, acc, partial, seed):
    """Fused multiply-add: product and sum in float64 (exact for 16-bit operands), one rounding each step."""
    total = zeros(a, b, acc)
    for k in range(a.shape[-1]):
        total = stored((total.astype(np.float64) + term(a.astype(np.float64), b.astype(np.float64), k)).astype(acc), partial)
    return total


def kahan(a, b, acc, partial, seed):
    total, lost = zeros(a, b, acc), zeros(a, b, acc)
    for k in range(a.shape[-1]):
        y = term(a, b, k) - lost
        new = total + y
        total, lost = stored(new, partial), (new - total) - y
    return total


SUMS = dict(zip(ORDERS, (sequential, reverse, pairwise, random_order, blocked, split_k, fma, kahan), strict=True))


def tensor_core(*, fraction_bits=25, step=16, precision=24):
    """
    Aligned, truncated addends: each step aligns its products and the accumulator to the largest
    exponent, truncates them to *fraction_bits*, adds exactly, and truncates to *precision* bits.
    """

    def kernel(a, b):
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        total = zeros(wide_a, wide_b, np.float64)
        exponent_a, exponent_b = floor_log2(wide_a), floor_log2(wide_b)
        for start in range(0, a.shape[-1], step):
            ks = range(start, min(start + step, a.shape[-1]))
            terms = [term(wide_a, wide_b, k) for k in ks] + [total]
            exponents = [exponent_a[..., :, k, None] + exponent_b[..., k, None, :] for k in ks] + [floor_log2(total)]
            unit = np.exp2(np.maximum.reduce(exponents) - fraction_bits)
            total = sum(np.trunc(t / unit) * unit for t in terms)
            ulp = np.exp2(floor_log2(total) - precision + 1)
            total = np.trunc(total / ulp) * ulp
        return convert(total, default_output(a.dtype))

    return kernel


def floor_log2(x):
    with np.errstate(divide="ignore"):
        return np.where(x == 0, -1000.0, np.frexp(x)[1] - 1.0)
