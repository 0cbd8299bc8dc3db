"""
How many trials of each probe a wished escape probability takes.

Trials are independent, so the chances that they miss a fault multiply: logarithms add up, and
calls go where a call lowers the bound most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zeroulp.exactness import VERIFICATION_MISS
from zeroulp.probes import cyclic, probe_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroulp.probes.base import Settings
    from zeroulp.problem import Matmul

MOST_CALLS = 38
"""A plan that nobody asked to be longer calls the kernel about this often."""

MOST_CALLS_ASKED = 1000
"""A plan for an escape probability that was asked for calls the kernel this often at most."""

_ALL_VARIANTS = ("wide", "sparse", "specials")  # each variant is a trial
_AT_LEAST = {"one_hot": 3, "halves": 2}
_DENSE_SIGNED = 4  # trials of `signed` where it needs no blocks of k: near one, and scaled
_IN_SEARCH_OF_A_BOUND = ("signed", "cancel", "cover", "fractional", "binary")


def log_missed(problem: Matmul, probe: str, trials: Sequence[Settings]) -> float:
    """
    Logarithm of the chance that trials of one probe all miss a bilinear fault of one output.

    Args:
        problem: The problem.
        probe: Name of the probe.
        trials: Settings of its trials.
    """
    own = probe_named(probe)
    together = cyclic(own)
    if together is not None:
        return _log(together.missed(problem, trials))
    return sum(_log(1 - own.detection(problem, settings)) for settings in trials)


def _log(unseen: float) -> float:
    """Of the chance that a trial shows no difference, or that its verification misses the one there is."""
    return min(0.0, math.log(unseen + VERIFICATION_MISS))


def counts_for(
    problem: Matmul,
    variants: Mapping[str, Sequence[Settings]],
    wished: float,
    *,
    room: int,
    named: bool,
) -> dict[str, int]:
    """
    Trials of each probe: one or a few of each, and as many of the best as the wished bound takes.

    Args:
        problem: The problem.
        variants: Certified settings by probe.
        wished: The bound.
        room: How many trials there may be.
        named: Whether these probes were asked for by name.
    """
    counts = {name: _base(problem, name, settings, named=named) for name, settings in variants.items()}
    if problem.k == 0 or problem.output.size == 0:
        return counts
    search = _Search(problem, variants, counts, math.log(wished), room)
    if "signed" in variants and search.fill(["signed"]):
        return search.counts
    search = _Search(problem, variants, counts, math.log(wished), room)
    search.fill([name for name in _IN_SEARCH_OF_A_BOUND if name in variants])
    return search.counts


def _base(problem: Matmul, name: str, variants: Sequence[Settings], *, named: bool) -> int:
    if name == "cover":
        return len(variants) if named else 0
    if name == "signed" and int(variants[0]["terms"]) >= problem.k:
        return _DENSE_SIGNED
    return len(variants) if name in _ALL_VARIANTS else _AT_LEAST.get(name, 1)


class _Search:
    """Adds trials until the bound is reached or the room is used up."""

    def __init__(
        self,
        problem: Matmul,
        variants: Mapping[str, Sequence[Settings]],
        counts: Mapping[str, int],
        wished: float,
        room: int,
    ) -> None:
        self.problem, self.variants, self.counts = problem, variants, dict(counts)
        self.wished = wished
        self.room = room - sum(counts.values())
        self._single: dict[tuple[str, int], float] = {}
        self.logarithms = {name: self._logarithm(name, 0, count) for name, count in counts.items()}

    def _logarithm(self, name: str, old: int, new: int) -> float:
        """Of the chance that *new* trials of a probe miss a fault; what *old* of them miss is known."""
        own = self.variants[name]
        if cyclic(probe_named(name)) is not None:
            return log_missed(self.problem, name, [own[i % len(own)] for i in range(new)])
        known = self.logarithms[name] if old else 0.0
        return known + sum(self._of_one(name, i % len(own)) for i in range(old, new))

    def _of_one(self, name: str, variant: int) -> float:
        if (name, variant) not in self._single:
            self._single[name, variant] = log_missed(self.problem, name, [self.variants[name][variant]])
        return self._single[name, variant]

    def fill(self, names: Sequence[str]) -> bool:
        """Add trials of these probes, the most telling first; whether the bound is reached."""
        while sum(self.logarithms.values()) > self.wished:
            found = [step for name in names for step in self._steps(name)]
            best = max(found, key=lambda step: step[0], default=(0.0, "", 0))
            gain, name, count = best
            if gain <= 0:
                return False
            self.room -= count
            self.logarithms[name] = self._logarithm(name, self.counts[name], self.counts[name] + count)
            self.counts[name] += count
        return True

    def _steps(self, name: str) -> list[tuple[float, str, int]]:
        """What can be added of a probe: (by how much the logarithm falls per call, name, trials)."""
        cycle = len(self.variants[name]) // 2 if cyclic(probe_named(name)) is not None else 0
        found = []
        for count in (cycle, 2 * cycle) if cycle else (1,):
            if count <= self.room:
                fall = self.logarithms[name] - self._logarithm(name, self.counts[name], self.counts[name] + count)
                found.append((fall / count, name, count))
        return found
