"""``zeroulp replay``: the failing trial again, alone."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.checks import replay
from zeroulp.cli import arguments as shared
from zeroulp.cli.check import deliver
from zeroulp.cli.console import Progress, check_writable
from zeroulp.errors import ReportFileError
from zeroulp.report import from_json, holds_grid, holds_shapes, shape_from_jsonl, shapes_from_json
from zeroulp.shapes import sizes_text
from zeroulp.sizes import Sizes, parse_shape

if TYPE_CHECKING:
    import argparse

    from zeroulp.report import Report


def add_command(commands: Any) -> None:
    """Add ``replay`` to the command line."""
    parser = commands.add_parser("replay", help="run the failing trial of a report again, alone")
    parser.add_argument("report", metavar="REPORT.json", help="written by `zeroulp check --json`")
    parser.add_argument("kernel", metavar="KERNEL", nargs="?", help="another kernel (default: the report's own)")
    parser.add_argument("--shape", metavar="MxNxK", help="of a report of several: this one (default: the telling one)")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda or cuda:1 (default: as in the report)")
    shared.add_isolation_options(parser)
    parser.add_argument("--json", metavar="FILE", help="write the new report there; - for stdout")
    shared.add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Replay, print, exit with the verdict."""
    try:
        text = Path(arguments.report).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        do = "name a file written by `zeroulp check --json`"
        raise ReportFileError(f"{arguments.report} cannot be read", why=str(error), do=do) from error
    report = _report(text, arguments.report, parse_shape(arguments.shape) if arguments.shape else None)
    if arguments.device:
        report = replace(report, kernel=replace(report.kernel, device=arguments.device))
    if arguments.json and arguments.json != "-":
        check_writable(arguments.json)
    with Progress("replaying") as progress:
        again = replay(
            report,
            arguments.kernel,
            isolation=arguments.isolate,
            deadline_seconds=arguments.deadline,
            progress=progress,
        )
    shape = ["--shape", arguments.shape] if arguments.shape else []
    deliver(again, arguments.json, again=shlex.join(["zeroulp", "replay", arguments.report, *shape]))
    return again.verdict.exit_status


def _report(text: str, source: str, sizes: Sizes | None) -> Report:
    """The report that is in the file; of several the one of these *sizes*, or the one that decides."""
    if holds_grid(text):
        return shape_from_jsonl(text, sizes, source=source)
    if holds_shapes(text):
        shapes = shapes_from_json(text, source=source)
        reports, telling = shapes.reports, shapes.telling
    else:
        telling = from_json(text, source=source)
        reports = (telling,)
    if sizes is None:
        return telling
    for report in reports:
        if (report.problem.m, report.problem.n, report.problem.k) == sizes:
            return report
    held = ", ".join(sizes_text(report.problem) for report in reports[:8]) + (", ..." if len(reports) > 8 else "")
    raise ReportFileError(f"the shape {sizes} is not in this report", where=source, do=f"choose one of {held}")
