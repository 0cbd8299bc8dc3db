"""
What is done in one pass over the host's memory, with Numba, where numpy takes many; `zeroulp.arrays.fused` of the host.

Nothing here is needed: where Numba is missing, fails, or gives other bits than numpy when it is first
used, numpy does the same, later. It is imported when an array is first large enough to be worth it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.arrays.host_fused import HostFused

if TYPE_CHECKING:
    from zeroulp.arrays.host import Host
    from zeroulp.arrays.numba_operations import Operations
    from zeroulp.arrays.numba_trials import Trials
    from zeroulp.encoding import Array
    from zeroulp.formats import Format

FEWEST = 1 << 17
"""Elements below which numpy is as fast, if Numba is still to be imported."""

_WRITTEN = ("float16", "bfloat16", "float32")
_READ = (*_WRITTEN, "float8_e4m3fn", "float8_e5m2")
_LARGEST = 1 << 24  # integers that float32 holds


def is_there() -> bool:
    """Whether Numba is installed, and not told to interpret."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0") and importlib.util.find_spec("numba") is not None


class Compiled(HostFused):
    """
    Kernels for the host; see `zeroulp.arrays.base.Fused`.

    Args:
        arrays: numpy.
        fewest: Elements from which on they are used.
    """

    sums_up = True

    def __init__(self, arrays: Host, fewest: int = FEWEST) -> None:
        self._arrays, self._fewest = arrays, fewest
        self._trusted: dict[tuple[str, str], bool] = {}

    @functools.cached_property
    def _operations(self) -> Operations:
        found: Operations = importlib.import_module("zeroulp.arrays.numba_operations").Operations()
        return found

    @functools.cached_property
    def _trials(self) -> Trials:
        found: Trials = importlib.import_module("zeroulp.arrays.numba_trials").Trials(self._operations, self._arrays)
        return found

    def words(self, key: int, first: int, count: int) -> Any:
        """Words of a stream, as `Host.words`; None: not here."""
        if count < self._fewest or not self._is_trusted("draw"):
            return None
        return self._operations.words(key, first, count)

    def below(self, words: Array, bound: int, *, signed: bool = False) -> Any:
        """Integers that words say, as `Host.integers`; None: not here."""
        usual = words.dtype == np.uint32 and words.flags.c_contiguous and bound <= 1 << 31
        if words.size < self._fewest or not usual or not self._is_trusted("draw"):
            return None
        return self._operations.below(words, bound, signed=signed)

    def store(self, target: Array, integers: Array, rows: Any, columns: Any) -> bool:
        """Integers times powers of two, stored; False: not here."""
        usual = integers.dtype == np.int32 and integers.flags.c_contiguous and integers.shape == target.shape
        if usual and self._stores_to(target):
            return self._operations.store(target, integers, rows, columns)
        return super().store(target, integers, rows, columns)

    def store_words(self, target: Array, words: Array, magnitude: int, rows: Any, columns: Any) -> bool:
        """Integers of random words times powers of two, stored; False: not here."""
        if self._stores_to(target) and magnitude <= _LARGEST:
            integers = self.below(words, 2 * magnitude, signed=True)
            if integers is not None:
                return self._operations.store(target, integers.reshape(target.shape), rows, columns)
        return super().store_words(target, words, magnitude, rows, columns)

    def sums(self, codes: Array, format_: Format, vectors: Array, factors: tuple[Any, Any], limit: int | None) -> Any:
        """A matrix times some vectors; None: not here."""
        name = encoding.storage_dtype(format_).name
        if name not in _READ or codes.size < self._fewest or (limit or 0) > _LARGEST:
            return None
        if not self._is_trusted("sum_up", name, format_):
            return None
        return self._operations.sums(codes, format_, vectors, factors, limit)

    def is_rounded(self, codes: Array, format_: Format, sums: Array, columns: Array, factors: tuple[Any, Any]) -> Any:
        """Whether a matrix is what some sums round to; None: not here."""
        name = encoding.storage_dtype(format_).name
        if name not in _WRITTEN or codes.size < self._fewest:
            return None
        if not self._is_trusted("round", name, format_):
            return None
        return self._operations.is_rounded(codes, format_, sums, columns, factors)

    def chunk_sums(self, words: Array, keys: Array) -> Any:
        """Of a fingerprint; None: not here."""
        if words.size < self._fewest or not self._is_trusted("hash"):
            return None
        return self._operations.chunk_sums(words, keys)

    def look_over(self, values: Array, scale: float, *, add_up: bool) -> Any:
        """What there is to know of a matrix of float64 at once; None: not here."""
        if values.size < self._fewest or not self._is_trusted("look"):
            return None
        return self._operations.look_over(values, scale, add_up=add_up)

    def add_moduli(self, one: Array, other: Array, scale: float) -> Any:
        """Sums of the moduli of two arrays; None: not here."""
        if one.size < self._fewest or not self._is_trusted("moduli"):
            return None
        return self._operations.add_moduli(one, other, scale)

    def cumulate_moduli(self, values: Array) -> Any:
        """Running sums of moduli; None: not here."""
        if values.size < self._fewest or not self._is_trusted("moduli"):
            return None
        return self._operations.cumulate_moduli(values)

    def _stores_to(self, target: Array) -> bool:
        name = target.dtype.name
        if name not in _WRITTEN or target.ndim != 2 or target.size < self._fewest:
            return False
        return self._is_trusted("store", name, target.dtype)

    def _is_trusted(self, operation: str, name: str = "", *of: Any) -> bool:
        """Whether it gives numpy's bits, tried once."""
        if (operation, name) not in self._trusted:
            self._trusted[operation, name] = False
            with contextlib.suppress(Exception):  # not for this machine or this numpy
                self._trusted[operation, name] = getattr(self._trials, operation)(*of)
        return self._trusted[operation, name]
