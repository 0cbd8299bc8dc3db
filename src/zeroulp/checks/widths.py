"""
Wrong values that no formula explains: are they right while sums and operands are narrow?

Wrong with small integers and sums of 8 bits, which no accumulator in use gets wrong: the result
is simply wrong. Right there, and wrong where a single product has all its significant bits: an
operand is cut. Right there too, and wrong with narrow operands and wide sums: the sums have too
few bits, and the smallest result that is wrong says how many; unless it is off by more than any
rounding, so that sums saturate or wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.checks.explore import Explorer, Named, moduli_of
from zeroulp.checks.magnitudes import name_by_magnitude
from zeroulp.diagnose import explain, explain_clamp, explain_fractions
from zeroulp.judge import Differs
from zeroulp.probes import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.checks.bench import Observation
    from zeroulp.diagnose import Case

_MANY_TRIALS, _FEW_TRIALS = 32, 4
_NARROW_OPERAND_BITS = 4  # operands that a cut to e4m3 leaves alone
_SUM_BITS = (_NARROW_OPERAND_BITS, 54)  # of sums that are tried
_SCALED = ("signed", "wide")  # probes that spread over magnitudes
_SHOWING = ("signed", "wide", "one_hot")  # probes that show most faults
_RIGHT_WHERE_TESTED = (
    "is right on the inputs of exact probes, and farther from the exact result than any order of summation allows "
    "on ordinary numbers"
)
_SMALL_SUM_BITS = 8  # every accumulator in use keeps at least bfloat16's significand
_FEWEST_OUTPUTS = 8  # outputs of which one alone is remarkable
_WRAPS_FROM = 8  # trailing zero bits from which differences look like a wrap
_SHORTCUT = "is right on dense inputs and wrong where zeros or equal rows invite a shortcut"
_OUTLIER = "is wrong where one product outweighs all others of its sum, as if the others did not count"


def wrong_on_ordinary_numbers(explorer: Explorer) -> Observation | None:
    """A trial that a kernel gets wrong on operands of full width too, where it was wrong at an end of the range."""
    seen = (explorer.first_wrong(probe, Options(), _FEW_TRIALS) for probe in ("one_hot", "wide"))
    return next((one for one in seen if one is not None and isinstance(one.outcome, Differs)), None)


def name_by_width(explorer: Explorer, failing: Observation) -> Named:
    """
    The name of wrong values without a simpler one.

    Args:
        explorer: To run further trials.
        failing: What the trial that failed showed.
    """
    wrong = Named("wrong-result", "computes something else")
    trial, case = failing.inputs.trial, failing.excerpt.case
    bits = min(_SMALL_SUM_BITS, explorer.problem.out_format.precision)
    small = Options(declared=False, bits=bits)
    if int(moduli_of(case)[case.wrong].min()) <= 2**bits or not explorer.trials("signed", small, 1):
        return wrong
    narrow = explorer.first_wrong("signed", small, _MANY_TRIALS)
    if narrow is not None:
        clause = explain(narrow.excerpt.case) if isinstance(narrow.outcome, Differs) else ""
        return Named("wrong-result", clause) if clause else wrong
    clause = _clamp(explorer, case) or _shortcut(explorer, trial.probe)
    if clause:
        return Named("wrong-result", clause)
    if _operands_are_cut(explorer):
        return _cut_operands(explorer)
    if trial.probe == "one_hot":
        return name_by_magnitude(explorer, failing) or _narrow_sums(explorer, failing)
    if explorer.first_wrong("wide", Options(plain=True), 2 * _FEW_TRIALS) is None:
        if trial.settings.get("a_pattern") == "outlier":
            return Named("wrong-result", _OUTLIER)
        if trial.probe in _SCALED:
            near_one = Named("wrong-result", "is right on numbers near one and wrong at other magnitudes")
            return name_by_magnitude(explorer, failing) or near_one
    return _narrow_sums(explorer, failing)


def _clamp(explorer: Explorer, case: Case) -> str:
    """The limit at which results are cut off, if that explains all that is wrong in this and further trials."""
    if not explain_clamp([case], fewest=1):
        return ""
    further = [one for probe in ("wide", "one_hot") for one in explorer.cases(probe, Options(), 2 * _FEW_TRIALS)]
    return explain_clamp([case, *further])


def _shortcut(explorer: Explorer, probe: str) -> str:
    """Whether small integers, of which many are zero or equal, are wrong where dense ones are right."""
    if probe not in ("sparse", "one_hot"):
        return ""
    for trial in explorer.trials("sparse", Options(), 3 * _FEW_TRIALS):
        if trial.settings["a_pattern"] != "outlier" and isinstance(explorer.observe(trial).outcome, Differs):
            return _SHORTCUT
    return ""


def name_beyond_the_bound(explorer: Explorer) -> Named:
    """The name of results beyond the bound for ordinary numbers: that of an exact trial, if one is wrong."""
    for probe in _SHOWING:
        seen = explorer.first_wrong(probe, Options(), _FEW_TRIALS)
        if seen is not None and isinstance(seen.outcome, Differs):
            clause = explain(seen.excerpt.case)
            return Named("wrong-result", clause) if clause else name_by_width(explorer, seen)
        if seen is not None:
            return Named("wrong-result", "computes something else")
    return Named("wrong-result", _RIGHT_WHERE_TESTED)


def _operands_are_cut(explorer: Explorer) -> bool:
    """Whether single products are wrong, and sums of narrow operands are not (or only as those products are)."""
    if not _is_wrong_at(explorer, None):
        return False
    if explorer.first_wrong("wide", Options(width=_NARROW_OPERAND_BITS), _FEW_TRIALS) is None:
        return True
    return explorer.first_wrong("wide", Options(terms=1, width=_NARROW_OPERAND_BITS), _FEW_TRIALS) is not None


def _is_wrong_at(explorer: Explorer, name: str | None, width: int | None = None) -> bool:
    """Whether a product of an element of *name* (of either operand) with so many bits and a power of two is wrong."""
    widest = max(explorer.problem.a_format.precision, explorer.problem.b_format.precision)
    trials = explorer.trials("one_hot", Options(width=width or widest), 2 * _FEW_TRIALS)
    chosen = [t for t in trials if name is None or t.settings["lone"] != name]
    return any(isinstance(explorer.observe(trial).outcome, Differs) for trial in chosen)


def _cut_operands(explorer: Explorer) -> Named:
    """How many significant bits of each operand count, where fewer than its format has."""
    plain = explorer.cases("wide", Options(terms=1), _FEW_TRIALS) + explorer.cases("one_hot", Options(plain=True), 4)
    clause = explain_fractions(plain)
    if clause:
        return Named("wrong-result", clause)
    found = []
    formats = {"a": explorer.problem.a_format, "b": explorer.problem.b_format}
    for name, format_ in formats.items():
        if not _is_wrong_at(explorer, name):
            continue
        right, wrong = 1, format_.precision
        while wrong - right > 1:
            middle = (right + wrong) // 2
            right, wrong = (right, middle) if _is_wrong_at(explorer, name, middle) else (middle, wrong)
        found.append((name, right, format_.precision))
    if not found:
        return Named("input-precision", "cuts an operand to fewer significant bits")
    clause = " and ".join(f"cuts {name} to {width} of its {full} significant bits" for name, width, full in found)
    text = "; ".join(f"right with {name} of {width} bits, wrong with {width + 1}" for name, width, _ in found)
    return Named("input-precision", clause, (("measured", f"single products are {text}"),))


def _narrow_sums(explorer: Explorer, seen: Observation) -> Named:
    """How many significant bits sums have at most, if roundings explain the differences."""
    failing = seen.excerpt.case
    promised = failing.certificate.precision
    if _is_one_output(explorer, seen):
        return Named("wrong-result", "computes something else")
    width = _sum_width(explorer, _NARROW_OPERAND_BITS)
    if width is None:
        rounded = _product_width(explorer)
        if rounded is not None and rounded < promised:
            clause = f"rounds products to {rounded} significant bits before it adds them, where {promised} are promised"
            return Named("precision-below-contract", clause)
        width = _sum_width(explorer, 2 * _NARROW_OPERAND_BITS - 1)
    further = explorer.cases("wide", Options(plain=True), 2 * _FEW_TRIALS)
    wrong = [failing, *(case for case in further if case.wrong.any())]
    if width is None:
        smallest = min(int(moduli_of(case)[case.wrong].min()) for case in wrong)
        text = f"the smallest sum of |terms| behind a wrong output is {smallest:,} quanta"
        clause = f"loses significant bits of its sums ({promised} are promised)"
    else:
        smallest = 2**width
        text = f"sums of terms of one sign are right below 2^{width} quanta and wrong above"
        clause = f"keeps at most {width} significant bits of its sums, where {promised} are promised"
    told = width is not None or failing.problem.out_format.is_integer  # else a last rounding may hide smaller sums
    beyond = _more_than_rounding(wrong, smallest.bit_length() - 1) if told else ""
    kind = "wrong-result" if beyond else "precision-below-contract"
    return Named(kind, beyond or clause, (("measured", text),))


def _is_one_output(explorer: Explorer, failing: Observation) -> bool:
    """Whether one output alone is wrong, the same in further trials: no accumulator is that choosy."""
    place = _only_wrong(failing)
    if place is None or explorer.problem.output.size < _FEWEST_OUTPUTS:
        return False
    seen = explorer.observations("cancel", Options(), 4 * _FEW_TRIALS)
    further = [_only_wrong(one) for one in seen if isinstance(one.outcome, Differs)]
    return len(further) > 1 and all(other == place for other in further)


def _only_wrong(seen: Observation) -> tuple[int, ...] | None:
    """The place of the one output that is wrong; None if there are more, or none."""
    outcome = seen.outcome
    return outcome.first if isinstance(outcome, Differs) and outcome.differing == 1 else None


def _sum_width(explorer: Explorer, operand_bits: int) -> int | None:
    """
    p, if sums of operands with so many bits go wrong beyond 2^p quanta; None if none does.

    All terms have one sign, so that no partial sum is larger than the result, and a result that
    is wrong had a partial sum that did not fit.
    """

    def is_wrong(bits: int) -> bool:
        return explorer.first_wrong("wide", Options(width=operand_bits, bits=bits), 1) is not None

    bits = _fewest_bits(is_wrong) if explorer.is_large else next(filter(is_wrong, range(*_SUM_BITS)), None)
    if bits is None:
        return None
    options = Options(width=operand_bits, bits=bits)
    wrong = [case for case in explorer.cases("wide", options, 2 * _FEW_TRIALS) if case.wrong.any()]
    sums = [int(np.abs(case.total[case.wrong]).min()) for case in wrong]
    return max(1, min(sums).bit_length() - 1) if sums else bits


def _fewest_bits(is_wrong: Callable[[int], bool]) -> int | None:
    """Bits of sums that are wrong, where those with one bit less are right; None if the longest are right."""
    right, wrong = _SUM_BITS[0] - 1, _SUM_BITS[1] - 1
    if not is_wrong(wrong):
        return None
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if is_wrong(middle) else (middle, wrong)
    return wrong


def _product_width(explorer: Explorer) -> int | None:
    """Significant bits that wrong single products are rounded to; None if there are none, or more is wrong."""
    cases = [case for case in explorer.cases("one_hot", Options(plain=True), 2 * _FEW_TRIALS) if case.wrong.any()]
    if not cases:
        return None
    actual = np.concatenate([encoding.decode(case.actual, case.problem.out_format)[case.wrong] for case in cases])
    exact = np.concatenate([case.exact[case.wrong] for case in cases])
    if not np.isfinite(actual).all() or not actual.any():
        return None
    significands = np.ldexp(np.frexp(actual[actual != 0])[0], 53).astype(np.int64)
    lowest = np.log2((significands & -significands).astype(np.float64)).astype(int)
    width = int(53 - lowest.min())
    is_rounding = (np.abs(actual - exact) <= np.abs(exact) * 2.0 ** (1 - width)).all()
    return width if is_rounding else None


def _more_than_rounding(cases: list[Case], width: int) -> str:
    """
    Whether results are off by more than roundings of all partial sums to *width* bits can explain.

    Each rounding of a partial sum of modulus S or less moves it by 2^(1 - width) S at most, and
    there are no more than two for every product. Behind a narrow output *width* is an upper bound
    only: sums may be as narrow as the output without being seen to.
    """
    if cases and not cases[0].problem.out_format.is_integer:
        width = min(width, cases[0].problem.out_format.precision)
    differences: list[int] = []
    beyond, finite = False, False
    for case in cases:
        format_ = case.problem.out_format
        actual, exact = encoding.decode(case.actual, format_)[case.wrong], case.exact[case.wrong]
        moduli = np.ldexp(moduli_of(case).astype(np.float64), case.exponent)[case.wrong]
        steps = 2 * max(2, min(case.family.terms, case.problem.k))
        allowed = steps * moduli * 2.0 ** (1 - width) + np.abs(exact) * 2.0 ** (2 - format_.precision)
        here = np.isfinite(actual)
        finite |= bool(here.any())
        beyond |= bool((np.abs(actual - exact) > allowed)[here].any())
        differences += [int(x) for x in np.abs(actual - exact)] if format_.is_integer else []
    if not finite:
        return "has sums of a smaller range than its output: beyond it they are infinite or NaN"
    if not beyond:
        return ""
    zeros = min(((d & -d).bit_length() - 1 for d in differences if d), default=0)
    if zeros >= _WRAPS_FROM:
        return f"wraps its sums around in {zeros} bits"
    return f"saturates or wraps inside its sums: from about 2^{width} on they are off by more than any rounding"
