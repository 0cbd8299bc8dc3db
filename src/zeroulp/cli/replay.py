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
from zeroulp.report import from_json, holds_shapes, shapes_from_json

if TYPE_CHECKING:
    import argparse


def add_command(commands: Any) -> None:
    """Add ``replay`` to the command line."""
    parser = commands.add_parser("replay", help="run the failing trial of a report again, alone")
    parser.add_argument("report", metavar="REPORT.json", help="written by `zeroulp check --json`")
    parser.add_argument("kernel", metavar="KERNEL", nargs="?", help="another kernel (default: the report's own)")
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
    source = arguments.report
    report = shapes_from_json(text, source=source).telling if holds_shapes(text) else from_json(text, source=source)
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
    deliver(again, arguments.json, again=f"zeroulp replay {shlex.quote(arguments.report)}")
    return again.verdict.exit_status
