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

    def store(self, target: Array, integers: Array, rows: Any, columns: Any) -> bool:
        """Integers times powers of two, stored; False: not here."""
        name = target.dtype.name
        if name not in _FIELDS or target.ndim != 2 or target.shape != integers.shape or not integers.size:
            return False
        low, high = int(integers.min()), int(integers.max())
        if high - low >= _MOST:
            return False
        table = _table(name, low, high)
        fraction, lowest = _FIELDS[name]
        down, across = _exponents(rows), _exponents(columns)
        if table is None or int(down.min()) + int(across.min()) < lowest:
            return False
        codes = table.take(integers - low)
        zero = integers == 0 if low <= 0 <= high else None
        for shift in (across.reshape(1, -1), down.reshape(-1, 1)):
            if shift.any():
                codes += (shift << fraction).astype(codes.dtype)
        if zero is not None and zero.any():
            codes[zero] = 0
        encoding.bits_of(target)[...] = codes
        return True

    def sums(self, codes: Any, format_: Format, vectors: Any, factors: tuple[Any, Any], limit: int | None) -> Any:
        """There is no such way."""
        del codes, format_, vectors, factors, limit

    def chunk_sums(self, words: Any, keys: Any) -> Any:
        """There is no such way."""
        del words, keys


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
