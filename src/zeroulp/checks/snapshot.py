"""An operand as it was before a call, so that a change shows."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp import memory
from zeroulp.arrays import arrays_of
from zeroulp.arrays.fingerprint import PUBLIC_KEY, fingerprints

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    def of(cls, block: Any, regions: Sequence[Region], others: Sequence[Any] = ()) -> tuple[list[Snapshot], list[str]]:
        """
        Some regions as they are now, with the fingerprints of *others* (by no secret key); a device is waited for once.

        Args:
            block: The block.
            regions: Its parts.
            others: Arrays.
        """
        arrays, raws = arrays_of(block), [memory.raw(block, region) for region in regions]
        large = [raw for raw in raws if len(raw) > COPIED_BYTES]
        marks = fingerprints([*((raw, _SECRET) for raw in large), *((other, PUBLIC_KEY) for other in others)])
        own = iter(marks)
        found = []
        for region, raw in zip(regions, raws, strict=True):
            if len(raw) > COPIED_BYTES:
                found.append(cls(block, region, None, next(own), memory.outside(block, region)))
            else:
                found.append(cls(block, region, arrays.copy(raw), "", []))
        return found, marks[len(large) :]

    @staticmethod
    def changed(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
        """Those of which some byte is not what it was, in their order; a device is waited for once."""
        raws = {id(snapshot): memory.raw(snapshot.block, snapshot.region) for snapshot in snapshots}
        large = [snapshot for snapshot in snapshots if snapshot.copy is None]
        now = iter(fingerprints([(raws[id(snapshot)], _SECRET) for snapshot in large]))

        def is_same(one: Snapshot) -> bool:
            if one.copy is None:
                return next(now) == one.mark
            return bool(arrays_of(one.block).equal(raws[id(one)], one.copy))

        return [snapshot for snapshot in snapshots if not is_same(snapshot)]

    def is_unchanged_outside(self) -> bool:
        """Whether the bytes that are no elements are what they were."""
        if self.copy is None:
            return memory.is_same_outside(self.outside, self.block, self.region)
        low = self.region.low
        there = memory.moved(self.region, -low)
        return memory.is_same_outside(memory.outside(self.copy, there), self.block, self.region)
