"""The public check: a kernel and a problem in, a report out."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from zeroulp.checks.judging import REFERENCES, SMALLEST_WORKSPACE
from zeroulp.checks.linear_run import LinearRun, linear_plan, prepared, refuse, tracking_of
from zeroulp.checks.run import Run
from zeroulp.checks.session import Session
from zeroulp.draw import check_seed, fresh_seed
from zeroulp.errors import KernelIncorrectError, UnknownNameError, UsageError
from zeroulp.plan import calls_for, make_plan
from zeroulp.problem import Linear, Matmul
from zeroulp.report import Report, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroulp.problem import Problem


Progress = "Callable[[int, int, str], None]"


def check(
    kernel: Callable[..., Any] | str | Session,
    problem: Problem,
    *,
    escape_probability: float | None = None,
    trials: int | None = None,
    probes: Sequence[str] | None = None,
    p_zero: float | None = None,
    repeat: int | None = None,
    race_rate: float | None = None,
    seed: int | str | None = None,
    framework: str | None = None,
    device: str = "cpu",
    signature: str | None = None,
    destination_passing: bool = False,
    isolation: str = "none",
    deadline_seconds: float = 60.0,
    reference: str = "verified",
    workspace_bytes: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Report:
    """
    Decide whether *kernel* computes *problem*, without a tolerance.

    Args:
        kernel: A function ``kernel(a, b) -> out`` on arrays of one framework, or a target such
            as ``"file.py:function"`` or ``"library.so:symbol"``; or an open `Session` with one,
            which says how it is called and where it runs, in place of the arguments from *framework* on.
        problem: What it should compute, and the contract it keeps: a `Matmul`, or a `Linear` that a reference says;
            with that one *escape_probability*, *probes*, *p_zero* and *workspace_bytes* are left out.
        escape_probability: Bound on the chance that a wrong kernel passes. Given, it gets as many
            calls as it takes, up to 1,000, and a kernel that does nothing wrong is INCONCLUSIVE
            where it cannot be reached. Default: 1e-9, or what about 34 calls reach.
        trials: This many trials of each probe, instead of what the bound asks for.
        probes: Names of the probes to use; default: all.
        p_zero: Probability of a zero in ``binary`` and ``fractional``; default: derived.
        repeat: Further calls on one unchanged input, looking for races; default 1.
        race_rate: Instead of *repeat*: so many calls that a race which spoils this share of them
            (0.05: one call in twenty) escapes with at most the escape probability.
        seed: To draw the same inputs again; default: a fresh one from the operating system.
        framework: ``"numpy"``, ``"torch"`` or ``"jax"``; default: found from the kernel's module.
        device: Where its arrays live: ``"cpu"``, or ``"cuda"`` or ``"cuda:1"`` with PyTorch.
        signature: Of a C symbol, e.g. ``"a, b, out, m, n, k"``.
        destination_passing: Whether the kernel writes into a last argument ``out``.
        isolation: ``"none"``, or ``"process"``: a worker that may crash or hang.
        deadline_seconds: Longest time of one call, kept under ``isolation="process"``.
        reference: How results are judged: ``"verified"``, in O(n^2), where they lie; or ``"dense"``:
            every expected result is multiplied out in full on the host. Both come to the same.
        workspace_bytes: Memory that verification may use for itself; default: 256 MiB, or a share of
            a device's memory.
        progress: Called with (trials done, trials in all, what is next).

    Returns:
        A `Report`; its ``verdict`` is the answer.

    Raises:
        UsageError: If the request makes no sense. A kernel that breaks gives the verdict BROKEN.

    Exactness:
        Only trials whose certificate holds are run, and there every correct kernel returns the
        same bits; so a difference is proof, and no tolerance enters.

    Examples:
        >>> import numpy as np
        >>> report = check(lambda a, b: a @ b, Matmul(m=8, n=9, k=10, a="float32"))
        >>> report.verdict.value
        'CORRECT'
    """
    if not isinstance(problem, (Matmul, Linear)):
        do = "pass zeroulp.Matmul(m=..., n=..., k=...), or zeroulp.Linear(reference, operands)"
        raise UsageError(f"the problem is a {type(problem).__name__}", do=do)
    started = time.perf_counter()
    if isinstance(kernel, Session):
        session = kernel
    else:
        session = Session(
            kernel,
            framework=framework,
            device=device,
            signature=signature,
            destination_passing=destination_passing,
            isolation=isolation,
            deadline_seconds=deadline_seconds,
        )
    chosen = fresh_seed() if seed is None else check_seed(seed)
    if isinstance(problem, Linear):
        others = {"escape_probability": escape_probability, "probes": probes, "p_zero": p_zero}
        refuse({**others, "workspace_bytes": workspace_bytes}, (*others, "workspace_bytes"))
        problem, fitted = prepared(problem, chosen, session.spec.device)
        plan = linear_plan(fitted, trials=trials, repeat=repeat, race_rate=race_rate)
        if race_rate is not None:
            repeat = calls_for(race_rate, plan.wished)
        asked = {"p_zero": None, "trials": trials, "probes": None, "repeat": repeat}
        linear = LinearRun(plan, session.spec, chosen, asked, started, progress, tracking=tracking_of(fitted))
        linear.followed = fitted.followed
        with contextlib.nullcontext() if session is kernel else session:
            return linear.judge_all(session)
    plan = make_plan(
        problem,
        escape_probability=escape_probability,
        trials=trials,
        probes=probes,
        p_zero=p_zero,
        repeat=repeat,
        race_rate=race_rate,
    )
    if race_rate is not None:
        repeat = calls_for(race_rate, plan.wished)
    named = list(probes) if probes else None
    options: dict[str, Any] = {"p_zero": p_zero, "trials": trials, "probes": named, "repeat": repeat}
    if escape_probability is not None:
        options["escape_probability"] = escape_probability
    options |= _judging(reference, workspace_bytes)
    run = Run(plan, session.spec, chosen, options, started, progress)
    with contextlib.nullcontext() if session is kernel else session:
        return run.judge_all(session)


def _judging(reference: str, workspace_bytes: int | None) -> dict[str, Any]:
    """How results are judged, as far as it is not as usual."""
    if reference not in REFERENCES:
        raise UnknownNameError("reference", reference, REFERENCES)
    options: dict[str, Any] = {} if reference == REFERENCES[0] else {"reference": reference}
    if workspace_bytes is None:
        return options
    is_whole = isinstance(workspace_bytes, int) and not isinstance(workspace_bytes, bool)
    if not is_whole or workspace_bytes < SMALLEST_WORKSPACE:
        what = f"workspace_bytes={workspace_bytes!r} is no size of a workspace"
        raise UsageError(what, do=f"pass {SMALLEST_WORKSPACE:,} bytes or more, or leave it out")
    return options | {"workspace_bytes": workspace_bytes}


def assert_correct(kernel: Callable[..., Any] | str, problem: Problem, **options: Any) -> Report:
    """
    `check`, for tests.

    Returns:
        The report, whose verdict is CORRECT.

    Raises:
        KernelIncorrectError: If it is any other; an AssertionError that carries the report.
        UsageError: If the request makes no sense.
    """
    __tracebackhide__ = True
    report = check(kernel, problem, **options)
    if report.verdict is not Verdict.CORRECT:
        raise KernelIncorrectError(str(report), report)
    return report
