"""Reports as JSON: lossless, as the schema says, and readable errors for what is none."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul
from zeroulp.errors import ReportFileError
from zeroulp.formats import TABLE
from zeroulp.judge import Differs
from zeroulp.probes import TABLE as PROBES
from zeroulp.problem import LAYOUTS
from zeroulp.problem.contract import CLAUSES
from zeroulp.report import SCHEMA_VERSION, Verdict, from_json, to_json
from zeroulp.report.model import FINDING_KINDS

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def a_third(a, b, alpha):
    return (np.float32(alpha) * (a.astype(np.float32) @ b.astype(np.float32))).astype(a.dtype)


def without_last(a, b):
    return right(a[:, :-1], b[:-1])


def with_nan(a, b):
    out = right(a, b)
    out[1, 2] = np.nan
    return out


def far_off(a, b):
    return -np.abs(a @ b) * 2.0**900 - 1


def shared(buffer=np.empty((4, 5), np.float16)):
    def kernel(a, b):
        buffer[...] = right(a, b)
        return buffer

    return kernel


def raising(a, b):
    raise RuntimeError("no such tile")


HALF = Matmul(4, 5, 9, a="float16")
CASES = {
    "correct": (right, HALF, {}, "CORRECT", None),
    "empty": (right, Matmul(0, 5, 9, a="float32"), {}, "CORRECT", None),
    "layouts": (right, HALF.replace(layouts={"a": "padded", "out": "column"}, batch=()), {}, "CORRECT", None),
    "epilogue": (lambda a, b, c, bias: (a.astype(float) @ b.astype(float) / 2 - c.astype(float) + bias.astype(float)).astype(np.float16),
                 HALF.replace(alpha=0.5, beta=-1, bias="float32", layouts="any"), {}, "CORRECT", None),
    "missing": (without_last, HALF, {}, "INCORRECT", "wrong-result"),
    "batched": (lambda a, b: right(a, b) * 2, HALF.replace(batch=(2, 3)), {}, "INCORRECT", "wrong-result"),
    "nan": (with_nan, HALF, {}, "INCORRECT", "wrong-result"),
    "huge distance": (far_off, Matmul(4, 5, 9, a="float64"), {}, "INCORRECT", "wrong-result"),
    "int8": (lambda a, b: (a.astype(np.int32) @ b.astype(np.int32) + 1), Matmul(4, 5, 9, a="int8"), {}, "INCORRECT", "wrong-result"),
    "aliased": (shared(), HALF, {}, "INCORRECT", "aliased-output"),
    "dtype": (lambda a, b: a.astype(np.float32) @ b.astype(np.float32), HALF, {}, "INCORRECT", "wrong-dtype"),
    "unwritten": (lambda a, b, out: None, HALF, dict(destination_passing=True), "INCORRECT", "unwritten-output"),
    "few compared": (right, Matmul(4, 5, 9000, a="float16"), dict(probes=["binary"], p_zero=0.5, trials=1), "INCONCLUSIVE", None),
    "numpy's numbers": (right, HALF, dict(probes=["binary"], p_zero=np.float32(0.3), trials=2), "CORRECT", None),
    "no certificate": (a_third, HALF.replace(alpha=1 / 3), {}, "INCONCLUSIVE", None),
    "raising": (raising, HALF, {}, "BROKEN", None),
    "no array": (lambda a, b: None, HALF, {}, "BROKEN", None),
}


@pytest.fixture(scope="module")
def reports():
    return {name: zeroulp.check(kernel, problem, seed=2**64 - 5, **options) for name, (kernel, problem, options, *_) in CASES.items()}


@pytest.fixture
def data(reports):
    return json.loads(to_json(reports["missing"]))


@pytest.mark.parametrize("name", CASES)
def test_the_cases_are_what_they_are_meant_to_be(reports, name):
    *_, verdict, kind = CASES[name]
    report = reports[name]
    assert report.verdict is Verdict(verdict)
    assert [finding.kind for finding in report.findings] == ([kind] if kind else [])


@pytest.mark.parametrize("name", CASES)
def test_a_report_survives_as_json_without_loss(reports, name):
    report = reports[name]
    again = from_json(to_json(report))
    assert again == report
    assert to_json(again) == to_json(report)
    assert str(again) == str(report)


@pytest.mark.parametrize("name", CASES)
def test_a_report_is_as_the_schema_says(reports, name):
    VALIDATOR.validate(json.loads(to_json(reports[name])))


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == f"urn:zeroulp:report:{SCHEMA_VERSION}"
    assert SCHEMA["properties"]["schema_version"]["const"] == SCHEMA_VERSION


def test_the_schema_has_the_names_of_the_code():
    definitions = SCHEMA["$defs"]
    assert definitions["format"]["enum"] == [f.name for f in TABLE if not f.is_scale]
    assert definitions["layout"]["enum"] == list(LAYOUTS)
    assert definitions["finding"]["properties"]["kind"]["enum"] == list(FINDING_KINDS)
    assert all(re.fullmatch(definitions["trial"]["properties"]["probe"]["pattern"][1:-1], name) for name in PROBES)
    assert SCHEMA["properties"]["verdict"]["enum"] == [verdict.value for verdict in Verdict]
    for clause, words in CLAUSES.items():
        assert definitions["problem"]["properties"][clause]["enum"] == list(words)


LATER = {"jobs", "tracking", "operations", "special_values", "audited"}  # parts that reports of earlier versions do not have
ON_REQUEST = {"reference", "workspace_bytes"}  # there only where they were asked for


def objects(schema, path=""):
    """Every object with named properties in a schema, with where it is."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            yield path, schema
        for name, inner in schema.items():
            yield from objects(inner, f"{path}/{name}")
    elif isinstance(schema, list):
        for i, inner in enumerate(schema):
            yield from objects(inner, f"{path}/{i}")


@pytest.mark.parametrize(("path", "schema"), list(objects(SCHEMA)), ids=lambda value: value if isinstance(value, str) else "")
def test_every_fixed_form_is_closed_complete_and_described(path, schema):
    assert schema["additionalProperties"] is False
    assert schema["required"] == [name for name in schema["properties"] if name not in LATER | ON_REQUEST]
    for name, inner in schema["properties"].items():
        described = inner.get("description") or "$ref" in inner or name == "kind"
        assert described, f"{path}: {name}"


def places(value, path=()):
    """Where in a report there is an object."""
    if isinstance(value, dict):
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


OPEN = {"environment", "settings", "layouts"}


def test_an_unknown_field_is_against_the_schema_wherever_the_form_is_fixed(data):
    paths = [path for path in places(data) if not path or path[-1] not in OPEN]
    assert len(paths) > 10
    for path in paths:
        damaged = copy.deepcopy(data)
        at(damaged, path)["surprise"] = 1
        assert not VALIDATOR.is_valid(damaged), path


@pytest.mark.parametrize(("path", "value"), [
    (("verdict",), "MAYBE"), (("seed",), "12"), (("seed",), 12), (("coverage",), 1.5), (("calls",), -1), (("schema_version",), 2),
    (("problem", "a"), "float31"), (("problem", "m"), -1), (("problem", "layouts"), "diagonal"), (("findings", 0, "kind"), "odd"),
    (("trials", 0, "certificate", "budget"), 2048), (("trials", 0, "certificate", "holds"), False), (("trials", 0, "digest"), "x"),
    (("trials", 0, "outcome", "ulps"), 3), (("trials", 0, "outcome", "kind"), "matched"), (("isolation",), "trust"),
])
def test_a_value_out_of_range_is_against_the_schema(data, path, value):
    assert VALIDATOR.is_valid(data)
    at(data, path[:-1])[path[-1]] = value
    assert not VALIDATOR.is_valid(data)


def whole_numbers(value):
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from whole_numbers(inner)


@pytest.mark.parametrize("name", CASES)
def test_no_integer_is_beyond_what_every_reader_of_json_can_hold(reports, name):
    assert all(abs(number) <= 2**53 for number in whole_numbers(json.loads(to_json(reports[name]))))


def test_a_distance_beyond_2_to_the_53_survives(reports):
    outcome = reports["huge distance"].trials[0].outcome
    assert isinstance(outcome, Differs) and outcome.ulps > 2**53
    assert from_json(to_json(reports["huge distance"])).trials[0].outcome.ulps == outcome.ulps


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused_with_the_place(reports, share):
    text = to_json(reports["missing"])
    with pytest.raises(ReportFileError, match="r.json is no JSON") as caught:
        from_json(text[: int(len(text) * share)], source="r.json")
    assert caught.value.where.startswith("line ")
    assert ("empty" if share == 0 else "cut short") in caught.value.why
    assert caught.value.do


@pytest.mark.parametrize("text", ["[]", "3", "null", "{}", '"x"', '{"schema_version": "1"}', '{"schema_version": true}'])
def test_another_tools_file_is_refused(text):
    with pytest.raises(ReportFileError, match="no report of schema version 1") as caught:
        from_json(text)
    assert caught.value.do


def test_another_version_is_refused_and_named(data):
    data["schema_version"] = 2
    with pytest.raises(ReportFileError) as caught:
        from_json(json.dumps(data))
    assert "2" in caught.value.why and "version" in caught.value.do


def test_deep_nesting_is_refused():
    with pytest.raises(ReportFileError):
        from_json("[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize(("path", "value", "where"), [
    (("verdict",), "MAYBE", "verdict"), (("verdict",), ["CORRECT"], "verdict"), (("problem",), 3, "problem"), (("problem", "a"), "float31", "problem"),
    (("problem", "m"), -1, "problem"), (("problem", "color"), "red", "problem"), (("kernel", "target"), 5, "kernel"), (("kernel",), None, "kernel"),
    (("seed",), "0xfffffffffffffffff", "seed"), (("seed",), 5, "seed"), (("findings",), None, "findings"), (("findings",), {}, "findings"),
    (("findings", 0, "trial"), "0", "findings[0].trial"), (("findings", 0, "evidence"), [["x"]], "findings[0].evidence[0]"),
    (("trials", 0), None, "trials[0]"), (("trials", 0, "probe"), "sined", "trials[0].probe"), (("trials", 0, "layouts"), {"a": "diagonal"}, "trials[0].layouts.a"),
    (("trials", 0, "layouts"), {"a": ["padded"]}, "trials[0].layouts.a"), (("trials", 0, "layouts"), {}, "trials[0].layouts.a"),
    (("trials", 0, "settings"), {}, "trials[0].settings"), (("trials", 0, "settings"), None, "trials[0].settings"),
    (("trials", 0, "calls"), "many", "trials[0].calls"),
    (("trials", 0, "certificate", "budget"), "many", "trials[0].certificate.budget"), (("trials", 0, "certificate"), {}, "trials[0].certificate.budget"),
    (("trials", 0, "outcome"), {"kind": "matched"}, "trials[0].outcome"), (("trials", 0, "outcome", "expected"), 161, "trials[0].outcome.expected"),
    (("trials", 0, "outcome", "ulps"), 1.5, "trials[0].outcome.ulps"), (("skipped",), [{}], "skipped[0]"), (("coverage",), "all", "coverage"),
    (("coverage",), True, "coverage"), (("calls",), None, "calls"), (("reasons",), [3], "reasons[0]"), (("log",), None, "log"), (("seconds",), [], "seconds"),
])
def test_a_damaged_report_is_refused_with_the_place(data, path, value, where):
    at(data, path[:-1])[path[-1]] = value
    with pytest.raises(ReportFileError, match="damaged report") as caught:
        from_json(json.dumps(data))
    assert caught.value.where == where
    assert caught.value.why and caught.value.do


def test_a_missing_part_is_refused_with_its_name(data):
    for name in [name for name in data if name not in {"schema_version", "zeroulp_version"} | LATER]:
        damaged = {key: value for key, value in data.items() if key != name}
        with pytest.raises(ReportFileError) as caught:
            from_json(json.dumps(damaged))
        assert (caught.value.where, caught.value.why) == (name, "it is missing")
