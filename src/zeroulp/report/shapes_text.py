"""What a person reads of a check of several shapes: the shape that decides, why it matters, and all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroulp.report.model import Verdict
from zeroulp.report.text import headline, render_text
from zeroulp.shapes import sizes_text, why_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.report.shapes import ShapesReport


def render_shapes_text(report: ShapesReport, *, again: str = "zeroulp.replay(report.telling)") -> str:
    """
    The report for people.

    Args:
        report: What to say.
        again: How to see it again; empty to leave that out.
    """
    telling = report.telling
    body = render_text(telling, again=again).partition("\n\n")[2]
    where = f"{sizes_text(telling.problem)} ({why_shape(report.problem, telling.problem)})"
    if report.verdict is Verdict.CORRECT:
        sentence = f"{_counted(report)}. Of the given one, {sizes_text(report.problem)}: {headline(telling)}"
    else:
        sentence = f"at {where}: {headline(telling)}"
    lines = [f"{report.verdict.value}  {sentence}", "", body]
    if report.verdict is not Verdict.CORRECT:
        lines.append(f"  {_counted(report)}:\n")
    rows = [
        (sizes_text(one.problem), one.verdict.value, str(one.calls), why_shape(report.problem, one.problem))
        for one in report.reports
    ]
    return "\n".join([*lines, *_columns([("m x n x k", "verdict", "calls", "why this shape"), *rows])]) + "\n"


def _counted(report: ShapesReport) -> str:
    """How many shapes came to what."""
    verdicts = [one.verdict for one in report.reports]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict.value}" for verdict in dict.fromkeys(verdicts))
    if report.verdict is Verdict.CORRECT:
        return f"{len(verdicts)} shapes, {report.calls} calls in all"
    left = "" if len(verdicts) == report.planned else f" of {report.planned}"
    return f"{len(verdicts)}{left} shapes checked, {counts}"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
