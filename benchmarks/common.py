"""What the benchmarks share: a header that says where numbers come from, and a table."""

from __future__ import annotations

import datetime as dt
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from zeroulp.checks.environment import describe_environment
from zeroulp.cli.console import table


def report(title: str, head: list[str], rows: list[list[str]], notes: str = "") -> None:
    """Print a table with the command, date, machine and versions that made it."""
    environment = describe_environment({})
    command = shlex.join(["python", *sys.argv])
    date = dt.datetime.now(tz=dt.timezone.utc).date()
    print(f"{title}\n\ncommand: {command}\ndate: {date}")
    print("machine: " + ", ".join(f"{name} {value}" for name, value in environment.items()) + "\n")
    print(table(head, rows) + (f"\n{notes}" if notes else ""))
