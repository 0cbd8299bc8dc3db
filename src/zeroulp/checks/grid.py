"""One kernel on a grid of shapes, each with the whole plan; resumed from the file that it writes."""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.checks.grid_shape import check_shape
from zeroulp.checks.jobs import Job, Jobs
from zeroulp.checks.remaining import Remaining
from zeroulp.checks.session import Session, session_options
from zeroulp.checks.target import can_be_found
from zeroulp.draw import check_seed, fresh_seed
from zeroulp.errors import UsageError
from zeroulp.problem import Matmul
from zeroulp.report import Verdict
from zeroulp.report.grid import GridHeader, GridReport, ShapeResult
from zeroulp.report.journal import FileJournal, Journal
from zeroulp.sizes import Sizes, parse_grid

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from zeroulp.checks.grid_shape import Checked

_STOPS = (Verdict.INCORRECT, Verdict.BROKEN)


@dataclass(frozen=True)
class GridStep:
    """
    Where a check of a grid stands.

    Args:
        done: Shapes that are done, those of an earlier run among them.
        planned: Shapes in all.
        sizes: The shape that is being checked, or of several the one heard of last; None at the end.
        trial: Trials of it that are done.
        trials: Trials of it in all; 0 while that is not known.
        counts: How many of the shapes that are done came to what.
        seconds_left: Estimate; None while nothing is known.
        at_once: How many shapes are being checked.
    """

    done: int
    planned: int
    sizes: Sizes | None
    trial: int
    trials: int
    counts: dict[Verdict, int]
    seconds_left: float | None
    at_once: int = 1


def check_grid(
    kernel: Callable[..., Any] | str,
    problem: Matmul,
    shapes: str | Iterable[Sequence[int]],
    *,
    journal: str | Path | Journal | None = None,
    fail_fast: bool = False,
    jobs: int = 1,
    seed: int | str | None = None,
    progress: Callable[[GridStep], None] | None = None,
    **options: Any,
) -> GridReport:
    """
    Decide at every one of many shapes whether *kernel* computes *problem*, without a tolerance.

    The kernel is loaded once. One that breaks at a shape is loaded again before the next.

    Args:
        kernel: As for `check`.
        problem: Everything but the sizes; its own m, n and k do not matter.
        shapes: The shapes (m, n, k), in the order in which they are checked, each once; or a grid such as
            ``"64,128,256"`` (all three of m, n and k) or ``"64,128x64x1024"`` (m x n x k).
        journal: A file to which the report of each shape is appended when it is done, as JSON Lines. If it
            holds shapes of the same request, those are not checked again, and the seed is its own. Or an open
            `zeroulp.report.journal.Journal`.
        fail_fast: Stop at the first shape that is INCORRECT or BROKEN.
        jobs: How many shapes are checked at once, each by a process of its own with its own kernel, which
            it finds by its name. After the first shape those with the most work begin first, but under
            *fail_fast*; the *journal* has them in the order in which they end.
        seed: Of all the checks; default: a fresh one from the operating system.
        progress: Called with a `GridStep` before every trial, or with several *jobs* some times a second; and
            once at the end.
        **options: As for `check`.

    Returns:
        A `GridReport`, with a line for each shape; the whole reports are in the *journal*.

    Raises:
        UsageError: If the request makes no sense.
        ReportFileError: If *journal* holds the shapes of another request, or anything else.

    Exactness:
        As for `check`, at each shape. A shape for which there is not enough memory is INCONCLUSIVE; it is
        not in the *journal*, and the same request tries it again.

    Examples:
        >>> import numpy as np
        >>> from zeroulp.problem import Matmul
        >>> report = check_grid(lambda a, b: a[:, :8] @ b[:8], Matmul(1, 1, 1, a="float32"), "4x4x8,9", seed=1)
        >>> [(str(result.sizes), result.verdict.value) for result in report.results]
        [('4x4x8', 'CORRECT'), ('4x4x9', 'INCORRECT')]
    """
    if not isinstance(problem, Matmul):
        raise UsageError(f"the problem is a {type(problem).__name__}", do="pass zeroulp.Matmul(m=..., n=..., k=...)")
    planned = parse_grid(shapes) if isinstance(shapes, str) else _planned(shapes)
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise UsageError(f"jobs={jobs!r} is no number of shapes to check at once", do="pass 1 or more")
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(Session(kernel, **session_options(options)))
        if jobs > 1 and session.function is not None and not can_be_found(session.function):
            raise UsageError(
                f"the function {session.spec.target.rpartition(':')[2]} cannot be handed to other processes",
                why=f"each of jobs={jobs} imports the kernel by name: it stands at the top of a file, or in a class",
                do="define it so, pass 'file.py:function', or leave jobs at 1",
            )
        if isinstance(journal, (str, Path)):
            journal = stack.enter_context(FileJournal(journal))
        if journal is not None and seed is None:
            seed = journal.seed
        header = GridHeader(
            kernel=session.spec,
            kernel_sha256=_sha256(session.spec.target),
            problem=problem.replace(**planned[0]._asdict()),
            seed=fresh_seed() if seed is None else check_seed(seed),
            isolation=session.isolation,
            options={name: value for name, value in options.items() if value is not None},
            shapes=planned,
            jobs=min(jobs, len(planned)),
        )
        done = journal.begin(header) if journal is not None else []
        return _Grid(header, session, journal, options, done, progress=progress).check_all(fail_fast=fail_fast)


class _Grid:
    """A check of a grid in progress."""

    def __init__(
        self,
        header: GridHeader,
        session: Session,
        journal: Journal | None,
        options: dict[str, Any],
        done: list[ShapeResult],
        *,
        progress: Callable[[GridStep], None] | None,
    ) -> None:
        self._header, self._session, self._journal, self._options = header, session, journal, options
        self._results = {result.sizes: result for result in done}
        self._resumed = len(done)
        self._counts = Counter(result.verdict for result in done)
        self._progress = progress
        todo = [sizes for sizes in header.shapes if sizes not in self._results]
        self._remaining = Remaining(todo, math.prod(header.problem.batch))
        for result in done:
            self._remaining.saw(result.sizes, result.check_seconds)

    def check_all(self, *, fail_fast: bool) -> GridReport:
        todo = [sizes for sizes in self._header.shapes if sizes not in self._results]
        if fail_fast and any(self._counts[verdict] for verdict in _STOPS):
            todo = []
        run = self._one_by_one if self._header.jobs == 1 else self._several_at_once
        with contextlib.closing(run(todo, fail_fast=fail_fast)) as finished:
            for checked in finished:
                if checked.refused is not None and not checked.has_loaded and not self._results:
                    raise checked.refused
                if self._journal is not None and checked.is_final:
                    self._journal.add(checked.report)
                result = ShapeResult.of(checked.report)
                self._keep(result)
                if fail_fast and result.verdict in _STOPS:
                    break
                if result.verdict is Verdict.BROKEN and not checked.has_loaded:
                    break  # it cannot even be loaded, and the next shape would not change that
        self._say(None, 0, 0, 0.0)
        results = [self._results[sizes] for sizes in self._header.shapes if sizes in self._results]
        return GridReport(self._header, tuple(results), self._resumed)

    def _one_by_one(self, todo: list[Sizes], *, fail_fast: bool) -> Generator[Checked, None, None]:
        del fail_fast
        for sizes in todo:
            started = time.perf_counter()

            def progress(done: int, total: int, _: str, sizes: Sizes = sizes, started: float = started) -> None:
                self._say(sizes, done, total, time.perf_counter() - started)

            self._say(sizes, 0, 0, 0.0)
            problem = self._header.problem.replace(**sizes._asdict())
            yield check_shape(self._session, problem, self._header.seed, self._options, progress)

    def _several_at_once(self, todo: list[Sizes], *, fail_fast: bool) -> Generator[Checked, None, None]:
        if not fail_fast:  # the longest do not come last, when there is nothing else to do
            todo = [*todo[:1], *sorted(todo[1:], key=math.prod, reverse=True)]

        def say(job: Job, at_once: int) -> None:
            self._say(job.sizes, job.trial, job.trials, jobs.elapsed, at_once)

        jobs = Jobs(self._session, self._header, self._options, say)
        yield from jobs.run(todo, fail_fast=fail_fast)

    def _keep(self, result: ShapeResult) -> None:
        self._results[result.sizes] = result
        self._counts[result.verdict] += 1
        self._remaining.saw(result.sizes, result.check_seconds)
        self._remaining.done(result.sizes)

    def _say(self, sizes: Sizes | None, trial: int, trials: int, elapsed: float, at_once: int = 1) -> None:
        if self._progress is None:
            return
        left = self._remaining.seconds()
        left = None if left is None else max(0.0, left - elapsed) / at_once
        counts = {verdict: count for verdict, count in self._counts.items() if count}
        done, planned = len(self._results), len(self._header.shapes)
        self._progress(GridStep(done, planned, sizes, trial, trials, counts, left, at_once))


def _planned(shapes: Iterable[Sequence[int]]) -> tuple[Sizes, ...]:
    try:
        planned = tuple(dict.fromkeys(Sizes(*shape) for shape in shapes))
    except TypeError as error:
        raise UsageError("a shape is no (m, n, k)", why=str(error), do="pass three whole numbers for each") from error
    if not planned:
        raise UsageError("there is no shape to check", do="pass one or more (m, n, k), or a grid such as '64,128'")
    for sizes in planned:
        Matmul(*sizes, a="float32")  # refuses what is no size
    return planned


def _sha256(target: str) -> str:
    """Of the file that holds the kernel; empty if it is named otherwise."""
    file = Path(target.rpartition(":")[0])
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    except OSError:
        return ""
