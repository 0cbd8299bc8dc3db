"""What the benchmarks share: tables that end with where their numbers come from, printed and written to a file."""

from __future__ import annotations

import argparse
import datetime as dt
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from zeroulp.checks.environment import describe_environment
from zeroulp.cli.console import Progress, check_writable, table, write_whole
from zeroulp.errors import UsageError

LINE_EVERY = 30.0  # seconds between lines that say how far it is, where there is no terminal


def made_by() -> dict[str, str]:
    """The command, date and machine of this run, with versions."""
    program, *words = sys.argv
    if not program.startswith("zeroulp "):
        program = f"python {shlex.quote(program)}"
    environment = describe_environment({})
    return {
        "command": " ".join([program, *map(shlex.quote, words)]),
        "date": str(dt.datetime.now(tz=dt.timezone.utc).date()),
        "machine": ", ".join(f"{name} {value}" for name, value in environment.items()),
    }


def report(title: str, head: list[str], rows: list[list[str]], notes: str = "") -> None:
    """Print a table, and the command, date, machine and versions that made it."""
    with Tables(None) as tables:
        tables.add(title, head, rows, notes)


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """``--output``: where the tables go, beside standard output."""
    parser.add_argument("--output", metavar="FILE", type=_writable, help="write what is printed to this file too")


def _writable(path: str) -> str:
    try:
        check_writable(path)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return path


class Tables:
    """
    Tables printed as soon as they are there, and below the last one the command, date, machine and versions.

    Args:
        output: A file that gets the same text; None: none. What is there at an interrupt is in it.
    """

    def __init__(self, output: str | None) -> None:
        self._output, self._text = output, ""

    def __enter__(self) -> Tables:  # noqa: PYI034  (Self is not in typing before 3.11)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._say(f"INTERRUPTED by {kind.__name__}: what is missing was not measured.\n\n")
        self._say("".join(f"{name}: {value}\n" for name, value in made_by().items()))

    def add(self, title: str, head: list[str], rows: list[list[str]], notes: str = "") -> None:
        """Print a table."""
        self._say(f"{title}\n\n{table(head, rows)}\n" + (f"{notes.rstrip()}\n\n" if notes else ""))

    def _say(self, text: str) -> None:
        print(text, end="", flush=True)
        self._text += text
        if self._output:
            write_whole(self._output, self._text)


class Steps:
    """
    How far a benchmark is, on stderr.

    Args:
        title: Its name.
        total: How many steps it has.
    """

    def __init__(self, title: str, total: int) -> None:
        self._bar, self._total, self._done = Progress(title, line_every=LINE_EVERY), total, 0

    def __enter__(self) -> Steps:  # noqa: PYI034
        self._bar.__enter__()
        return self

    def __exit__(self, *about: object) -> None:
        self._bar.__exit__(*about)

    def next(self, what: str) -> None:
        """The step that is next."""
        self._bar(self._done, self._total, what)
        self._done += 1
