"""Small trials of `zeroulp.arrays.numba_operations`, against numpy's own: what is not the same is not used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.arrays.host import Host
    from zeroulp.arrays.numba_operations import Operations
    from zeroulp.encoding import Array
    from zeroulp.formats import Format


class Trials:
    """
    Whether compiled operations give numpy's bits.

    Args:
        operations: Theirs.
        arrays: numpy.
    """

    def __init__(self, operations: Operations, arrays: Host) -> None:
        self._operations, self._arrays = operations, arrays

    def _integers(self, key: int, count: int, bound: int, *, signed: bool = False) -> NDArray[np.int32]:
        return self._arrays.below_plainly(self._arrays.words_plainly(key, 0, count), bound, signed=signed)

    def draw(self) -> bool:
        """Words, and the integers that they say."""
        plain, compiled = self._arrays, self._operations
        for key, first, count in ((5, 0, 1001), (2**64 - 3, 2**34 + 1, 78)):
            words = plain.words_plainly(key, first, count)
            if not np.array_equal(compiled.words(key, first, count), words):
                return False
            for bound, signed in ((1 << 31, False), (1, False), (1000, False), (6, True), (1 << 25, True)):
                wanted = plain.below_plainly(words, bound, signed=signed)
                if not np.array_equal(compiled.below(words, bound, signed=signed), wanted):
                    return False
        return True

    def store(self, dtype: np.dtype[Any]) -> bool:
        """Integers times powers of two, into a matrix with gaps; the smallest number too."""
        integers = self._integers(9, 33 * 1070, 16, signed=True).reshape(33, 1070)
        integers[3, 7] = 0
        rows, columns = (2.0 ** (np.arange(count) % 5 - 2) for count in integers.shape)
        small = 2.0**-24 if dtype.name == "float16" else 2.0**-126
        for first, last in ((1.0, 0.25), (rows[:, None], 1.0), (1.0, columns), (rows[:, None], columns), (small, 1.0)):
            found = np.zeros((66, 1140), dtype)[::2, 7:1077]
            wanted = (integers * first * last).astype(np.float32).astype(dtype)
            if not self._operations.store(found, integers, first, last):
                return False
            if not np.array_equal(encoding.bits_of(found), encoding.bits_of(wanted)):
                return False
        return True

    def sum_up(self, format_: Format) -> bool:
        """Sums of rows and of columns; one element is no integer, one too large, some no number, one subnormal."""
        integers = self._integers(9, 70 * 1300, 16, signed=True).reshape(70, 1300)
        rows, columns = (2.0 ** (np.arange(count) % 3 - 1) for count in integers.shape)
        values = integers / rows[:, None] / columns
        values[3, 7], values[4, 9], values[5, 1299], values[69, 0] = 0.25 * values[3, 7], 64.0, np.nan, -np.inf
        values[6, 8] = 2.0**-24 if format_.bits == 16 else values[6, 8]
        vectors = self._integers(3, 1300 * 5, 1000).reshape(-1, 5).astype(np.float64)
        with np.errstate(invalid="ignore"):
            stored = values.astype(np.float32).astype(encoding.storage_dtype(format_))
            ways = ((stored, (rows, columns), vectors), (stored.T, (columns, rows), vectors[:70]))
            return all(self._sums_up(format_, *way) for way in ways)

    def _sums_up(self, format_: Format, stored: Array, factors: tuple[Array, Array], vectors: Array) -> bool:
        exact = stored.astype(np.float64) * factors[0][:, None] * factors[1]
        wanted = ((exact != exact.round()) | (abs(exact) > 16) | ~np.isfinite(exact)).any(-1)
        kept, codes = np.isfinite(exact).all(-1), encoding.bits_of(stored)
        sums, off = self._operations.sums(codes, format_, vectors, factors, 16)
        plain, none = self._operations.sums(codes, format_, vectors[:, :4], (1.0, 2.0), None)
        is_plain = np.array_equal(plain[kept], stored[kept].astype(np.float64) * 2.0 @ vectors[:, :4]) and none is None
        return np.array_equal(sums[kept], exact[kept] @ vectors) and np.array_equal(off, wanted) and is_plain

    def round(self, format_: Format) -> bool:
        """Results of all sizes; then one of them is the next number, or NaN."""
        is_wide = format_.bits > 16  # else what is rounded is a float32 number
        whole = self._integers(4, 37 * 11, 1 << (30 if is_wide else 24), signed=True).reshape(37, 11).astype(np.float64)
        columns, lowest = self._integers(5, 1700, 11), format_.emin - format_.precision - 25
        exponents = lowest + 3 * self._integers(6, 1700, (format_.emax - lowest) // 3)
        across = np.ldexp(1.0 - 2.0 * (columns % 2), exponents.clip(-200 if is_wide else -149))
        for down in (1.0, 2.0 ** (np.arange(37) % 4)):
            with np.errstate(over="ignore"):
                exact = whole[:, columns] * across * (down if isinstance(down, float) else down[:, None])
                codes = np.ascontiguousarray(self._arrays.encoded(exact, format_))
            others = [codes]
            for place in ((0, 0), (36, 1699), (17, 256), (36, 0), (3, 1023), (3, 1024)):
                for code in (codes[place] ^ 1, np.iinfo(codes.dtype).max):
                    others.append(codes.copy())
                    others[-1][place] = code
            found = [self._operations.is_rounded(each, format_, whole, columns, (down, across)) for each in others]
            if not found[0] or any(found[1:]):
                return False
        return True

    def hash(self) -> bool:
        """Chunks of words."""
        words = self._arrays.words_plainly(7, 0, 3 * 4096).reshape(3, 4096)
        keys = self._arrays.words_plainly(8, 0, 4096)
        mixed = (words + keys).astype(np.uint64)
        wanted = (mixed[:, :2048] * mixed[:, 2048:]).sum(-1)
        return np.array_equal(self._operations.chunk_sums(words, keys), wanted)

    def look(self) -> bool:
        """Multiples of a power of two; then one of them is none, or infinite, or NaN, or zero with a sign."""
        values = self._integers(2, 9 * 70, 1000, signed=True).reshape(9, 70) * 0.25
        for number in (0.5, -0.0, 0.125, -np.inf, np.nan, 5e-324):
            values[4, 69] = number
            fractions, largest, sums = self._operations.look_over(values, 4.0, add_up=True)
            again, _, none = self._operations.look_over(values, 4.0, add_up=False)
            same = fractions == again == (number not in {0.5, 0.0}) and not len(none)
            same &= np.array_equal(largest, abs(values).max(), equal_nan=True)
            if not same or not np.array_equal(sums, abs(values).sum(-1), equal_nan=True):
                return False
        return True

    def moduli(self) -> bool:
        """Sums of moduli, of either precision; then one of them is infinite, or NaN."""
        one, other = (self._integers(key, 9 * 700, 1000, signed=True).reshape(9, 700) * 0.25 for key in (3, 4))
        for number in (0.5, -np.inf, np.nan):
            one[8, 699] = number
            for left, right in ((one, other), (other.astype(np.float32), one), (one.astype(np.float32), other)):
                size, beside = abs(left.astype(np.float32)), abs(right.astype(np.float32))
                wanted = size + beside * np.float32(2), size.cumsum(-1, dtype=np.float32)
                found = self._operations.add_moduli(left, right, 2.0), self._operations.cumulate_moduli(left)
                for exact, (sums, largest) in zip(wanted, found, strict=True):
                    if not np.array_equal(sums, exact, equal_nan=True):
                        return False
                    if not np.array_equal(largest, exact.max(), equal_nan=True):
                        return False
        return True
