"""A result judged where it lies: in O(n^2) as a rule, in full where a trial is small or something is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding, memory
from zeroulp.arrays import HOST, arrays_of
from zeroulp.checks.audit import Audit, some_of
from zeroulp.judge import Differs, Matched, Outcome, judge
from zeroulp.probes import axis_of_k
from zeroulp.problem import LAYOUTS
from zeroulp.reference import bounded_result
from zeroulp.verify import Fed, Verifier, reaches_as_it_should

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroulp.arrays import Arrays
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

_FEWEST, _MOST = 16, 64  # rows and columns of a result that are judged by a bound, if it is larger
_SAMPLED = 2**15  # elements of a that they take


@dataclass(frozen=True)
class Judge:
    """
    Says what a trial's result should have been.

    Args:
        workspace: Bytes that verification may use; None: as many as the library of the arrays suggests.
        reference: ``"verified"``, or ``"dense"``: every result is worked out in full on the host.
        audit: Looks at some of it on the host, where a device judges; None: nobody does.
    """

    workspace: int | None
    reference: str
    audit: Audit | None = None

    def outcome(self, inputs: Inputs, block: Any, operands: Sequence[Region], codes: Any) -> Outcome:
        """
        What every correct kernel returns, compared with what this one did.

        Args:
            inputs: The trial's operands.
            block: Where they lie.
            operands: Their regions.
            codes: Encodings of the result, in the block's library.

        Raises:
            AuditFailedError: If the host finds that a device's word is not to be believed.
        """
        arrays, format_ = arrays_of(block), inputs.problem.out_format
        views = {region.name: arrays.codes(memory.view(block, region)) for region in operands}
        found = None if self.reference == "dense" else self._without_the_whole(inputs, arrays, views, codes)
        if found is None:
            found = judge(on_host(codes, format_), inputs.expected, format_)
        if self.audit is None or arrays is HOST:
            return found
        return self.audit.confirmed(inputs, arrays, views, codes, found)

    def _without_the_whole(
        self, inputs: Inputs, arrays: Arrays, views: Mapping[str, Any], codes: Any
    ) -> Outcome | None:
        problem, trial = inputs.problem, inputs.trial
        is_small = problem.output.size * problem.k <= SMALL
        repeats = any(LAYOUTS[trial.layouts[operand.name]].broadcast for operand in problem.operands)
        pool = None if trial.based_on is not None or repeats else inputs.pool
        fed = Fed(problem, inputs.family, trial.certificate, arrays, views, inputs.scales, pool)
        if inputs.family.bounded:
            return None if is_small or repeats else _of_a_sample(inputs, fed, codes)
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


def _of_a_sample(inputs: Inputs, fed: Fed, codes: Any) -> Outcome:
    """A bound looked at for some rows and columns, spread over all, of one entry of the batch."""
    problem, arrays = inputs.problem, fed.arrays
    generator = np.random.default_rng(inputs.seed)
    entry = tuple(int(generator.integers(extent)) for extent in problem.batch)
    count = max(_FEWEST, min(_MOST, _SAMPLED // max(1, problem.k)))
    chosen = [some_of(generator, extent, count) for extent in (problem.m, problem.n)]
    rows, columns = (arrays.from_host(numbers) for numbers in chosen)
    every = slice(None)
    own = {"a": (rows, every), "b": (every, columns), "c": (rows, columns), "bias": (columns, None)}
    integers = {}
    for name in fed.codes:
        first, last = own[name]
        part = fed.matrix(name, entry)[first]
        part = part if last is None else part[:, last]
        integers[name] = arrays.to_host(fed.quanta(name, part, first, last)).astype(np.int64)
    smaller = problem.replace(m=len(rows), n=len(columns), batch=(), transpose_a=False, transpose_b=False)
    expected = bounded_result(smaller, inputs.family, inputs.trial.certificate, integers)
    outcome = judge(on_host(codes[entry][rows][:, columns], problem.out_format), expected, problem.out_format)
    if isinstance(outcome, Matched):
        return Matched(outcome.compared, problem.output.size)

    def place(index: tuple[int, ...]) -> tuple[int, ...]:
        return (*entry, int(chosen[0][index[0]]), int(chosen[1][index[1]]))

    assert isinstance(outcome, Differs)
    first, low, high = (place(index) for index in (outcome.first, outcome.low, outcome.high))
    places = np.array([place(index) for index in outcome.places]) if outcome.places is not None else None
    return replace(outcome, first=first, low=low, high=high, elements=problem.output.size, places=places)
