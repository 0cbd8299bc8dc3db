"""
Wrong values that no formula explains: are they right while sums and operands are narrow?

Wrong with small integers and sums of 8 bits, which no accumulator in use gets wrong: the result
is simply wrong. Right there, and wrong with narrow operands and wide sums: the sums have too few
bits, and the smallest result that is wrong says how many. Right there too, and wrong where a
single product has all its significant bits: an operand is cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from zeroulp.diagnose import Case, explain
from zeroulp.judge import Differs, differing
from zeroulp.plan import fitting_layouts, trials_of
from zeroulp.probes import Options
from zeroulp.reference.expected import total_in_quanta

if TYPE_CHECKING:
    from zeroulp.checks.bench import Bench, Observation
    from zeroulp.plan import Trial
    from zeroulp.problem import Matmul

_NAMING_INDEX = 1_000_000  # trials that are not in the plan have numbers from here on
_MANY_TRIALS, _FEW_TRIALS = 32, 4
_NARROW_OPERAND_BITS = 4  # operands that a cut to e4m3 leaves alone
_SCALED = ("signed", "wide")  # probes that spread over magnitudes
_SHOWING = ("signed", "wide", "one_hot")  # probes that show most faults
_RIGHT_WHERE_TESTED = (
    "is right on the inputs of exact probes, and farther from the exact result than any order of summation allows "
    "on ordinary numbers"
)
_SMALL_SUM_BITS = 8  # every accumulator in use keeps at least bfloat16's significand


@dataclass(frozen=True)
class Named:
    """A finding without its place: kind, clause, and what was measured as (label, text) pairs."""

    kind: str
    clause: str
    evidence: tuple[tuple[str, str], ...] = ()


class Explorer:
    """
    Runs further trials in the memory layouts of the one that failed.

    Args:
        bench: Runs trials.
        layouts: Of the trial that failed.
    """

    def __init__(self, bench: Bench, layouts: dict[str, str]) -> None:
        self._bench, self._layouts = bench, layouts
        self._next_index = _NAMING_INDEX
        self.problem = bench.problem

    def trials(self, probe: str, options: Options, most: int) -> list[Trial]:
        """Trials that nobody has run yet; none if the probe has no certificate with these options."""
        found = trials_of(self.problem, probe, options, first_index=self._next_index, most=most)
        self._next_index += _NAMING_INDEX
        return [replace(t, layouts=fitting_layouts(self.problem, self._layouts, t.settings)) for t in found]

    def observe(self, trial: Trial) -> Observation:
        """Run one of them."""
        return self._bench.observe(trial)

    def first_wrong(self, probe: str, options: Options, most: int) -> Observation | None:
        """The first of *most* trials that does not match, or None if all do."""
        for trial in self.trials(probe, options, most):
            seen = self.observe(trial)
            if seen.outcome is None or isinstance(seen.outcome, Differs) or seen.findings:
                return seen
        return None


def case_of(problem: Matmul, seen: Observation) -> Case:
    """A wrong observation, for diagnosis."""
    inputs = seen.inputs
    wrong = differing(seen.codes[0], seen.expected, problem.out_format)
    certificate = inputs.trial.certificate
    total = total_in_quanta(problem, inputs.family, certificate, inputs.integers)
    exponents = None if isinstance(inputs.exponent, int) else inputs.exponent
    return Case(problem, inputs.family, certificate, inputs.integers, total, seen.codes[0], wrong, exponents)


def smallest_wrong_sum(case: Case) -> int:
    """The smallest sum of |terms| behind a wrong output, in quanta: what an accumulator had to hold."""
    moduli = total_in_quanta(case.problem, case.family, case.certificate, case.integers, moduli=True)
    return int(moduli[case.wrong].min())


def name_by_width(explorer: Explorer, trial: Trial, smallest_sum: int) -> Named:
    """
    The name of wrong values without a simpler one.

    Args:
        explorer: To run further trials.
        trial: The one that failed.
        smallest_sum: Smallest sum of |terms| behind a wrong output of it, in quanta.
    """
    wrong = Named("wrong-result", "computes something else")
    bits = min(_SMALL_SUM_BITS, explorer.problem.out_format.precision)
    small = Options(declared=False, bits=bits)
    if smallest_sum <= 2**bits or not explorer.trials("signed", small, 1):
        return wrong
    failing = explorer.first_wrong("signed", small, _MANY_TRIALS)
    if failing is not None:
        clause = explain(case_of(explorer.problem, failing)) if isinstance(failing.outcome, Differs) else ""
        return Named("wrong-result", clause) if clause else wrong
    if _operands_are_cut(explorer):
        return _cut_operands(explorer)
    if trial.probe == "sparse":
        return Named("wrong-result", "is right on dense inputs and wrong where zeros or equal rows invite a shortcut")
    if trial.probe == "one_hot":
        return Named("input-precision", "is wrong for single products at some magnitudes: a range or a decoding is off")
    if explorer.first_wrong("wide", Options(plain=True), 2 * _FEW_TRIALS) is None and trial.probe in _SCALED:
        return Named("wrong-result", "is right on numbers near one and wrong at other magnitudes")
    return _narrow_sums(explorer, trial.certificate.precision)


def name_beyond_the_bound(explorer: Explorer, trial: Trial) -> Named:
    """The name of results beyond the bound for ordinary numbers: that of an exact trial, if one is wrong."""
    for probe in _SHOWING:
        seen = explorer.first_wrong(probe, Options(), _FEW_TRIALS)
        if seen is not None and isinstance(seen.outcome, Differs):
            case = case_of(explorer.problem, seen)
            clause = explain(case)
            return Named("wrong-result", clause) if clause else name_by_width(explorer, trial, smallest_wrong_sum(case))
        if seen is not None:
            return Named("wrong-result", "computes something else")
    return Named("wrong-result", _RIGHT_WHERE_TESTED)


def _operands_are_cut(explorer: Explorer) -> bool:
    """Whether single products are wrong, and sums of narrow operands are not (or only as those products are)."""
    if explorer.first_wrong("wide", Options(terms=1), _FEW_TRIALS) is None:
        return False
    if explorer.first_wrong("wide", Options(width=_NARROW_OPERAND_BITS), _FEW_TRIALS) is None:
        return True
    return explorer.first_wrong("wide", Options(terms=1, width=_NARROW_OPERAND_BITS), _FEW_TRIALS) is not None


def _cut_operands(explorer: Explorer) -> Named:
    """How many significant bits of each operand count, where fewer than its format has."""
    found = []
    formats = {"a": explorer.problem.a_format, "b": explorer.problem.b_format}
    for i, (name, format_) in enumerate(formats.items()):
        for width in range(2, min(format_.precision, 31) + 1):
            trials = explorer.trials("wide", Options(terms=1, width=width), 2)
            if len(trials) > i and isinstance(explorer.observe(trials[i]).outcome, Differs):
                found.append((name, width - 1, format_.precision))
                break
    if not found:
        return Named("input-precision", "cuts an operand to fewer significant bits")
    clause = " and ".join(f"cuts {name} to {width} of its {full} significant bits" for name, width, full in found)
    text = "; ".join(f"right with {name} of {width} bits, wrong with {width + 1}" for name, width, _ in found)
    return Named("input-precision", clause, (("measured", f"single products are {text}"),))


def _narrow_sums(explorer: Explorer, promised: int) -> Named:
    """How many significant bits sums have at most."""
    width = _sum_width(explorer)
    if width is None:
        return Named("precision-below-contract", f"loses significant bits of its sums ({promised} are promised)")
    clause = f"keeps at most {width} significant bits of its sums, where {promised} are promised"
    text = f"sums of terms of one sign are right below 2^{width} quanta and wrong above"
    return Named("precision-below-contract", clause, (("measured", text),))


def _sum_width(explorer: Explorer) -> int | None:
    """
    p, if sums of narrow operands go wrong beyond 2^p quanta; None if none does.

    All terms have one sign, so that no partial sum is larger than the result, and a result that
    is wrong had a partial sum that did not fit.
    """
    for width in (_NARROW_OPERAND_BITS, 2 * _NARROW_OPERAND_BITS - 1):
        for bits in range(_NARROW_OPERAND_BITS, 54):
            options = Options(width=width, bits=bits)
            if explorer.first_wrong("wide", options, 1) is None:
                continue
            seen = [explorer.observe(trial) for trial in explorer.trials("wide", options, 2 * _FEW_TRIALS)]
            wrong = [case_of(explorer.problem, one) for one in seen if isinstance(one.outcome, Differs)]
            sums = [_smallest_wrong_result(case) for case in wrong]
            return max(1, min(sums).bit_length() - 1) if sums else bits
    return None


def _smallest_wrong_result(case: Case) -> int:
    return int(np.abs(case.total[case.wrong]).min())
