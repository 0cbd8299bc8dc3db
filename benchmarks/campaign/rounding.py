"""Roundings in float64, written apart from the library's own."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from zeroulp.formats import Format, format_named

TIES = ("even", "away", "zero")
_SINGLE = format_named("float32")
_NATIVE = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "int32": np.int32}


@dataclass(frozen=True)
class Arithmetic:
    """
    How sums are kept: in a format's own operations, or in *bits* significant bits of float32's range.

    Args:
        name: ``float16``, ``float32``, ``float64``, ``int32``; or ``bits``.
        bits: Significant bits.
        mode: Where a sum that does not fit goes: ``nearest``, ``zero``, ``up``, ``down``, ``stochastic``.
        flush: Whether results below the smallest normal number become zero.
    """

    name: str = "float32"
    bits: int = 24
    mode: str = "nearest"
    flush: bool = False

    @property
    def dtype(self):
        return np.dtype(_NATIVE.get(self.name, np.float64))

    @property
    def is_native(self):
        return self.name in _NATIVE and not self.flush

    def settle(self, values, rng=None):
        """The result of one operation, as it is kept."""
        if self.name in _NATIVE:
            kept = values.astype(self.dtype, copy=False)
        else:
            kept = to_bits(values, self.bits, self.mode, rng)
        if self.flush:
            lowest = format_named(self.name).min_normal if self.name in _NATIVE else _SINGLE.min_normal
            kept = flushed(kept, lowest)
        return kept


def to_bits(values, bits, mode="nearest", rng=None):
    """Float64 *values* rounded to *bits* significant bits; beyond float32's range to what its rounding gives there."""
    fraction, exponent = np.frexp(values)
    scaled = np.ldexp(fraction, bits)
    if mode == "nearest":
        kept = np.rint(scaled)
    elif mode == "zero":
        kept = np.trunc(scaled)
    elif mode == "up":
        kept = np.ceil(scaled)
    elif mode == "down":
        kept = np.floor(scaled)
    else:
        kept = np.floor(scaled)
        kept += rng.random(np.shape(scaled)) < scaled - kept
    kept = np.ldexp(kept, exponent - bits)
    return np.where(np.isfinite(values) & (np.abs(kept) > _SINGLE.max_finite), np.copysign(np.inf, kept), kept)


def flushed(values, lowest):
    """*values*, but zeros of their signs below *lowest*."""
    return np.where(np.abs(values) < lowest, np.copysign(values.dtype.type(0), values), values)


def storage(format_: Format):
    """The dtype of arrays of a format."""
    name = format_.storage_name
    return np.dtype(name) if format_.is_integer or name in _NATIVE else np.dtype(getattr(ml_dtypes, name))


def to_format(values, format_: Format, *, ties="even", saturate=False, flush=False, truncate=False):
    """
    Float64 *values* as numbers of a format, rounded once.

    Args:
        values: Any float64 numbers.
        format_: The format of the result.
        ties: Where a value halfway between two numbers goes.
        saturate: Whether overflow gives the largest number.
        flush: Whether subnormal results become zero.
        truncate: Round toward zero instead (a fault wherever something is lost).
    """
    values = np.asarray(values, np.float64)
    if format_.is_integer:
        return np.rint(values).astype(storage(format_))
    _, exponent = np.frexp(values)
    quantum = np.maximum(exponent - 1, format_.emin) - (format_.precision - 1)
    scaled = np.ldexp(values, -quantum)
    if truncate:
        whole = np.trunc(scaled)
    elif ties == "even":
        whole = np.rint(scaled)
    elif ties == "away":
        whole = np.copysign(np.trunc(np.abs(scaled)) + (np.abs(scaled) % 1 >= 0.5), scaled)
    else:
        whole = np.copysign(np.trunc(np.abs(scaled)) + (np.abs(scaled) % 1 > 0.5), scaled)
    rounded = np.ldexp(whole, quantum)
    if flush:
        rounded = flushed(rounded, format_.min_normal)
    beyond = np.abs(rounded) > format_.max_finite
    top = format_.max_finite if saturate or not (format_.has_infinity or format_.has_nan) else np.inf
    rounded = np.where(beyond, np.copysign(top, rounded), rounded)
    if not format_.has_infinity and format_.has_nan:
        rounded = np.where(np.isinf(rounded), np.nan, rounded)
    return rounded.astype(storage(format_))  # exact: every value is a number of the format
