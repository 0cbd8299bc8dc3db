"""A check in progress: a runner, the trials one after the other, the verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zeroulp.checks.audit import Audit
from zeroulp.checks.bench import Bench, Observation, block_size
from zeroulp.checks.environment import describe_environment
from zeroulp.checks.judging import REFERENCES, Judge
from zeroulp.checks.large import LargeBench
from zeroulp.checks.naming import name_difference, name_repetition
from zeroulp.checks.special import is_special, look_at_special
from zeroulp.errors import AuditFailedError, KernelError, KernelRaisedError
from zeroulp.judge import Differs
from zeroulp.kernels.load import is_library
from zeroulp.memory import is_copied
from zeroulp.report import Finding, Report, Tracking, TrialRecord, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from zeroulp.checks.session import Session
    from zeroulp.kernels import KernelSpec
    from zeroulp.plan import Plan, Trial
    from zeroulp.runner import Runner


NEEDS_NO_NAME = {"aliased-output", "late-result"}  # the wrong values are a consequence
_OTHER_DEVICE = "check the same seed on another device, or with the kernel's arrays on the CPU"
_SPOILS_MEMORY = {"out-of-bounds-write"}


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
    special_values: dict[str, str] = field(default_factory=dict)
    audit: Audit | None = None
    tracking: Tracking | None = None

    def judge_all(self, session: Session) -> Report:
        """Run the trials, say what came of it. A kernel that broke, or may have spoiled memory, is loaded anew."""
        plan, isolation = self.plan, session.isolation
        if not plan.trials:
            return self._report(Verdict.INCONCLUSIVE, isolation=isolation)
        size = block_size(plan.problem, [trial.layouts for trial in plan.trials], writes=self._writes)
        try:
            runner = session.runner(plan.problem, size, self.options.get("workspace_bytes"))
        except KernelError as error:
            session.discard()
            return self._broken(error, isolation, None)
        except BaseException:
            session.discard()
            raise
        bench = self._bench(runner)
        is_spoiled = False
        try:
            self._trials(bench)
            report = self._report(self._verdict(), bench=bench, isolation=isolation)
        except AuditFailedError as error:
            is_spoiled, self.findings = True, []
            reasons = ((error.what, f"{error.why}; {_OTHER_DEVICE}"),)
            report = self._report(Verdict.INCONCLUSIVE, bench=bench, isolation=isolation, reasons=reasons)
        except KernelError as error:
            is_spoiled = True
            if self.findings:
                report = self._report(Verdict.INCORRECT, bench=bench, isolation=isolation)
            else:
                report = self._broken(error, isolation, bench)
        except BaseException:
            session.discard()
            raise
        if is_spoiled or any(finding.kind in _SPOILS_MEMORY for finding in self.findings):
            session.discard()
        return report

    def _bench(self, runner: Runner) -> Any:
        """What trials are run on."""
        plan = self.plan
        self.audit = Audit([trial.index for trial in plan.trials])
        reference = self.options.get("reference", REFERENCES[0])
        judge = Judge(self.options.get("workspace_bytes"), reference, self.audit)
        kind = Bench if is_copied(plan.problem.output) else LargeBench
        return kind(plan.problem, runner, self.seed, judge, writes=self._writes)

    @property
    def _writes(self) -> bool:
        return self.spec.destination_passing or is_library(self.spec.target)

    def _trials(self, bench: Bench) -> None:
        before: Observation | None = None
        for done, trial in enumerate(self.plan.trials):
            if self.progress is not None:
                self.progress(done, len(self.plan.trials), trial.probe)
            seen = self._observe(bench, trial)
            self._record(trial, seen)
            self.special_values |= look_at_special(self.plan.problem, trial, seen)
            self.findings += seen.findings
            if isinstance(seen.outcome, Differs) and not {f.kind for f in seen.findings} & NEEDS_NO_NAME:
                self._name(bench, trial, seen, before)
            else:
                self.findings = [name_repetition(bench, trial, finding) for finding in self.findings]
            if self.findings:
                break
            before = seen if trial.based_on is None else before
        else:
            self.findings += bench.look_at_kept([record.index for record in self.records])
        if self.progress is not None:
            self.progress(len(self.plan.trials), len(self.plan.trials), "done")

    @staticmethod
    def _observe(bench: Bench, trial: Trial) -> Observation:
        try:
            return bench.observe(trial, patient=True)
        except KernelRaisedError as error:
            if is_special(trial) and not error.do:
                what = f"this trial holds special values ({trial.settings['kind']})"
                error.do = f"{what}: if they are to be refused, nonfinite='ignore', or name probes other than specials"
            raise

    def _name(self, bench: Bench, trial: Trial, seen: Observation, before: Observation | None) -> None:
        """Add the finding for wrong values; a kernel that breaks now is wrong all the same."""
        plain = Finding("wrong-result", "matmul returns wrong values.", trial.index, trial.needs)
        try:
            named = name_difference(bench, trial, seen, before)
        except (KernelError, AuditFailedError):
            named = plain
        implied = {named.kind, "nondeterministic"} if named.kind == "rounding" else {named.kind}
        self.findings = [f for f in self.findings if f.kind not in implied]
        self.findings.insert(0, named)

    def _record(self, trial: Trial, seen: Observation) -> None:
        if seen.outcome is not None and trial.certificate.theorem != "bounded":  # a range is no comparison of bits
            partly = seen.outcome.compared < seen.outcome.elements
            here = seen.inputs.expected.compared if partly else None
            self.compared = (True if here is None else here) | self.compared
        record = TrialRecord(
            index=trial.index,
            probe=trial.probe,
            settings=dict(trial.settings),
            layouts=trial.layouts,
            based_on=trial.based_on,
            changed=trial.changed,
            moved=trial.moved,
            calls=len(seen.poisons),
            certificate=trial.certificate,
            digest=seen.digest,
            share_compared=seen.share_compared,
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
        return Verdict.CORRECT if self.coverage == 1 and not self.plan.unmet else Verdict.INCONCLUSIVE

    def _why_inconclusive(self) -> tuple[tuple[str, str], ...]:
        return _why_inconclusive(self.plan, self.records, self.coverage)

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
        if verdict is Verdict.INCONCLUSIVE and not reasons:
            reasons = self._why_inconclusive()
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
            special_values=self.special_values,
            audited=self.audit.audited if self.audit else None,
            tracking=self.tracking,
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
    if plan.unmet:
        return plan.unmet
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
