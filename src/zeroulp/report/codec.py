"""
Reports as JSON and back, without loss; ``docs/report.schema.json`` describes the form.

Integers above 2^53 (the seed, sums of a float64 accumulator) are written as text, because many
readers of JSON have no others than float64.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from zeroulp.errors import ReportFileError
from zeroulp.exactness import Certificate
from zeroulp.judge import Differs, Matched, Outcome, Value
from zeroulp.kernels import KernelSpec
from zeroulp.plan import Skipped
from zeroulp.problem import Matmul
from zeroulp.report.model import Finding, Report, TrialRecord, Verdict
from zeroulp.version import __version__

SCHEMA_VERSION = 1


def to_json(report: Report) -> str:
    """The report as JSON text, ending in a newline."""
    return json.dumps(to_dict(report), indent=1, allow_nan=False) + "\n"


def to_dict(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "zeroulp_version": __version__,
        "verdict": report.verdict.value,
        "findings": [_finding_to_dict(finding) for finding in report.findings],
        "problem": report.problem.to_dict(),
        "kernel": report.kernel.to_dict(),
        "seed": f"0x{report.seed:016x}",
        "coverage": report.coverage,
        "calls": report.calls,
        "escape_probability": report.escape_probability,
        "wished_escape_probability": report.wished,
        "reasons": [{"reason": reason, "remedy": remedy} for reason, remedy in report.reasons],
        "skipped": [asdict(skipped) for skipped in report.skipped],
        "trials": [_trial_to_dict(trial) for trial in report.trials],
        "log": report.log,
        "isolation": report.isolation,
        "seconds": report.seconds,
        "environment": report.environment,
        "options": report.options,
    }


def _finding_to_dict(finding: Finding) -> dict[str, Any]:
    evidence = [{"label": label, "text": text} for label, text in finding.evidence]
    return {**asdict(finding), "replay": list(finding.replay), "evidence": evidence}


def _trial_to_dict(trial: TrialRecord) -> dict[str, Any]:
    certificate = asdict(trial.certificate)
    for name in ("budget", "largest_sum"):
        certificate[name] = str(certificate[name])
    return {**asdict(trial), "certificate": certificate, "outcome": _outcome_to_dict(trial.outcome)}


def _outcome_to_dict(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    name = "matched" if isinstance(outcome, Matched) else "differs"
    data = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(outcome).items()}
    return {"kind": name, **data}


def from_json(text: str, *, source: str = "report") -> Report:
    """
    The report that `to_json` wrote.

    Args:
        text: JSON text.
        source: What to call it in errors, e.g. the file's name.

    Raises:
        ReportFileError: If it is cut short, is no report, or has another version.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ReportFileError(
            f"{source} is no JSON",
            where=f"line {error.lineno}, column {error.colno}",
            why=f"{error.msg}; {'the file is empty' if not text.strip() else 'it may be cut short'}",
            do="write the report again with --json",
        ) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise ReportFileError(
            f"{source} is no report of schema version {SCHEMA_VERSION}",
            why=f"its schema_version is {version!r}",
            do="read it with the version of zeroulp that wrote it" if version else "is it another tool's file?",
        )
    try:
        return _from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportFileError(
            f"{source} is a damaged report", why=f"{type(error).__name__}: {error}", do="write it again with --json"
        ) from error


def _from_dict(data: dict[str, Any]) -> Report:
    return Report(
        verdict=Verdict(data["verdict"]),
        problem=Matmul.from_dict(data["problem"]),
        kernel=KernelSpec.from_dict(data["kernel"]),
        seed=int(data["seed"], 16),
        findings=tuple(_finding(item) for item in data["findings"]),
        trials=tuple(_trial(item) for item in data["trials"]),
        skipped=tuple(Skipped(**item) for item in data["skipped"]),
        coverage=data["coverage"],
        calls=data["calls"],
        escape_probability=data["escape_probability"],
        wished=data["wished_escape_probability"],
        reasons=tuple((item["reason"], item["remedy"]) for item in data["reasons"]),
        log=data["log"],
        isolation=data["isolation"],
        seconds=data["seconds"],
        environment=data["environment"],
        options=data["options"],
    )


def _finding(data: dict[str, Any]) -> Finding:
    evidence = tuple((item["label"], item["text"]) for item in data["evidence"])
    return Finding(data["kind"], data["sentence"], data["trial"], tuple(data["replay"]), evidence)


def _trial(data: dict[str, Any]) -> TrialRecord:
    certificate = dict(data["certificate"])
    for name in ("budget", "largest_sum"):
        certificate[name] = int(certificate[name])
    return TrialRecord(**{**data, "certificate": Certificate(**certificate), "outcome": _outcome(data["outcome"])})


def _outcome(data: dict[str, Any] | None) -> Outcome | None:
    if data is None:
        return None
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    del fields["kind"]
    if data["kind"] == "matched":
        return Matched(**fields)
    return Differs(**{**fields, "expected": Value(**fields["expected"]), "actual": Value(**fields["actual"])})
