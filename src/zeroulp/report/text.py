"""
What a person reads: one sentence that answers, then the evidence, then how to see it again.

A function of the report's data. Nothing here decides anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zeroulp.exactness import VERIFICATION_MISS
from zeroulp.judge import Differs
from zeroulp.report.model import Verdict

if TYPE_CHECKING:
    from zeroulp.report.model import Finding, Report, TrialRecord

_LABEL = 18
_NAMED = 5  # operations
_MISS = f"2^{round(math.log2(VERIFICATION_MISS))}"


def render_text(report: Report, *, again: str = "zeroulp.replay(report)") -> str:
    """
    The report for people.

    Args:
        report: What to say.
        again: How to see it again; empty to leave that out.
    """
    head = f"{report.verdict.value}  {headline(report)}"
    lines = [line for finding in report.findings[:1] for line in _finding_lines(finding, report)]
    for finding in report.findings[1:]:
        lines += ["", f"  also: {finding.kind}: {finding.sentence}", *_finding_lines(finding, report)]
    if report.verdict is Verdict.CORRECT:
        lines += _assurance(report)
    for reason, remedy in report.reasons:
        lines += [_item("why", reason)] if report.verdict is not Verdict.BROKEN else []
        lines += [_item("what would help", remedy)] if remedy else []
    if report.log:
        lines += ["  its log ends", *(f"    | {line}" for line in report.log.strip().splitlines()[-12:])]
    if report.verdict is not Verdict.INCORRECT:
        lines += [_item("contract", report.problem.sentence())]
        lines += [_item("special values", special_text(report))] if report.special_values else []
        lines += _not_checked(report)
        lines += _tracking(report)
        lines += _audited(report)
        lines += _times(report)
    lines += [_item("seed", f"0x{report.seed:016x}")]
    if again and report.trials:
        lines += [_item("see it again", again)]
    return "\n".join([head, "", *lines]) + "\n"


def headline(report: Report) -> str:
    """The one sentence that answers."""
    if report.verdict is Verdict.INCORRECT:
        return report.findings[0].sentence
    if report.verdict is Verdict.BROKEN:
        return f"{report.reasons[0][0].rstrip('.')}. There is no result to judge."
    if report.tracking is not None and report.tracking.vacuous and report.verdict is Verdict.INCONCLUSIVE:
        return f"{report.reasons[0][0]}. Nothing wrong was seen in {report.calls} calls, and that says little."
    outputs = report.problem.output.size
    calls = f"{report.calls} call{'s' if report.calls != 1 else ''}"
    if report.verdict is Verdict.INCONCLUSIVE:
        if report.coverage == 1:
            return f"nothing wrong was seen in {calls}, but not all that was asked for could be had."
        return f"nothing wrong was seen in {calls}, but {_percent(report.coverage)} of the outputs were compared."
    if outputs == 0:
        return f"{calls}; the output is empty, and its shape and format are right."
    exact = [trial for trial in report.trials if trial.certificate.theorem != "bounded"]
    every = "all" if all(trial.share_compared == 1 for trial in exact) else "each of the"
    once = "in every one of them" if every == "all" else "in at least one of them"
    return f"{calls}; {every} {outputs:,} outputs compared {once}."


_TRACKED = (
    "Every correct kernel returns these bits, whatever it sums in which order",
    "Of all multiples of the quantum the exact result is nearest to each one: any algorithm may be off by half of it",
)


def _assurance(report: Report) -> list[str]:
    """What the verdict means, and what it does not."""
    if report.problem.output.size == 0:
        return []
    if report.tracking is not None:
        return [f"  {_TRACKED[report.problem.algorithm == 'any']}; no bound is claimed.", ""]
    if report.problem.k == 0:
        return []
    bounded = next((trial for trial in report.trials if trial.certificate.theorem == "bounded"), None)
    ordinary = []
    if bounded is not None:
        far = f"{bounded.certificate.relative_error:.1e}"
        ordinary = [
            f"  On ordinary numbers, where orders may differ, it lay within {far} of the sum of |terms| and one",
            f"  rounding from the exact result, as every order does (trial {bounded.index}, probe {bounded.probe}).",
        ]
    if report.escape_probability >= 1:
        return ["  No bound is claimed: too few trials, or results that round or repeat.", *ordinary, ""]
    lines = [
        "  If some output were any other bilinear form of its row and column (whole-number weights),",
        f"  it would have escaped with probability at most {probability_text(report.escape_probability)}.",
        f"  That includes {_MISS} for each trial, that its verification in O(n^2) believes a wrong result.",
    ]
    if report.escape_probability > report.wished:
        wished = f"{report.wished:g}"
        more = f"  That is more than the wished {wished}; asked for (--escape-probability {wished}),"
        lines += [more, "  it gets as many calls as it takes, up to 1,000."]
    return [*lines, *ordinary, ""]


def probability_text(probability: float) -> str:
    """A probability rounded up to one digit, so that the sentence stays true."""
    if probability < 1e-300:
        return "1e-300"
    exponent = math.floor(math.log10(probability))
    digit = math.ceil(probability / 10.0**exponent - 1e-9)
    return f"{digit * 10.0**exponent:.0e}" if exponent < -2 else f"{digit * 10.0**exponent:.2g}"


def _finding_lines(finding: Finding, report: Report) -> list[str]:
    trial = report.trial(finding.trial)
    lines = [_item("finding", finding.kind)]
    if trial is not None and isinstance(trial.outcome, Differs):
        lines += _difference(trial.outcome)
    lines += [_item(label, text) for label, text in finding.evidence]
    if trial is not None:
        lines += [_item("seen by", _probe(trial))]
        because = {"bounded": "bounded because", "nearest": "wrong because"}
        lines += [_item(because.get(trial.certificate.theorem, "exact because"), trial.certificate.sentence())]
    return [*lines, _item("contract", report.problem.sentence())]


def _difference(outcome: Differs) -> list[str]:
    place = ", ".join(map(str, outcome.first))
    expected, actual = outcome.expected, outcome.actual
    share = outcome.differing / outcome.elements
    whole = outcome.compared == outcome.elements
    amount = f"{outcome.differing:,} of {outcome.elements:,} outputs ({_percent(share)})"
    amount += "" if whole else f", {outcome.compared:,} compared"
    ranges = ", ".join(f"{low}" if low == high else f"{low}..{high}" for low, high in _box(outcome))
    lines = [
        _item("first difference", f"out[{place}]"),
        _item("  expected", f"{expected.decimal}  ({expected.hexadecimal}, bits {expected.bits})"),
        _item("  actual", f"{actual.decimal}  ({actual.hexadecimal}, bits {actual.bits})"),
        _item("how many", amount),
        _item("where", f"out[{ranges}]"),
    ]
    if outcome.ulps is not None:
        lines.insert(3, _item("  apart", f"{outcome.ulps:,} ulp"))
    return lines


def _box(outcome: Differs) -> list[tuple[int, int]]:
    return list(zip(outcome.low, outcome.high, strict=True))


def _probe(trial: TrialRecord) -> str:
    layouts = {name: layout for name, layout in trial.layouts.items() if layout != "contiguous"}
    text = f"trial {trial.index}, probe {trial.probe}"
    return text + (f", layouts {layouts}" if layouts else "")


def _not_checked(report: Report) -> list[str]:
    if not report.trials:  # the reasons have been given
        return []
    lines = [_item("not checked", f"{skipped.label}: {skipped.reason}") for skipped in report.skipped]
    tried = {trial.probe for trial in report.trials} | {skipped.probe for skipped in report.skipped}
    if report.verdict is Verdict.CORRECT and report.tracking is not None:
        lines.append(_item("not checked", "NaN, infinities, overflow, subnormals, other memory layouts"))
    elif report.verdict is Verdict.CORRECT and "specials" not in tried:
        what = "NaN, infinities, overflow, subnormals"
        lines.append(_item("not checked", f"{what}: the probe specials was not asked for"))
    return lines


def _tracking(report: Report) -> list[str]:
    """What is known of the reference."""
    tracking = report.tracking
    if tracking is None:
        return []
    live = ", ".join(f"{name} {_percent(share)}" for name, share in tracking.live.items())
    lines = [_item("depends on", f"{live} of the exact outputs")] if live else []
    unseen = [f"{number} {name}" for number, name, where in tracking.operations if not where]
    if tracking.operations:
        count = f"{len(tracking.operations) - len(unseen)} of {len(tracking.operations)} operations"
        rest = f"; none but constants in {', '.join(unseen[:_NAMED])}" if unseen else ""
        more = f" and {len(unseen) - _NAMED} others" if len(unseen) > _NAMED else ""
        lines.append(_item("exact data in", f"{count} of the reference{rest}{more}"))
    lines += [_item("exactness ends", sentence) for sentence in tracking.ended[:3]]
    lines += [_item("leans on", ", ".join(tracking.leans))] if tracking.leans else []
    return lines + [_item("self-check", text) for text in (tracking.demoted, tracking.unchecked) if text]


def _audited(report: Report) -> list[str]:
    if report.audited is None:
        return []
    trials = ", ".join(map(str, report.audited.trials))
    several = "s" if len(report.audited.trials) != 1 else ""
    text = f"on the host: {report.audited.outputs:,} outputs of trial{several} {trials}, and their rows and columns"
    return [_item("audited", text)]


def _times(report: Report) -> list[str]:
    """Both wall times, and what the check costs beside the kernel."""
    kernel, check = (report.seconds.get(name, 0.0) for name in ("kernel", "check"))
    if not kernel:
        return []
    times = f"{kernel:,.3g} s in the kernel's calls, {check:,.3g} s for the whole check"
    return [_item("time", f"{times}, {check / kernel:,.1f} times as much")]


_SEEN = {
    ("nan", "propagates"): "NaN propagates",
    ("infinity", "infinity"): "infinities propagate",
    ("infinity", "nan"): "infinities become NaN",
    ("infinity", "largest"): "infinities become the largest number",
    ("infinity", "mixed"): "infinities stay in some outputs and become NaN or the largest number in others",
    ("overflow", "infinity"): "overflow gives infinity",
    ("overflow", "nan"): "overflow gives NaN",
    ("overflow", "largest"): "overflow gives the largest number",
    ("overflow", "mixed"): "overflow gives one thing here and another there",
    ("subnormal operands", "kept"): "subnormal operands are kept",
    ("subnormal operands", "zero"): "subnormal operands count as zero",
    ("subnormal operands", "mixed"): "subnormal operands are kept in some products and count as zero in others",
    ("subnormal results", "kept"): "subnormal results are kept",
    ("subnormal results", "zero"): "subnormal results are flushed to zero",
    ("subnormal results", "mixed"): "subnormal results are kept in some outputs and flushed to zero in others",
}


def special_text(report: Report) -> str:
    """What was seen of special values, in a line."""
    seen = [text for item, text in _SEEN.items() if item in report.special_values.items()]
    if seen[:2] == ["NaN propagates", "infinities propagate"]:
        seen[:2] = ["NaN and infinities propagate"]
    return "; ".join(seen)


def _percent(share: float) -> str:
    if share in (0, 1):
        return f"{share:.0%}"
    return f"{min(max(share, 0.0001), 0.9999):.2%}"


def _item(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}}{text}"
