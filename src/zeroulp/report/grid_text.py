"""What a person reads of a grid: the verdict, how many shapes came to what, those that are not CORRECT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroulp.report.model import Verdict
from zeroulp.report.text import probability_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.report.grid import GridReport, ShapeResult

_MOST_ROWS = 20
_LABEL = 18


def render_grid_text(report: GridReport, *, again: str = "") -> str:
    """
    The report for people.

    Args:
        report: What to say.
        again: How to see the telling shape again; empty to leave that out.
    """
    lines = [f"{report.verdict.value}  {_headline(report)}", "", *_verdicts(report), "", *_failures(report)]
    lines += _bound(report)
    kernel = sum(result.kernel_seconds for result in report.results)
    check = sum(result.check_seconds for result in report.results)
    jobs = report.header.jobs
    beside = f", {jobs} shapes at a time" if jobs > 1 else ""
    lines.append(_item("time", f"{kernel:,.1f} s in the kernel, {check:,.1f} s in all{beside}"))
    if report.resumed:
        lines.append(_item("resumed", f"{report.resumed:,} of these shapes had been checked before"))
    lines.append(_item("contract", report.problem.sentence()))
    lines.append(_item("seed", f"0x{report.seed:016x}"))
    if again:
        lines.append(_item("see it again", again))
    return "\n".join(lines) + "\n"


def _headline(report: GridReport) -> str:
    telling, done = report.telling, len(report.results)
    shapes = f"{done:,} shape{'s' if done != 1 else ''}"
    if done < report.planned:
        shapes = f"{done:,} shapes checked of {report.planned:,}"
    if report.verdict is Verdict.CORRECT:
        if done < report.planned:
            return f"{shapes}, {report.calls:,} calls in all."
        return f"at each of {shapes}, {report.calls:,} calls in all." if done > 1 else f"at {telling.sizes}."
    count = sum(result.verdict is report.verdict for result in report.results)
    return f"at {count:,} of {shapes}; the first is {telling.sizes}: {telling.sentence}"


def _verdicts(report: GridReport) -> list[str]:
    rows = []
    for verdict in Verdict:
        own = [result for result in report.results if result.verdict is verdict]
        if own:
            calls = sum(result.calls for result in own)
            rows.append((verdict.value, f"{len(own):,}", f"{calls:,}"))
    left = report.planned - len(report.results)
    if left:
        rows.append(("not checked", f"{left:,}", ""))
    widths = [max(map(len, column)) for column in zip(("verdict", "shapes", "calls"), *rows, strict=True)]
    head = ("verdict", "shapes", "calls")
    return [
        f"  {name:<{widths[0]}}  {shapes:>{widths[1]}}  {calls:>{widths[2]}}".rstrip()
        for name, shapes, calls in (head, *rows)
    ]


def _failures(report: GridReport) -> list[str]:
    """The first shapes that are not CORRECT, the worst first."""
    order = (Verdict.INCORRECT, Verdict.BROKEN, Verdict.INCONCLUSIVE)
    failing = [result for verdict in order for result in report.results if result.verdict is verdict]
    if not failing:
        return []
    rows = [(str(result.sizes), result.verdict.value, result.sentence) for result in failing[:_MOST_ROWS]]
    lines = _columns([("m x n x k", "verdict", "why"), *rows])
    if len(failing) > _MOST_ROWS:
        lines.append(f"  and {len(failing) - _MOST_ROWS:,} more")
    return [*lines, ""]


def _bound(report: GridReport) -> list[str]:
    """What CORRECT means at all those shapes."""
    correct = [result for result in report.results if result.verdict is Verdict.CORRECT and _has_sums(result)]
    claimed = [result.escape_probability for result in correct if result.escape_probability < 1]
    lines = []
    if claimed:
        which = "a shape that is CORRECT" if len(claimed) == len(correct) else f"{len(claimed):,} of these shapes"
        most = probability_text(max(claimed))
        lines += [
            f"  If some output of {which} were any other bilinear form of its row and column",
            f"  (whole-number weights), it would have escaped with probability at most {most}.",
        ]
    if len(claimed) < len(correct):
        lines.append(f"  No bound is claimed at {len(correct) - len(claimed):,} shapes that are CORRECT.")
    return [*lines, ""] if lines else []


def _has_sums(result: ShapeResult) -> bool:
    return min(result.sizes) > 0


def _item(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}}{text}"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
