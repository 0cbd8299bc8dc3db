"""A failing trial again, alone: same seed, same bits."""

from __future__ import annotations

import time
from dataclasses import fields as fields_of
from dataclasses import replace as with_changes
from typing import TYPE_CHECKING, Any

from zeroulp.checks.linear_run import LinearRun
from zeroulp.checks.problem_file import with_reference
from zeroulp.checks.run import Run
from zeroulp.checks.session import Session
from zeroulp.checks.target import target_of
from zeroulp.errors import ReportFileError
from zeroulp.exactness import certify
from zeroulp.plan import Plan, Trial, escape_probability_of
from zeroulp.probes import family_of
from zeroulp.problem import LAYOUTS, Linear
from zeroulp.report import Report, Verdict
from zeroulp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.problem import Matmul
    from zeroulp.report import TrialRecord


def replay(
    report: Report,
    kernel: Callable[..., Any] | str | None = None,
    *,
    isolation: str | None = None,
    deadline_seconds: float = 60.0,
    progress: Callable[[int, int, str], None] | None = None,
) -> Report:
    """
    Run the trials that show the report's first finding again; all of them if there is none.

    If those are right when they are run alone, what was seen may need what earlier calls left in
    the kernel: then all trials are run again, in order.

    Args:
        report: What to do again.
        kernel: Another kernel to do it with, e.g. a mended one; default: the report's own.
        isolation: As for `check`; default: as in the report.
        deadline_seconds: As for `check`.
        progress: As for `check`.

    Returns:
        A report of those trials.

    Raises:
        ReportFileError: If the trials cannot be rebuilt bit for bit (another version drew them).
    """
    everything = tuple(trial.index for trial in report.trials)
    wanted = report.findings[0].replay if report.findings else everything
    if not set(everything) & set(wanted):
        raise ReportFileError("the report has no trials to run again", why=f"its verdict is {report.verdict.value}")
    spec = report.kernel
    if kernel is not None:
        target = kernel if isinstance(kernel, str) else target_of(kernel)
        spec = with_changes(report.kernel, target=target, framework=None)

    problem = with_reference(report.problem) if isinstance(report.problem, Linear) else report.problem

    given: Any = problem

    def run(indices: tuple[int, ...]) -> Report:
        started = time.perf_counter()
        records = [record for record in report.trials if record.index in indices]
        again: Run
        if isinstance(problem, Linear):
            plan = Plan(given, tuple(_linear_trial(problem, record) for record in records), (), 1.0, report.wished)
            if report.tracking is not None:
                plan = with_changes(plan, unmet=report.tracking.vacuous)
            again = LinearRun(plan, spec, report.seed, report.options, started, progress, tracking=report.tracking)
        else:
            trials = tuple(_trial(problem, record) for record in records)
            escape = escape_probability_of(problem, trials)
            whole = all(r.share_compared == 1 for r in report.trials if r.certificate.theorem != "bounded")
            unmet = report.reasons if whole and report.verdict is Verdict.INCONCLUSIVE else ()
            plan = Plan(problem, trials, report.skipped, escape, report.wished, unmet)
            again = Run(plan, spec, report.seed, report.options, started, progress)
        with Session(
            kernel if callable(kernel) else spec.target,
            framework=spec.framework,
            device=spec.device,
            signature=spec.signature,
            destination_passing=spec.destination_passing,
            isolation=isolation or report.isolation,
            deadline_seconds=deadline_seconds,
        ) as session:
            return again.judge_all(session)

    again = run(wanted)
    if report.findings and again.verdict is Verdict.CORRECT and wanted != everything:
        again = run(everything)
    _same_bits(report, again)
    return again


def _trial(problem: Matmul, record: TrialRecord) -> Trial:
    """The trial that *record* tells of; its certificate is worked out again, not believed."""
    names = {operand.name for operand in (*problem.operands, problem.output)}
    try:
        family = family_of(problem, record.probe, record.settings)
    except (KeyError, TypeError, ValueError):
        family = None
    if family is None or set(record.layouts) != names or not _known(record.layouts):
        raise ReportFileError(f"trial {record.index} of the report is damaged", do="write it again with --json")
    certificate = certify(problem, family, declared=record.certificate.declared)
    if certificate != record.certificate or not certificate.holds:
        raise _unlike(record)
    if record.based_on is not None and record.changed not in ("a", "b"):
        raise ReportFileError(f"trial {record.index} of the report is damaged", do="write it again with --json")
    return Trial(
        record.index,
        record.probe,
        dict(record.settings),
        certificate,
        record.layouts,
        max(record.calls, 1),
        record.based_on,
        record.changed,
        record.moved,
    )


def _unlike(record: TrialRecord) -> ReportFileError:
    return ReportFileError(
        f"the certificate of trial {record.index} does not follow from its settings",
        why="the report was changed, or another version wrote it",
        do=f"replay it with zeroulp of that version; this one is {__version__}",
    )


def _linear_trial(problem: Linear, record: TrialRecord) -> Trial:
    """The same for a problem that is given by a reference: the certificate comes with the drawing, and is compared."""
    names = [operand.name for operand in problem.operands]
    if record.based_on is not None and record.changed not in names:
        raise ReportFileError(f"trial {record.index} of the report is damaged", do="write it again with --json")
    fields = {f.name: getattr(record, f.name) for f in fields_of(Trial)}
    return Trial(**{**fields, "calls": max(record.calls, 1)})


def _known(layouts: dict[str, str]) -> bool:
    return all(layout in LAYOUTS for layout in layouts.values())


def _same_bits(report: Report, again: Report) -> None:
    """Refuse to call something a replay that was not."""
    if again.verdict is Verdict.BROKEN:
        return
    for record in again.trials:
        original = report.trial(record.index)
        alike = original is not None and "alike" in {original.certificate.theorem, record.certificate.theorem}
        if original is not None and isinstance(report.problem, Linear) and not alike:
            same = with_changes(original.certificate, masked=record.certificate.masked) == record.certificate
            if not same:
                raise _unlike(record)
        if original is not None and original.digest != record.digest:
            raise ReportFileError(
                f"trial {record.index} was drawn with other bits than the report says",
                why=f"the report was made by zeroulp {report.environment.get('zeroulp', '?')}",
                do="replay it with that version",
            )
