"""A check of several shapes: one report for each, and their JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ReportFileError
from zeroulp.report.codec import SCHEMA_VERSION, from_json, to_dict
from zeroulp.report.model import Report, Verdict
from zeroulp.version import __version__

if TYPE_CHECKING:
    from zeroulp.problem import Matmul

_WORST_FIRST = (Verdict.INCORRECT, Verdict.BROKEN, Verdict.INCONCLUSIVE, Verdict.CORRECT)


@dataclass(frozen=True)
class ShapesReport:
    """
    A check of a given shape and of others.

    Args:
        reports: One for each shape that was checked, in this order; the given shape's is the first.
        planned: How many shapes there were to check; more than were checked where one was wrong.
    """

    reports: tuple[Report, ...]
    planned: int

    @property
    def verdict(self) -> Verdict:
        """INCORRECT if one is; else BROKEN if one is; else INCONCLUSIVE if one is; else CORRECT."""
        found = {report.verdict for report in self.reports}
        return next(verdict for verdict in _WORST_FIRST if verdict in found)

    @property
    def telling(self) -> Report:
        """The report that decides: the first with the verdict of the whole."""
        return next(report for report in self.reports if report.verdict is self.verdict)

    @property
    def problem(self) -> Matmul:
        """The given problem."""
        given: Matmul = self.reports[0].problem
        return given

    @property
    def seed(self) -> int:
        """The seed of every one of the checks."""
        return self.reports[0].seed

    @property
    def calls(self) -> int:
        """How often the kernel was called, for all shapes together."""
        return sum(report.calls for report in self.reports)

    def __str__(self) -> str:
        from zeroulp.report.shapes_text import render_shapes_text  # noqa: PLC0415  (as in `Report`)

        return render_shapes_text(self)


def shapes_to_json(report: ShapesReport) -> str:
    """The report as JSON text, ending in a newline."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "zeroulp_version": __version__,
        "verdict": report.verdict.value,
        "shapes_planned": report.planned,
        "shapes": [to_dict(one) for one in report.reports],
    }
    return json.dumps(data, indent=1, allow_nan=False, default=float) + "\n"


def holds_shapes(text: str) -> bool:
    """Whether *text* is from `shapes_to_json`, and not from `to_json` or anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(data, dict) and "shapes" in data


def shapes_from_json(text: str, *, source: str = "report") -> ShapesReport:
    """
    The report that `shapes_to_json` wrote.

    Args:
        text: JSON text.
        source: What to call it in errors, e.g. the file's name.

    Raises:
        ReportFileError: If it is cut short, is no such report, or has another version.
    """
    if not holds_shapes(text):
        from_json(text, source=source)  # says what is wrong with it, unless it is another kind of report
        do = "read it with zeroulp.from_json"
        raise ReportFileError(f"{source} is the report of one shape", why="it has no part called shapes", do=do)
    data: dict[str, Any] = json.loads(text)
    version, shapes, planned = data.get("schema_version"), data["shapes"], data.get("shapes_planned")
    if version is True or version != SCHEMA_VERSION:
        why = f"its schema_version is {version!r}"
        do = "read it with the version of zeroulp that wrote it"
        raise ReportFileError(f"{source} is no report of schema version {SCHEMA_VERSION}", why=why, do=do)
    if not isinstance(shapes, list) or not shapes:
        raise _damage(source, "shapes", f"it is no list of reports: {shapes!r:.40}")
    if isinstance(planned, bool) or not isinstance(planned, int) or planned < len(shapes):
        raise _damage(source, "shapes_planned", f"{planned!r} is no number of shapes, {len(shapes)} or more")
    reports = tuple(from_json(json.dumps(shape), source=f"{source}, shapes[{i}],") for i, shape in enumerate(shapes))
    return ShapesReport(reports, planned)


def _damage(source: str, where: str, why: str) -> ReportFileError:
    return ReportFileError(f"{source} is a damaged report", where=where, why=why, do="write it again with --json")
