"""A result judged where it lies: in O(n^2) as a rule, in full where a trial is small or something is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding, memory
from zeroulp.arrays import arrays_of
from zeroulp.judge import Differs, Matched, Outcome, judge
from zeroulp.probes import axis_of_k
from zeroulp.problem import LAYOUTS
from zeroulp.reference import bounded_result
from zeroulp.verify import Fed, Verifier, reaches_as_it_should

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.checks.inputs import Inputs
    from zeroulp.encoding import Array
    from zeroulp.formats import Format
    from zeroulp.memory import Region

REFERENCES = ("verified", "dense")
"""How results are judged: in O(n^2) where they lie, or against what is worked out in full on the host."""

SMALLEST_WORKSPACE = 2**16
"""Bytes."""

SMALL = 2**22
"""Products m n k up to which NaN, infinities and ordinary numbers are judged in full."""

_FEWEST, _MOST = 16, 128  # rows and columns of a result that are judged by a bound, if it is larger
_SAMPLED = 2**19  # elements of a that they take


@dataclass(frozen=True)
class Judge:
    """
    Says what a trial's result should have been.

    Args:
        workspace: Bytes that verification may use; None: as many as the library of the arrays suggests.
        reference: ``"verified"``, or ``"dense"``: every result is worked out in full on the host.
    """

    workspace: int | None
    reference: str

    def outcome(self, inputs: Inputs, block: Any, operands: Sequence[Region], codes: Any) -> Outcome:
        """
        What every correct kernel returns, compared with what this one did.

        Args:
            inputs: The trial's operands.
            block: Where they lie.
            operands: Their regions.
            codes: Encodings of the result, in the block's library.
        """
        found = None if self.reference == "dense" else self._without_the_whole(inputs, block, operands, codes)
        format_ = inputs.problem.out_format
        return judge(on_host(codes, format_), inputs.expected, format_) if found is None else found

    def _without_the_whole(
        self, inputs: Inputs, block: Any, operands: Sequence[Region], codes: Any
    ) -> Outcome | None:
        problem, trial = inputs.problem, inputs.trial
        arrays = arrays_of(block)
        is_small = problem.output.size * problem.k <= SMALL
        repeats = any(LAYOUTS[trial.layouts[operand.name]].broadcast for operand in problem.operands)
        if inputs.family.bounded:
            return None if is_small or repeats else _of_a_sample(inputs, codes)
        views = {region.name: arrays.codes(memory.view(block, region)) for region in operands}
        pool = None if trial.based_on is not None or repeats else inputs.pool
        fed = Fed(problem, inputs.family, trial.certificate, arrays, views, inputs.scales, pool)
        places = special_places(inputs)
        if any(places.values()):
            if is_small or repeats or problem.batch:
                return None
            fed = replace(fed, without=_masks(inputs, places))
            if not (Verifier.can(fed) and reaches_as_it_should(fed, places, codes)):
                return None
        return Verifier(fed, self.workspace or arrays.workspace).judge(codes) if Verifier.can(fed) else None


def on_host(codes: Any, format_: Format) -> Array:
    """Encodings as numpy has them: without sign."""
    return arrays_of(codes).to_host(codes).view(encoding.code_dtype(format_))


def special_places(inputs: Inputs) -> dict[str, list[tuple[int, int]]]:
    """Places of NaN and infinities: (i, k) of a, (k, j) of b."""
    return {name: _logical(inputs, name) for name in ("a", "b")}


def _logical(inputs: Inputs, name: str) -> list[tuple[int, int]]:
    swapped = axis_of_k(inputs.problem, name) != (-1 if name == "a" else -2)
    places = [place[-2:] for place, _ in inputs.special(name)]
    return [(second, first) if swapped else (first, second) for first, second in places]


def _masks(inputs: Inputs, places: dict[str, list[tuple[int, int]]]) -> tuple[Array, Array]:
    """Rows and columns with a special element."""
    rows, columns = np.zeros(inputs.problem.m, bool), np.zeros(inputs.problem.n, bool)
    rows[[i for i, _ in places["a"]]] = True
    columns[[j for _, j in places["b"]]] = True
    return rows, columns


def _of_a_sample(inputs: Inputs, codes: Any) -> Outcome:
    """A bound looked at for some rows and columns, spread over all, of one entry of the batch."""
    problem = inputs.problem
    generator = np.random.default_rng(inputs.seed)
    entry = tuple(int(generator.integers(extent)) for extent in problem.batch)
    count = max(_FEWEST, min(_MOST, _SAMPLED // max(1, problem.k)))
    chosen = [_spread(generator, extent, count) for extent in (problem.m, problem.n)]
    smaller, integers = inputs.part(entry, *chosen)
    expected = bounded_result(smaller, inputs.family, inputs.trial.certificate, integers)
    arrays = arrays_of(codes)
    picked = codes[entry][arrays.from_host(chosen[0])][:, arrays.from_host(chosen[1])]
    outcome = judge(on_host(picked, problem.out_format), expected, problem.out_format)
    if isinstance(outcome, Matched):
        return Matched(outcome.compared, problem.output.size)

    def place(index: tuple[int, ...]) -> tuple[int, ...]:
        return (*entry, int(chosen[0][index[0]]), int(chosen[1][index[1]]))

    assert isinstance(outcome, Differs)
    first, low, high = (place(index) for index in (outcome.first, outcome.low, outcome.high))
    places = np.array([place(index) for index in outcome.places]) if outcome.places is not None else None
    return replace(outcome, first=first, low=low, high=high, elements=problem.output.size, places=places)


def _spread(generator: np.random.Generator, extent: int, count: int) -> Array:
    """Some numbers below *extent*, the first and the last among them, in order."""
    inner = generator.choice(extent, min(extent, count), replace=False)
    return np.unique([0, extent - 1, *inner]).astype(np.int64)
