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

from zeroulp.checks.check import check
from zeroulp.checks.environment import describe_environment
from zeroulp.checks.remaining import Remaining
from zeroulp.checks.session import Session, session_options
from zeroulp.draw import check_seed, fresh_seed
from zeroulp.errors import UsageError
from zeroulp.problem import Matmul
from zeroulp.report import Report, Verdict
from zeroulp.report.codec import to_dict
from zeroulp.report.grid import GridHeader, GridReport, ShapeResult
from zeroulp.report.journal import FileJournal, Journal
from zeroulp.sizes import Sizes, parse_grid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_STOPS = (Verdict.INCORRECT, Verdict.BROKEN)


@dataclass(frozen=True)
class GridStep:
    """
    Where a check of a grid stands.

    Args:
        done: Shapes that are done, those of an earlier run among them.
        planned: Shapes in all.
        sizes: The shape that is being checked; None at the end.
        trial: Trials of it that are done.
        trials: Trials of it in all; 0 while that is not known.
        counts: How many of the shapes that are done came to what.
        seconds_left: Estimate; None while nothing is known.
    """

    done: int
    planned: int
    sizes: Sizes | None
    trial: int
    trials: int
    counts: dict[Verdict, int]
    seconds_left: float | None


def check_grid(
    kernel: Callable[..., Any] | str,
    problem: Matmul,
    shapes: str | Iterable[Sequence[int]],
    *,
    journal: str | Path | Journal | None = None,
    fail_fast: bool = False,
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
        seed: Of all the checks; default: a fresh one from the operating system.
        progress: Called before every trial with a `GridStep`, and once at the end.
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
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(Session(kernel, **session_options(options)))
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
        for sizes in self._header.shapes:
            if fail_fast and any(self._counts[verdict] for verdict in _STOPS):
                break
            if sizes in self._results:
                continue
            report, is_final = self._check(sizes)
            data = to_dict(report)
            if self._journal is not None and is_final:
                self._journal.add(data)
            self._keep(ShapeResult.of(data))
            if report.verdict is Verdict.BROKEN and not self._session.has_loaded:
                break  # it cannot even be loaded, and the next shape would not change that
        self._say(None, 0, 0, 0.0)
        results = [self._results[sizes] for sizes in self._header.shapes if sizes in self._results]
        return GridReport(self._header, tuple(results), self._resumed)

    def _keep(self, result: ShapeResult) -> None:
        self._results[result.sizes] = result
        self._counts[result.verdict] += 1
        self._remaining.saw(result.sizes, result.check_seconds)
        self._remaining.done(result.sizes)

    def _check(self, sizes: Sizes) -> tuple[Report, bool]:
        """
        The report of one shape, and whether it is final.

        It is not, and INCONCLUSIVE, if the shape cannot be checked here and now, and others can.
        """
        started = time.perf_counter()
        problem = self._header.problem.replace(**sizes._asdict())

        def progress(done: int, total: int, _: str) -> None:
            self._say(sizes, done, total, time.perf_counter() - started)

        self._say(sizes, 0, 0, 0.0)
        try:
            return check(self._session, problem, seed=self._header.seed, progress=progress, **self._options), True
        except UsageError as error:
            if not self._session.has_loaded and not self._results:
                raise
            reason = (error.what, " ".join(filter(None, [error.why, error.do])))
        except MemoryError as error:
            reason = (f"there is not enough memory: {error}", "a machine with more memory, or smaller sizes")
        report = Report(
            verdict=Verdict.INCONCLUSIVE,
            problem=problem,
            kernel=self._session.spec,
            seed=self._header.seed,
            reasons=(reason,),
            isolation=self._session.isolation,
            seconds={"kernel": 0.0, "check": round(time.perf_counter() - started, 6)},
            environment=describe_environment({}),
            options={name: self._options.get(name) for name in ("p_zero", "trials", "probes", "repeat")},
        )
        return report, False

    def _say(self, sizes: Sizes | None, trial: int, trials: int, elapsed: float) -> None:
        if self._progress is None:
            return
        left = self._remaining.seconds()
        left = None if left is None else max(0.0, left - elapsed)
        counts = {verdict: count for verdict, count in self._counts.items() if count}
        self._progress(GridStep(len(self._results), len(self._header.shapes), sizes, trial, trials, counts, left))


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
