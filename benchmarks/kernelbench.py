"""
How much of KernelBench can be checked by exact match: problem by problem, at reduced shapes or at full size.

Needs a checkout of https://github.com/ScalingIntelligence/KernelBench, and runs its code.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from common import Steps, Tables, add_output_option
from kernelbench_full import Full, Task
from kernelbench_full import measured as at_full_size
from kernelbench_problems import Shrunk, load, problems
from workers import Workers

from zeroulp import track
from zeroulp.checks.insensitive import insensitive
from zeroulp.sample import Shown, Strategy, as_tensors, draws

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
        compared: What the problem's own code returns in that format: ``"agrees"``, how many algebraic elements
            differ, or why it does not run.
        leans: Whether it leans on a division, beside sums, products and selections.
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
    compared: str = ""
    leans: bool = False


def measured(level: int, number: int, path: Path, storage: str, seconds: float, *, verify: bool) -> Row:
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
    if verdict in {"prefix", "vacuous"} and (why := _vacuous(problem, storage)):
        verdict, note = "vacuous", why
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
        compared(problem, found[0], storage) if verify and verdict in {"exact", "partly"} else "",
        bool(coverage.leans),
    )


def compared(problem: Shrunk, strategy: Strategy, storage: str) -> str:
    """
    The problem's own code in that format, with and without oneDNN, on one and on two threads.

    NNPACK is off: its convolutions are Winograd's, which do not sum the products of the definition.
    """
    worst = 0
    torch.backends.nnpack.set_flags(False)
    for trial in (0, 1):
        operands = as_tensors(problem.operands, strategy.values(0, trial))
        tracked = track.track(problem.reference, operands, storage=storage)
        native = replace(tracked, program=replace(tracked.program, reference=problem.native))
        for one_dnn, threads in ((True, 2), (False, 1)):
            torch.set_num_threads(threads)
            with torch.backends.mkldnn.flags(enabled=one_dnn, allow_tf32=None):
                check = track.self_check(native)
            torch.set_num_threads(1)
            if check.unsupported:
                return f"does not run: {check.unsupported}"[:60]
            worst = max(worst, sum(output.algebraic for output in check.outputs))
    return f"{worst} differ" if worst else "agrees"


def _vacuous(problem: Shrunk, storage: str) -> str:
    """Why its output depends on no input, its weights being as constructed; empty if it does."""
    return insensitive(problem.reference, problem.operands, 0, problem.weights, storage=storage).output


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
            row.compared,
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
        leaning = sum(row.leans and row.verdict == "exact" for row in these)
        times = sorted(row.seconds for row in these)
        many = [str(len(these)), *(str(counts[each]) for each in CLASSES), str(leaning)]
        lines.append([storage, str(level), *many, f"{times[len(times) // 2]:.1f}", f"{times[-1]:.1f}"])
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
    parser.add_argument("--full", action="store_true", help="at full size, on --device; --storage float32")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="of --full (default: cpu)")
    parser.add_argument("--each", type=float, default=120.0, help="of --full: seconds for a problem (default: 120)")
    parser.add_argument("--minutes", type=float, help="of --full: stop after so many, and say what was not run")
    parser.add_argument("--verify", action="store_true", help="run the problems' own code in that format too")
    add_output_option(parser)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    chosen = problems(options.checkout, options.level)
    if options.only:
        chosen = [each for each in chosen if f"{each[0]}/{each[1]}" in options.only]
    if options.limit is not None:
        chosen = [each for each in chosen if sum(e[0] == each[0] for e in chosen[: chosen.index(each)]) < options.limit]
    lines: list[list[str]] = []
    if options.full:
        with Tables(options.output) as tables:
            _full(chosen, options, tables)
        return 0
    with Tables(options.output) as tables:
        for storage in options.storage:
            rows = _all(chosen, storage, options.seconds, verify=options.verify)
            head = [
                "problem",
                "name",
                "verdict",
                "exact",
                "live",
                "best strategy",
                "s",
                "own code",
                "where exactness ends",
            ]
            tables.add(f"KernelBench, {storage}, reduced shapes", head, detail(rows))
            lines += summary(storage, rows)
        notes = (
            "exact: every element of the outputs is algebraic, and at least 1 % of them change with the inputs.\n"
            "partly: some elements are. vacuous: all are, and they do not change, or nothing is exact and the output\n"
            "hardly changes with the inputs, weights being as constructed; at a reduced shape a norm may be over one\n"
            "element. prefix: nothing is exact, and it does change.\n"
            "by division: exact quotients; a kernel that divides term by term instead is not covered.\n"
            "own code: the problem's forward in that format on the CPU, bit by bit, oneDNN on and off, NNPACK off.\n"
            "Train mode, dropout off; parameters and inputs are drawn, other buffers are as constructed.\n"
        )
        head = ["storage", "level", "problems", *CLASSES, "of exact by division", "median s", "most s"]
        tables.add("By level and format of intermediates", head, lines, notes)
    return 0


def _full(chosen: Sequence[tuple[int, int, Any]], options: argparse.Namespace, tables: Tables) -> None:
    """Problems at full size, each in a process that may be ended."""
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else None
    head = ["problem", "name", "verdict", "exact", "live", "best strategy", "elements", "GiB", "s", "own code", "note"]
    for storage in options.storage:
        tasks = [Task(level, n, str(path), storage, options.device, options.seconds) for level, n, path in chosen]
        rows: dict[Task, Full] = {}
        try:
            with Workers(at_full_size, 1, options.each, deadline) as workers, Steps("full size", len(tasks)) as steps:
                for task, part in workers.run(tasks):
                    if isinstance(part, Full):
                        rows[task] = part
                    else:
                        steps.next(f"{task.level}/{task.number}")
                        rows.setdefault(task, Full("failed", note=part.why))
                        found = rows[task]
                        words = f"{found.verdict} {found.seconds:.0f} s {found.note}"
                        print(f"{task.level}/{task.number} {words}", file=sys.stderr, flush=True)
        finally:
            tables.add(f"KernelBench, {storage}, full size, {options.device}", head, _of_full(rows), _counts(rows))


def _of_full(rows: dict[Task, Full]) -> list[list[str]]:
    """The table of all problems at full size."""
    return [
        [
            f"{task.level}/{task.number}",
            Path(task.path).stem.partition("_")[2][:44],
            row.verdict,
            f"{row.share:.1%}",
            f"{row.live:.1%}",
            row.strategy,
            f"{row.elements:,}",
            f"{row.gib:.1f}",
            f"{row.seconds:.0f}",
            row.own,
            row.note[:140],
        ]
        for task, row in rows.items()
    ]


def _counts(rows: dict[Task, Full]) -> str:
    counts = Counter(row.verdict for row in rows.values())
    return (
        ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
        + ".\nGiB: what tracking takes, by estimate; too large: more than is free. 1 in n: inputs that are not zero.\n"
    )


def _all(chosen: Sequence[tuple[int, int, Any]], storage: str, seconds: float, *, verify: bool) -> list[Row]:
    rows = []
    with Steps(f"KernelBench, {storage}", len(chosen)) as steps:
        for level, number, path in chosen:
            steps.next(f"{level}/{number}")
            rows.append(measured(level, number, path, storage, seconds, verify=verify))
            print(f"{level}/{number} {rows[-1].verdict} {rows[-1].seconds:.1f} s", file=sys.stderr)
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
