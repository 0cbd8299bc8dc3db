"""How much memory a check takes, known before it begins; what cannot fit is refused with the number."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zeroulp import encoding
from zeroulp.arrays import HOST
from zeroulp.memory import is_copied

if TYPE_CHECKING:
    from zeroulp.problem import Problem

_MEMINFO = Path("/proc/meminfo")
_PER_ELEMENT = 24  # bytes that verification takes, until its workspace is full


@dataclass(frozen=True)
class Footprint:
    """
    What a check needs besides Python and what the kernel takes for itself, in bytes.

    Args:
        block: Operands, output and guards.
        results: What the kernel returns, and where that lands for the parent of a worker.
        workspace: Verification.
    """

    block: int
    results: int
    workspace: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.block + self.results + self.workspace

    def __str__(self) -> str:
        block, results, workspace = (size / 2**30 for size in (self.block, self.results, self.workspace))
        return (
            f"operands, output and guards take {block:,.1f} GiB, results {results:,.1f} GiB "
            f"and their verification {workspace:,.1f} GiB"
        )


def footprint_of(
    problem: Problem, block_bytes: int, *, writes: bool, isolation: str, workspace: int | None = None
) -> Footprint:
    """
    What a check will need.

    Args:
        problem: What is checked.
        block_bytes: Bytes of operands, output and guards.
        writes: Whether the kernel writes into its last argument.
        isolation: A result that a worker's kernel returned lies in memory twice.
        workspace: Bytes that verification may use; None: as many as on the host by default.
    """
    result = problem.output.size * encoding.storage_dtype(problem.out_format).itemsize
    copies = int(not writes) + int(isolation == "process" and not (writes and not is_copied(problem.output)))
    elements = sum(operand.size for operand in problem.operands) + problem.output.size
    return Footprint(block_bytes, copies * result, min(workspace or HOST.workspace, _PER_ELEMENT * elements))


def refuse_what_cannot_fit(needed: Footprint, available: int | None) -> None:
    """
    Nothing, if there is the memory for a check.

    Args:
        needed: What it takes.
        available: Bytes that there are; None: nobody knows.

    Raises:
        MemoryError: If it does not fit: with what is needed, and what there is.
    """
    if available is not None and needed.total > available:
        raise MemoryError(f"{needed}; {available / 2**30:,.1f} GiB are available")


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
