"""
Integers times powers of two, as encodings, without a conversion for each: numpy converts to narrow floats slowly.

The encodings of all integers that occur are looked up. Multiplying a normal number by a power of
two adds to its exponent field, and that is an addition of integers.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from zeroulp import encoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.encoding import Array
    from zeroulp.formats import Format

_MOST = 1 << 12  # integers that are looked up: a table stays in a core's nearest cache
_FIELDS = {"float16": (10, -14), "float8_e4m3fn": (3, -6), "float8_e5m2": (2, -14)}
"""Bits of the fraction, and the lowest exponent of a normal number."""


class HostFused:
    """See `zeroulp.arrays.base.Fused`; bfloat16 is converted fast as it is."""

    sums_up = False
    stores_words = True

    def words(self, key: int, first: int, count: int) -> Any:
        """There is no such way."""
        del key, first, count

    def below(self, words: Array, bound: int, *, signed: bool = False) -> Any:
        """There is no such way."""
        del words, bound, signed

    def store(self, target: Array, integers: Array, rows: Any, columns: Any) -> bool:
        """Integers times powers of two, stored; False: not here."""
        name = _name_of(target)
        if not name or target.shape != integers.shape:
            return False
        low, high = int(integers.min()), int(integers.max())
        table = _table(name, low, high) if high - low < _MOST else None
        shifts = None if table is None else _shifts(name, rows, columns)
        if table is None or shifts is None:
            return False
        places = integers.astype(np.intp)
        places -= low
        codes = table.take(places, mode="clip")  # none is to be clipped: without it numpy looks whether one is
        zero = integers == 0 if low <= 0 <= high and shifts else None
        _put(target, codes, zero, shifts)
        return True

    def store_words(self, target: Array, words: Array, magnitude: int, rows: Any, columns: Any) -> bool:
        """Integers of random words times powers of two, stored; False: not here."""
        name, bound = _name_of(target), 2 * magnitude
        if not name or bound > _MOST or bound & (bound - 1):
            return False
        table, shifts = _signed_table(name, magnitude), _shifts(name, rows, columns)
        if table is None or shifts is None:
            return False
        places = (words >> np.uint32(32 - bound.bit_length() + 1)).astype(np.intp)
        _put(target, table.take(places, mode="clip").reshape(target.shape), None, shifts)
        return True

    def sums(self, codes: Any, format_: Format, vectors: Any, factors: tuple[Any, Any], limit: int | None) -> Any:
        """There is no such way."""
        del codes, format_, vectors, factors, limit

    def is_rounded(self, codes: Any, format_: Any, sums: Any, columns: Any, factors: tuple[Any, Any]) -> Any:
        """There is no such way."""
        del codes, format_, sums, columns, factors

    def chunk_sums(self, words: Any, keys: Any) -> Any:
        """There is no such way."""
        del words, keys

    def look_over(self, values: Array, scale: float, *, add_up: bool) -> Any:
        """
        What there is to know of a matrix of float64 at once; None: not here.

        Args:
            values: (r, c), contiguous.
            scale: A power of two.
            add_up: Whether sums are asked for.

        Returns:
            Whether some value times *scale* is no whole number; the largest modulus, NaN if there is one; and the
            (r,) sums of moduli of the rows, or none.
        """
        del values, scale, add_up

    def add_moduli(self, one: Array, other: Array, scale: float) -> Any:
        """
        |one| + scale |other| as float32 throughout, and the largest of these sums, NaN if there is one; None: not here.

        Args:
            one: Of any shape, float32 or float64, contiguous.
            other: Of the same shape, likewise.
            scale: Not negative.
        """
        del one, other, scale

    def cumulate_moduli(self, values: Array) -> Any:
        """
        Running sums of the moduli of rows as float32 throughout, and the largest, NaN if there is one; None: not here.

        Args:
            values: (r, c), float32 or float64, contiguous.
        """
        del values


def _name_of(target: Array) -> str:
    """The format of a matrix that is for us; empty for others."""
    name = target.dtype.name
    return name if name in _FIELDS and target.ndim == 2 and target.size else ""


def _shifts(name: str, rows: Any, columns: Any) -> list[Array] | None:
    """What is added to encodings; None where some may be subnormal, so that adding to exponents is not multiplying."""
    fraction, lowest = _FIELDS[name]
    if isinstance(rows, float) and isinstance(columns, float):
        exponent = math.frexp(rows * columns)[1] - 1
        return None if exponent < lowest else [np.array(exponent << fraction)] if exponent else []
    down, across = _exponents(rows).reshape(-1, 1), _exponents(columns).reshape(1, -1)
    if int(down.min()) + int(across.min()) < lowest:
        return None
    return [shift << fraction for shift in (across, down) if shift.any()]


def _put(target: Array, codes: Array, zero: Array | None, shifts: list[Array]) -> None:
    """Encodings of integers times powers of two; *zero*: where they are zeros, if some are."""
    for shift in shifts:
        codes += shift.astype(codes.dtype)
    if zero is not None and zero.any():
        codes[zero] = 0
    encoding.bits_of(target)[...] = codes


@functools.lru_cache(maxsize=32)
def _signed_table(name: str, magnitude: int) -> Array | None:
    """Encodings of ±1, ..., ±magnitude, from the least on; None if some are no numbers of the format."""
    table = _table(name, -magnitude, magnitude)
    return None if table is None else np.delete(table, magnitude)


@functools.lru_cache(maxsize=32)
def _table(name: str, low: int, high: int) -> Array | None:
    """Encodings of the integers from *low* to *high*; None if some are no numbers of the format."""
    numbers = np.arange(low, high + 1, dtype=np.float32)
    stored = numbers.astype(name if name == "float16" else getattr(ml_dtypes, name))
    exact = np.array_equal(stored.astype(np.float32), numbers)
    return encoding.bits_of(stored) if exact else None


def _exponents(factors: Any) -> NDArray[np.int64]:
    """Base-2 exponents of powers of two, from their bits."""
    bits = np.asarray(factors, np.float32).view(np.uint32)
    return np.asarray((bits >> np.uint32(23)).astype(np.int64) - 127)
