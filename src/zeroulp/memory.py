"""
Where operands and output lie in one block of memory, each between guard bands.

A `Region` is plain data: the side that draws and judges and the side that runs the kernel build
the same array view from it, whether or not they share a process. The bytes around and between
the elements belong to nobody: beside an input they are NaN, so that a stray read shows in the
result; beside the output they are a pattern, so that a stray write shows in the guard.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from zeroulp import encoding
from zeroulp.arrays import arrays_of
from zeroulp.formats import BY_NAME, Format, Specials

if TYPE_CHECKING:
    import numpy as np

    from zeroulp.encoding import Array
    from zeroulp.problem import Layout, Operand

COPIED_BYTES = 2**26
"""Up to here operands and results are compared with private copies; beyond, with fingerprints of their bits."""

GUARD_ELEMENTS = 4096
_ALIGNMENT = 64
_PATTERN = 0xA5


@dataclass(frozen=True)
class Region:
    """
    One array and its guards within a block.

    Args:
        name: Operand's name.
        format: Name of its format.
        shape: In elements.
        strides: In elements.
        start: Byte at which the first element lies.
        low: First byte of the lower guard.
        high: One past the last byte of the upper guard.
    """

    name: str
    format: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    low: int
    high: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its array."""
        return encoding.storage_dtype(BY_NAME[self.format])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a message."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Region:
        """The region that `to_dict` described."""
        return cls(**{**data, "shape": tuple(data["shape"]), "strides": tuple(data["strides"])})


def is_copied(operand: Operand) -> bool:
    """Whether an array is so small that private copies of it are made; a larger one is looked at where it is."""
    return operand.size * encoding.storage_dtype(operand.format).itemsize <= COPIED_BYTES


def arrange(items: list[tuple[Operand, Layout]]) -> tuple[list[Region], int]:
    """Regions for operands with their layouts, one after the other, and the bytes they need."""
    regions: list[Region] = []
    end = 0
    for operand, layout in items:
        size = encoding.storage_dtype(operand.format).itemsize
        guard = GUARD_ELEMENTS * size
        low = -(-end // _ALIGNMENT) * _ALIGNMENT
        start = -(-(low + guard) // _ALIGNMENT) * _ALIGNMENT
        high = start + layout.span(operand.shape) * size + guard
        high = -(-high // size) * size
        strides = layout.strides(operand.shape)
        first = start + layout.offset * size
        regions.append(Region(operand.name, operand.format.name, operand.shape, strides, first, low, high))
        end = high
    return regions, -(-end // _ALIGNMENT) * _ALIGNMENT


def moved(region: Region, by: int) -> Region:
    """The region *by* bytes further on."""
    return replace(region, start=region.start + by, low=region.low + by, high=region.high + by)


def view(block: Any, region: Region) -> Any:
    """The region's array, sharing memory with *block* (bytes, of any array library)."""
    return arrays_of(block).view(block, region.dtype.name, region.shape, region.strides, region.start)


def raw(block: Any, region: Region) -> Any:
    """All bytes of the region, guards included."""
    return block[region.low : region.high]


def poison_code(format_: Format, *, second: bool = False) -> int:
    """
    The encoding that stands for "never written" or "not yours to read".

    NaN where there is one, else the largest number. The *second* is another one (where a
    format has a single NaN, the same), so that an output that happens to equal the first is
    told apart from one that nobody wrote.
    """
    if not format_.has_nan:
        return (1 << (format_.bits - 1)) - 1 - int(second)
    nan = encoding.nan_code(format_)
    if not second or format_.specials is Specials.NAN_AT_NEGATIVE_ZERO:
        return nan
    return nan | 1 if format_.has_infinity else nan | 1 << (format_.bits - 1)


def fill(block: Any, region: Region, code: int) -> None:
    """Put *code* on every element of the region, guards and gaps included."""
    arrays_of(block).fill(raw(block, region), code, region.dtype.itemsize)


def fill_beside(block: Any, region: Region, code: int) -> None:
    """The same where all elements are written afterwards: if they lie one after the other, they stay as they are."""
    size, arrays = region.dtype.itemsize, arrays_of(block)
    end = region.start + math.prod(region.shape) * size
    if _gaps(region) or not _is_dense(region):
        fill(block, region, code)
        return
    for piece in (block[region.low : region.start], block[end : region.high]):
        arrays.fill(piece, code, size)


def _is_dense(region: Region) -> bool:
    """Whether the elements lie one after the other, in any order of the axes."""
    step = 1
    for stride, extent in sorted(zip(region.strides, region.shape, strict=True)):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return step > 0


def fill_guarded_output(block: Any, region: Region, poison: int | Array) -> None:
    """Put the guard's pattern around the output and *poison* (one encoding, or one for each) on its elements."""
    arrays = arrays_of(block)
    if isinstance(poison, int):  # over all of it, then the pattern around
        arrays.fill(raw(block, region), poison, region.dtype.itemsize)
        for piece in around(block, region):
            piece[...] = _PATTERN
        return
    arrays.fill(raw(block, region), _PATTERN, 1)
    arrays.codes(view(block, region))[...] = poison


def around(block: Any, region: Region) -> list[Any]:
    """The bytes of the region that are not the array's own: below it, above it, between its rows."""
    size, arrays = region.dtype.itemsize, arrays_of(block)
    reached = [(n - 1) * s for n, s in zip(region.shape, region.strides, strict=True)]
    end = region.start + (sum(reached) + 1) * size if min(region.shape, default=1) else region.start
    pieces = [block[region.low : region.start], block[end : region.high]]
    for first, shape, strides in _gaps(region):
        *outer, last = shape
        steps = (*(stride * size for stride in strides[:-1]), 1)
        pieces.append(arrays.view(block, "uint8", (*outer, last * size), steps, region.start + first * size))
    return pieces


def fill_gaps(block: Any, region: Region, code: int) -> None:
    """Put *code* between the rows of the region's array."""
    arrays, size = arrays_of(block), region.dtype.itemsize
    for first, shape, strides in _gaps(region):
        gap = arrays.view(block, region.dtype.name, shape, strides, region.start + first * size)
        arrays.put(gap, (...,), code)


def _gaps(region: Region) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """What lies between rows: first element, shape and strides of each piece, in elements from the array's first."""
    if min(region.shape, default=1) == 0 or len(region.shape) < 2:
        return []
    axes = sorted(((s, n) for s, n in zip(region.strides, region.shape, strict=True) if s and n > 1), reverse=True)
    dense = axes.pop()[1] if axes and axes[-1][0] == 1 else 1  # neighbours in memory that are all elements
    found = []
    for place, (stride, extent) in reversed(list(enumerate(axes))):
        if stride > dense:
            outer = axes[:place]
            shape = (*(n for _, n in outer), extent - 1, stride - dense)
            found.append((dense, shape, (*(s for s, _ in outer), stride, 1)))
        dense = stride * (extent - 1) + dense
    return found


def outside(block: Any, region: Region) -> list[Any]:
    """A copy of those bytes."""
    return [arrays_of(block).copy(piece) for piece in around(block, region)]


def is_same_outside(before: list[Any], block: Any, region: Region) -> bool:
    """Whether those bytes are what `outside` copied."""
    arrays = arrays_of(block)
    return all(arrays.equal(one, other) for one, other in zip(before, around(block, region), strict=True))
