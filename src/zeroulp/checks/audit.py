"""
A device's word, looked at on the host.

On a device inputs are drawn, and results verified, where they lie, by the library and the hardware
that the kernel runs on. So that those need not be believed, two trials of every check are audited:
the first, and one that nobody could know beforehand. In each, some rows and columns chosen anew are
brought to the host. The operands there must have the bits that the host draws from the seed, and
the outputs must be what exact arithmetic on integers says; that is a smaller problem. A difference
that the device found, which would end the check, is looked at in the same way before it counts.

The host's word counts. An output that is wrong by it is a difference, whatever the device said. If
the *operands* are not what was to be drawn, or outputs that the device calls wrong are right, then
that is no fault that can be laid at the kernel's door, and no trial on this device says anything:
`AuditFailedError`, which makes the verdict INCONCLUSIVE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.draw import fresh_seed
from zeroulp.errors import AuditFailedError
from zeroulp.judge import Differs, Tally, differing
from zeroulp.reference import (
    Expected,
    bounded_result,
    expected_result,
    rows_within_a_tile,
    with_nonfinite,
    with_subnormals,
)
from zeroulp.report import Audited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroulp.arrays import Arrays
    from zeroulp.checks.inputs import Inputs
    from zeroulp.encoding import Array
    from zeroulp.formats import Format
    from zeroulp.judge import Outcome
    from zeroulp.problem import Matmul

_ROWS, _COLUMNS, _FEWEST = 16, 64, 3  # of the result, at most; and at least
_DRAWN = 2**16  # elements of an operand that they take, beyond the fewest


class Audit:
    """
    Looks at some trials of a check on the host.

    Args:
        trials: Numbers of the check's trials, in the order in which they run.
    """

    def __init__(self, trials: Sequence[int]) -> None:
        self._random = np.random.default_rng(fresh_seed())
        self._trials = {*trials[:1], *self._random.permutation(trials[1:])[:1].tolist()}
        self._outputs = 0
        self._seen: list[int] = []
        self._has_accused = False

    @property
    def audited(self) -> Audited | None:
        """What was looked at; None: nothing, because no device was asked."""
        return Audited(self._outputs, tuple(self._seen)) if self._seen else None

    def confirmed(self, inputs: Inputs, arrays: Arrays, views: Mapping[str, Any], codes: Any, said: Outcome) -> Outcome:
        """
        The outcome of a trial, after the host has had its say.

        Args:
            inputs: The trial's operands.
            arrays: The library of the device.
            views: Encodings of each operand as they lie there, in its full shape.
            codes: (*batch, m, n) encodings of the result, on the device.
            said: The outcome by the device's word.

        Raises:
            AuditFailedError: If the device holds other operands than were to be drawn, or calls
                outputs wrong that are right.
        """
        index = inputs.trial.index
        differs = isinstance(said, Differs) and not self._has_accused
        if inputs.problem.output.size == 0 or not (differs or index in self._trials):
            return said
        place = said.first if isinstance(said, Differs) else None
        found = self._look(_Place.chosen(self._random, inputs, place), inputs, arrays, views, codes)
        self._seen += [index] if index not in self._seen else []
        if found is None and place is not None:
            raise AuditFailedError(
                f"the device says that out[{', '.join(map(str, place))}] of trial {index} is wrong, and it is right",
                why="exact arithmetic on the host says so",
            )
        self._has_accused |= place is not None or found is not None
        return said if found is None or place is not None else found

    def _look(
        self, place: _Place, inputs: Inputs, arrays: Arrays, views: Mapping[str, Any], codes: Any
    ) -> Differs | None:
        """What is wrong with the outputs at a place, by the host's word."""
        where = place.entry, place.rows, place.columns
        problem, integers = inputs.part(*where)
        drawn = inputs.codes_of_part(*where, integers)
        for operand in inputs.problem.operands:
            name = operand.name
            there = _brought(arrays, views[name], place.entry, *inputs.own_axes(name, place.rows, place.columns))
            others = np.count_nonzero(_bits(there, operand.format) != drawn[name])
            if others:
                raise AuditFailedError(
                    f"{others:,} of {drawn[name].size:,} elements of {name} in trial {inputs.trial.index} are not on "
                    "the device what the host draws from the same seed",
                    why="the device's integer arithmetic is wrong, or something changed them after they were looked at",
                )
        format_ = inputs.problem.out_format
        actual = _bits(_brought(arrays, codes, place.entry, place.rows, place.columns), format_)
        expected = _expected(inputs, place, problem, integers, drawn)
        wanted = np.ix_(place.judged_rows, place.judged_columns)
        compared = np.ones(actual.shape, bool) if expected.compared is None else expected.compared
        count = int(np.count_nonzero(compared[wanted]))
        self._outputs += count
        wrong = np.zeros(actual.shape, bool)
        wrong[wanted] = differing(actual, expected, format_)[wanted]
        if not wrong.any():
            return None
        tally = Tally(format_, inputs.problem.output.shape, count)
        i, j = np.nonzero(wrong)
        lead = tuple(np.full(len(i), axis) for axis in place.entry)
        tally.add((*lead, place.rows[i], place.columns[j]), actual[wrong], expected.codes[wrong])
        found = tally.outcome()
        assert isinstance(found, Differs)
        return found


class _Place:
    """
    Some rows and columns of one entry of the batch.

    Args:
        entry: Of the batch.
        rows: Their numbers, in order; those just behind the ones that are judged are among them.
        columns: Likewise.
        judged: The rows and the columns that are judged.
    """

    def __init__(self, entry: tuple[int, ...], rows: Array, columns: Array, judged: tuple[Array, Array]) -> None:
        self.entry, self.rows, self.columns = entry, rows, columns
        self.judged_rows, self.judged_columns = np.searchsorted(rows, judged[0]), np.searchsorted(columns, judged[1])

    @classmethod
    def chosen(cls, random: np.random.Generator, inputs: Inputs, first: tuple[int, ...] | None) -> _Place:
        """A random place; it has the output *first*, if that is given."""
        problem = inputs.problem
        most = max(_FEWEST, _DRAWN // max(1, problem.k))
        entry = tuple(int(random.integers(extent)) for extent in problem.batch) if first is None else first[:-2]
        fixed: tuple[tuple[int, ...], ...] = ((), ()) if first is None else (first[-2:-1], first[-1:])
        rows = some_of(random, problem.m, min(most, _ROWS), fixed[0])
        columns = some_of(random, problem.n, min(most, _COLUMNS), fixed[1])
        behind = np.arange(1 + (rows_within_a_tile(problem.k) if inputs.overlaid else 0))
        near = [np.unique(chosen[:, None] + behind) for chosen in (rows, columns)]
        return cls(entry, near[0][near[0] < problem.m], near[1][near[1] < problem.n], (rows, columns))


def some_of(random: np.random.Generator, extent: int, count: int, fixed: tuple[int, ...] = ()) -> Array:
    """Some numbers below *extent*, the first, the last and *fixed* among them, in order."""
    inner = random.choice(extent, min(extent, count), replace=False)
    return np.unique([0, extent - 1, *fixed, *inner]).astype(np.int64)


def _brought(arrays: Arrays, view: Any, entry: tuple[int, ...], down: Array | None, across: Array | None) -> Array:
    """Some rows and columns of an entry of an array on the device, on the host."""
    if len(view.shape) == 1:
        return arrays.to_host(view if across is None else view[arrays.from_host(across)])
    picked = view[entry]
    picked = picked if down is None else picked[arrays.from_host(down)]
    return arrays.to_host(picked if across is None else picked[:, arrays.from_host(across)])


def _bits(host: Array, format_: Format) -> Array:
    return np.ascontiguousarray(host).view(encoding.code_dtype(format_))


def _expected(
    inputs: Inputs, place: _Place, problem: Matmul, integers: Mapping[str, Array], codes: Mapping[str, Array]
) -> Expected:
    """What every correct kernel returns there, by plain integer arithmetic."""
    trial, family = inputs.trial, inputs.family
    if trial.certificate.theorem == "bounded":
        return bounded_result(problem, family, trial.certificate, integers)
    exponent: int | Array = trial.certificate.quantum_exponent
    if inputs.scales is not None:
        exponent = exponent + inputs.scales.rows[place.rows][:, None] + inputs.scales.columns[place.columns][None, :]
    expected = expected_result(problem, family, trial.certificate, integers, exponent)
    if not inputs.overlaid:
        return expected
    expected = with_nonfinite(problem, codes, expected)
    return with_subnormals(problem, codes, expected) if family.beyond == "subnormals" else expected
