"""Whether what a kernel must return depends on what it is fed: every operand drawn anew, alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeroulp import sample, track

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.linear.following import Followed
    from zeroulp.problem import Linear
    from zeroulp.sample import Strategy
    from zeroulp.track.grades import Operation

_FIRST = 1 << 33  # numbers of drawings that are no trials
_REDRAWN = 2  # how often an operand is drawn anew of which one drawing does not show that it matters
_AGAIN = 4  # drawings among which one that differs is looked for


@dataclass(frozen=True, eq=False)
class Tried:
    """
    A strategy, and what came of a drawing.

    Args:
        strategy: How it was drawn.
        followed: What every correct kernel returns.
    """

    strategy: Strategy
    followed: Followed


@dataclass(frozen=True)
class Life:
    """
    What depends on what.

    Args:
        shares: For each operand the share of the exact elements that changed with it.
        vacuous: Why equal bits would say nothing: (reason, remedy) pairs; empty if they do say something.
    """

    shares: dict[str, float]
    vacuous: tuple[tuple[str, str], ...]


def liveness(problem: Linear, seed: int, tried: Sequence[Tried]) -> Life:
    """
    What changes with each operand, in one strategy or another, and why too little does.

    Args:
        problem: Its operands.
        seed: The check's seed.
        tried: Drawings that were followed, the most telling one first.
    """
    live: dict[str, float] = {}
    cuts: dict[str, Operation | None] = {}
    share, why = 0.0, ""
    for one in tried:
        left = [tensor.name for tensor in problem.tensors if not live.get(tensor.name)]
        if not left or one.followed.share == 0:
            continue
        for count in (1, _REDRAWN):
            names = [name for name in left if not live.get(name)]
            if not names:
                break
            found = track.liveness(one.followed.tracked, _redrawn(problem, seed, one, names, count), quickly=True)
            for row in found.operands:
                live[row.name], cuts[row.name] = max(row.share, live.get(row.name, 0.0)), row.cut
            share, why = max(share, found.share), why or found.vacuous
    if not live:
        return Life(live, ())
    if share < track.live.LEAST_SHARE:
        return Life(live, ((f"vacuous: {why}", _whatever(cuts)),))
    unread, reasons = tried[0].followed.tracked.unread, []
    for name, changes in live.items():
        if changes == 0:
            cut = cuts[name]
            where = f"what it changes vanishes in operation {cut.number}, {cut.name}" if cut else "nothing shows it"
            where = "no operation of the reference reads it" if name in unread else where
            reasons.append((f"vacuous: operand {name} never matters: {where}", "leave it out, or mend the reference"))
    return Life(live, tuple(reasons))


def _redrawn(problem: Linear, seed: int, one: Tried, names: list[str], count: int) -> dict[str, list[object]]:
    """So many other drawings of operands, as far as they can be drawn otherwise."""
    found: dict[str, list[object]] = {name: [] for name in names}
    for number in range(count * _AGAIN):
        drawn = sample.as_tensors(problem.tensors, one.strategy.values(seed, _FIRST + number))
        for name in names:
            other = drawn[name]
            if len(found[name]) < count and bool((other != one.followed.tracked.program.operands[name]).any()):
                found[name].append(other)
        if all(len(drawings) == count for drawings in found.values()):
            break
    return {name: drawings for name, drawings in found.items() if drawings}


def _whatever(cuts: dict[str, Operation | None]) -> str:
    cut = max((cut for cut in cuts.values() if cut is not None), key=lambda cut: cut.number, default=None)
    if cut is None:
        return "mend the reference: what it returns does not depend on what it is given"
    return f"mend the reference at {cut.name}, if that is not what it is for; any kernel that returns this passes"
