"""
What was asked for and is not to be had.

A default plan does what it can and says what it reached. A bound or a probe that somebody asked
for is a question; where it cannot be answered, a kernel that does nothing wrong gets the verdict
INCONCLUSIVE, with the reason, and with what would make an answer possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from zeroulp.counts import MOST_CALLS_ASKED
from zeroulp.problem import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.problem import Matmul

Reason: TypeAlias = "tuple[str, str]"  # why, and what would help


@dataclass(frozen=True)
class Skipped:
    """A probe that is not run, or one variant of it, and why."""

    probe: str
    reason: str
    remedy: str
    variant: str = ""

    @property
    def label(self) -> str:
        """The probe, and its variant where the others are run."""
        return f"{self.probe} ({self.variant})" if self.variant else self.probe


@dataclass(frozen=True)
class Asked:
    """
    What was asked for in so many words.

    Args:
        probes: Names of probes; empty: none was named.
        escape_probability: A bound; None: the default one, as far as it can be reached.
        trials: A number of trials of each probe; None: as many as it takes.
    """

    probes: tuple[str, ...] = ()
    escape_probability: float | None = None
    trials: int | None = None


def unmet_by(
    problem: Matmul, asked: Asked, skipped: Sequence[Skipped], escape: float, *, calls: int, is_exact: bool
) -> tuple[Reason, ...]:
    """
    What was asked for and is not in a plan.

    Args:
        problem: The problem.
        asked: What was asked for.
        skipped: Probes, and variants of probes, without a certificate.
        escape: The escape probability that the plan reaches.
        calls: How often it calls the kernel.
        is_exact: Whether any of its trials compares bits.
    """
    if not is_exact:
        found = [(f"{one.label}: {one.reason}", one.remedy) for one in skipped]
        return tuple(found or [("no output is compared bit for bit", "a probe that is exact, such as signed")])
    found = [
        (f"{one.probe}, asked for by name: {one.reason}", one.remedy)
        for one in skipped
        if one.probe in asked.probes and not one.variant
    ]
    if asked.escape_probability is not None and escape > asked.escape_probability:
        found.append(_bound_out_of_reach(problem, asked, escape, calls))
    return tuple(found)


def _bound_out_of_reach(problem: Matmul, asked: Asked, escape: float, calls: int) -> Reason:
    """Why the escape probability that was asked for is not reached, and what would make it possible."""
    wished = f"an escape probability of {asked.escape_probability:g} was asked for"
    reached = f"these {calls} calls reach {escape:.2g}" if escape < 1 else "these trials claim no bound"
    if asked.trials is not None:
        return f"{wished}, and {reached}", "more trials, or leave their number out to have it derived"
    repeats = isinstance(problem.layouts, str) and problem.layouts in LAYOUTS and LAYOUTS[problem.layouts].broadcast
    if repeats or (isinstance(problem.layouts, dict) and any(LAYOUTS[x].broadcast for x in problem.layouts.values())):
        return f"{wished}, and {reached}: rows that repeat count for nothing", "layouts without stride 0"
    limit = f"would take more than {MOST_CALLS_ASKED:,} calls; " if escape < 1 else ""
    reason = f"{wished}, and {limit}{reached}"
    if asked.probes:
        return reason, "other probes too (signed, cancel, cover), or all of them"
    if problem.accumulate == "any":
        return reason, "a contract that promises wider sums, such as accumulate='float32', or a wider output"
    return reason, "a wider output or accumulator, or fewer terms"
