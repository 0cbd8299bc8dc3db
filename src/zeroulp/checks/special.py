"""Trials of special values: what they showed, for the report, and what is wrong in them, for its findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.checks.judging import SMALL, on_host, special_places
from zeroulp.diagnose import SpecialCase, what_is_seen
from zeroulp.judge import Matched, same
from zeroulp.reference import expected_result
from zeroulp.report import Finding

if TYPE_CHECKING:
    from zeroulp.checks.bench import Bench, Observation
    from zeroulp.checks.excerpt import Excerpt
    from zeroulp.encoding import Array
    from zeroulp.plan import Trial
    from zeroulp.problem import Matmul

_SAMPLE = 8  # rows and columns looked at in a large problem
_STRICTEST = {"nonfinite": "ieee", "subnormals": "preserve"}


def is_special(trial: Trial) -> bool:
    """Whether it is a trial of special values."""
    return trial.probe == "specials"


def special_case(seen: Observation) -> SpecialCase:
    """An observation of special values, for diagnosis."""
    part, kind = seen.excerpt, str(seen.inputs.trial.settings["kind"])
    strictest = part.expected_under(**_STRICTEST, saturate=kind == "overflow")
    numbers = None if part.selection is None else (part.selection.rows, part.selection.columns)
    return SpecialCase(part.problem, kind, part.codes, strictest.codes, part.actual, part.wrong, numbers)


def look_at_special(problem: Matmul, trial: Trial, seen: Observation) -> dict[str, str]:
    """What a trial showed the kernel to do, in a word by its kind; nothing if it was no such trial, or went wrong."""
    right = isinstance(seen.outcome, Matched) and not seen.findings
    if not is_special(trial) or not right or not problem.output.size:
        return {}
    kind = str(trial.settings["kind"])
    large = problem.output.size * problem.k > SMALL
    if kind == "nan":
        return {kind: "propagates"}
    if large and kind == "infinity":
        word = _infinities_of_a_row(problem, seen)
    else:
        word = what_is_seen(_sampled_case(problem, seen, kind) if large else special_case(seen))
    return {kind: word} if word else {}


def _infinities_of_a_row(problem: Matmul, seen: Observation) -> str:
    """What a row with an infinity holds, beside the columns that have one too."""
    places = special_places(seen.inputs)
    if not places["a"] or problem.batch:
        return ""
    others = np.delete(np.arange(problem.n), [j for _, j in places["b"]])
    row = on_host(seen.results[0][places["a"][0][0]], problem.out_format)
    values = encoding.decode(row, problem.out_format)[others]
    words = [word for word, found in (("infinity", np.isinf(values)), ("nan", np.isnan(values))) if found.any()]
    return words[0] if len(words) == 1 else "mixed" if words else ""


def _sampled_case(problem: Matmul, seen: Observation, kind: str) -> SpecialCase:
    """The first rows and columns of the first entry of the batch, without NaN and infinities."""
    inputs, entry = seen.inputs, (0,) * len(problem.batch)
    rows, columns = (np.arange(min(extent, _SAMPLE)) for extent in (problem.m, problem.n))
    smaller, integers = inputs.part(entry, rows, columns)
    exponent: int | Array = inputs.trial.certificate.quantum_exponent
    if inputs.scales is not None:
        exponent = exponent + inputs.scales.rows[rows][:, None] + inputs.scales.columns[columns][None, :]
    strictest = smaller.replace(**_STRICTEST, saturate=kind == "overflow")
    expected = expected_result(strictest, inputs.family, inputs.trial.certificate, integers, exponent)
    actual = on_host(seen.results[0][entry][: len(rows), : len(columns)], problem.out_format)
    return SpecialCase(smaller, kind, {}, expected.codes, actual, np.zeros(actual.shape, bool))


def is_left_over(bench: Bench, trial: Trial, seen: Observation, before: Observation, again: Observation) -> bool:
    """Whether NaN stands where a number is due, but only if the trial before comes just before; *again* was without."""
    if not is_special(before.inputs.trial):
        return False
    part = seen.excerpt
    nans = part.wrong & encoding.is_nan(part.actual, part.problem.out_format)
    if not nans.any() or _agree(again, part, nans):
        return False
    bench.observe(before.inputs.trial, calls=1, judged=False)
    return _agree(bench.observe(trial, calls=1, judged=False), part, nans)


def _agree(other: Observation, part: Excerpt, where: Array) -> bool:
    if not other.results:
        return False
    return bool(same(part.pick(other.results[-1]), part.actual, part.problem.out_format)[where].all())


def left_over(trial: Trial, before: Observation, where: str) -> Finding:
    """The finding for a NaN that an earlier call left behind."""
    replay = tuple(dict.fromkeys((*before.inputs.trial.needs, *trial.needs)))
    sentence = f"matmul lets NaN or infinities of an earlier call reach its outputs, {where}."
    return Finding("special-values", sentence, trial.index, replay)
