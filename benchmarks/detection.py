"""How many faulty kernels of the zoo are caught, and how many correct ones accused: zeroulp, and other tools' rules."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from common import made_by, report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import detection_tables as tables
from benchmarks.zoo import KINDS, TABLE, Entry
from detection_tables import BINARY, DEFAULT, SUPPLIED, Measured

import zeroulp
from zeroulp.cli.console import Progress, check_writable, table, write_whole
from zeroulp.errors import UsageError
from zeroulp.kernels import KernelSpec
from zeroulp.report import Verdict
from zeroulp.rules import RULES, run_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

TOOLS = [DEFAULT, SUPPLIED, BINARY, *(rule.name for rule in RULES)]
CORRECT = "correct"
_INTERRUPTED = 130


@dataclass
class Heard:
    """What was said of one kernel with one seed."""

    wrong: dict[str, bool] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)


def judge(entry: Entry, seed: int) -> Heard:
    """Who says that the kernel is wrong; what zeroulp calls it; checks that came to neither answer."""
    problem = zeroulp.Matmul(**entry.problem)
    heard = Heard()

    def ask(who: str, asked: zeroulp.Matmul, **options: object) -> None:
        found = zeroulp.check(entry.make(), asked, seed=seed, **entry.options, **options)
        heard.wrong[who] = found.verdict is Verdict.INCORRECT
        heard.findings[who] = [finding.kind for finding in found.findings]
        if found.verdict not in (Verdict.CORRECT, Verdict.INCORRECT):
            heard.undecided.append(f"{who}: {found.verdict.value}")

    ask(DEFAULT, problem)
    if entry.changes or entry.extra:
        ask(SUPPLIED, problem.replace(**entry.changes), **entry.extra)
    else:
        heard.wrong[SUPPLIED], heard.findings[SUPPLIED] = heard.wrong[DEFAULT], heard.findings[DEFAULT]
    ask(BINARY, problem, probes=["binary"], trials=5)
    spec = KernelSpec(entry.name, destination_passing=bool(entry.options.get("destination_passing")))
    for rule in RULES:  # each meets a fresh kernel
        result = run_rules(spec, problem, function=entry.make(), seed=seed, isolation="none", rules=[rule])[0]
        heard.wrong[rule.name] = result.accepted is not True
    return heard


def measure(entries: Sequence[Entry], seeds: int) -> list[list[Heard]]:
    """
    What is said of every entry, a list for each seed; the last one ends early if the user interrupts.

    All entries meet one seed before any meets the next: what was heard until then is a table of its own.
    """
    rounds: list[list[Heard]] = []
    with Progress("detection", line_every=30) as progress:
        try:
            for seed in range(seeds):
                rounds.append([])
                for done, entry in enumerate(entries):
                    what = f"seed {seed}, {entry.name}"
                    progress(seed * len(entries) + done, seeds * len(entries), what)
                    rounds[-1].append(judge(entry, seed))
        except KeyboardInterrupt:
            pass
    return rounds


def whole(rounds: list[list[Heard]], entries: Sequence[Entry]) -> list[list[Heard]]:
    """The rounds that every entry took part in; of an unfinished first one, what there is of it."""
    return [heard for heard in rounds if len(heard) == len(entries)] or [heard for heard in rounds[:1] if heard]


def as_data(entries: Sequence[Entry], rounds: list[list[Heard]]) -> list[Measured]:
    """The measurements kernel by kernel, as plain data."""
    return [
        {
            "name": entry.name,
            "kind": entry.kind,
            "expected": list(entry.finding),
            "needs": list(entry.needs),
            "sentence": entry.sentence,
            "wrong": {who: [heard.wrong[who] for heard in runs] for who in TOOLS},
            "findings": {who: [heard.findings[who] for heard in runs] for who in (DEFAULT, SUPPLIED, BINARY)},
            "undecided": [heard.undecided for heard in runs],
        }
        for entry, runs in zip(entries, zip(*rounds, strict=True), strict=False)  # entries not reached are left out
    ]


def what_is_missing(rounds: list[list[Heard]], kept: list[list[Heard]], entries: Sequence[Entry], seeds: int) -> str:
    """What an interrupted run did not measure; empty if it was not interrupted."""
    if len(rounds) == seeds and len(rounds[-1]) == len(entries):
        return ""
    if kept and len(kept[0]) == len(entries):
        return f"INTERRUPTED: {len(kept)} of {seeds} seeds measured; the numbers are of those alone."
    done = len(kept[0]) if kept else 0
    return f"INTERRUPTED: {done} of {len(entries)} kernels measured, with 1 of {seeds} seeds; the others do not count."


def chosen(kinds: Sequence[str] | None, only: Sequence[str] | None) -> list[Entry]:
    """The entries of these kinds (default: all), whose names contain one of the texts (default: any)."""
    return [
        entry
        for entry in TABLE.values()
        if (not kinds or (entry.kind or CORRECT) in kinds) and (not only or any(text in entry.name for text in only))
    ]


def notes(measured: list[Measured], seeds: int, skipped: list[str]) -> str:
    """What the columns mean, and the tables beside the main one."""
    each = f"each of {seeds} seeds" if seeds > 1 else "the one seed"
    meaning = (
        f"A fault counts as caught if it is with {each}, a correct kernel as accused if with any.\n"
        f"{DEFAULT}: a default check. {tables.KIND_RIGHT}: of its checks that caught a fault, those whose first\n"
        f"finding is of a kind that the entry expects. {SUPPLIED}: where an entry says that it needs more\n"
        f"(another layout, a neighbouring shape, more calls), it is given. {BINARY}: zeroulp with the 0/1 probe\n"
        "only, 5 trials. The rest are other tools' rules as `zeroulp rules` applies them, on the problem as it stands."
    )
    parts = [meaning]
    for make in (tables.accusations, tables.missed, tables.misnamed, tables.undecided):
        title, head, rows = make(measured)
        parts += [f"{title}\n\n{table(head, rows).rstrip()}"] if rows else []
    parts += ["not run here\n\n" + "\n".join(skipped)] if skipped else []
    return "\n\n".join([*parts, tables.summary(measured)])


def parser() -> argparse.ArgumentParser:
    """The options."""
    result = argparse.ArgumentParser(description=__doc__, epilog="exit status: 1 if zeroulp accuses a correct kernel")
    result.add_argument("--seeds", type=int, default=5, metavar="N", help="how many seeds (default: 5)")
    kinds = f"entries of these kinds: {', '.join(KINDS)}; or '{CORRECT}' (default: all)"
    result.add_argument("--kinds", nargs="+", choices=(*KINDS, CORRECT), metavar="KIND", help=kinds)
    result.add_argument("--only", nargs="+", metavar="TEXT", help="entries whose name contains one of these texts")
    result.add_argument("--json", metavar="FILE", help="write all measurements there")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = parser()
    arguments = options.parse_args(argv)
    entries = chosen(arguments.kinds, arguments.only)
    if arguments.seeds < 1:
        options.error(f"--seeds {arguments.seeds}: at least one seed is needed")
    for text in arguments.only or []:
        if not any(text in entry.name for entry in entries):
            options.error(f"--only {text}: no entry of the zoo{' of these kinds' * bool(arguments.kinds)} is called so")
    if arguments.json:
        try:
            check_writable(arguments.json)
        except UsageError as error:
            options.error(f"--json {error.what}: {error.why}")
    skipped = [f"{entry.name}: {entry.available()}" for entry in entries if entry.available()]
    entries = [entry for entry in entries if not entry.available()]
    rounds = measure(entries, arguments.seeds)
    kept = whole(rounds, entries)
    if not kept:
        raise KeyboardInterrupt  # before there was anything to show
    measured = as_data(entries, kept)
    missing = what_is_missing(rounds, kept, entries, arguments.seeds)
    title = "Faults caught, and correct kernels accused" + (f"\n\n{missing}" if missing else "")
    rows = tables.rows_by_kind(measured, list(KINDS), TOOLS)
    report(title, tables.head(TOOLS), rows, notes(measured, len(kept), skipped))
    if arguments.json:
        data = {**made_by(), "seeds": len(kept), "missing": missing, "tools": TOOLS, "kernels": measured}
        write_whole(arguments.json, json.dumps(data, indent=1) + "\n")
    if missing:
        return _INTERRUPTED
    return int(any(tables.accused(measured, tool) for tool in (DEFAULT, SUPPLIED, BINARY)))


if __name__ == "__main__":
    raise SystemExit(main())
