"""
What is done in one pass over a device's memory, with Triton, where PyTorch's operations take many.

Nothing here is needed: where Triton is missing, fails, or gives other bits than PyTorch when it is
first used, PyTorch's operations do the same, later.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any

from zeroulp.encoding import storage_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.arrays.torch import Torch
    from zeroulp.formats import Format

FEWEST = 1 << 12
"""Elements below which PyTorch's operations are as fast."""

_STORED = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2")
_ROUNDED = ("float16", "bfloat16", "float32")
_VECTORS = 4  # at a time
_MOST = 1 << 30  # elements that 32 bits count
_ACROSS = 1 << 22
_LARGEST = 1 << 24  # integers that float32 holds


def triton_on(arrays: Torch) -> Triton | None:
    """The fused operations for the device of *arrays*; None where there are none."""
    if arrays.device.type != "cuda" or os.environ.get("TRITON_INTERPRET", "0") != "0":
        return None
    try:
        return Triton(arrays)
    except Exception:  # noqa: BLE001  (not installed, or not for this machine)
        return None


class Triton:
    """
    Kernels for one device; see `zeroulp.arrays.base.Fused`.

    Args:
        arrays: PyTorch on that device.
        fewest: Elements from which on they are used.
    """

    sums_up = True
    stores_words = False

    def __init__(self, arrays: Torch, fewest: int = FEWEST) -> None:
        self._arrays, self._fewest = arrays, fewest
        self._torch = importlib.import_module("torch")
        self._kernels = importlib.import_module("zeroulp.arrays.triton_kernels")
        self._scalars: dict[float, Any] = {}
        self._trusted: dict[tuple[str, str], bool] = {}

    def integers(self, key: int, places: Any, bound: int, *, signed: bool = False) -> Any:
        """Random integers, as `Torch.integers`; None: not here."""
        count = _count(places)
        if count < self._fewest or not self._is_trusted("integers", "", self._draws_the_same):
            return None
        return self._drawn(key, places, bound, signed=signed)

    def store(self, target: Any, integers: Any, rows: Any, columns: Any) -> bool:
        """Integers times powers of two, stored; False: not here."""
        name = str(target.dtype).removeprefix("torch.")
        plain = target.dim() == 2 and name in _STORED and integers.dtype == self._torch.int32
        if not plain or not self._fewest <= target.numel() < _MOST or not integers.is_contiguous():
            return False
        if not self._is_trusted("store", name, lambda: self._stores_the_same(target.dtype)):
            return False
        self._store(target, integers, rows, columns)
        return True

    def store_words(self, target: Any, words: Any, magnitude: int, rows: Any, columns: Any) -> bool:
        """There is no such way: `integers` and `store` are one pass each."""
        del target, words, magnitude, rows, columns
        return False

    def sums(self, codes: Any, format_: Format, vectors: Any, factors: tuple[Any, Any], limit: int | None) -> Any:
        """A matrix times some vectors; None: not here."""
        name = storage_dtype(format_).name
        if name not in _STORED or codes.numel() < self._fewest or (limit or 0) > _LARGEST:
            return None
        if not self._is_trusted("sums", name, lambda: self._sums_up_the_same(format_)):
            return None
        return self._sums(codes, format_, vectors, factors, limit)

    def is_rounded(self, codes: Any, format_: Format, sums: Any, columns: Any, factors: tuple[Any, Any]) -> Any:
        """Whether a matrix is what some sums round to; None: not here."""
        name = storage_dtype(format_).name
        fits = codes.numel() >= self._fewest and codes.shape[1] <= _ACROSS  # a launch has so many columns of blocks
        if not fits or name not in _ROUNDED or not codes.is_contiguous():
            return None
        if not self._is_trusted("rounding", name, lambda: self._rounds_the_same(format_)):
            return None
        return self._is_rounded(codes, format_, sums, columns, factors)

    def chunk_sums(self, words: Any, keys: Any) -> Any:
        """Of a fingerprint; None: not here."""
        if words.numel() < self._fewest or not self._is_trusted("chunk sums", "", self._hashes_the_same):
            return None
        return self._chunk_sums(words, keys)

    def _drawn(self, key: int, places: Any, bound: int, *, signed: bool) -> Any:
        torch, first, width = self._torch, 0, 0
        indices: Any = None
        shape: tuple[int, ...] = (_count(places),)
        if not isinstance(places, tuple):
            indices, shape = places.contiguous(), tuple(places.shape)
        elif isinstance(places[0], int):
            first = places[0]
        else:
            indices, width = places[0].contiguous(), places[1]
            shape = (len(indices), width)
        out = torch.empty(shape, dtype=torch.int32, device=self._arrays.device)
        key -= 2**64 if key >= 2**63 else 0
        self._kernels.integers(out, indices, width, key, first, bound, bound // 2 if signed else 0)
        return out

    def _store(self, target: Any, integers: Any, rows: Any, columns: Any) -> None:
        self._kernels.store(target, integers, *map(self._factors, (rows, columns)))

    def _sums(self, codes: Any, format_: Format, vectors: Any, factors: tuple[Any, Any], limit: int | None) -> Any:
        torch, (rows, columns) = self._torch, factors
        kind = getattr(torch, storage_dtype(format_).name)
        stored = codes.view(kind) if codes.dtype != kind else codes
        weights = _times(vectors, columns).T.contiguous()
        each = [1.0, 1.0] if limit is None else [x if isinstance(x, float) else self._single(x) for x in factors]
        out = torch.zeros((len(weights), len(stored)), dtype=torch.float64, device=stored.device)
        off = None if limit is None else torch.zeros(len(stored), dtype=torch.int32, device=stored.device)
        for low in range(0, len(weights), _VECTORS):
            some = slice(low, low + _VECTORS)
            self._kernels.sums(stored, weights[some], out[some], off if low == 0 else None, *each, limit)
        return _times(out.T, rows), None if off is None else off != 0

    def _chunk_sums(self, words: Any, keys: Any) -> Any:
        out = self._torch.empty(len(words), dtype=self._torch.int64, device=words.device)
        self._kernels.chunk_sums(words, keys, out)
        return out

    def _is_rounded(self, codes: Any, format_: Format, sums: Any, columns: Any, factors: tuple[Any, Any]) -> bool:
        wrong = self._torch.zeros(1, dtype=self._torch.int32, device=codes.device)
        stored = codes.view(getattr(self._torch, storage_dtype(format_).name))
        self._kernels.compare_rounded(stored, sums.contiguous(), columns, *factors, wrong)
        return not int(wrong)

    def _factors(self, factors: Any) -> tuple[Any, int]:
        """An array of factors and its stride: 0 for one that is the same everywhere."""
        if isinstance(factors, (int, float)):
            if factors not in self._scalars:
                self._scalars[factors] = self._torch.full((1,), factors, device=self._arrays.device)
            return self._scalars[factors], 0
        return self._single(factors), 1

    def _single(self, factors: Any) -> Any:
        return factors.to(self._torch.float32).reshape(-1).contiguous()

    def _is_trusted(self, operation: str, name: str, works: Callable[[], bool]) -> bool:
        """Whether it gives PyTorch's bits, tried once."""
        if (operation, name) not in self._trusted:
            self._trusted[operation, name] = False
            with contextlib.suppress(Exception):  # no compiler, another version, another device
                self._trusted[operation, name] = works()
        return self._trusted[operation, name]

    def _draws_the_same(self) -> bool:
        arrays, torch = self._arrays, self._torch
        scattered = arrays.arange(0, 300).reshape(20, 15) * 3 + 2**33
        return all(
            torch.equal(
                self._drawn(key, places, bound, signed=signed),
                arrays.integers_plainly(key, places, bound, signed=signed),
            )
            for key in (5, 2**64 - 3)
            for places in ((0, 1000), (2**34 + 1, 77), scattered, (scattered[:, 3], 130))
            for bound, signed in (
                (1 << 32, False),
                (1, False),
                (1000, False),
                (2048, False),
                (6, True),
                (1 << 24, True),
            )
        )

    def _stores_the_same(self, dtype: Any) -> bool:
        arrays, torch = self._arrays, self._torch
        integers = arrays.integers_plainly(9, (0, 33 * 70), 16, signed=True).reshape(33, 70)
        rows, columns = (2.0 ** (arrays.arange(0, count) % 5 - 2) for count in (33, 70))
        small = 2.0 ** torch.frexp(torch.tensor(torch.finfo(dtype).smallest_normal)).exponent.item()
        for first, last in ((1.0, 0.25), (rows, 1.0), (1.0, columns), (rows, columns), (small, 1.0)):
            found = torch.zeros((66, 140), dtype=dtype, device=arrays.device)[::2, 7:77]
            self._store(found, integers, first, last)
            down = first if isinstance(first, float) else first[:, None]
            wanted = (integers.to(torch.float32) * last * down).to(dtype)
            if not torch.equal(arrays.codes(found), arrays.codes(wanted)):
                return False
        return True

    def _sums_up_the_same(self, format_: Format) -> bool:
        arrays, torch = self._arrays, self._torch
        kind = getattr(torch, storage_dtype(format_).name)
        integers = arrays.integers_plainly(9, (0, 70 * 300), 16, signed=True).reshape(70, 300)
        rows, columns = (2.0 ** (arrays.arange(0, count).to(torch.float64) % 3 - 1) for count in (70, 300))
        values = integers.to(torch.float64) / rows[:, None] / columns
        values[3, 7], values[4, 9], values[5, 299], values[69, 0] = (
            0.25 * values[3, 7],
            64.0,
            float("nan"),
            -float("inf"),
        )
        for stored, factors in ((values.to(kind), (rows, columns)), (values.to(kind).T, (columns, rows))):
            exact = stored.to(torch.float64) * factors[0][:, None] * factors[1]
            wanted = ((exact != exact.round()) | (abs(exact) > 16) | ~exact.isfinite()).any(-1)
            kept = ~(~exact.isfinite()).any(-1)
            vectors = arrays.integers_plainly(3, (0, stored.shape[1] * 5), 1000).reshape(-1, 5).to(torch.float64)
            found, off = self._sums(arrays.codes(stored), format_, vectors, factors, 16)
            same = torch.equal(found[kept], torch.matmul(exact, vectors)[kept]) and torch.equal(off, wanted)
            plain, none = self._sums(arrays.codes(stored), format_, vectors, (1.0, 2.0), None)
            whole = torch.matmul(stored.to(torch.float64) * 2.0, vectors)
            if not (same and none is None and torch.equal(plain[kept], whole[kept])):
                return False
        return True

    def _rounds_the_same(self, format_: Format) -> bool:
        arrays, torch = self._arrays, self._torch
        is_wide = format_.bits > 16  # else what is rounded is a float32 number
        whole = arrays.integers_plainly(4, (0, 37 * 11), 1 << (30 if is_wide else 24), signed=True)
        whole, columns = whole.reshape(37, 11).to(torch.float64), arrays.integers_plainly(5, (0, 700), 11)
        lowest = format_.emin - format_.precision - 25  # to subnormal numbers and below, and beyond the largest
        exponents = lowest + 3 * arrays.integers_plainly(6, (0, 700), (format_.emax - lowest) // 3)
        across = 2.0 ** exponents.clamp(-200 if is_wide else -149).to(torch.float64) * (1 - 2 * (columns % 2))
        for down in (1.0, 2.0 ** (arrays.arange(0, 37) % 4).to(torch.float64)):
            exact = whole[:, columns] * across * (down if isinstance(down, float) else down[:, None])
            codes = arrays.encoded(exact, format_)
            if not self._is_rounded(codes, format_, whole, columns, (down, across)):
                return False
            for place in ((0, 0), (36, 699), (17, 256), (36, 0), (3, 511)):
                for code in (codes[place] ^ 1, -1):  # the next number, and NaN
                    other = codes.clone()
                    other[place] = code
                    if self._is_rounded(other, format_, whole, columns, (down, across)):
                        return False
        return True

    def _hashes_the_same(self) -> bool:
        words = self._arrays.integers_plainly(7, (0, 3 * 4096), 1 << 32).reshape(3, 4096)
        keys = self._arrays.integers_plainly(8, (0, 4096), 1 << 32)
        mixed = (words + keys).to(self._torch.int64).bitwise_and_(2**32 - 1)
        return bool(self._torch.equal(self._chunk_sums(words, keys), (mixed[:, :2048] * mixed[:, 2048:]).sum(-1)))


def _times(array: Any, factors: Any) -> Any:
    """Rows times their factors."""
    if isinstance(factors, float):
        return array if factors == 1 else array * factors
    return array * factors[:, None]


def _count(places: Any) -> int:
    """How many words they are; see `Arrays.integers`."""
    if not isinstance(places, tuple):
        return int(places.numel())
    return int(places[1] if isinstance(places[0], int) else places[0].numel() * places[1])
