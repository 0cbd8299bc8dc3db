"""A failing trial again, alone: same seed, same bits."""

from __future__ import annotations

import time
from dataclasses import replace as with_changes
from typing import TYPE_CHECKING, Any

from zeroulp.checks.check import Run
from zeroulp.errors import ReportFileError
from zeroulp.plan import Plan, Trial
from zeroulp.report import Report, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

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
    started = time.perf_counter()
    wanted = report.findings[0].replay if report.findings else tuple(trial.index for trial in report.trials)
    records = [record for record in report.trials if record.index in wanted]
    if not records:
        raise ReportFileError("the report has no trials to run again", why=f"its verdict is {report.verdict.value}")
    trials = tuple(_trial(record) for record in records)
    plan = Plan(report.problem, trials, report.skipped, report.escape_probability, report.wished)
    spec = with_changes(report.kernel, target=kernel) if isinstance(kernel, str) else report.kernel
    run = Run(plan, spec, report.seed, report.options, started, progress)
    function = kernel if callable(kernel) else None
    again = run.judge_all(function, isolation or report.isolation, deadline_seconds)
    _same_bits(report, again)
    return again


def _trial(record: TrialRecord) -> Trial:
    calls = max(record.calls, 1)
    return Trial(record.index, record.probe, dict(record.settings), record.certificate, record.layouts, calls)


def _same_bits(report: Report, again: Report) -> None:
    """Refuse to call something a replay that was not."""
    if again.verdict is Verdict.BROKEN:
        return
    for record in again.trials:
        original = report.trial(record.index)
        if original is not None and original.digest != record.digest:
            raise ReportFileError(
                f"trial {record.index} was drawn with other bits than the report says",
                why=f"the report was made by zeroulp {report.environment.get('zeroulp', '?')}",
                do="replay it with that version",
            )
