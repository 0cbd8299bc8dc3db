"""An operand as it was before a call, so that a change shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp import memory
from zeroulp.arrays import arrays_of

if TYPE_CHECKING:
    from zeroulp.memory import Region

COPIED_BYTES = 2**26
"""Up to here an operand is compared with a private copy; beyond, with a checksum of every byte and its place."""


@dataclass(frozen=True)
class Snapshot:
    """
    One region of a block, as it was.

    Args:
        block: The block.
        region: Which part of it.
        copy: Its bytes; None where a checksum has to do.
        checksum: Of its bytes.
        outside: The bytes around and between its elements.
    """

    block: Any
    region: Region
    copy: Any
    checksum: int
    outside: list[Any]

    @classmethod
    def of(cls, block: Any, region: Region) -> Snapshot:
        """As it is now."""
        arrays, raw = arrays_of(block), memory.raw(block, region)
        small = len(raw) <= COPIED_BYTES
        copy, checksum = (arrays.copy(raw), 0) if small else (None, arrays.checksum(raw))
        return cls(block, region, copy, checksum, [] if small else memory.outside(block, region))

    def is_unchanged(self) -> bool:
        """Whether every byte is what it was."""
        arrays, raw = arrays_of(self.block), memory.raw(self.block, self.region)
        if self.copy is not None:
            return arrays.equal(raw, self.copy)
        return arrays.checksum(raw) == self.checksum

    def is_unchanged_outside(self) -> bool:
        """Whether the bytes that are no elements are what they were."""
        if self.copy is None:
            return memory.is_same_outside(self.outside, self.block, self.region)
        low = self.region.low
        there = memory.moved(self.region, -low)
        return memory.is_same_outside(memory.outside(self.copy, there), self.block, self.region)
