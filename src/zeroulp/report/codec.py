"""
Reports as JSON and back, without loss; ``docs/report.schema.json`` describes the form.

Integers that may exceed 2^53 (the seed, sums of a float64 accumulator, distances in ulp) are
written as text, because many readers of JSON have no others than float64.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from zeroulp.draw import check_seed
from zeroulp.errors import ReportFileError, UsageError
from zeroulp.exactness import Certificate
from zeroulp.judge import Differs, Matched, Outcome, Value
from zeroulp.kernels import KernelSpec
from zeroulp.linear import strategy_for
from zeroulp.probes import probe_named
from zeroulp.problem import Matmul, layout_named, problem_from_dict
from zeroulp.report.model import Audited, Finding, Report, Tracking, TrialRecord, Verdict
from zeroulp.unmet import Skipped
from zeroulp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.problem import Problem

SCHEMA_VERSION = 1

_T = TypeVar("_T")


def to_json(report: Report) -> str:
    """The report as JSON text, ending in a newline."""
    text = json.dumps(to_dict(report), indent=1, allow_nan=False, default=float)  # numpy's numbers are none to json
    return text + "\n"


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
        "special_values": report.special_values,
        "audited": None if report.audited is None else asdict(report.audited),
        **({} if report.tracking is None else {"tracking": _tracking_to_dict(report.tracking)}),
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


def _tracking_to_dict(tracking: Tracking) -> dict[str, Any]:
    vacuous = [{"reason": reason, "remedy": remedy} for reason, remedy in tracking.vacuous]
    operations = [{"number": n, "name": name, "probes": list(where)} for n, name, where in tracking.operations]
    lists = {"ended": list(tracking.ended), "leans": list(tracking.leans), "operations": operations}
    return {**vars(tracking), "vacuous": vacuous, **lists}


def _finding_to_dict(finding: Finding) -> dict[str, Any]:
    evidence = [{"label": label, "text": text} for label, text in finding.evidence]
    return {**asdict(finding), "replay": list(finding.replay), "evidence": evidence}


def _trial_to_dict(trial: TrialRecord) -> dict[str, Any]:
    certificate = dict(vars(trial.certificate))
    for name in ("budget", "largest_sum"):
        certificate[name] = str(certificate[name])
    return {**vars(trial), "certificate": certificate, "outcome": _outcome_to_dict(trial.outcome)}


def _outcome_to_dict(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    name = "matched" if isinstance(outcome, Matched) else "differs"
    data = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(outcome).items()}
    data.pop("places", None)
    if isinstance(outcome, Differs) and outcome.ulps is not None:
        data["ulps"] = str(outcome.ulps)
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
    except RecursionError as error:
        raise ReportFileError(f"{source} is no report", why="it is nested too deeply") from error
    if isinstance(data, dict) and "shapes" in data:
        do = "read it with zeroulp.shapes_from_json"
        raise ReportFileError(f"{source} is no report of one shape", why="it holds those of several", do=do)
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version is True or version != SCHEMA_VERSION:
        raise ReportFileError(
            f"{source} is no report of schema version {SCHEMA_VERSION}",
            why=f"its schema_version is {version!r}",
            do="read it with the version of zeroulp that wrote it" if version else "is it another tool's file?",
        )
    try:
        return _from_dict(data)
    except _DamageError as damage:
        raise ReportFileError(
            f"{source} is a damaged report", where=damage.where, why=damage.why, do="write it again with --json"
        ) from damage


class _DamageError(Exception):
    """What is wrong with a part of a report, and which part it is."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.where, self.why = where, why


def _part(data: dict[str, Any], name: str, read: Callable[[Any], _T]) -> _T:
    """The part of *data* called *name*, as *read* understands it."""
    if name not in data:
        raise _DamageError(name, "it is missing")
    return _read(name, data[name], read)


def _read(where: str, value: Any, read: Callable[[Any], _T]) -> _T:
    try:
        return read(value)
    except _DamageError as inner:
        path = where + inner.where if inner.where.startswith("[") else f"{where}.{inner.where}"
        raise _DamageError(path, inner.why) from inner
    except UsageError as error:
        raise _DamageError(where, error.what) from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise _DamageError(where, f"{type(error).__name__}: {error}") from error


def _every(read: Callable[[Any], _T]) -> Callable[[Any], tuple[_T, ...]]:
    """A reader of lists, from one of their items."""

    def read_list(items: Any) -> tuple[_T, ...]:
        return tuple(_read(f"[{i}]", item, read) for i, item in enumerate(_a(list)(items)))

    return read_list


def _a(*kinds: type) -> Callable[[Any], Any]:
    """A reader of plain values of one of these types."""

    def read(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError(f"{value!r} is no {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return read


_TEXT, _WHOLE, _NUMBER, _MAPPING = _a(str), _a(int), _a(int, float), _a(dict)


def _words(data: Any) -> dict[str, str]:
    return {_TEXT(kind): _TEXT(word) for kind, word in _MAPPING(data).items()}


def _from_dict(data: dict[str, Any]) -> Report:
    verdict = _part(data, "verdict", Verdict)
    problem = _part(data, "problem", problem_from_dict)
    return Report(
        verdict=verdict,
        problem=problem,
        kernel=_part(data, "kernel", KernelSpec.from_dict),
        seed=_part(data, "seed", lambda text: check_seed(_TEXT(text))),
        findings=_part(data, "findings", _every(_finding)),
        trials=_part(data, "trials", _every(lambda item: _trial(item, problem))),
        skipped=_part(data, "skipped", _every(lambda item: Skipped(**item))),
        coverage=_part(data, "coverage", _NUMBER),
        special_values=_read("special_values", data.get("special_values", {}), _words),
        audited=_read("audited", data.get("audited"), _audited),
        tracking=_read("tracking", data.get("tracking"), _tracking),
        calls=_part(data, "calls", _WHOLE),
        escape_probability=_part(data, "escape_probability", _NUMBER),
        wished=_part(data, "wished_escape_probability", _NUMBER),
        reasons=_part(data, "reasons", _every(lambda item: (item["reason"], item["remedy"]))),
        log=_part(data, "log", _TEXT),
        isolation=_part(data, "isolation", _TEXT),
        seconds=_part(data, "seconds", _MAPPING),
        environment=_part(data, "environment", _MAPPING),
        options=_part(data, "options", _MAPPING),
    )


def _audited(data: dict[str, Any] | None) -> Audited | None:
    if data is None:
        return None
    return Audited(_part(data, "outputs", _WHOLE), _part(data, "trials", _every(_WHOLE)))


def _tracking(data: dict[str, Any] | None) -> Tracking | None:
    if data is None:
        return None
    return Tracking(
        live=_part(data, "live", lambda shares: {_TEXT(name): _NUMBER(share) for name, share in shares.items()}),
        vacuous=_part(data, "vacuous", _every(lambda item: (_TEXT(item["reason"]), _TEXT(item["remedy"])))),
        ended=_part(data, "ended", _every(_TEXT)),
        leans=_part(data, "leans", _every(_TEXT)),
        demoted=_part(data, "demoted", _TEXT),
        unchecked=_part(data, "unchecked", _TEXT),
        operations=_part({"operations": [], **data}, "operations", _every(_operation)),
    )


def _operation(item: dict[str, Any]) -> tuple[int, str, tuple[str, ...]]:
    return _WHOLE(item["number"]), _TEXT(item["name"]), _every(_TEXT)(item["probes"])


def _finding(data: dict[str, Any]) -> Finding:
    return Finding(
        kind=_part(data, "kind", _TEXT),
        sentence=_part(data, "sentence", _TEXT),
        trial=_part(data, "trial", _WHOLE),
        replay=_part(data, "replay", _every(_WHOLE)),
        evidence=_part(data, "evidence", _every(lambda item: (_TEXT(item["label"]), _TEXT(item["text"])))),
    )


def _trial(data: dict[str, Any], problem: Problem) -> TrialRecord:
    is_matmul = isinstance(problem, Matmul)
    name = _part(data, "probe", (lambda text: probe_named(text).name) if is_matmul else _TEXT)

    def settings(value: Any) -> dict[str, Any]:
        if not isinstance(problem, Matmul):
            strategy_for(problem, name, _MAPPING(value))
            return dict(value)
        for use in (probe_named(name).family, probe_named(name).detection):  # whatever they need is there
            use(problem, _MAPPING(value))
        return dict(value)

    return TrialRecord(
        index=_part(data, "index", _WHOLE),
        probe=name,
        settings=_part(data, "settings", settings),
        layouts=_part(data, "layouts", lambda value: _layouts(value, problem)),
        based_on=_part(data, "based_on", lambda value: None if value is None else _WHOLE(value)),
        changed=_part(data, "changed", _TEXT),
        moved=_part(data, "moved", _a(bool)),
        calls=_part(data, "calls", _WHOLE),
        certificate=_part(data, "certificate", _certificate),
        digest=_part(data, "digest", _TEXT),
        share_compared=_part(data, "share_compared", _NUMBER),
        outcome=_part(data, "outcome", _outcome),
    )


def _layouts(data: dict[str, str], problem: Problem) -> dict[str, str]:
    for operand in (*problem.operands, problem.output):
        _part(data, operand.name, layout_named)
    return {name: layout_named(layout).name for name, layout in data.items()}


def _certificate(data: dict[str, Any]) -> Certificate:
    sums = {name: _part(data, name, lambda text: int(_TEXT(text))) for name in ("budget", "largest_sum")}
    return Certificate(**{**data, **sums})


def _outcome(data: dict[str, Any] | None) -> Outcome | None:
    if data is None:
        return None
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    if fields.pop("kind") == "matched":
        return Matched(**fields)
    for name in ("expected", "actual"):
        fields[name] = _part(data, name, lambda value: Value(**value))
    fields["ulps"] = _part(data, "ulps", lambda ulps: None if ulps is None else int(_TEXT(ulps)))
    return Differs(**fields)
