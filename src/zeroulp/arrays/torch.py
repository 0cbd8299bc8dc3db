"""
PyTorch, on whichever device a tensor lives.

Words are kept as int32 and encodings as integers with sign: PyTorch computes little with the
unsigned types. Only bits and equality are asked of them.
"""

from __future__ import annotations

import collections
import functools
import importlib
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from zeroulp.arrays.base import indices_of
from zeroulp.encoding import storage_dtype
from zeroulp.errors import UsageError
from zeroulp.formats import format_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zeroulp.arrays.base import Found, Item
    from zeroulp.arrays.fused import Triton
    from zeroulp.encoding import Array
    from zeroulp.formats import Format

_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)
_SHARE = 32  # of a device's memory, for verification
_BLOCK = 6  # a block of elements takes so many bits less than the workspace
_TABLES = 48  # vectors that are kept
_MULTIPLIED = frozenset(("float16", "bfloat16"))
_CARRIERS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


class Torch:
    """
    Tensors of one device; see `Arrays`.

    Args:
        device: A ``torch.device``.
    """

    name = "torch"

    def __init__(self, device: Any) -> None:
        self._torch = importlib.import_module("torch")
        self.device = device
        self.keeps_subnormals = device.type != "cpu"
        self.workspace = 1 << 28
        self.few = 64
        if device.type == "cuda":
            self.workspace = max(self.workspace, self._torch.cuda.get_device_properties(device).total_memory // _SHARE)
        self.block_elements = self.workspace >> _BLOCK
        self.multiplied = _MULTIPLIED if device.type == "cuda" else frozenset()
        self._tables: collections.OrderedDict[int, tuple[Array, Any]] = collections.OrderedDict()

    @functools.cached_property
    def fused(self) -> Triton | None:
        """With Triton, where it is installed and works on this device."""
        found: Triton | None = importlib.import_module("zeroulp.arrays.fused").triton_on(self)
        return found

    def spread(self, work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """One after the other: the device does each on all its cores."""
        return [work(item) for item in items]

    def integers(self, key: int, places: Any, bound: int, *, signed: bool = False) -> Any:
        """Random integers; see `Arrays`."""
        fused = self.fused
        drawn = None if fused is None else fused.integers(key, places, bound, signed=signed)
        return self.integers_plainly(key, places, bound, signed=signed) if drawn is None else drawn

    def integers_plainly(self, key: int, places: Any, bound: int, *, signed: bool = False) -> Any:
        """The same by PyTorch's own operations."""
        if isinstance(places, tuple) and isinstance(places[0], int):
            words = self._words(key, *places)
        else:
            words = self._words_at(key, indices_of(places, self))
        drawn = self.below(words, bound)
        if signed:
            drawn -= bound // 2
            drawn += drawn >= 0
        return drawn

    def words(self, key: int, first: int, count: int) -> Any:
        """Words of a stream; see `Arrays`."""
        fused = self.fused
        found = None if fused is None else fused.integers(key, (first, count), 1 << 32)
        return self._words(key, first, count) if found is None else found

    def words_at(self, key: int, indices: Any) -> Any:
        """Words of a stream anywhere; see `Arrays`."""
        fused = self.fused
        found = None if fused is None else fused.integers(key, indices, 1 << 32)
        return self._words_at(key, indices) if found is None else found

    def _words(self, key: int, first: int, count: int) -> Any:
        start, stop = first // 2, (first + count + 1) // 2
        mixed = self._mixed(key, self.arange(start + 1, stop + 1))
        odd = first - 2 * start
        return mixed.view(self._torch.int32)[odd : odd + count]

    def _words_at(self, key: int, indices: Any) -> Any:
        mixed = self._mixed(key, (indices >> 1) + 1)
        return (mixed >> ((indices & 1) * 32)).to(self._torch.int32)

    def _mixed(self, key: int, counter: Any) -> Any:
        """SplitMix64 in two's complement, in place."""
        z = counter.mul_(_signed(_GOLDEN)).add_(_signed(key))
        for shift, factor in zip(_SHIFTS, (*_FACTORS, 1), strict=True):
            high = z >> shift
            z ^= high.bitwise_and_((1 << (64 - shift)) - 1)
            if factor != 1:
                z *= _signed(factor)
        return z

    def below(self, words: Any, bound: int) -> Any:
        """The high half of a product; see `Arrays`."""
        if bound == 1 << 32:
            return words
        if bound & (bound - 1) == 0:
            if bound == 1:
                return self._torch.zeros_like(words)
            return (words >> (32 - bound.bit_length() + 1)).bitwise_and_(bound - 1)
        wide = words.to(self._torch.int64).bitwise_and_(2**32 - 1)
        return (wide.mul_(bound) >> 32).to(self._torch.int32)

    def is_below(self, words: Any, threshold: int) -> Any:
        """An unsigned comparison; see `Arrays`."""
        return (words ^ -(2**31)) < threshold - 2**31

    def from_host(self, array: Array) -> Any:
        """A copy on the device."""
        carrier = np.ascontiguousarray(array)
        name = carrier.dtype.name
        if carrier.dtype.kind == "u" and carrier.dtype.itemsize > 1:
            carrier = carrier.view(f"i{carrier.dtype.itemsize}")
        elif hasattr(ml_dtypes, name):
            carrier = carrier.view(np.uint8 if carrier.dtype.itemsize == 1 else np.int16)
            return self._torch.from_numpy(carrier.copy()).to(self.device).view(getattr(self._torch, name))
        return self._torch.from_numpy(carrier.copy()).to(self.device)

    def table(self, array: Array) -> Any:
        """A copy on the device that is kept for a while."""
        found = self._tables.pop(id(array), None) or (array, self.from_host(array))
        self._tables[id(array)] = found  # with the array itself, so that nothing else gets its number
        while len(self._tables) > _TABLES:
            self._tables.popitem(last=False)
        return found[1]

    def to_host(self, array: Any) -> Array:
        """A copy on the host."""
        host: Array = array.detach().cpu().numpy()
        return host

    def arange(self, start: int, stop: int) -> Any:
        """Consecutive numbers."""
        return self._torch.arange(start, stop, dtype=self._torch.int64, device=self.device)

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """A choice, element by element."""
        return self._torch.where(condition, one, other)

    def columns(self, array: Any, numbers: Any) -> Any:
        """A selection."""
        return array.index_select(1, numbers)

    def block_rows(self, width: int) -> int:
        """As many as there are: each operation is a launch."""
        return max(1, (1 << 40) // max(1, width))

    def cast(self, array: Any, dtype: str) -> Any:
        """A conversion."""
        return array.to(getattr(self._torch, dtype))

    def values(self, codes: Any, format_: Format, dtype: str = "float64") -> Any:
        """What encodings stand for; see `Arrays`."""
        return codes.view(getattr(self._torch, storage_dtype(format_).name)).to(getattr(self._torch, dtype))

    def store(self, target: Any, values: Any) -> None:
        """A conversion into place; see `Arrays`."""
        target.copy_(values)

    def encoded(self, values: Any, format_: Format) -> Any:
        """Encodings of float64 values; see `Arrays`."""
        if format_.bits <= 16 and not format_.is_integer:
            values = values.to(self._torch.float32)
        return self.codes(values.to(getattr(self._torch, storage_dtype(format_).name)))

    def zeros(self, shape: tuple[int, ...], dtype: str = "float64") -> Any:
        """Zeros."""
        return self._torch.zeros(shape, dtype=getattr(self._torch, dtype), device=self.device)

    def fast_dtype(self, bound: int) -> str:
        """Always float64: products in float32 may be something less (TF32), by a setting."""
        del bound
        return "float64"

    def codes(self, stored: Any) -> Any:
        """The same memory as integers."""
        return stored.view(getattr(self._torch, _CARRIERS[stored.element_size()]))

    def matmul(self, a: Any, b: Any) -> Any:
        """The library's product, in float64: no setting makes that anything less."""
        return self._torch.matmul(a, b)

    def stored_product(self, a: Any, b: Any, format_: Format) -> Any:
        """The device's units for 16 bits, with float32 sums, where PyTorch gives these back."""
        dtype = getattr(self._torch, storage_dtype(format_).name)
        try:
            return self._torch.mm(a.view(dtype), b.view(dtype), out_dtype=self._torch.float32)
        except (TypeError, RuntimeError):  # an older PyTorch, or a device without
            self.multiplied = frozenset()
            return None

    def times(self, array: Any, vectors: Any) -> Any:
        """A product in float64, of which PyTorch's own takes a copy."""
        found = None
        if self.fused is not None and array.dtype == self._torch.float32:
            found = self.fused.sums(self.codes(array), format_named("float32"), vectors, (1.0, 1.0), None)
        return self.matmul(array.to(self._torch.float64), vectors) if found is None else found[0]

    def equal(self, one: Any, other: Any) -> bool:
        """Whether all agree."""
        return bool(self._torch.equal(one, other))

    def copy(self, array: Any) -> Any:
        """A copy in row-major order."""
        return array.detach().clone(memory_format=self._torch.contiguous_format)

    def view(self, block: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], start: int) -> Any:
        """A tensor that shares memory with *block*."""
        kind = getattr(self._torch, dtype, None)
        if kind is None:
            raise UsageError(f"PyTorch has no dtype for {dtype}", do="check such a kernel on NumPy arrays")
        whole = len(block) // kind.itemsize * kind.itemsize
        return self._torch.as_strided(block[:whole].view(kind), shape, strides, start // kind.itemsize)

    def fill(self, array: Any, code: int, size: int) -> None:
        """One code everywhere."""
        array.view(getattr(self._torch, _CARRIERS[size])).fill_(_signed(code, 8 * size))

    def put(self, stored: Any, place: tuple[Any, ...], code: int) -> None:
        """One code at one place."""
        self.codes(stored)[place] = _signed(code, 8 * stored.element_size())


def _signed(number: int, bits: int = 64) -> int:
    """The same bits as an integer with sign."""
    number %= 1 << bits
    return number - (1 << bits) if number >> (bits - 1) else number
