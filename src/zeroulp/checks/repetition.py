"""Two results on the same inputs, compared with each other: block by block, so that the host holds no whole result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.arrays import arrays_of
from zeroulp.checks.excerpt import Excerpt, Selection, is_large
from zeroulp.checks.inputs import blocks_of
from zeroulp.checks.judging import on_host
from zeroulp.judge import Differs, Tally, same

if TYPE_CHECKING:
    from zeroulp.checks.bench import Observation
    from zeroulp.encoding import Array


@dataclass(frozen=True)
class Differences:
    """
    Outputs that are not the same in two calls.

    Args:
        count: How many there are.
        are_poison: Whether all of them hold what stood there before the later call.
    """

    count: int
    are_poison: bool


def differences(now: Any, before: Any, seen: Observation) -> Differences:
    """
    Where a result differs from an earlier one on the same inputs, in outputs whose bits are determined.

    Args:
        now: Encodings of the later result, before which stood the last of the poisons of *seen*.
        before: Of the earlier one.
        seen: What was observed so far.

    Returns:
        The differences. In a large result some of whose outputs are not compared, only a part of it
        is looked at, so that there may be more.
    """
    inputs = seen.inputs
    problem, arrays, masked = inputs.problem, arrays_of(now), inputs.trial.certificate.masked
    format_, shape = problem.out_format, problem.output.shape
    in_part = masked and is_large(problem)
    compared = inputs.expected.compared if masked and not in_part else None
    tally, are_poison = Tally(format_, shape), True
    for index, first, _ in blocks_of(shape, arrays.block_elements):
        if arrays.equal(now[index], before[index]):
            continue
        later, earlier = (on_host(result[index], format_) for result in (now, before))
        differ = ~same(later, earlier, format_)
        differ = differ if compared is None else differ & compared[index]
        if differ.any():
            row, column = np.nonzero(differ.reshape(-1, shape[-1]))
            tally.add((*np.unravel_index(first + row, shape[:-1]), column), later[differ], earlier[differ])
            are_poison = are_poison and bool((later == _stood_there(seen, index))[differ].all())
    outcome = tally.outcome()
    if not isinstance(outcome, Differs):
        return Differences(0, are_poison)
    if in_part:
        return _of_compared(now, before, seen, Selection.of(inputs, outcome))
    return Differences(outcome.differing, are_poison)


def _stood_there(seen: Observation, index: Any) -> int | Array:
    """What stood in part of the output before the last call."""
    poison = seen.poisons[-1]
    if isinstance(poison, int):
        return poison
    is_row = tuple(poison.shape) != seen.inputs.problem.output.shape  # one row that stood in all rows
    return on_host(poison if is_row else poison[index], seen.inputs.problem.out_format)


def _of_compared(now: Any, before: Any, seen: Observation, selection: Selection) -> Differences:
    """The same for the outputs of a part that are compared."""
    part = Excerpt(seen.inputs, selection, np.empty(0))
    later, earlier = part.pick(now), part.pick(before)
    compared = part.expected.compared
    differ = ~same(later, earlier, part.problem.out_format)
    differ = differ if compared is None else differ & compared
    held = later == part.pick_poison(seen.poisons[-1])
    return Differences(int(np.count_nonzero(differ)), bool(held[differ].all()))
