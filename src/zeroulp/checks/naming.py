"""
What a difference is called: further trials on a kernel that is already known to be wrong.

The verdict is reached; this finds its name. Poison that is still there names an unwritten
output, another result on a second call a race, a result that depends on the guards a stray
read, the bits of the trial before a cache. If only sums of many bits are wrong, the sums are
too narrow; if single products of full significands are wrong too, the operands were cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp.diagnose import Case, explain, explain_rounding, is_one_of_two_neighbours, whereabouts
from zeroulp.judge import Differs, differing, same
from zeroulp.plan import trials_of
from zeroulp.probes import Options
from zeroulp.reference.expected import total_in_quanta
from zeroulp.report import Finding

if TYPE_CHECKING:
    from zeroulp.checks.bench import Bench, Observation
    from zeroulp.encoding import Array
    from zeroulp.plan import Trial
    from zeroulp.problem import Matmul

_NAMING_INDEX = 1_000_000  # trials that are not in the plan have numbers from here on
_MANY_TRIALS, _FEW_TRIALS = 32, 4
_NARROW_OPERAND_BITS = 4  # operands that no cut in use (8-bit formats with 4 significant bits) changes
_SMALL_SUM_BITS = 8  # every accumulator in use keeps at least bfloat16's significand


def name_difference(bench: Bench, trial: Trial, seen: Observation, before: Observation | None) -> Finding:
    """
    The finding for a trial whose values differ.

    Args:
        bench: To run further trials on.
        trial: The trial.
        seen: What it showed.
        before: What the trial before it showed, if there was one.
    """
    wrong = differing(seen.codes[0], seen.expected, bench.problem.out_format)
    case = _case(bench.problem, seen, wrong)
    where = whereabouts(case)
    again = bench.observe(trial, calls=2)
    if _is_unwritten(seen, again, wrong):
        return _finding("unwritten-output", f"leaves outputs unwritten, {where}", trial)
    repeated = next((f for f in again.findings if f.kind == "nondeterministic"), None)
    format_ = bench.problem.out_format
    if repeated or (again.codes and not same(again.codes[0], seen.codes[0], format_)[wrong].all()):
        if before is not None and _is_stale(seen, before, wrong):
            return _stale(trial, before)
        if is_one_of_two_neighbours(case):
            text = "rounds at random: each result is one of the two nearest, and not the same one when called again"
            return _finding("rounding", f"{text}, {where}", trial)
        text = "is wrong, and returns other bits when called again on the same inputs"
        return _finding("nondeterministic", f"{text}, {where}", trial)
    plain = bench.observe(trial, calls=1, plain_guards=True)
    if plain.codes and not same(plain.codes[0], seen.codes[0], format_)[wrong].all():
        text = "reads outside its inputs: the result depends on what lies beside them"
        return _finding("out-of-bounds-read", f"{text}, {where}", trial)
    if before is not None and _is_stale(seen, before, wrong):
        return _stale(trial, before)
    for kind, tell in (("wrong-result", explain), ("rounding", explain_rounding)):
        clause = tell(case)
        if clause:
            return _finding(kind, f"{clause}, {where}", trial)
    return _by_width(bench, trial, where)


def _finding(kind: str, clause: str, trial: Trial, evidence: tuple[tuple[str, str], ...] = ()) -> Finding:
    return Finding(kind, f"matmul {clause}.", trial.index, (trial.index,), evidence)


def _stale(trial: Trial, before: Observation) -> Finding:
    sentence = "matmul returns an earlier result: its inputs changed in place and its output did not."
    return Finding("stale-result", sentence, trial.index, (before.inputs.trial.index, trial.index))


def _case(problem: Matmul, seen: Observation, wrong: Array) -> Case:
    inputs = seen.inputs
    total = total_in_quanta(problem, inputs.family, inputs.trial.certificate, inputs.integers)
    certificate = inputs.trial.certificate
    return Case(problem, inputs.family, certificate, inputs.integers, total, seen.codes[0], wrong)


def _is_unwritten(seen: Observation, again: Observation, wrong: Array) -> bool:
    """Whether wrong outputs hold the poison of each call, whichever that was."""
    pairs = [*zip(seen.codes, seen.poison, strict=False), *zip(again.codes, again.poison, strict=False)]
    held = [codes == poison for codes, poison in pairs]
    return len(pairs) > 1 and bool((np.logical_and.reduce(held) & wrong).any())


def _is_stale(seen: Observation, before: Observation, wrong: Array) -> bool:
    """Whether the wrong outputs have the bits of the trial before."""
    if not before.codes or before.codes[0].shape != seen.codes[0].shape:
        return False
    equal = before.codes[0] == seen.codes[0]
    return bool(equal[wrong].all()) and int(np.count_nonzero(wrong)) > 1 and bool(equal.mean() > 0.5)


def _by_width(bench: Bench, trial: Trial, where: str) -> Finding:
    """Wrong values without a simpler name: are they right as long as sums and operands are narrow?"""
    small = Options(declared=False, bits=min(_SMALL_SUM_BITS, bench.problem.out_format.precision))
    failing = _first_wrong(bench, "signed", small, _NAMING_INDEX, _MANY_TRIALS)
    if failing is not None:
        clause = _explain_again(bench.problem, failing) or "computes something else"
        return _finding("wrong-result", f"{clause}, {where}", trial)
    wide_sums = Options(declared=True, width=_NARROW_OPERAND_BITS)
    single = Options(declared=True, terms=1)
    sums_are_right = _first_wrong(bench, "wide", wide_sums, 2 * _NAMING_INDEX, _FEW_TRIALS) is None
    if sums_are_right and _first_wrong(bench, "wide", single, 3 * _NAMING_INDEX, _FEW_TRIALS) is not None:
        clause, evidence = _operand_widths(bench)
        return _finding("input-precision", f"{clause}, {where}", trial, evidence)
    width, promised = _sum_width(bench), trial.certificate.precision
    if width is None:
        clause, evidence = f"loses significant bits of its sums (promised: {promised})", ()
    else:
        clause = f"keeps at most {width} significant bits of its sums, where {promised} are promised"
        text = f"sums of terms of one sign are right below 2^{width} quanta and wrong above"
        evidence = (("measured", text),)
    return _finding("precision-below-contract", f"{clause}, {where}", trial, evidence)


def _sum_width(bench: Bench) -> int | None:
    """
    How many significant bits sums have: p, if sums of narrow operands go wrong beyond 2^p quanta.

    All terms have one sign, so that no partial sum is larger than the result, and a result that
    is wrong had a partial sum that did not fit.
    """
    for width in (_NARROW_OPERAND_BITS, 2 * _NARROW_OPERAND_BITS - 1):
        for bits in range(_NARROW_OPERAND_BITS, 54):
            options = Options(declared=True, width=width, bits=bits)
            first_index = (4 + bits) * _NAMING_INDEX
            if _first_wrong(bench, "wide", options, first_index, 1) is not None:
                trials = trials_of(bench.problem, "wide", options, first_index=first_index, most=2 * _FEW_TRIALS)
                smallest = min(_smallest_wrong_sum(bench, trial) for trial in trials)
                return max(1, smallest.bit_length() - 1)
    return None


def _smallest_wrong_sum(bench: Bench, trial: Trial) -> int:
    """The smallest modulus of an exact result that the kernel gets wrong, in quanta; a huge number if none."""
    seen = bench.observe(trial)
    if not isinstance(seen.outcome, Differs):
        return 2**63
    wrong = differing(seen.codes[0], seen.expected, bench.problem.out_format)
    return int(np.abs(_case(bench.problem, seen, wrong).total[wrong]).min())


def _operand_widths(bench: Bench) -> tuple[str, tuple[tuple[str, str], ...]]:
    """How many significant bits of each operand count, where fewer than its format has."""
    found = []
    formats = {"a": bench.problem.a_format, "b": bench.problem.b_format}
    for i, (name, format_) in enumerate(formats.items()):
        for width in range(2, min(format_.precision, 31) + 1):
            options = Options(declared=True, terms=1, width=width)
            trials = trials_of(bench.problem, "wide", options, first_index=(100 + width) * _NAMING_INDEX, most=2)
            seen = bench.observe(trials[i]) if len(trials) > i else None
            if seen is not None and isinstance(seen.outcome, Differs):
                found.append((name, width - 1, format_.precision))
                break
    if not found:
        return "cuts an operand to fewer significant bits", ()
    clause = " and ".join(f"cuts {name} to {width} of its {full} significant bits" for name, width, full in found)
    text = "; ".join(f"right with {name} of {width} bits, wrong with {width + 1}" for name, width, _ in found)
    return clause, (("measured", f"single products are {text}"),)


def _first_wrong(bench: Bench, probe: str, options: Options, first_index: int, most: int) -> Observation | None:
    """The first of some further trials that does not match, or None if all do."""
    for trial in trials_of(bench.problem, probe, options, first_index=first_index, most=most):
        seen = bench.observe(trial)
        if seen.outcome is None or isinstance(seen.outcome, Differs) or seen.findings:
            return seen
    return None


def _explain_again(problem: Matmul, seen: Observation) -> str:
    """What a smaller trial says of the formula, where the first one could not tell."""
    if not isinstance(seen.outcome, Differs):
        return ""
    return explain(_case(problem, seen, differing(seen.codes[0], seen.expected, problem.out_format)))
