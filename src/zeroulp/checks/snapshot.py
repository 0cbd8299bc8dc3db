"""An operand as it was before a call, so that a change shows."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp import memory
from zeroulp.arrays import arrays_of
from zeroulp.arrays.fingerprint import fingerprint

if TYPE_CHECKING:
    from zeroulp.memory import Region


COPIED_BYTES = 2**20
"""Up to here a region is copied; beyond, hashed twice, which takes less time."""

_SECRET = secrets.randbits(64)  # so that no kernel can change its inputs to others with the same fingerprint


@dataclass(frozen=True)
class Snapshot:
    """
    One region of a block, as it was.

    Args:
        block: The block.
        region: Which part of it.
        copy: Its bytes; None where a fingerprint has to do.
        mark: The fingerprint of its bytes.
        outside: The bytes around and between its elements.
    """

    block: Any
    region: Region
    copy: Any
    mark: str
    outside: list[Any]

    @classmethod
    def of(cls, block: Any, region: Region) -> Snapshot:
        """As it is now."""
        arrays, raw = arrays_of(block), memory.raw(block, region)
        small = len(raw) <= COPIED_BYTES
        copy, mark = (arrays.copy(raw), "") if small else (None, fingerprint(raw, _SECRET))
        return cls(block, region, copy, mark, [] if small else memory.outside(block, region))

    def is_unchanged(self) -> bool:
        """Whether every byte is what it was."""
        raw = memory.raw(self.block, self.region)
        if self.copy is not None:
            return arrays_of(self.block).equal(raw, self.copy)
        return fingerprint(raw, _SECRET) == self.mark

    def is_unchanged_outside(self) -> bool:
        """Whether the bytes that are no elements are what they were."""
        if self.copy is None:
            return memory.is_same_outside(self.outside, self.block, self.region)
        low = self.region.low
        there = memory.moved(self.region, -low)
        return memory.is_same_outside(memory.outside(self.copy, there), self.block, self.region)
