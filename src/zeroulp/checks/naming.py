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

from zeroulp.checks.excerpt import is_large
from zeroulp.checks.explore import Explorer, OutOfCallsError
from zeroulp.checks.poison import are_equal, differs_by_poison, poison_of
from zeroulp.checks.special import is_left_over, is_special, left_over, special_case
from zeroulp.checks.widths import name_beyond_the_bound, name_by_width, wrong_on_ordinary_numbers
from zeroulp.diagnose import explain, explain_special, fitting_roundings, is_one_of_two_neighbours, whereabouts
from zeroulp.errors import KernelError
from zeroulp.judge import Differs, Matched, Value, same
from zeroulp.probes import Options
from zeroulp.report import Finding

if TYPE_CHECKING:
    from zeroulp.checks.bench import Bench, Observation
    from zeroulp.diagnose import Case
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
    part = seen.excerpt  # taken before the kernel is called again
    where = _whereabouts(bench, trial, seen)
    plain = _finding("wrong-result", f"returns wrong values, {where}", trial)
    if not part.wrong.any():
        return plain  # it was wrong, and is not any more
    try:
        found = _named(bench, trial, seen, before, where)
    except OutOfCallsError:
        found = plain
    if part.selection is None:
        return found
    wrong, size = np.count_nonzero(part.wrong), bench.problem.output.size
    text = f"{part.actual.size:,} of {size:,} outputs, {wrong:,} of them wrong"
    return replace(found, evidence=(*found.evidence, ("named from", text)))


def _whereabouts(bench: Bench, trial: Trial, seen: Observation) -> str:
    """Where the wrong outputs are: in the whole result, unless no more than some of it was compared."""
    part, outcome = seen.excerpt, seen.outcome
    if part.selection is None and isinstance(part.outcome, Differs):
        outcome = part.outcome
    assert isinstance(outcome, Differs), "its values differ"
    sampled = outcome.compared < outcome.elements and not trial.certificate.masked
    return whereabouts(outcome, bench.problem.output.shape, sampled=sampled)


def _named(bench: Bench, trial: Trial, seen: Observation, before: Observation | None, where: str) -> Finding:
    part = seen.excerpt
    stale = before is not None and _is_stale(seen, before)
    if part.expected.low is not None:
        return _out_of_range(bench, trial, seen, where)
    again = bench.observe(trial, calls=3, judged=False)
    if _is_unwritten(seen, again):
        return _finding("unwritten-output", f"leaves outputs unwritten, {where}", trial)
    if not (is_large(bench.problem) and _ignores_poison(bench, trial, seen, again)) and _reads_poison(bench, trial):
        return _finding("unwritten-output", f"{_READS_POISON}, {where}", trial)
    if before is not None and is_left_over(bench, trial, seen, before, again):
        return left_over(trial, before, where)
    repeated = next((f for f in again.findings if f.kind == "nondeterministic"), None)
    if repeated or _is_another(again, seen):
        if before is not None and stale:
            return _stale(trial, before)
        if is_one_of_two_neighbours(part.case):
            text = "rounds at random: each result is one of the two nearest, and not the same one when called again"
            return _finding("rounding", f"{text}, {where}", trial)
        text = "is wrong, and returns other bits when called again on the same inputs"
        return _finding("nondeterministic", f"{text}, {where}", trial)
    if trial.moved and before is not None and _is_right_at_the_usual_place(bench, trial):
        return _stale(trial, before, "reads where its operands lay in earlier calls, not where they lie now")
    if _is_another(bench.observe(trial, calls=1, plain_guards=True, judged=False), seen):
        text = "reads outside its inputs: the result depends on what lies beside them"
        return _finding("out-of-bounds-read", f"{text}, {where}", trial)
    if before is not None and stale:
        return _stale(trial, before)
    explorer = Explorer(bench, trial.layouts)
    if is_special(trial):
        ordinary = wrong_on_ordinary_numbers(explorer)
        if ordinary is None:
            return _finding("special-values", f"{explain_special(special_case(seen))}, {where}", trial)
        seen, part = ordinary, ordinary.excerpt
    clause = _rounding(explorer, part.case)
    if clause:
        return _finding("rounding", f"{clause}, {where}", trial)
    clause = explain(part.case)
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
            if not ways or seen.findings or not seen.results:
                return ""
            further = seen.excerpt.case
            ways = fitting_roundings(further, ways)
            wrong += int(np.count_nonzero(further.wrong))
    return ways[0][0] if ways and wrong >= _FEWEST_ROUNDED else ""


def _out_of_range(bench: Bench, trial: Trial, seen: Observation, where: str) -> Finding:
    """The finding for a result that lies outside of the range that every order of summation keeps to."""
    part = seen.excerpt
    again = bench.observe(trial, calls=3, judged=False)
    if _is_unwritten(seen, again):
        return _finding("unwritten-output", f"leaves outputs unwritten, {where}", trial)
    named = name_beyond_the_bound(Explorer(bench, trial.layouts))
    first = tuple(int(axis[0]) for axis in np.nonzero(part.wrong))
    ends = (part.expected.low, part.expected.high)
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
    calls = 2 if is_large(bench.problem) else 3
    seen = [bench.observe(trial, calls=calls, poison=poison, judged=False).bits for poison in ("nan", "number")]
    return len(seen[0]) == len(seen[1]) == calls and differs_by_poison(*seen)


def _ignores_poison(bench: Bench, trial: Trial, seen: Observation, again: Observation) -> bool:
    """Whether it was the same bits under NaN and under a number: then nobody need call again for that."""
    bits, poisons = (*seen.bits[:1], *again.bits), (*seen.poisons[:1], *again.poisons)
    number = poison_of(bench.problem, trial, 0, only="number")
    kinds = {poison == number for poison in poisons if isinstance(poison, int)}
    return len(kinds) == 2 and not again.findings and all(are_equal(bits[0], other) for other in bits[1:])


def _is_right_at_the_usual_place(bench: Bench, trial: Trial) -> bool:
    return isinstance(bench.observe(replace(trial, moved=False), calls=1).outcome, Matched)


def _is_another(other: Observation, seen: Observation) -> bool:
    """Whether wrong outputs have other bits in another observation of the same trial."""
    part = seen.excerpt
    if not other.results:
        return False
    return not same(part.pick(other.results[0]), part.actual, part.problem.out_format)[part.wrong].all()


def _is_unwritten(seen: Observation, again: Observation) -> bool:
    """Whether wrong outputs hold the poison of each call, whichever that was."""
    part = seen.excerpt
    pairs = [pair for one in (seen, again) for pair in zip(one.results, one.poisons, strict=False)]
    held = [part.pick(result) == part.pick_poison(poison) for result, poison in pairs]
    return len(pairs) > 1 and bool((np.logical_and.reduce(held) & part.wrong).any())


def _is_stale(seen: Observation, before: Observation) -> bool:
    """Whether the wrong outputs have the bits of the trial before."""
    if isinstance(seen.outcome, Differs) and seen.outcome.differing == 1:
        return False
    if before.marks:
        return before.marks[0] == seen.marks[0]
    if not before.results or tuple(before.results[0].shape) != tuple(seen.results[0].shape):
        return False
    part = seen.excerpt
    if not (part.pick(before.results[0]) == part.actual)[part.wrong].all():
        return False
    return int((before.results[0] == seen.results[0]).sum()) > seen.inputs.problem.output.size / 2
