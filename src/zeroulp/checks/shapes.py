"""One kernel on many shapes: the given one with the whole plan, its neighbours with a short one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.checks.check import check
from zeroulp.checks.session import Session, session_options
from zeroulp.draw import check_seed, fresh_seed
from zeroulp.errors import UsageError
from zeroulp.problem import Matmul
from zeroulp.report import Report, Verdict
from zeroulp.report.shapes import ShapesReport
from zeroulp.shapes import shapes_named, sizes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHORT_PLAN: dict[str, int | None] = {"trials": 1, "repeat": 0, "race_rate": None, "escape_probability": None}
"""Options of the checks of neighbours: one call for each probe, and no bound."""

_STOPS = (Verdict.INCORRECT, Verdict.BROKEN)


def check_shapes(
    kernel: Callable[..., Any] | str,
    problem: Matmul,
    shapes: str | Iterable[Matmul] = "ragged",
    *,
    keep_going: bool = False,
    seed: int | str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> ShapesReport:
    """
    Decide whether *kernel* computes *problem*, and the problems beside it, without a tolerance.

    For kernels that promise any shape; one that is made for a fixed shape is wrong, or breaks,
    on others, and is checked with `check`.

    Args:
        kernel: As for `check`.
        problem: The given one. It gets the whole plan; every other shape one call for each probe.
        shapes: ``"ragged"``: see `zeroulp.ragged_shapes`; ``"ragged+empty"``: with k = 0 too; or
            the other problems.
        keep_going: Check all shapes, and do not stop at the first INCORRECT or BROKEN.
        seed: Of all the checks; default: a fresh one from the operating system.
        progress: Called with (shapes done, shapes in all, what is next).
        **options: As for `check`.

    Returns:
        A `ShapesReport`, with the report of every shape that was checked.

    Raises:
        UsageError: If the request makes no sense.

    Examples:
        >>> import numpy as np
        >>> from zeroulp.problem import Matmul
        >>> report = check_shapes(lambda a, b: a[:, :8] @ b[:8], Matmul(8, 8, 8, a="float32"), seed=1)
        >>> report.verdict.value, report.telling.problem.k
        ('INCORRECT', 9)
    """
    if not isinstance(problem, Matmul):
        raise UsageError(f"the problem is a {type(problem).__name__}", do="pass zeroulp.Matmul(m=..., n=..., k=...)")
    planned = shapes_named(shapes, problem) if isinstance(shapes, str) else _with_given(problem, shapes)
    options["seed"] = fresh_seed() if seed is None else check_seed(seed)
    reports: list[Report] = []
    with Session(kernel, **session_options(options)) as session:
        for done, shape in enumerate(planned):
            if progress is not None:
                progress(done, len(planned), sizes_text(shape))
            report = check(session, shape, **(options | SHORT_PLAN if done else options))
            if done and report.verdict is Verdict.INCONCLUSIVE and report.trials:  # a short plan may compare too little
                report = check(session, shape, **options)
            reports.append(report)
            if report.verdict in _STOPS and not keep_going:
                break
    if progress is not None:
        progress(len(planned), len(planned), "done")
    return ShapesReport(tuple(reports), len(planned))


def _with_given(problem: Matmul, shapes: Iterable[Matmul]) -> list[Matmul]:
    others = list(shapes)
    for other in others:
        if not isinstance(other, Matmul):
            do = "pass 'ragged', or zeroulp.Matmul(...) for each shape"
            raise UsageError(f"one of the shapes is a {type(other).__name__}", do=do)
    return [problem, *(other for other in others if other != problem)]
