"""numpy, in the host's memory."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.arrays import compiled
from zeroulp.arrays.base import indices_of
from zeroulp.arrays.half import half_values
from zeroulp.arrays.host_fused import HostFused
from zeroulp.arrays.threads import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from zeroulp.arrays.base import Found, Item
    from zeroulp.encoding import Array
    from zeroulp.formats import Format

_FACTOR = 0x9E3779B97F4A7C15
_CHUNK = 1 << 15


class Host:
    """numpy; see `Arrays`."""

    name = "numpy"
    keeps_subnormals = False
    workspace = 1 << 28
    few = 0
    multiplied: frozenset[str] = frozenset()
    block_elements = 1 << (18 if compiled.is_there() else 16)

    @functools.cached_property
    def fused(self) -> HostFused:
        """With Numba, where it is installed."""
        return compiled.Compiled(self) if compiled.is_there() else HostFused()

    def words(self, key: int, first: int, count: int) -> NDArray[np.uint32]:
        """Words of a stream; see `Arrays`."""
        found: NDArray[np.uint32] | None = self.fused.words(key, first, count)
        return self.words_plainly(key, first, count) if found is None else found

    def words_plainly(self, key: int, first: int, count: int) -> NDArray[np.uint32]:
        """The same by numpy's own operations."""
        start, stop = first // 2, (first + count + 1) // 2
        out = np.empty(stop - start, np.uint64)
        for low in range(start, stop, _CHUNK):
            high = min(low + _CHUNK, stop)
            counted = _multiples()[: high - low] + np.uint64(((low + 1) * _FACTOR + key) % 2**64)
            _mix(counted, out[low - start : high - start])
        odd = first - 2 * start
        return out.astype("<u8", copy=False).view("<u4")[odd : odd + count]

    def words_at(self, key: int, indices: Array) -> NDArray[np.uint32]:
        """Words of a stream anywhere; see `Arrays`."""
        mixed = _splitmix64(np.uint64(key), (indices >> 1).astype(np.uint64) + np.uint64(1))
        shift = (indices & 1).astype(np.uint64) * np.uint64(32)
        return np.asarray((mixed >> shift).astype(np.uint32))

    def integers(self, key: int, places: Any, bound: int, *, signed: bool = False) -> NDArray[np.int32]:
        """Random integers; see `Arrays`."""
        if isinstance(places, tuple) and not isinstance(places[0], np.ndarray):
            words = self.words(key, *places)
        elif isinstance(places, tuple) and places[1] % 2 == 0:
            words = _words_of_rows(key, *places)
        else:
            words = self.words_at(key, indices_of(places, self))
        found: NDArray[np.int32] | None = self.fused.below(words, bound, signed=signed)
        return self.below_plainly(words, bound, signed=signed) if found is None else found

    def below_plainly(self, words: Array, bound: int, *, signed: bool = False) -> NDArray[np.int32]:
        """What words say, by numpy's own operations."""
        drawn = self.below(words, bound)
        if signed:
            drawn -= bound // 2
            drawn += drawn >= 0
        return drawn

    def below(self, words: Array, bound: int) -> NDArray[np.int32]:
        """The high half of a product; see `Arrays`."""
        if bound == 1 << 32:
            return np.asarray(words.view(np.int32))
        if bound & (bound - 1) == 0:
            drawn = words >> np.uint32(32 - bound.bit_length() + 1) if bound > 1 else np.zeros_like(words)
            return np.asarray(drawn.view(np.int32))
        return np.asarray(((words.astype(np.uint64) * np.uint64(bound)) >> np.uint64(32)).astype(np.int32))

    def is_below(self, words: Array, threshold: int) -> NDArray[np.bool_]:
        """An unsigned comparison; see `Arrays`."""
        return np.asarray(words.view(np.uint32) < np.uint32(threshold))

    def spread(self, work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """On all cores."""
        return spread(work, items)

    def from_host(self, array: Array) -> Array:
        """It is one."""
        return array

    def table(self, array: Array) -> Array:
        """It is there."""
        return array

    def to_host(self, array: Array) -> Array:
        """It is there."""
        return array

    def arange(self, start: int, stop: int) -> NDArray[np.int64]:
        """Consecutive numbers."""
        return np.arange(start, stop, dtype=np.int64)

    def where(self, condition: Array, one: Any, other: Any) -> Array:
        """A choice, element by element."""
        return np.asarray(np.where(condition, one, other))

    def columns(self, array: Array, numbers: Array) -> Array:
        """A selection."""
        return np.asarray(np.take(array, numbers, axis=1))

    def block_rows(self, width: int) -> int:
        """As many as make a block."""
        return max(1, self.block_elements // max(1, width))

    def cast(self, array: Array, dtype: str) -> Array:
        """A conversion, where it is not that dtype already."""
        converted: Array = array.astype(dtype, copy=False)
        return converted

    def values(self, codes: Array, format_: Format, dtype: str = "float64") -> Array:
        """What encodings stand for; see `Arrays`."""
        stored = encoding.array_of(codes, format_)
        name = stored.dtype.name
        if name == "float16":
            return np.asarray(half_values(stored).astype(dtype, copy=False))
        if name.startswith("float8"):
            return np.asarray(_decoded(stored.dtype, dtype).take(encoding.bits_of(stored), mode="clip"))
        return np.asarray(stored.astype(dtype))

    def store(self, target: Array, values: Array) -> None:
        """A conversion into place; see `Arrays`."""
        target[...] = values.astype(target.dtype, copy=False)

    def encoded(self, values: Array, format_: Format) -> Array:
        """Encodings of float64 values; see `Arrays`."""
        if format_.bits <= 16 and not format_.is_integer:
            values = values.astype(np.float32)
        return encoding.bits_of(values.astype(encoding.storage_dtype(format_)))

    def zeros(self, shape: tuple[int, ...], dtype: str = "float64") -> Array:
        """Zeros."""
        return np.zeros(shape, dtype)

    def fast_dtype(self, bound: int) -> str:
        """float32 up to 2^24."""
        return "float32" if bound <= 2**24 else "float64"

    def codes(self, stored: Array) -> Array:
        """The same memory as unsigned integers."""
        return encoding.bits_of(stored)

    def matmul(self, a: Array, b: Array) -> Array:
        """The machine's BLAS."""
        return np.asarray(np.matmul(a, b))

    def times(self, array: Array, vectors: Array) -> Array:
        """A product in float64, block by block."""
        step, found = self.block_rows(array.shape[1]), np.zeros((len(array), vectors.shape[1]))

        def put(low: int) -> None:
            found[low : low + step] = array[low : low + step].astype(np.float64) @ vectors

        self.spread(put, range(0, len(array), step))
        return found

    def stored_product(self, a: Array, b: Array, format_: Format) -> None:
        """There is no such way: BLAS has no product of stored formats."""
        del a, b, format_

    def equal(self, one: Array, other: Array) -> bool:
        """Whether all agree."""
        return bool(np.array_equal(one, other))

    def copy(self, array: Array) -> Array:
        """A copy in row-major order."""
        return np.array(array, order="C")

    def view(self, block: Array, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Array:
        """An array that shares memory with *block*."""
        kind = encoding.dtype_named(dtype)
        steps = tuple(stride * kind.itemsize for stride in strides)
        array: Array = np.ndarray(shape, kind, buffer=block.data, offset=start, strides=steps)
        return array

    def fill(self, array: Array, code: int, size: int) -> None:
        """One code everywhere."""
        array.view(f"u{size}")[...] = code

    def put(self, stored: Array, place: tuple[Any, ...], code: int) -> None:
        """One code at one place."""
        encoding.bits_of(stored)[place] = code


@functools.cache
def _decoded(kind: np.dtype[Any], dtype: str) -> Array:
    """What each encoding of a format of eight bits stands for: looked up sooner than one is converted."""
    return np.arange(256, dtype=np.uint8).view(kind).astype(dtype)


@functools.cache
def _multiples() -> NDArray[np.uint64]:
    return np.asarray(np.arange(_CHUNK, dtype=np.uint64) * np.uint64(_FACTOR))


def _words_of_rows(key: int, rows: Array, width: int) -> NDArray[np.uint32]:
    """(rows, width) words of whole rows, for an even *width*: two of each number."""
    first = rows.astype(np.uint64) * np.uint64(width // 2) + np.uint64(1)
    counted = first[:, None] + np.arange(width // 2, dtype=np.uint64)
    words: NDArray[np.uint32] = _splitmix64(np.uint64(key), counted).astype("<u8", copy=False).view("<u4")
    return words


def _splitmix64(key: np.uint64, counter: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = counter * np.uint64(_FACTOR)
    z += key
    return _mix(z, np.empty_like(z))


def _mix(z: NDArray[np.uint64], out: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The output function of SplitMix64, into *out*; *z* is used up."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        np.right_shift(z, np.uint64(shift), out=out)
        z ^= out
        z *= np.uint64(factor)
    np.right_shift(z, np.uint64(31), out=out)
    np.bitwise_xor(out, z, out=out)
    return out


HOST = Host()
