"""How much memory a check takes, known before it begins; what cannot fit is refused with the number."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from zeroulp import encoding

if TYPE_CHECKING:
    from zeroulp.problem import Matmul

_MEMINFO = Path("/proc/meminfo")


def refuse_what_cannot_fit(problem: Matmul, block_bytes: int) -> None:
    """
    Nothing, if the host has the memory for a check.

    Args:
        problem: What is checked.
        block_bytes: Bytes of operands, output and guards.

    Raises:
        MemoryError: If it has not: with what is needed, and what there is.
    """
    result: float = problem.output.size * encoding.storage_dtype(problem.out_format).itemsize
    needed = block_bytes + result
    there: float | None = available_bytes()
    if there is not None and needed > there:
        block, result, there = (size / 2**30 for size in (block_bytes, result, there))
        parts = f"operands, output and guards take {block:,.1f} GiB and a result {result:,.1f} GiB"
        raise MemoryError(f"{parts}; {there:,.1f} GiB are available")


def available_bytes() -> int | None:
    """Memory of this machine that can be had without swapping; None where nobody says."""
    try:
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
