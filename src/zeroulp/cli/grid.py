"""``zeroulp check --grid`` and ``--shapes FILE``: many shapes, with progress, interrupted and resumed."""

from __future__ import annotations

import contextlib
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.arrays.threads import cores
from zeroulp.checks import check_grid
from zeroulp.cli import arguments as shared
from zeroulp.cli.console import Progress, check_writable, show
from zeroulp.errors import UsageError
from zeroulp.report import GridReport, Verdict, render_grid_text
from zeroulp.report.journal import FileJournal, StreamJournal
from zeroulp.shapes import SHAPES
from zeroulp.sizes import Sizes, parse_grid, read_shapes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import FrameType

    from zeroulp.checks.grid import GridStep

INTERRUPTED = 130
_LINE_EVERY = 30.0  # seconds, where there is no terminal
_MOST_JOBS, _FEWEST_FOR_JOBS = 4, 8  # where nobody said how many


def shapes_from(arguments: argparse.Namespace) -> tuple[Sizes, ...] | None:
    """
    The shapes of ``--grid`` or of the file after ``--shapes``; None if neither is there.

    Raises:
        UsageError: If both are, or what they say is no list of shapes.
    """
    given = arguments.shapes
    is_file = given is not None and given not in SHAPES and (Path(given).suffix != "" or Path(given).exists())
    if arguments.grid is None and not is_file:
        if arguments.fail_fast:
            raise UsageError("--fail-fast goes with --grid, or with --shapes FILE", do="leave it out")
        if arguments.jobs is not None:
            raise UsageError("--jobs goes with --grid, or with --shapes FILE", do="leave it out")
        return None
    if arguments.grid is not None and given:
        raise UsageError("--grid and also --shapes", do="write all shapes to a file, or choose one of the two")
    if arguments.keep_going:
        do = "leave it out; --fail-fast stops at the first shape that is wrong"
        raise UsageError("--keep-going goes with --shapes ragged", why="a grid goes on in any case", do=do)
    return parse_grid(arguments.grid) if arguments.grid is not None else read_shapes(given)


def run(arguments: argparse.Namespace, shapes: tuple[Sizes, ...], options: dict[str, Any]) -> int:
    """Check all shapes, print, exit with the verdict; after an interrupt say how to go on."""
    problem = shared.problem_from(arguments, shapes[0])
    file = arguments.json if arguments.json != "-" else None
    if file:
        check_writable(file)
    last: list[GridStep] = []
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(FileJournal(file)) if file else StreamJournal(show if arguments.json else _drop)
        stack.enter_context(_terminable())
        try:
            with Progress("checking", line_every=_LINE_EVERY, estimates=True) as bar:

                def progress(step: GridStep) -> None:
                    last[:] = [step]
                    bar(step.done, step.planned, _doing(step), left=step.seconds_left)

                report = check_grid(
                    arguments.kernel,
                    problem,
                    shapes,
                    journal=journal,
                    fail_fast=arguments.fail_fast,
                    jobs=_jobs(arguments, len(shapes)),
                    progress=progress,
                    **options,
                )
        except KeyboardInterrupt:
            show(_interrupted(journal.done, len(shapes), arguments.json), to_stderr=True)
            return INTERRUPTED
    show(render_grid_text(report, again=_again(report, file)), to_stderr=arguments.json == "-")
    return report.verdict.exit_status


def _jobs(arguments: argparse.Namespace, shapes: int) -> int:
    """How many shapes at once: a device waits for Python, and a kernel on the CPU may need all cores."""
    if arguments.jobs is not None:
        return int(arguments.jobs)
    if arguments.device == "cpu" or arguments.isolate != "process" or shapes < _FEWEST_FOR_JOBS:
        return 1
    return max(1, min(_MOST_JOBS, cores() // 4))


def _drop(line: str) -> None:
    """Nobody asked for the lines."""


def _doing(step: GridStep) -> str:
    counts = ", ".join(f"{count:,} {verdict.value}" for verdict, count in step.counts.items())
    trial = f", trial {step.trial + 1} of {step.trials}" if step.trial < step.trials else ""
    beside = f", and {step.at_once - 1} more" if step.at_once > 1 else ""
    return (f"{step.sizes}{trial}{beside}" if step.sizes else "done") + (f"; {counts}" if counts else "")


def _interrupted(done: int, planned: int, file: str | None) -> str:
    if not file:
        return f"zeroulp: interrupted; {done:,} of {planned:,} shapes were done; --json FILE would have kept them\n"
    if file == "-":
        return f"zeroulp: interrupted; {done:,} of {planned:,} shapes are done and printed\n"
    kept = f"{done:,} of {planned:,} shapes are done and kept in {file}" if done else "no shape is done yet"
    return f"zeroulp: interrupted; {kept}; the same command goes on from there\n"


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM interrupts, as Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _again(report: GridReport, file: str | None) -> str:
    """The command that shows the telling shape again, where something was seen."""
    sizes = report.telling.sizes
    if report.verdict is not Verdict.INCORRECT:
        return ""
    if file:
        return f"zeroulp replay {shlex.quote(file)} --shape {sizes}"
    words = [word for word in sys.argv[1:] if word]
    if Path(sys.argv[0]).stem not in ("zeroulp", "__main__") or not words:
        return ""
    words = _without(words, "--grid", "--shapes", "--json", "--seed", "--jobs")
    words = [word for word in words if word != "--fail-fast"]
    words += ["-m", str(sizes.m), "-n", str(sizes.n), "-k", str(sizes.k), "--seed", f"0x{report.seed:016x}"]
    return shlex.join(["zeroulp", *words])


def _without(words: list[str], *options: str) -> list[str]:
    """The words of a command without these options and what they say."""
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word not in options and word.partition("=")[0] not in options:
            kept.append(word)
        skip = not skip and word in options
    return kept
