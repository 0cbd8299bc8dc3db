"""``zeroulp check``: the verdict on a kernel."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.checks import check, check_shapes
from zeroulp.cli import arguments as shared
from zeroulp.cli import grid
from zeroulp.cli.console import Progress, check_writable, show, write_whole
from zeroulp.errors import UsageError
from zeroulp.report import Report, ShapesReport, Verdict, render_shapes_text, render_text, shapes_to_json, to_json

if TYPE_CHECKING:
    import argparse


def add_command(commands: Any) -> None:
    """Add ``check`` to the command line."""
    parser = commands.add_parser("check", help="tell whether a kernel is correct")
    shared.add_kernel_options(parser)
    shared.add_judging_options(parser)
    shared.add_problem_options(parser)
    shared.add_plan_options(parser)
    shared.add_shapes_option(parser, file=True)
    parser.add_argument("--grid", metavar="SIZES", help="many shapes: 64,128 (of m, n and k), or 64,128x64x1024")
    parser.add_argument("--keep-going", action="store_true", help="with --shapes ragged: also after a wrong one")
    parser.add_argument("--fail-fast", action="store_true", help="with --grid or --shapes FILE: stop at a wrong one")
    text = (
        "with --grid or --shapes FILE: check N shapes at once (default: 1; on a device a quarter of the cores, up to 4)"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help=text)
    group = parser.add_argument_group("the report")
    group.add_argument("--seed", help="draw the same inputs again (default: a fresh seed, printed)")
    group.add_argument(
        "--json",
        metavar="FILE",
        help="write the report there, for `zeroulp replay`; - for stdout; of many shapes JSON Lines, which are resumed",
    )
    shared.add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Check, print, exit with the verdict."""
    shapes = grid.shapes_from(arguments)
    if shapes is not None:
        return grid.run(arguments, shapes, _options(arguments))
    problem = shared.problem_from(arguments, linear=not arguments.shapes)
    if arguments.json and arguments.json != "-":
        check_writable(arguments.json)
    if arguments.keep_going and not arguments.shapes:
        raise UsageError("--keep-going goes with --shapes", why="a check of one shape has none to go on to")
    options = _options(arguments)
    report: Report | ShapesReport
    with Progress("checking") as progress:
        if arguments.shapes:
            chosen = {"shapes": arguments.shapes, "keep_going": arguments.keep_going}
            report = check_shapes(arguments.kernel, problem, **chosen, **options, progress=progress)
        else:
            report = check(arguments.kernel, problem, **options, progress=progress)
    deliver(report, arguments.json, again=_again(report))
    return report.verdict.exit_status


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `check` is given beside the kernel and the problem."""
    return {
        "escape_probability": arguments.escape_probability,
        "trials": arguments.trials,
        "probes": arguments.probe,
        "p_zero": arguments.p_zero,
        "repeat": arguments.repeat,
        "race_rate": arguments.race_rate,
        "seed": arguments.seed,
        "framework": arguments.framework,
        "device": arguments.device,
        "signature": arguments.signature,
        "destination_passing": arguments.destination_passing,
        "isolation": arguments.isolate,
        "deadline_seconds": arguments.deadline,
        "reference": arguments.reference,
        "workspace_bytes": None if arguments.workspace is None else arguments.workspace << 20,
    }


def deliver(report: Report | ShapesReport, json_file: str | None, *, again: str) -> None:
    """Print the report for people, and write it for machines where that was asked for."""
    written = shapes_to_json(report) if isinstance(report, ShapesReport) else to_json(report)
    if json_file and json_file != "-":
        write_whole(json_file, written)
        again = f"zeroulp replay {shlex.quote(json_file)}"
    if isinstance(report, ShapesReport):
        text = render_shapes_text(report, again=again)
    else:
        text = render_text(report, again=again)
    show(text, to_stderr=json_file == "-")
    if json_file == "-":
        show(written)


def _again(report: Report | ShapesReport) -> str:
    """The same command with the seed in it."""
    words = [word for word in sys.argv[1:] if word]
    if report.verdict is Verdict.BROKEN or Path(sys.argv[0]).stem not in ("zeroulp", "__main__") or not words:
        return ""
    if "--seed" not in words:
        words += ["--seed", f"0x{report.seed:016x}"]
    return shlex.join(["zeroulp", *words])
