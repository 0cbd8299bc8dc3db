"""
What a difference is called: further trials on a kernel that is already known to be wrong.

The verdict is reached; this finds its name, the simplest first. Poison that is still there, or
that shows in the result, names an unwritten output, another result on a second call a race, one
that is right at the usual addresses a captured address, one that depends on the guards a stray
read, the bits of the trial before a cache, another way of rounding a rounding, another formula a
wrong formula. What is left is a matter of widths (`zeroulp.checks.widths`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zeroulp.checks.explore import Explorer, case_of
from zeroulp.checks.poison import differs_by_poison
from zeroulp.checks.special import is_left_over, is_special, left_over, special_case
from zeroulp.checks.widths import name_beyond_the_bound, name_by_width, wrong_on_ordinary_numbers
from zeroulp.diagnose import explain, explain_special, fitting_roundings, is_one_of_two_neighbours, whereabouts
from zeroulp.errors import KernelError
from zeroulp.judge import Matched, Value, differing, same
from zeroulp.probes import Options
from zeroulp.report import Finding

if TYPE_CHECKING:
    from zeroulp.checks.bench import Bench, Observation
    from zeroulp.diagnose import Case
    from zeroulp.encoding import Array
    from zeroulp.plan import Trial

_IN_PLACE = "returns an earlier result: its inputs changed in place and its output did not"
_ROUNDING_TRIALS = (("halves", 4), ("wide", 8), ("one_hot", 5), ("signed", 2))
_FEWEST_ROUNDED = 2  # wrong outputs below which a way of rounding is a guess
_SMALL_RESULTS = ("cancel", "halves", "sparse")  # where many formulas give the same zeros: they must show elsewhere too
_READS_POISON = "depends on what its output held before the call"


def name_difference(bench: Bench, trial: Trial, seen: Observation, before: Observation | None) -> Finding:
    """
    The finding for a trial whose values differ.

    Args:
        bench: To run further trials on.
        trial: The trial.
        seen: What it showed.
        before: What the trial before it showed, if there was one.
    """
    wrong = differing(seen.codes[0], seen.inputs.expected, bench.problem.out_format)
    if seen.inputs.expected.low is not None:
        return _out_of_range(bench, trial, seen, wrong)
    case = case_of(bench.problem, seen)
    where = whereabouts(wrong)
    again = bench.observe(trial, calls=3)
    if _is_unwritten(seen, again, wrong):
        return _finding("unwritten-output", f"leaves outputs unwritten, {where}", trial)
    if _reads_poison(bench, trial):
        return _finding("unwritten-output", f"{_READS_POISON}, {where}", trial)
    if before is not None and is_left_over(bench, trial, seen, before, again):
        return left_over(trial, before, where)
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
    if trial.moved and before is not None and _is_right_at_the_usual_place(bench, trial):
        return _stale(trial, before, "reads where its operands lay in earlier calls, not where they lie now")
    plain = bench.observe(trial, calls=1, plain_guards=True)
    if plain.codes and not same(plain.codes[0], seen.codes[0], format_)[wrong].all():
        text = "reads outside its inputs: the result depends on what lies beside them"
        return _finding("out-of-bounds-read", f"{text}, {where}", trial)
    if before is not None and _is_stale(seen, before, wrong):
        return _stale(trial, before)
    explorer = Explorer(bench, trial.layouts)
    ordinary = wrong_on_ordinary_numbers(explorer) if is_special(trial) else None
    if ordinary is not None:
        case, seen = case_of(bench.problem, ordinary), ordinary
    elif is_special(trial):
        return _finding("special-values", f"{explain_special(special_case(bench.problem, seen))}, {where}", trial)
    clause = _rounding(explorer, case)
    if clause:
        return _finding("rounding", f"{clause}, {where}", trial)
    clause = explain(case)
    small = seen.inputs.trial.probe in _SMALL_RESULTS
    if clause and (not small or explorer.first_wrong("signed", Options(plain=True), 2)):
        return _finding("wrong-result", f"{clause}, {where}", trial)
    named = name_by_width(explorer, seen)
    return _finding(named.kind, f"{named.clause}, {where}", trial, named.evidence)


def _rounding(explorer: Explorer, case: Case) -> str:
    """
    How the kernel rounds instead, in a clause; an empty string if no such way gives all its bits.

    One way has to explain every output, of this trial and of further ones in which sums are large
    and cancel, single products are wide, or nothing rounds.
    """
    ways = fitting_roundings(case)
    wrong = int(np.count_nonzero(case.wrong))
    for probe, most in _ROUNDING_TRIALS:
        for trial in explorer.trials(probe, Options(), most if ways else 0):
            seen = explorer.observe(trial)
            if not ways or seen.findings or not seen.codes:
                return ""
            further = case_of(explorer.problem, seen)
            ways = fitting_roundings(further, ways)
            wrong += int(np.count_nonzero(further.wrong))
    return ways[0][0] if ways and wrong >= _FEWEST_ROUNDED else ""


def _out_of_range(bench: Bench, trial: Trial, seen: Observation, wrong: Array) -> Finding:
    """The finding for a result that lies outside of the range that every order of summation keeps to."""
    where = whereabouts(wrong)
    again = bench.observe(trial, calls=3)
    if _is_unwritten(seen, again, wrong):
        return _finding("unwritten-output", f"leaves outputs unwritten, {where}", trial)
    named = name_beyond_the_bound(Explorer(bench, trial.layouts))
    first = tuple(int(axis[0]) for axis in np.nonzero(wrong))
    ends = (seen.inputs.expected.low, seen.inputs.expected.high)
    low, high = (Value.of(codes[first], bench.problem.out_format) for codes in ends if codes is not None)
    allowed = (("every order lies", f"from {low.decimal} to {high.decimal}"),)
    return _finding(named.kind, f"{named.clause}, {where}", trial, allowed + named.evidence)


def _finding(kind: str, clause: str, trial: Trial, evidence: tuple[tuple[str, str], ...] = ()) -> Finding:
    return Finding(kind, f"matmul {clause}.", trial.index, trial.needs, evidence)


def _stale(trial: Trial, before: Observation, clause: str = _IN_PLACE) -> Finding:
    replay = tuple(dict.fromkeys((before.inputs.trial.index, *trial.needs)))
    return Finding("stale-result", f"matmul {clause}.", trial.index, replay)


def name_repetition(bench: Bench, trial: Trial, finding: Finding) -> Finding:
    """The same finding; or, if another result on the same inputs has its reason in the output's old contents, that."""
    if finding.kind != "nondeterministic":
        return finding
    try:
        reads = _reads_poison(bench, trial)
    except KernelError:
        reads = False
    return _finding("unwritten-output", _READS_POISON, trial) if reads else finding


def _reads_poison(bench: Bench, trial: Trial) -> bool:
    """Whether the result is one thing where the output held NaN, and another where it held numbers."""
    seen = [bench.observe(trial, calls=3, poison=poison).bits for poison in ("nan", "number")]
    return len(seen[0]) == len(seen[1]) == 3 and differs_by_poison(*seen)


def _is_right_at_the_usual_place(bench: Bench, trial: Trial) -> bool:
    return isinstance(bench.observe(replace(trial, moved=False), calls=1).outcome, Matched)


def _is_unwritten(seen: Observation, again: Observation, wrong: Array) -> bool:
    """Whether wrong outputs hold the poison of each call, whichever that was."""
    pairs = [*zip(seen.codes, seen.poison, strict=False), *zip(again.codes, again.poison, strict=False)]
    held = [codes == poison for codes, poison in pairs]
    return len(pairs) > 1 and bool((np.logical_and.reduce(held) & wrong).any())


def _is_stale(seen: Observation, before: Observation, wrong: Array) -> bool:
    """Whether the wrong outputs have the bits of the trial before."""
    if before.marks:
        return before.marks[0] == seen.marks[0] and int(np.count_nonzero(wrong)) > 1
    if not before.codes or before.codes[0].shape != seen.codes[0].shape:
        return False
    equal = before.codes[0] == seen.codes[0]
    return bool(equal[wrong].all()) and int(np.count_nonzero(wrong)) > 1 and bool(equal.mean() > 0.5)
