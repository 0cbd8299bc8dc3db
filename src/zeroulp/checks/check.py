"""The public check: a kernel and a problem in, a report out."""

from __future__ import annotations

import inspect
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.checks.bench import Bench, Observation, block_size
from zeroulp.checks.environment import describe_environment
from zeroulp.checks.inputs import digest
from zeroulp.checks.naming import name_difference
from zeroulp.draw import check_seed, fresh_seed
from zeroulp.errors import KernelError, KernelIncorrectError, UsageError
from zeroulp.judge import Differs
from zeroulp.kernels import KernelSpec, load, wrap
from zeroulp.kernels.load import is_library
from zeroulp.plan import Plan, make_plan
from zeroulp.problem import Matmul
from zeroulp.report import Finding, Report, TrialRecord, Verdict
from zeroulp.runner import InProcess, Runner, start_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from zeroulp.plan import Trial

Progress = "Callable[[int, int, str], None]"


def check(
    kernel: Callable[..., Any] | str,
    problem: Matmul,
    *,
    escape_probability: float = 1e-9,
    trials: int | None = None,
    probes: Sequence[str] | None = None,
    p_zero: float | None = None,
    repeat: int | None = None,
    seed: int | str | None = None,
    framework: str | None = None,
    signature: str | None = None,
    destination_passing: bool = False,
    isolation: str = "none",
    deadline_seconds: float = 60.0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Report:
    """
    Decide whether *kernel* computes *problem*, without a tolerance.

    Args:
        kernel: A function ``kernel(a, b) -> out`` on arrays of one framework, or a target such
            as ``"file.py:function"`` or ``"library.so:symbol"``.
        problem: What it should compute, and the contract it keeps.
        escape_probability: Wished bound on the chance that a wrong kernel passes.
        trials: This many trials of each probe, instead of what the bound asks for.
        probes: Names of the probes to use; default: all.
        p_zero: Probability of a zero in ``binary`` and ``fractional``; default: derived.
        repeat: Further calls on one unchanged input, looking for races; default 1.
        seed: To draw the same inputs again; default: a fresh one from the operating system.
        framework: ``"numpy"`` or ``"torch"``; default: found from the kernel's module.
        signature: Of a C symbol, e.g. ``"a, b, out, m, n, k"``.
        destination_passing: Whether the kernel writes into a last argument ``out``.
        isolation: ``"none"``, or ``"process"``: a worker that may crash or hang.
        deadline_seconds: Longest time of one call, kept under ``isolation="process"``.
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
    if not isinstance(problem, Matmul):
        raise UsageError(f"the problem is a {type(problem).__name__}", do="pass zeroulp.Matmul(m=..., n=..., k=...)")
    started = time.perf_counter()
    spec = _spec(kernel, framework, signature, destination_passing=destination_passing)
    chosen = fresh_seed() if seed is None else check_seed(seed)
    plan = make_plan(
        problem, escape_probability=escape_probability, trials=trials, probes=probes, p_zero=p_zero, repeat=repeat
    )
    options = {"p_zero": p_zero, "trials": trials, "probes": list(probes) if probes else None, "repeat": repeat}
    run = Run(plan, spec, chosen, options, started, progress)
    function = kernel if callable(kernel) else None
    if function is not None and isolation == "process" and not _can_be_found(function):
        raise UsageError(
            f"the function {spec.target.rpartition(':')[2]} cannot be handed to a worker process",
            why="the worker imports the kernel by name: it must stand at the top of a file, or in a class there",
            do="define it so, pass 'file.py:function', or leave isolation at 'none'",
        )
    return run.judge_all(function, isolation, deadline_seconds)


def assert_correct(kernel: Callable[..., Any] | str, problem: Matmul, **options: Any) -> Report:
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


@dataclass
class Run:
    """A check in progress."""

    plan: Plan
    spec: KernelSpec
    seed: int
    options: dict[str, Any]
    started: float
    progress: Callable[[int, int, str], None] | None = None
    findings: list[Finding] = field(default_factory=list)
    records: list[TrialRecord] = field(default_factory=list)
    compared: NDArray[np.bool_] | bool = False

    def judge_all(self, function: Callable[..., Any] | None, isolation: str, deadline_seconds: float) -> Report:
        """Start the runner, run the trials, say what came of it."""
        if not self.plan.trials:
            return self._report(Verdict.INCONCLUSIVE, isolation=isolation)
        try:
            runner = self._start(function, isolation, deadline_seconds)
        except KernelError as error:
            return self._broken(error, isolation, None)
        bench = Bench(self.plan.problem, runner, self.seed, writes=self._writes)
        try:
            self._trials(bench)
            return self._report(self._verdict(), bench=bench, isolation=isolation)
        except KernelError as error:
            if self.findings:
                return self._report(Verdict.INCORRECT, bench=bench, isolation=isolation)
            return self._broken(error, isolation, bench)
        finally:
            runner.close()

    @property
    def _writes(self) -> bool:
        return self.spec.destination_passing or is_library(self.spec.target)

    def _start(self, function: Callable[..., Any] | None, isolation: str, deadline_seconds: float) -> Runner:
        problem = self.plan.problem
        size = block_size(problem, [trial.layouts for trial in self.plan.trials], writes=self._writes)
        if isolation == "process":
            return start_worker(self.spec, problem, size, deadline_seconds)
        if isolation != "none":
            raise UsageError(f"isolation {isolation!r} is not available", do="choose 'none' or 'process'")
        kernel = load(self.spec, problem) if function is None else wrap(function, self.spec, problem)
        return InProcess(kernel, size)

    def _trials(self, bench: Bench) -> None:
        before: Observation | None = None
        for done, trial in enumerate(self.plan.trials):
            if self.progress is not None:
                self.progress(done, len(self.plan.trials), trial.probe)
            seen = bench.observe(trial)
            self._record(trial, seen)
            self.findings += seen.findings
            if isinstance(seen.outcome, Differs) and not any(f.kind == "aliased-output" for f in seen.findings):
                self._name(bench, trial, seen, before)
            if self.findings:
                break
            before = seen
        if self.progress is not None:
            self.progress(len(self.plan.trials), len(self.plan.trials), "done")

    def _name(self, bench: Bench, trial: Trial, seen: Observation, before: Observation | None) -> None:
        """Add the finding for wrong values; a kernel that breaks now is wrong all the same."""
        plain = Finding("wrong-result", "matmul returns wrong values.", trial.index, (trial.index,))
        try:
            named = name_difference(bench, trial, seen, before)
        except KernelError:
            named = plain
        implied = {named.kind, "nondeterministic"} if named.kind == "rounding" else {named.kind}
        self.findings = [f for f in self.findings if f.kind not in implied]
        self.findings.insert(0, named)

    def _record(self, trial: Trial, seen: Observation) -> None:
        if seen.outcome is not None:
            here = True if seen.expected.compared is None else seen.expected.compared
            self.compared = here | self.compared
        record = TrialRecord(
            index=trial.index,
            probe=trial.probe,
            settings=dict(trial.settings),
            layouts=trial.layouts,
            calls=len(seen.poison),
            certificate=trial.certificate,
            digest=digest(seen.inputs, seen.expected),
            share_compared=seen.expected.share_compared,
            outcome=seen.outcome,
        )
        self.records.append(record)

    @property
    def coverage(self) -> float:
        """Share of the outputs that were compared in at least one trial."""
        if isinstance(self.compared, bool):
            return float(self.compared)
        return float(self.compared.mean()) if self.compared.size else 1.0

    def _verdict(self) -> Verdict:
        if self.findings:
            return Verdict.INCORRECT
        return Verdict.CORRECT if self.coverage == 1 else Verdict.INCONCLUSIVE

    def _broken(self, error: KernelError, isolation: str, bench: Bench | None) -> Report:
        reasons = ((error.what, " ".join(filter(None, [error.why, error.do]))),)
        return self._report(Verdict.BROKEN, bench=bench, isolation=isolation, reasons=reasons, log=error.log)

    def _report(
        self,
        verdict: Verdict,
        *,
        bench: Bench | None = None,
        isolation: str,
        reasons: tuple[tuple[str, str], ...] = (),
        log: str = "",
    ) -> Report:
        plan = self.plan
        if verdict is Verdict.INCONCLUSIVE:
            reasons = _why_inconclusive(plan, self.records, self.coverage)
        versions: dict[str, str] = {}
        if bench is not None and verdict is not Verdict.BROKEN:
            try:
                versions = bench.runner.versions()
            except KernelError:
                versions = {}
        return Report(
            verdict=verdict,
            problem=plan.problem,
            kernel=self.spec,
            seed=self.seed,
            findings=tuple(self.findings),
            trials=tuple(self.records),
            skipped=plan.skipped,
            coverage=self.coverage,
            calls=bench.calls if bench else 0,
            escape_probability=plan.escape_probability if verdict is Verdict.CORRECT else 1.0,
            wished=plan.wished,
            reasons=reasons,
            log=log,
            isolation=isolation,
            seconds={
                "kernel": round(bench.kernel_seconds if bench else 0.0, 6),
                "check": round(time.perf_counter() - self.started, 6),
            },
            environment=describe_environment(versions),
            options=self.options,
        )


def _why_inconclusive(plan: Plan, records: list[TrialRecord], coverage: float) -> tuple[tuple[str, str], ...]:
    """Why too little was compared, and what would change that."""
    if not plan.trials:
        return tuple((f"{skipped.probe}: {skipped.reason}", skipped.remedy) for skipped in plan.skipped)
    problem, record = plan.problem, records[-1]
    share = f"{1 - coverage:.2%} of the outputs were never compared" if coverage else "no output could be compared"
    p_zero = record.settings.get("p_zero")
    scale = {"binary": 1.0, "fractional": 0.5625}.get(record.probe, 1.0)
    mean = problem.k * (1 - float(p_zero or 0)) ** 2 * scale
    limit = record.certificate.budget * 2.0**record.certificate.quantum_exponent
    reason = (
        f"at k = {problem.k} with p_zero = {p_zero:g} a sum is {mean:.0f} on average, and {problem.out} holds such "
        f"sums exactly only up to {limit:g}: {share}"
    )
    return ((reason, "a larger p_zero (leave it out to have it derived), more trials, or all probes"),)


def _spec(
    kernel: Callable[..., Any] | str, framework: str | None, signature: str | None, *, destination_passing: bool
) -> KernelSpec:
    if isinstance(kernel, str):
        return KernelSpec(kernel, framework, signature, destination_passing)
    if not callable(kernel):
        raise UsageError(f"the kernel is a {type(kernel).__name__}", do="pass a function, or 'file.py:function'")
    return KernelSpec(_target_of(kernel), framework, signature, destination_passing)


def _can_be_found(function: Callable[..., Any]) -> bool:
    """Whether its module has this very function under its name: no lambda, closure, method or changed object."""
    module = getattr(function, "__module__", None) or ""
    found: Any = sys.modules.get(module)
    for part in getattr(function, "__qualname__", "?").split("."):
        found = getattr(found, part, None)
    return found is function and not _target_of(function).startswith("__main__:")


def _target_of(function: Callable[..., Any]) -> str:
    """How the function would be named on the command line, as well as that can be told."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", "") or "__main__"
    try:
        file = inspect.getsourcefile(function)
    except TypeError:
        file = None
    if file and Path(file).suffix == ".py" and "<" not in name:
        return f"{file}:{name}"
    return f"{module}:{name}"
