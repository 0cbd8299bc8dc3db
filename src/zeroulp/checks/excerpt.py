"""
What is looked at to name a difference: a small result in full, a few rows and columns of a large one.

How many outputs are wrong, and where, is about the whole result and comes from its outcome. *What*
is wrong is asked of an excerpt: with all of k, some rows and columns are a smaller problem with the
same contract, whose exact result costs no more than they do. They are chosen to hold wrong outputs,
spread over all that are wrong, the first and the last among them, and right ones.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.arrays import arrays_of
from zeroulp.checks.judging import on_host, special_places
from zeroulp.diagnose import Case
from zeroulp.judge import Differs, Outcome, differing, judge, some_of
from zeroulp.probes import Scales
from zeroulp.reference import bounded_result, expected_result, rows_within_a_tile, with_nonfinite, with_subnormals
from zeroulp.reference.expected import total_in_quanta

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.checks.inputs import Inputs
    from zeroulp.encoding import Array
    from zeroulp.problem import Matmul
    from zeroulp.reference import Expected

LARGE = 2**24
"""Products m n k up to which a result is looked at in full."""

SIDE = 64
"""Rows, and columns, of a larger one that are looked at, at most."""

_PRODUCTS = 2**26  # of all outputs that are looked at, at most: fewer rows and columns where k is longer
_WRONG = 0.75  # of the rows and columns are those of wrong outputs, at most


def is_large(problem: Matmul) -> bool:
    """Whether results are looked at in part."""
    return problem.output.size * problem.k > LARGE


@dataclass(frozen=True)
class Selection:
    """
    Rows and columns of some entries of the batch.

    Args:
        entries: Indices of the entries, one empty one where there is no batch.
        rows: (r,) numbers of rows, in order.
        columns: (c,) numbers of columns, in order.
    """

    entries: tuple[tuple[int, ...], ...]
    rows: Array
    columns: Array

    @classmethod
    def of(cls, inputs: Inputs, outcome: Outcome | None) -> Selection:
        """Those of wrong outputs and others, by the *outcome* of a trial."""
        problem = inputs.problem
        side = max(2, min(SIDE, math.isqrt(_PRODUCTS // max(1, problem.k))))
        places = outcome.places if isinstance(outcome, Differs) else None
        if places is None:
            places = np.empty((0, len(problem.batch) + 2), np.int64)
        entries = _entries(problem, places, side)
        if problem.batch:
            places = places[(places[:, None, :-2] == np.array(entries)[None]).all(axis=-1).any(axis=-1)]
        picked = some_of(places, max(1, int(_WRONG * side)))
        special = special_places(inputs) if inputs.overlaid else {"a": [], "b": []}
        rows = _numbers(picked[:, -2], [i for i, _ in special["a"]], problem.m, side)
        columns = _numbers(picked[:, -1], [j for _, j in special["b"]], problem.n, side)
        return cls(entries, rows, columns)

    def pick(self, result: Any) -> Array:
        """What stands there in a result, in whichever library: (*batch, r, c) elements on the host."""
        arrays = arrays_of(result)
        rows, columns = arrays.from_host(self.rows), arrays.from_host(self.columns)
        picked = [arrays.to_host(result[entry][rows][:, columns]) for entry in self.entries]
        return np.stack(picked) if self.entries[0] else picked[0]

    def problem(self, whole: Matmul) -> Matmul:
        """The smaller problem."""
        batch = (len(self.entries),) if whole.batch else ()
        return whole.replace(m=len(self.rows), n=len(self.columns), batch=batch)

    def drawn(self, inputs: Inputs) -> dict[str, Array]:
        """Its operands in quanta."""
        return self._stacked([inputs.part(entry, self.rows, self.columns)[1] for entry in self.entries])

    def codes(self, inputs: Inputs) -> dict[str, Array]:
        """Encodings of its operands."""
        return self._stacked([inputs.codes_of_part(entry, self.rows, self.columns) for entry in self.entries])

    def _stacked(self, found: list[dict[str, Array]]) -> dict[str, Array]:
        if not self.entries[0]:
            return found[0]
        return {name: one if name == "bias" else np.stack([x[name] for x in found]) for name, one in found[0].items()}

    def scales(self, inputs: Inputs) -> Scales | None:
        """Its powers of two."""
        scales = inputs.scales
        return scales and Scales(scales.rows[self.rows], scales.columns[self.columns], scales.inner)

    def expected(self, inputs: Inputs, **clauses: Any) -> Expected:
        """What every correct kernel returns there, by integer arithmetic; under other *clauses* of the contract."""
        certificate, family = inputs.trial.certificate, inputs.family
        wide = self._with_those_behind(inputs.problem) if inputs.overlaid else self
        problem, integers = wide.problem(inputs.problem).replace(**clauses), wide.drawn(inputs)
        if certificate.theorem == "bounded":
            return bounded_result(problem, family, certificate, integers)
        exponent = _exponent(inputs, wide.scales(inputs), problem)
        expected = expected_result(problem, family, certificate, integers, exponent)
        if not inputs.overlaid:
            return expected
        codes = wide.codes(inputs)
        expected = with_nonfinite(problem, codes, expected)
        expected = with_subnormals(problem, codes, expected) if family.beyond == "subnormals" else expected
        return _restricted(expected, np.searchsorted(wide.rows, self.rows), np.searchsorted(wide.columns, self.columns))

    def _with_those_behind(self, problem: Matmul) -> Selection:
        """With rows and columns that a unit may read along with one of these: see `with_nonfinite`."""
        behind = np.arange(1 + rows_within_a_tile(problem.k))
        rows, columns = (np.unique(numbers[:, None] + behind) for numbers in (self.rows, self.columns))
        return replace(self, rows=rows[rows < problem.m], columns=columns[columns < problem.n])


def _entries(problem: Matmul, places: Array, side: int) -> tuple[tuple[int, ...], ...]:
    """Entries of the batch: with wrong outputs first, as many as make no more outputs than rows and columns could."""
    if not problem.batch:
        return ((),)
    outputs = max(1, min(problem.m, side) * min(problem.n, side))
    most = max(1, min(SIDE * SIDE // outputs, _PRODUCTS // (outputs * max(1, problem.k)), math.prod(problem.batch)))
    wrong = np.unique(places[:, :-2], axis=0)
    chosen = {tuple(int(x) for x in entry) for entry in some_of(wrong, max(1, int(_WRONG * most)))}
    for number in np.linspace(0, math.prod(problem.batch) - 1, most).astype(np.int64):
        if len(chosen) < most:
            chosen.add(tuple(int(x) for x in np.unravel_index(number, problem.batch)))
    return tuple(sorted(chosen))


def _numbers(wrong: Array, special: list[int], extent: int, side: int) -> Array:
    """Rows or columns: those of *wrong* outputs, those with special elements, and others spread over all."""
    if extent <= side:
        return np.arange(extent)
    chosen = np.union1d(wrong, np.unique(special)[: side // 4]).astype(np.int64)
    others = np.setdiff1d(np.arange(extent), chosen)
    spread = np.linspace(0, len(others) - 1, max(1, side - len(chosen))).astype(np.int64)
    return np.union1d(chosen, others[spread])


def _exponent(inputs: Inputs, scales: Scales | None, problem: Matmul) -> int | Array:
    """Of the quantum of results."""
    quantum = inputs.trial.certificate.quantum_exponent
    return quantum if scales is None else quantum + scales.of("out", problem)


def _restricted(expected: Expected, rows: Array, columns: Array) -> Expected:
    """Some rows and columns of what is expected."""
    shape = expected.codes.shape

    def some(x: Array) -> Array:
        return np.asarray(np.broadcast_to(x, shape)[..., rows[:, None], columns])

    return replace(
        expected,
        codes=some(expected.codes),
        also=tuple(map(some, expected.also)),
        compared=None if expected.compared is None else some(expected.compared),
        zero_sign=None if expected.zero_sign is None else some(expected.zero_sign),
    )


@dataclass(frozen=True)
class Excerpt:
    """
    A trial's result as it is looked at to name what is wrong.

    Args:
        inputs: What the kernel was fed.
        selection: The part that is looked at; None: all.
        actual: Encodings of the result there, on the host.
    """

    inputs: Inputs
    selection: Selection | None
    actual: Array

    @classmethod
    def of(cls, inputs: Inputs, result: Any, outcome: Outcome | None) -> Excerpt:
        """That of a *result* with this *outcome*."""
        selection = Selection.of(inputs, outcome) if is_large(inputs.problem) else None
        whole = cls(inputs, selection, np.empty(0))
        return replace(whole, actual=whole.pick(result))

    def pick(self, result: Any) -> Array:
        """The same part of another result, as encodings on the host."""
        format_ = self.inputs.problem.out_format
        if self.selection is None:
            return on_host(result, format_)
        return self.selection.pick(result).view(encoding.code_dtype(format_))

    def pick_poison(self, poison: Any) -> int | Array:
        """The same part of what stood in the output: one encoding, one row that stood in all rows, or a result."""
        if isinstance(poison, int):
            return poison
        if tuple(poison.shape) == self.inputs.problem.output.shape:
            return self.pick(poison)
        row = on_host(poison, self.inputs.problem.out_format)
        return row if self.selection is None else np.asarray(row[..., self.selection.columns])

    @functools.cached_property
    def problem(self) -> Matmul:
        """The problem that the part is a result of."""
        whole = self.inputs.problem
        return whole if self.selection is None else self.selection.problem(whole)

    @functools.cached_property
    def integers(self) -> Mapping[str, Array]:
        """Its operands in quanta."""
        return self.inputs.integers if self.selection is None else self.selection.drawn(self.inputs)

    @functools.cached_property
    def codes(self) -> Mapping[str, Array]:
        """Encodings of its operands, in their full shapes."""
        if self.selection is not None:
            return self.selection.codes(self.inputs)
        shapes = {operand.name: operand.shape for operand in self.problem.operands}
        return {name: np.broadcast_to(codes, shapes[name]) for name, codes in self.inputs.codes.items()}

    @functools.cached_property
    def expected(self) -> Expected:
        """What every correct kernel returns."""
        return self.inputs.expected if self.selection is None else self.selection.expected(self.inputs)

    def expected_under(self, **clauses: Any) -> Expected:
        """The same under other clauses of the contract."""
        if self.selection is None:
            return self.inputs.expected_under(self.problem.replace(**clauses))
        return self.selection.expected(self.inputs, **clauses)

    @functools.cached_property
    def wrong(self) -> Array:
        """Where the result differs from that."""
        return differing(self.actual, self.expected, self.problem.out_format)

    @functools.cached_property
    def outcome(self) -> Outcome:
        """The part, judged."""
        return judge(self.actual, self.expected, self.problem.out_format)

    @functools.cached_property
    def case(self) -> Case:
        """The part, for diagnosis."""
        certificate, family = self.inputs.trial.certificate, self.inputs.family
        total = total_in_quanta(self.problem, family, certificate, self.integers)
        exponent = _exponent(self.inputs, self._scales, self.problem)
        exponents = None if isinstance(exponent, int) else exponent
        return Case(
            problem=self.problem,
            family=family,
            certificate=certificate,
            integers=self.integers,
            total=total,
            actual=self.actual,
            wrong=self.wrong,
            exponents=exponents,
            is_part=self.selection is not None,
        )

    @property
    def _scales(self) -> Scales | None:
        return self.inputs.scales if self.selection is None else self.selection.scales(self.inputs)

    def magnitudes(self, name: str) -> Array:
        """Moduli of the elements of an operand as numbers."""
        exponents: int | Array = self.inputs.family.lattices()[name].exponent
        if self._scales is not None:
            exponents = exponents + self._scales.of(name, self.problem)
        return np.asarray(np.ldexp(np.abs(self.integers[name]).astype(np.float64), exponents))
