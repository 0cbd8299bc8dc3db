"""Numba's kernels on numpy's arrays, whatever their strides and factors; importing this takes Numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.arrays import numba_kernels as kernels
from zeroulp.arrays.threads import spread_over

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.encoding import Array
    from zeroulp.formats import Format

_KINDS = {
    "float16": kernels.HALF,
    "bfloat16": kernels.BRAIN,
    "float32": kernels.SINGLE,
    "float8_e4m3fn": kernels.BYTE,
    "float8_e5m2": kernels.BYTE,
}
_NO_TABLE = np.zeros(256, np.float32)
_SMALLEST = np.full(1, 2.0**-136, np.float32)


class Operations:
    """Each answers what `Fused` or `HostFused` says of it; None (or False) where strides are not for it."""

    def words(self, key: int, first: int, count: int) -> NDArray[np.uint32]:
        """Words of a stream, as `Host.words`."""
        start, stop = first // 2, (first + count + 1) // 2
        out = np.empty(stop - start, np.uint64)
        kernels.words(out, np.uint64(key), np.uint64(start))
        return out.astype("<u8", copy=False).view("<u4")[first - 2 * start :][:count]

    def below(self, words: Array, bound: int, *, signed: bool) -> NDArray[np.int32]:
        """Integers from words, as `Host.integers`."""
        out = np.empty(words.shape, np.int32)
        half = bound // 2 if signed else 0
        kernels.below(words.reshape(-1), np.uint64(bound), np.int64(half), out.reshape(-1))
        return out

    def store(self, target: Array, integers: Array, rows: Any, columns: Any) -> bool:
        """Integers times powers of two, stored."""
        found = _window(encoding.bits_of(target), 1)
        if found is None:
            return False
        down, across = _factors(rows, len(target), "float32"), _factors(columns, target.shape[1], "float32")
        kernels.store(*found, _KINDS[target.dtype.name], integers, across, down)
        return True

    def sums(self, codes: Array, format_: Format, vectors: Array, factors: tuple[Any, Any], limit: int | None) -> Any:
        """A matrix times some vectors."""
        found, kernel = _window(codes, 1), kernels.sums
        if found is None:
            found, kernel = _window(codes, 0), kernels.sums_down
        if found is None:
            return None
        (rows, columns), (m, n), dtype = factors, codes.shape, encoding.storage_dtype(format_)
        table = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32) if dtype.itemsize == 1 else _NO_TABLE
        weights = np.ascontiguousarray(_times(vectors, columns).T)
        out, off = np.zeros((len(weights), m)), np.zeros(m, np.int64)
        both = _factors(columns, n, "float32"), _factors(rows, m, "float32")
        most = np.float32(-1 if limit is None else limit)

        def work(first: int, last: int) -> bool:
            kernel(*found, _KINDS[dtype.name], table, weights, out, off, both, most, first, last)
            return bool(kernels.keeps_subnormals(_SMALLEST))

        if not all(spread_over(work, m, codes.size)):
            return None
        return _times(out.T, rows), None if limit is None else off != 0

    def is_rounded(self, codes: Array, format_: Format, sums: Array, columns: Array, factors: tuple[Any, Any]) -> Any:
        """Whether a matrix is what some sums round to."""
        found = _window(codes, 1)
        if found is None:
            return None
        kind = _KINDS[encoding.storage_dtype(format_).name]
        down, across = factors
        both, whole = (across, _factors(down, len(codes), "float64")), np.ascontiguousarray(sums)

        def work(first: int, last: int) -> bool:
            wanted = np.empty(1 << 10, codes.dtype)
            return bool(kernels.other_than_rounded(*found, kind, whole, columns, both, wanted, first, last))

        return not any(spread_over(work, len(codes), codes.size))

    def chunk_sums(self, words: Array, keys: Array) -> NDArray[np.uint64]:
        """Of a fingerprint."""
        out = np.empty(len(words), np.uint64)
        kernels.chunk_sums(words, keys, out)
        return out

    def look_over(self, values: Array, scale: float, *, add_up: bool) -> tuple[bool, float, Array]:
        """How large values are, and whether they are multiples; see `HostFused.look_over`."""
        sums = np.empty(len(values) if add_up else 0)
        fractions, largest = kernels.look_over(values, scale, sums)
        return bool(fractions), float(np.int64(largest).view(np.float64)), sums

    def add_moduli(self, one: Array, other: Array, scale: float) -> tuple[Array, float]:
        """Sums of the moduli of two arrays; see `HostFused.add_moduli`."""
        out = np.empty(one.shape, np.float32)
        largest = kernels.add_moduli(one.reshape(-1), other.reshape(-1), np.float32(scale), out.reshape(-1))
        return out, float(np.int32(largest).view(np.float32))

    def cumulate_moduli(self, values: Array) -> tuple[Array, float]:
        """Running sums of moduli; see `HostFused.cumulate_moduli`."""
        out = np.empty(values.shape, np.float32)
        kernels.cumulate_moduli(values, out)
        return out, float(out[:, -1].max())


def _factors(factors: Any, count: int, dtype: str) -> Array:
    """One for each row, or column."""
    return np.array(np.broadcast_to(np.asarray(factors, dtype).reshape(-1), (count,)))


def _times(array: Array, factors: Any) -> Array:
    """Rows times their factors."""
    if isinstance(factors, float):
        return array if factors == 1 else array * factors
    return np.asarray(array * factors[:, None])


def _window(array: Array, axis: int) -> tuple[Array, int] | None:
    """
    The memory of a matrix of encodings as one dimension, and the elements from one row to the next.

    Args:
        array: (r, c).
        axis: The one that is to be contiguous: 1, or 0 for columns.

    Returns:
        None where it is not, or strides are negative or no whole elements.
    """
    size, (along, beside) = array.itemsize, (array.strides[axis], array.strides[1 - axis])
    extent, others = array.shape[axis], array.shape[1 - axis]
    if (along != size and extent > 1) or beside < 0 or beside % size or not array.size:
        return None
    count = (others - 1) * (beside // size) + extent
    return np.lib.stride_tricks.as_strided(array, (count,), (size,)), beside // size
