"""
Does an element that is graded exact ever differ? Programs run in the formats of the contract, compared bit by bit.

Programs: those of zeroulp.problems (``--shipped``), and of a checkout of KernelBench at reduced shapes
(``--checkout``), whose code is run. Each is drawn by the strategies of zeroulp.sample and tracked, then run as PyTorch
runs it on this machine: with one and two threads, oneDNN on and off, cuDNN on, off and choosing, cuBLAS and cuBLASLt,
compiled by Inductor. Exit status 1 if an element with a grade differs that no clause of a contract explains.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
from agreement_blame import clause, differences, exact_elements, first_operation
from agreement_cases import SHIPPED, Case
from agreement_settings import Setting, settings
from common import Steps, Tables, add_output_option
from kernelbench_problems import problems
from workers import Ended, Workers

from zeroulp.sample import Strategy, as_tensors, draws
from zeroulp.track import track

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agreement_blame import Difference
    from agreement_cases import Program

    from zeroulp.track import Tracked

STORAGES = ("float32", "float16", "bfloat16")
TRIALS = (0, 1)


@dataclass(frozen=True)
class Task:
    """
    What a process does at a time: a program in all settings of a group.

    Args:
        case: The program.
        settings: How it is run.
        seconds: For its strategies.
        limit: How many strategies; of one whose sums are narrow, one.
        drawn: What was drawn, where that is known.
    """

    case: Case
    settings: tuple[Setting, ...]
    seconds: float
    limit: int
    drawn: Drawn | None = field(default=None, hash=False, compare=False)


@dataclass(frozen=True)
class Ran:
    """
    What came of one program in one setting.

    Args:
        case: The program.
        setting: The setting's name.
        accumulate: Clause of the contract.
        algebraic: Elements that are algebraic and were compared.
        once: Elements that are rounded once.
        differ: Algebraic ones that differ.
        once_differ: The others that do.
        where: The operation that differs first.
        why: The clause that explains it.
        example: One of them.
        unsupported: Why it does not run.
    """

    case: Case
    setting: str
    accumulate: str
    algebraic: int = 0
    once: int = 0
    differ: int = 0
    once_differ: int = 0
    where: str = ""
    why: str = ""
    example: str = ""
    unsupported: str = ""


@dataclass(frozen=True)
class Drawn:
    """
    How a program is drawn.

    Args:
        how: Its shapes were chosen.
        strategies: By the clause accumulate; those under which something is exact.
    """

    how: str
    strategies: dict[str, list[Strategy]]

    def lean(self) -> Drawn:
        """With the first strategies alone."""
        return Drawn(self.how, {accumulate: some[:1] for accumulate, some in self.strategies.items()})


def work(task: Task) -> Iterator[Any]:
    """One task; yields `Drawn`, then `Ran` for every setting."""
    torch.set_num_threads(1)
    program = task.case.program(task.drawn.how if task.drawn else "")
    if task.drawn is None:
        clauses = ("float32", "any") if task.case.storage != "float32" else ("float32",)
        drawn = Drawn(program.how, {accumulate: _draws(program, task, accumulate) for accumulate in clauses})
        yield drawn
    else:
        drawn = task.drawn
    runs = {accumulate: _followed(program, task, accumulate, some) for accumulate, some in drawn.strategies.items()}
    for setting in task.settings:
        way = _Way(task.case, program, setting, setting.compiled(program.native))
        for accumulate, trials in runs.items():
            if trials and (accumulate == "any" or not setting.narrow):
                yield way.ran(accumulate, trials)


def _draws(program: Program, task: Task, accumulate: str) -> list[Strategy]:
    options: dict[str, Any] = {"storage": task.case.storage, "accumulate": accumulate, "seconds": task.seconds}
    limit = task.limit if accumulate == "float32" else 1
    found = draws(program.reference, program.operands, limit=limit, **options)
    return [each for each in found if each.coverage is not None and each.coverage.share > 0]


def _followed(program: Program, task: Task, accumulate: str, drawn: Sequence[Strategy]) -> list[Tracked]:
    """All trials of all strategies, tracked."""
    options = {"storage": task.case.storage, "accumulate": accumulate}
    values = [strategy.values(0, trial) for strategy in drawn for trial in TRIALS]
    return [track(program.reference, as_tensors(program.operands, each), **options) for each in values]


@dataclass(frozen=True)
class _Way:
    """
    A program in one setting.

    Args:
        case: The program's name and format.
        program: What is run.
        setting: How.
        function: The program as the compiler of the setting makes it.
    """

    case: Case
    program: Program
    setting: Setting
    function: Any

    def ran(self, accumulate: str, trials: Sequence[Tracked]) -> Ran:
        """What comes of all trials."""
        result = Ran(self.case, self.setting.name, accumulate)
        for tracked in trials:
            try:
                found = differences(tracked, self.outputs(tracked, self.setting))
                self.setting.look_at_compiler()
            except Exception as error:  # (any way in which a library cannot run it)
                if "CUDA error" in str(error):  # nothing else runs in this process
                    raise
                why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                return replace(result, unsupported=why[:110])
            algebraic, once = exact_elements(tracked)
            wrong = sum(each.algebraic for each in found)
            if found and not result.example:
                result = self.explained(result, tracked, found)
            result = replace(
                result,
                algebraic=result.algebraic + algebraic,
                once=result.once + once,
                differ=result.differ + wrong,
                once_differ=result.once_differ + sum(each.count - each.algebraic for each in found),
            )
        return result

    def explained(self, result: Ran, tracked: Tracked, found: Sequence[Difference]) -> Ran:
        """With the operation that differs first, and the clause that says that it may."""
        plainly = replace(self.setting, compiler="")
        where = first_operation(tracked, lambda: self.outputs(tracked, plainly, self.program.native))
        where = where or ", ".join(dict.fromkeys(each.name for each in tracked.operations))
        why = clause(tracked, self.setting, where, self.case.storage, lambda other: self.outputs(tracked, other))
        if not why and all(each.leaning for each in found):
            why = 'division: it is compared under division="last" alone'
        return replace(result, where=where, why=why, example=found[0].example)

    def outputs(self, tracked: Tracked, setting: Setting, function: Any = None) -> list[Any]:
        """What the function, or another one, returns in a setting."""
        storage = getattr(torch, self.case.storage)
        operands = [
            tensor.to(setting.device, storage if tensor.dtype == torch.float64 else tensor.dtype, copy=True)
            for tensor in tracked.program.operands.values()
        ]
        with setting.active(self.case.storage), torch.set_grad_enabled(bool(tracked.program.gradients)):
            returned = (function or self.function)(*operands)
        return [leaf.detach() for leaf in torch.utils._pytree.tree_leaves(returned) if torch.is_tensor(leaf)]  # noqa: SLF001


@dataclass
class Found:
    """What all tasks gave."""

    ran: list[Ran] = field(default_factory=list)
    drawn: dict[Case, Drawn] = field(default_factory=dict)
    failed: list[tuple[Case, str]] = field(default_factory=list)

    def take(self, task: Task, part: Any) -> None:
        """One part of a result."""
        if isinstance(part, Drawn):
            self.drawn[task.case] = part
        elif isinstance(part, Ran):
            self.ran.append(part)
            if part.example:
                print(" ".join(_difference(part)), file=sys.stderr, flush=True)
        elif part.why:
            self.failed.append((task.case, part.why))

    @property
    def exact(self) -> set[Case]:
        """Programs in which something is."""
        return {case for case, drawn in self.drawn.items() if any(drawn.strategies.values())}

    @property
    def unexplained(self) -> int:
        """Elements that differ, and no clause says why."""
        return sum(ran.differ + ran.once_differ for ran in self.ran if not ran.why)

    def counts(self) -> list[list[str]]:
        """A line for each storage format, clause and setting."""
        groups: dict[tuple[str, str, str], list[Ran]] = defaultdict(list)
        for ran in self.ran:
            groups[ran.case.storage, ran.accumulate, ran.setting].append(ran)
        lines = []
        for (storage, accumulate, setting), rans in groups.items():
            done = [ran for ran in rans if not ran.unsupported]
            differ = sum(ran.differ for ran in done)
            why = sum(ran.differ + ran.once_differ for ran in done if ran.why)
            once = f"{sum(ran.once_differ for ran in done)} of {sum(ran.once for ran in done)}"
            sizes = f"{sum(ran.algebraic for ran in done):,}"
            left = sum(ran.differ + ran.once_differ for ran in done if not ran.why)
            counts = [len(done), len(rans) - len(done), sizes, differ, once, why, left]
            lines.append([storage, accumulate, setting, *map(str, counts)])
        return sorted(lines, key=lambda line: (STORAGES.index(line[0]), line[1] != "float32"))


def _difference(ran: Ran) -> list[str]:
    """A line of the table of differences."""
    where = ran.where if len(ran.where) < 60 else f"{ran.where[:57]}..."
    why = ran.why or "UNEXPLAINED"
    name = f"{ran.case.name}, {ran.case.storage}"
    setting = f"{ran.setting}, accumulate={ran.accumulate}"
    algebraic, once = f"{ran.differ} of {ran.algebraic}", f"{ran.once_differ} of {ran.once}"
    return [name, setting, where, algebraic, once, ran.example, why]


def _cases(options: argparse.Namespace) -> list[Case]:
    """By level, then by problem, then by format: what is likely to be there in time comes first."""
    cases = [Case(name, storage) for name in SHIPPED for storage in options.storage] if options.shipped else []
    if options.checkout is not None:
        chosen = problems(options.checkout, options.level)
        counts: Counter[int] = Counter()
        for level, number, path in chosen:
            counts[level] += 1
            if options.limit is None or counts[level] <= options.limit:
                cases += [Case(f"{level}/{number}", storage, str(path), level) for storage in options.storage]
    return [case for case in cases if not options.only or case.name in options.only]


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path, help="folder of KernelBench")
    parser.add_argument("--shipped", action="store_true", help="the problems of zeroulp.problems")
    parser.add_argument("--level", type=int, nargs="+", default=[1, 2, 3], help="of KernelBench (default: 1 2 3)")
    parser.add_argument("--limit", type=int, help="so many problems of each level, the first ones")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these programs alone: 2/14 conv2d")
    parser.add_argument("--storage", nargs="+", default=list(STORAGES), choices=STORAGES, help="default: all three")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="where programs run (default: cpu)")
    parser.add_argument("--compile", choices=("yes", "no"), help="Inductor (default: where there is a compiler)")
    parser.add_argument("--triton-products", action="store_true", help="products in Triton too (slow to compile)")
    parser.add_argument("--strategies", type=int, default=3, help="of a program, at most (default: 3)")
    parser.add_argument("--seconds", type=float, default=6.0, help="to find them, for each contract (default: 6)")
    parser.add_argument("--each", type=float, default=120.0, help="seconds for a program, all told (default: 120)")
    parser.add_argument("--minutes", type=float, help="stop after so many, and say what was not run")
    parser.add_argument("--workers", type=int, help="processes (default: cores less 2, at least 1)")
    add_output_option(parser)
    options = parser.parse_args(argv)
    if options.checkout is None and not options.shipped:
        parser.error("nothing to run: --checkout PATH, --shipped, or both")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device here")
    if options.compile is None:
        there = shutil.which(os.environ.get("CXX", "g++"))
        if options.device == "cuda":
            there = importlib.util.find_spec("triton")
        options.compile = "yes" if there else "no"
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run, count and print."""
    options = _options(argv)
    cases = _cases(options)
    plain, made = settings(options.device, compilers=options.compile == "yes", triton=options.triton_products)
    count = options.workers or max(1, (os.cpu_count() or 1) - 2)
    deadline = time.monotonic() + 60 * options.minutes if options.minutes else None
    found, start = Found(), time.monotonic()
    first = [Task(case, tuple(plain), options.seconds, options.strategies) for case in cases]
    with Tables(options.output) as tables:
        try:
            with Workers(work, count, options.each, deadline) as workers:
                _run(workers, f"agreement on {options.device}", first, found)
                second = [
                    replace(task, settings=(each,), drawn=found.drawn[task.case].lean())
                    for each in made
                    for task in first
                    if task.case in found.exact
                ]
                _run(workers, "compiled", second, found)
        finally:
            _tell(tables, options, found, len(cases), time.monotonic() - start)
    return 1 if found.unexplained else 0


def _run(workers: Workers, title: str, tasks: Sequence[Task], found: Found) -> None:
    with Steps(title, len(tasks)) as steps:
        for task, part in workers.run(tasks):
            found.take(task, part)
            if isinstance(part, Ended):
                steps.next(f"{task.case.name}, {task.case.storage}")


def _tell(tables: Tables, options: argparse.Namespace, found: Found, cases: int, seconds: float) -> None:
    """The tables."""
    head = ["storage", "accumulate", "setting", "programs", "do not run", "algebraic elements", "differ"]
    more = ["rounded once that differ", "explained", "UNEXPLAINED"]
    notes = (
        f"{cases} programs and formats; something is exact in {len(found.exact)}: these were run ({seconds:.0f} s).\n"
        "Two trials of each strategy; compiled: of the first one. NNPACK and TensorFloat-32 off.\n"
        'accumulate: the clause of the contract; under "any" sums may be kept in 16 bits, and drawings are sparser.\n'
        "explained: by a clause of a contract, below. What is rounded once is demoted by the self-check as well.\n"
    )
    tables.add(f"Agreement, {options.device}", [*head, *more], found.counts(), notes)
    head = ["program", "setting", "first operation that differs", "algebraic", "rounded once", "an example", "clause"]
    tables.add("Elements that differ", head, [_difference(ran) for ran in found.ran if ran.example])
    not_run = Counter((ran.setting, ran.unsupported) for ran in found.ran if ran.unsupported)
    if not_run:
        rows = [[setting, why, str(number), _where(found, setting, why)] for (setting, why), number in not_run.items()]
        tables.add("What does not run", ["setting", "why", "times", "programs"], rows)
    if found.failed:
        reasons: dict[str, list[str]] = defaultdict(list)
        for case, why in found.failed:
            reasons[why[:110]].append(f"{case.name} {case.storage}")
        rows = [[why, str(len(names)), _few(names)] for why, names in reasons.items()]
        tables.add("Programs that were not run to the end", ["why", "times", "programs"], rows)


def _where(found: Found, setting: str, why: str) -> str:
    return _few([f"{r.case.name} {r.case.storage}" for r in found.ran if (r.setting, r.unsupported) == (setting, why)])


def _few(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names[:6])) + (", ..." if len(names) > 6 else "")


if __name__ == "__main__":
    raise SystemExit(main())
