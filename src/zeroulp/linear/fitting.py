"""
What to draw for a problem: much of the output is to be exact, and to depend on it; all bits of sums are to be used.

`zeroulp.sample` tracks the reference on a few drawings, and finds strategies that are exact in one part or another.
Each is put to the self-check here, and every operand redrawn alone, to see what changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import sample, track
from zeroulp.linear.drawing import DRAWING
from zeroulp.linear.following import Followed, contract_of, examined, only_output, resolved_by
from zeroulp.linear.living import Tried, liveness

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zeroulp.problem import Linear
    from zeroulp.sample import Strategy

_FIRST = 1 << 32  # numbers of drawings that no trial has of its own


@dataclass(frozen=True)
class Fit:
    """
    What is drawn, and what is known of the reference.

    Args:
        problem: With its output known.
        strategies: Those to draw trials by.
        live: For each operand the share of the exact elements that changed with it.
        vacuous: Why equal bits would say nothing: (reason, remedy) pairs; empty if they do say something.
        ended: Where exactness ended, and for how many elements: sentences, in the order of the operations.
        leans: What elements lean on beside sums and products.
        demoted: What the reference itself does otherwise, in a sentence; empty if nothing.
        unchecked: Why the reference could not check itself; empty if it could.
        operations: Of the reference: number, name, and the strategies in which it saw exact data that are not alike.
        followed: By the number of the drawing: those that have been followed.
    """

    problem: Linear
    strategies: tuple[Strategy, ...]
    live: dict[str, float]
    vacuous: tuple[tuple[str, str], ...]
    ended: tuple[str, ...] = ()
    leans: tuple[str, ...] = ()
    demoted: str = ""
    unchecked: str = ""
    operations: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    followed: dict[int, Followed] = field(default_factory=dict, compare=False, repr=False)

    def first_of(self, strategy: Strategy) -> dict[str, Any]:
        """Settings of the trial that has been followed already."""
        return {**strategy.settings, DRAWING: strategy.trial}


def fit(problem: Linear, seed: int, device: str = "cpu") -> Fit:
    """
    Find out what to draw.

    Args:
        problem: What is checked.
        seed: The check's seed.
        device: Where the reference checks itself.

    Raises:
        ProgramError: If the reference cannot be followed: it is random, fails in float64, returns no tensor or several.
    """
    assert problem.reference is not None, "a check has one"
    contract = contract_of(problem)
    explored = partial(sample.explore, seed=seed, first=_FIRST, rounded=True, steady=True)
    runs = explored(problem.reference, problem.tensors, contract)
    only_output(runs[0].tracked)
    problem = resolved_by(problem, runs[0].tracked)
    tried = [Tried(run.strategy, examined(problem, run.tracked, device)) for run in runs]
    for run, one in zip(runs, tried, strict=True):
        if one.followed.demoted or one.followed.unchecked:  # so nobody has seen yet that it is not random
            track.refuse_random(run.tracked)
    found = liveness(problem, seed, tried)
    kept = [one for one in tried if one.followed.share] or tried[:1]
    union = np.logical_or.reduce([one.followed.compared for one in kept])
    return Fit(
        problem,
        tuple(one.strategy for one in kept),
        found.shares,
        found.vacuous,
        ended=() if union.all() else tuple(_endings(kept[0].followed)),
        leans=tuple(sorted({what for one in tried for what in one.followed.tracked.outputs[0].leans})),
        demoted=next((one.followed.demoted for one in kept if one.followed.demoted), ""),
        unchecked=next((one.followed.unchecked for one in kept if one.followed.unchecked), ""),
        operations=tuple(_operations([one.strategy for one in kept])),
        followed={one.strategy.trial: one.followed for one in kept},
    )


def _operations(strategies: Sequence[Strategy]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Which operations saw exact data that could show a fault, and in which strategies."""
    for (number, name), where in sorted(sample.Shown(tuple(strategies)).operations.items()):
        yield number, name, tuple(dict.fromkeys(where))


def _endings(followed: Followed) -> Iterator[str]:
    """Where exactness ended, the first of each operation."""
    seen = set()
    for ending in followed.tracked.endings:
        if ending.number not in seen:
            seen.add(ending.number)
            shape = next((o.shape for o in followed.tracked.operations if o.number == ending.number), ())
            share = ending.elements / max(1, math.prod(shape))
            yield f"{ending.sentence()} ({min(share, 1):.1%} of its elements)"
