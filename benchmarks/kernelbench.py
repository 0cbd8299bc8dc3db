"""
How much of KernelBench can be checked by exact match: problem by problem, at reduced shapes.

Needs a checkout of https://github.com/ScalingIntelligence/KernelBench, and runs its code.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from common import Steps, Tables, add_output_option
from kernelbench_problems import Shrunk, load, problems

from zeroulp.sample import Shown, Strategy, draws

if TYPE_CHECKING:
    from collections.abc import Sequence

STORAGES = ("float32", "float16", "bfloat16")
CLASSES = ("exact", "partly", "vacuous", "prefix", "failed")


@dataclass(frozen=True)
class Row:
    """
    What became of one problem.

    Args:
        level: Of KernelBench.
        number: Of the problem.
        name: Of its file.
        verdict: One of `CLASSES`.
        share: Of the elements that are exact.
        live: Of these, that change with the inputs.
        strategy: The best one.
        note: Where exactness ends, or what went wrong.
        seconds: For loading and finding strategies.
        algebraic: Whether it leans on sums, products and selections alone.
    """

    level: int
    number: int
    name: str
    verdict: str
    share: float = 0.0
    live: float = 0.0
    strategy: str = ""
    note: str = ""
    seconds: float = 0.0
    algebraic: bool = True


def measured(level: int, number: int, path: Path, storage: str, seconds: float) -> Row:
    """One problem; what it raises is its note."""
    start = time.monotonic()
    name = path.stem.partition("_")[2]
    try:
        problem = load(path, storage)
        found = _draws(problem, storage, seconds)
    except Exception as error:  # noqa: BLE001  (the others are to be measured too)
        note = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        return Row(level, number, name, "failed", note=note[:160], seconds=time.monotonic() - start)
    coverage = found[0].coverage
    assert coverage is not None
    note = "" if coverage.ended is None else coverage.ended.sentence()
    if coverage.telling == 1:
        unseen = Shown(tuple(found)).unseen
        verdict, note = "exact", f"no exact data for {len(unseen)} operations" if unseen else ""
    elif coverage.share == 1:
        verdict = "vacuous"
    else:
        verdict = "partly" if coverage.telling >= 0.01 else "prefix"
    took = time.monotonic() - start
    return Row(
        level,
        number,
        name,
        verdict,
        coverage.share,
        coverage.live,
        found[0].name,
        note[:160],
        took,
        not coverage.leans - {"division"},
    )


def _draws(problem: Shrunk, storage: str, seconds: float) -> list[Strategy]:
    return draws(problem.reference, problem.operands, storage=storage, seconds=seconds)


def detail(rows: Sequence[Row]) -> list[list[str]]:
    """The table of all problems."""
    return [
        [
            f"{row.level}/{row.number}",
            row.name[:44],
            row.verdict,
            f"{row.share:.0%}" if row.verdict != "failed" else "",
            f"{row.live:.0%}" if row.verdict != "failed" else "",
            row.strategy,
            f"{row.seconds:.1f}",
            row.note,
        ]
        for row in rows
    ]


def summary(storage: str, rows: Sequence[Row]) -> list[list[str]]:
    """How many of each verdict, by level."""
    lines = []
    for level in sorted({row.level for row in rows}):
        these = [row for row in rows if row.level == level]
        counts = Counter(row.verdict for row in these)
        median = sorted(row.seconds for row in these)[len(these) // 2]
        most = max(row.seconds for row in these)
        lines.append(
            [
                storage,
                str(level),
                str(len(these)),
                *(str(counts[each]) for each in CLASSES),
                f"{median:.1f}",
                f"{most:.1f}",
            ]
        )
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", required=True, type=Path, help="folder of KernelBench")
    parser.add_argument("--level", type=int, nargs="+", default=[1, 2, 3], help="levels (default: 1 2 3)")
    parser.add_argument("--storage", nargs="+", default=["float32"], choices=STORAGES, help="formats of intermediates")
    parser.add_argument("--limit", type=int, default=None, help="so many problems of each level, the first ones")
    parser.add_argument("--only", nargs="+", default=None, metavar="LEVEL/N", help="these problems alone: 2/14")
    parser.add_argument("--seconds", type=float, default=20.0, help="for the strategies of one problem (default: 20)")
    add_output_option(parser)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    chosen = problems(options.checkout, options.level)
    if options.only:
        chosen = [each for each in chosen if f"{each[0]}/{each[1]}" in options.only]
    if options.limit is not None:
        chosen = [each for each in chosen if sum(e[0] == each[0] for e in chosen[: chosen.index(each)]) < options.limit]
    lines: list[list[str]] = []
    with Tables(options.output) as tables:
        for storage in options.storage:
            rows = _all(chosen, storage, options.seconds)
            head = ["problem", "name", "verdict", "exact", "live", "best strategy", "s", "where exactness ends"]
            tables.add(f"KernelBench, {storage}, reduced shapes", head, detail(rows))
            lines += summary(storage, rows)
        notes = (
            "exact: every element of the outputs is algebraic, and at least 1 % of them change with the inputs.\n"
            "partly: some elements are. vacuous: all are, and they do not change. prefix: none is.\n"
            "Train mode, dropout off; parameters and inputs are drawn, other buffers are as constructed.\n"
        )
        head = ["storage", "level", "problems", *CLASSES, "median s", "most s"]
        tables.add("By level and format of intermediates", head, lines, notes)
    return 0


def _all(chosen: Sequence[tuple[int, int, Any]], storage: str, seconds: float) -> list[Row]:
    rows = []
    with Steps(f"KernelBench, {storage}", len(chosen)) as steps:
        for level, number, path in chosen:
            steps.next(f"{level}/{number}")
            rows.append(measured(level, number, path, storage, seconds))
            print(f"{level}/{number} {rows[-1].verdict} {rows[-1].seconds:.1f} s", file=sys.stderr)
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
