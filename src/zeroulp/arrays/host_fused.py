"""
Integers times powers of two, as encodings, without a conversion for each: numpy converts to narrow floats slowly.

The encodings of all integers that occur are looked up. Multiplying a normal number by a power of
two adds to its exponent field, and that is an addition of integers.
"""

from __future__ import annotations

import functools
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

    def store(self, target: Array, integers: Array, rows: Any, columns: Any) -> bool:
        """Integers times powers of two, stored; False: not here."""
        if not _is_for_us(target) or target.shape != integers.shape:
            return False
        low, high = int(integers.min()), int(integers.max())
        table = _table(target.dtype.name, low, high) if high - low < _MOST else None
        if table is None or _are_subnormal(target, rows, columns):
            return False
        places = integers.astype(np.intp)
        places -= low
        codes = table.take(places, mode="clip")  # none is to be clipped: without it numpy looks whether one is
        zero = integers == 0 if low <= 0 <= high else None
        _put(target, codes, zero, rows, columns)
        return True

    def store_words(self, target: Array, words: Array, magnitude: int, rows: Any, columns: Any) -> bool:
        """Integers of random words times powers of two, stored; False: not here."""
        bound = 2 * magnitude
        if not _is_for_us(target) or bound > _MOST or bound & (bound - 1) or _are_subnormal(target, rows, columns):
            return False
        table = _table(target.dtype.name, -magnitude, magnitude)
        if table is None:
            return False
        places = (words >> np.uint32(32 - bound.bit_length() + 1)).astype(np.intp)
        codes = np.delete(table, magnitude).take(places, mode="clip")
        _put(target, codes.reshape(target.shape), None, rows, columns)
        return True

    def sums(self, codes: Any, format_: Format, vectors: Any, factors: tuple[Any, Any], limit: int | None) -> Any:
        """There is no such way."""
        del codes, format_, vectors, factors, limit

    def is_looked_up(self, codes: Any, table: Any, columns: Any) -> Any:
        """There is no such way."""
        del codes, table, columns

    def chunk_sums(self, words: Any, keys: Any) -> Any:
        """There is no such way."""
        del words, keys


def _is_for_us(target: Array) -> bool:
    return target.dtype.name in _FIELDS and target.ndim == 2 and target.size > 0


def _are_subnormal(target: Array, rows: Any, columns: Any) -> bool:
    """Whether some elements may be, so that adding to their exponent is not multiplying."""
    return int(_exponents(rows).min()) + int(_exponents(columns).min()) < _FIELDS[target.dtype.name][1]


def _put(target: Array, codes: Array, zero: Array | None, rows: Any, columns: Any) -> None:
    """Encodings of integers times powers of two; *zero*: where they are zeros, if some are."""
    fraction = _FIELDS[target.dtype.name][0]
    for shift in (_exponents(columns).reshape(1, -1), _exponents(rows).reshape(-1, 1)):
        if shift.any():
            codes += (shift << fraction).astype(codes.dtype)
    if zero is not None and zero.any():
        codes[zero] = 0
    encoding.bits_of(target)[...] = codes


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
