"""``zeroulp check``: the verdict on a kernel."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.checks import check
from zeroulp.cli import arguments as shared
from zeroulp.cli.console import Progress, check_writable, show, write_whole
from zeroulp.report import Report, Verdict, render_text, to_json

if TYPE_CHECKING:
    import argparse


def add_command(commands: Any) -> None:
    """Add ``check`` to the command line."""
    parser = commands.add_parser("check", help="tell whether a kernel is correct")
    shared.add_kernel_options(parser)
    shared.add_problem_options(parser)
    shared.add_plan_options(parser)
    group = parser.add_argument_group("the report")
    group.add_argument("--seed", help="draw the same inputs again (default: a fresh seed, printed)")
    group.add_argument("--json", metavar="FILE", help="write the report there, for `zeroulp replay`; - for stdout")
    shared.add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check, print, exit with the verdict."""
    problem = shared.problem_from(arguments)
    if arguments.json and arguments.json != "-":
        check_writable(arguments.json)
    with Progress("checking") as progress:
        report = check(
            arguments.kernel,
            problem,
            escape_probability=arguments.escape_probability,
            trials=arguments.trials,
            probes=arguments.probe,
            p_zero=arguments.p_zero,
            repeat=arguments.repeat,
            seed=arguments.seed,
            framework=arguments.framework,
            signature=arguments.signature,
            destination_passing=arguments.destination_passing,
            isolation=arguments.isolate,
            deadline_seconds=arguments.deadline,
            progress=progress,
        )
    deliver(report, arguments.json, again=_again(report))
    return report.verdict.exit_status


def deliver(report: Report, json_file: str | None, *, again: str) -> None:
    """Print the report for people, and write it for machines where that was asked for."""
    if json_file and json_file != "-":
        write_whole(json_file, to_json(report))
        again = f"zeroulp replay {shlex.quote(json_file)}"
    show(render_text(report, again=again), to_stderr=json_file == "-")
    if json_file == "-":
        show(to_json(report))


def _again(report: Report) -> str:
    """The same command with the seed in it."""
    words = [word for word in sys.argv[1:] if word]
    if report.verdict is Verdict.BROKEN or Path(sys.argv[0]).stem not in ("zeroulp", "__main__") or not words:
        return ""
    if "--seed" not in words:
        words += ["--seed", f"0x{report.seed:016x}"]
    return shlex.join(["zeroulp", *words])
