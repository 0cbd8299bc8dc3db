"""What the benchmarks share: a table that ends with where its numbers come from."""

from __future__ import annotations

import datetime as dt
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from zeroulp.checks.environment import describe_environment
from zeroulp.cli.console import table


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
    print(f"{title}\n\n{table(head, rows)}" + (f"\n{notes.rstrip()}\n" if notes else ""))
    print("\n".join(f"{name}: {value}" for name, value in made_by().items()))
