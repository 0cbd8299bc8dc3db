"""The shapes beside a given one, and reports of several shapes."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul, Verdict, check_shapes, ragged_shapes, shapes_from_json, shapes_to_json
from zeroulp.errors import ProblemError, ReportFileError, UnknownNameError, UsageError
from zeroulp.report import ShapesReport, holds_shapes
from zeroulp.shapes import sizes_text, why_shape

FRIENDLY = Matmul(256, 256, 256, a="float16")
GIVEN = [(256, 256, 256), (4096, 4096, 8192), (64, 64, 64), (16, 16, 16), (8, 8, 8), (6, 5, 64), (1000, 999, 1001), (2, 2, 2),
         (1, 4096, 4096), (4096, 1, 17), (1, 1, 1), (0, 7, 3), (7, 3, 0), (128, 16, 7168), (100_000, 8, 8)]
BATCHES = [(), (1,), (7,), (2, 5)]

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA).evolve(schema=SCHEMA["$defs"]["shapes"])


def sizes(problem):
    return problem.m, problem.n, problem.k


def cost(problem):
    return math.prod(max(1, size) for size in (*problem.batch, *sizes(problem)))


@pytest.fixture(params=list(itertools.product(GIVEN, BATCHES)), ids=str)
def given(request):
    (m, n, k), batch = request.param
    return Matmul(m, n, k, a="float16", batch=batch)


def test_the_given_one_is_first_and_the_others_are_cheapest_first(given):
    first, *others = ragged_shapes(given)
    assert first == given
    assert [cost(other) for other in others] == sorted(cost(other) for other in others)
    assert len(others) <= 24


def test_no_shape_is_there_twice_and_all_are_alike_but_for_their_sizes(given):
    shapes = ragged_shapes(given)
    assert len({(shape.batch, *sizes(shape)) for shape in shapes}) == len(shapes)
    for shape in shapes:
        assert shape.replace(m=given.m, n=given.n, k=given.k, batch=given.batch) == given


def test_no_size_is_much_larger_than_the_given_one_and_none_is_empty(given):
    for shape in ragged_shapes(given):
        for size, before in zip(sizes(shape), sizes(given), strict=True):
            assert size == before if before < 2 else 1 <= size <= before + 1
        assert len(shape.batch) == len(given.batch)
        assert math.prod(shape.batch) in (1, 3, math.prod(given.batch))


@pytest.mark.parametrize("given", [s for s in GIVEN if min(s) >= 64], ids=str)
def test_the_neighbours_cost_a_small_multiple(given):
    """In products; a neighbour gets about a quarter of the given shape's calls."""
    given = Matmul(*given, a="float16")
    assert sum(cost(shape) for shape in ragged_shapes(given)[1:]) <= (9 if max(sizes(given)) >= 256 else 12) * cost(given)


def test_each_neighbour_has_a_reason_of_its_own_sizes(given):
    for shape in ragged_shapes(given)[1:]:
        reason = why_shape(given, shape)
        assert reason != "the given shape"
        for name in ("m", "n", "k"):
            assert bool(re.search(rf"\b{name}\b", reason)) == (getattr(shape, name) != getattr(given, name)), reason
    assert why_shape(given, given) == "the given shape"


def test_the_same_ones_every_time():
    assert ragged_shapes(FRIENDLY) == ragged_shapes(Matmul(256, 256, 256, a="float16"))


@pytest.mark.parametrize("most", [0, 1, 5, 24])
def test_as_many_as_were_asked_for(most):
    assert len(ragged_shapes(FRIENDLY, most)) == 1 + most


@pytest.mark.parametrize("most", [-1, 2.5, "3", True])
def test_a_number_that_is_none(most):
    with pytest.raises(ProblemError, match="is no number of neighbours"):
        ragged_shapes(FRIENDLY, most)


@pytest.mark.parametrize("name", ["m", "n", "k"])
@pytest.mark.parametrize("size", [256, 384, 4096])
def test_every_remainder_that_matters(name, size):
    """Of each dimension: beside tiles of 8 to 128, odd multiples of 8 to 64, below each tile, 1, below 8, a prime."""
    values = {getattr(shape, name) for shape in ragged_shapes(Matmul(size, size, size, a="float16"))}
    for tile in (8, 16, 32, 64, 128):
        assert {1} & {value % tile for value in values if value > tile}, tile
        assert {tile - 1} & {value % tile for value in values if value > tile}, tile
        assert [value for value in values if value < tile], tile
        assert [value for value in values if value > 128 and 1 < value % tile < tile - 1], tile
    for power in (4, 8, 16, 32, 64):
        assert [value for value in values if value % power == 0 and value % (2 * power)], power
    assert 1 in values
    assert [value for value in values if 2 <= value < 8]
    assert [value for value in values if value > 128 and all(value % d for d in range(2, value))]


def kind(size):
    """Of a size beside 256."""
    if size == 256:
        return "whole"
    if size < 64:
        return "small"
    return "aligned" if size % 4 == 0 else "ragged"


@pytest.mark.parametrize("pair", [("m", "n"), ("m", "k"), ("n", "k")], ids="-".join)
def test_every_kind_of_one_size_meets_every_kind_of_another(pair):
    met = {tuple(kind(getattr(shape, name)) for name in pair) for shape in ragged_shapes(FRIENDLY)}
    assert met == set(itertools.product(("whole", "aligned", "ragged", "small"), repeat=2))


@pytest.mark.parametrize("name", ["m", "n", "k"])
def test_each_size_changes_alone_too(name):
    rest = [other for other in ("m", "n", "k") if other != name]
    alone = [shape for shape in ragged_shapes(FRIENDLY) if all(getattr(shape, other) == 256 for other in rest)]
    assert {kind(getattr(shape, name)) for shape in alone} >= {"whole", "aligned", "ragged"}
    assert {1} < {getattr(shape, name) for shape in alone if getattr(shape, name) < 128}


def test_tall_flat_and_unequal():
    shapes = ragged_shapes(FRIENDLY)
    assert any("tall" in why_shape(FRIENDLY, shape) for shape in shapes)
    assert any("flat" in why_shape(FRIENDLY, shape) for shape in shapes)
    assert any(shape.m > 16 * shape.n > 16 for shape in shapes)
    assert any(shape.n > 16 * shape.m > 16 for shape in shapes)
    assert sum(shape.m != shape.n for shape in shapes) > len(shapes) / 2


def test_a_ragged_given_shape_has_whole_neighbours():
    shapes = ragged_shapes(Matmul(1000, 999, 1001, a="float16"))
    assert (896, 896, 896) in map(sizes, shapes)


def test_batches_of_one_and_three():
    given = Matmul(64, 64, 64, a="float16", batch=(2, 5))
    shapes = ragged_shapes(given)
    for batch in ((1, 1), (1, 3)):
        assert given.replace(batch=batch) in shapes
        assert len([shape for shape in shapes if shape.batch == batch]) > 3
    assert why_shape(given, given.replace(batch=(1, 3))) == "a batch of 3"


def test_no_terms_on_request_only():
    assert min(shape.k for shape in ragged_shapes(FRIENDLY)) == 1
    assert ragged_shapes(FRIENDLY, 1, empty=True) == (FRIENDLY, FRIENDLY.replace(k=0))
    assert {shape.k for shape in ragged_shapes(FRIENDLY, empty=True)} >= {0, 1, 256}


@pytest.mark.parametrize(("changes", "reason"), [
    ({"m": 1}, "m = 1"), ({"k": 0}, "k = 0"), ({"n": 7}, "n below 8, tall"), ({"k": 13}, "k below one tile of 16"),
    ({"k": 16}, "k below one tile of 32"), ({"m": 127}, "m below one tile of 128"), ({"k": 255}, "k one below a multiple of 128"),
    ({"k": 257}, "k one above a multiple of 128"), ({"n": 161}, "n one above a multiple of 32"), ({"n": 199}, "n a prime"),
    ({"n": 248}, "n an odd multiple of 8"), ({"n": 202}, "n an odd multiple of 2"), ({"n": 205}, "n odd"),
    ({"m": 128}, "m a multiple of 128"), ({"m": 192, "n": 12}, "m an odd multiple of 64, n below one tile of 16, tall"),
    ({"m": 6, "n": 240}, "m below 8, n an odd multiple of 16, flat"),
])
def test_reasons(changes, reason):
    assert why_shape(FRIENDLY, FRIENDLY.replace(**changes)) == reason


def test_sizes_as_text():
    assert sizes_text(FRIENDLY) == "256 x 256 x 256"
    assert sizes_text(FRIENDLY.replace(batch=(2, 3))) == "2x3 of 256 x 256 x 256"


# --- the check and its report


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def without_remainder(a, b):
    whole = a.shape[-1] // 8 * 8
    return right(a[..., :whole], b[..., :whole, :])


def only_many_rows(a, b):
    if a.shape[0] < 2:
        raise ValueError("one row is not supported")
    return right(a, b)


def both(a, b):
    return only_many_rows(a, b) if a.shape[0] < 2 else without_remainder(a, b)


SMALL = Matmul(16, 16, 16, a="float16")
TWELVE = ragged_shapes(SMALL, 12)
KERNELS = {"right": right, "wrong": without_remainder, "fussy": only_many_rows, "both": both}


@pytest.fixture(scope="module")
def reports():
    quick = {"seed": 7, "probes": ["signed", "wide"]}
    found = {name: check_shapes(kernel, SMALL, TWELVE, **quick, keep_going=True) for name, kernel in KERNELS.items()}
    found["right"] = check_shapes(right, SMALL, TWELVE, seed=7)
    found["stopped"] = check_shapes(without_remainder, SMALL, **quick)
    found["inconclusive"] = check_shapes(right, SMALL.replace(alpha=1 / 3), seed=7, probes=["signed"])
    return found


def test_verdicts_of_the_whole(reports):
    assert {name: report.verdict.value for name, report in reports.items()} == {
        "right": "CORRECT", "wrong": "INCORRECT", "fussy": "BROKEN", "both": "INCORRECT", "stopped": "INCORRECT",
        "inconclusive": "INCONCLUSIVE",
    }


def test_the_first_wrong_or_broken_shape_ends_the_check(reports):
    for name in ("right", "wrong", "fussy", "both"):
        assert len(reports[name].reports) == reports[name].planned == len(TWELVE)
    stopped = reports["stopped"]
    assert [one.verdict for one in stopped.reports[:-1]] == [Verdict.CORRECT] * (len(stopped.reports) - 1)
    assert stopped.telling == stopped.reports[-1]
    assert len(stopped.reports) < stopped.planned


def test_wrong_is_worse_than_broken(reports):
    verdicts = [one.verdict for one in reports["both"].reports]
    assert verdicts.index(Verdict.BROKEN) < verdicts.index(Verdict.INCORRECT)
    assert reports["both"].telling.verdict is Verdict.INCORRECT


def test_one_seed_for_all(reports):
    assert {one.seed for one in reports["right"].reports} == {7} == {reports["right"].seed}
    fresh = check_shapes(right, SMALL, shapes=[SMALL.replace(k=5)])
    assert len({one.seed for one in fresh.reports}) == 1
    assert fresh.seed != check_shapes(right, SMALL, shapes=[]).seed


def test_the_given_shape_gets_the_whole_plan_and_the_others_one_call_for_each_probe(reports):
    first, *others = reports["right"].reports
    assert first == replace(zeroulp.check(right, SMALL, seed=7), seconds=first.seconds)
    for one in others:
        assert one.calls == len(one.trials) == len({trial.probe for trial in one.trials})
    assert reports["right"].calls == first.calls + sum(one.calls for one in others)


def test_where_a_short_plan_compares_too_little_the_whole_one_is_run():
    """Half zeros at k = 8400: some outputs are above 2048 in every one of few trials."""
    options = {"probes": ["binary"], "p_zero": 0.5, "seed": 1}
    given, other = Matmul(5, 5, 40, a="float16"), Matmul(5, 6, 8192, a="float16")
    assert zeroulp.check(right, other, trials=1, repeat=0, **options).verdict is Verdict.INCONCLUSIVE
    assert zeroulp.check(right, other, trials=8, **options).verdict is Verdict.CORRECT
    assert check_shapes(right, given, [other], trials=8, **options).verdict is Verdict.CORRECT


def test_shapes_given_by_hand():
    report = check_shapes(right, SMALL, [SMALL.replace(k=33), SMALL, SMALL.replace(m=2)], seed=1)
    assert [sizes(one.problem) for one in report.reports] == [(16, 16, 16), (16, 16, 33), (2, 16, 16)]


def test_an_empty_sum_on_request(reports):
    assert 0 not in {one.problem.k for one in reports["right"].reports}
    report = check_shapes(right, SMALL, "ragged+empty", seed=1, probes=["signed"])
    assert 0 in {one.problem.k for one in report.reports}
    assert report.verdict is Verdict.CORRECT


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ((SMALL, "raged"), UnknownNameError, "unknown set of shapes 'raged'"),
    ((SMALL, [(1, 2, 3)]), UsageError, "one of the shapes is a tuple"),
    (((16, 16, 16),), UsageError, "the problem is a tuple"),
])
def test_requests_that_make_no_sense(arguments, error, text):
    with pytest.raises(error, match=text):
        check_shapes(right, *arguments)


def test_progress_counts_shapes():
    seen = []
    check_shapes(right, SMALL, [SMALL.replace(k=9)], seed=1, progress=lambda *step: seen.append(step))
    assert seen == [(0, 2, "16 x 16 x 16"), (1, 2, "16 x 16 x 9"), (2, 2, "done")]


def test_the_text_answers_first_and_lists_the_shapes_last(reports):
    report = reports["stopped"]
    text = str(report)
    lines = text.splitlines()
    telling = report.telling
    assert lines[0].startswith(f"INCORRECT  at {sizes_text(telling.problem)} ({why_shape(SMALL, telling.problem)}): matmul ")
    assert str(telling).partition("\n\n")[2].partition("see it again")[0] in text
    assert f"  {len(report.reports)} of {report.planned} shapes checked, " in text
    assert lines[-len(report.reports) - 1].split() == ["m", "x", "n", "x", "k", "verdict", "calls", "why", "this", "shape"]
    assert "16 x 16 x 16  CORRECT" in lines[-len(report.reports)]
    assert sizes_text(telling.problem) in lines[-1]
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize(("name", "text"), [
    ("right", "CORRECT  {n} shapes, {calls} calls in all. Of the given one, 16 x 16 x 16: "),
    ("fussy", "BROKEN  at 1 x 16 x 16 (m = 1): the kernel raised ValueError: one row is not supported."),
    ("inconclusive", "INCONCLUSIVE  at 16 x 16 x 16 (the given shape): nothing wrong was seen in 0 calls"),
])
def test_first_lines(reports, name, text):
    report = reports[name]
    assert str(report).startswith(text.format(n=report.planned, calls=report.calls))
    assert all(sizes_text(one.problem) in str(report) for one in report.reports)


@pytest.mark.parametrize("name", ["right", "wrong", "fussy", "both", "stopped", "inconclusive"])
def test_json_without_loss_and_as_the_schema_says(reports, name):
    report = reports[name]
    text = shapes_to_json(report)
    again = shapes_from_json(text)
    assert again == report
    assert str(again) == str(report)
    assert shapes_to_json(again) == text
    assert holds_shapes(text)
    VALIDATOR.validate(json.loads(text))


def test_the_two_kinds_of_file_are_told_apart(reports):
    one = zeroulp.to_json(reports["right"].reports[0])
    assert not holds_shapes(one)
    assert not VALIDATOR.is_valid(json.loads(one))
    with pytest.raises(ReportFileError, match="r.json is the report of one shape"):
        shapes_from_json(one, source="r.json")
    with pytest.raises(ReportFileError, match="r.json is no report of one shape"):
        zeroulp.from_json(shapes_to_json(reports["stopped"]), source="r.json")


@pytest.mark.parametrize(("changes", "message"), [
    ({"schema_version": 2}, "no report of schema version 1"), ({"schema_version": True}, "no report of schema version 1"),
    ({"shapes": []}, "damaged"), ({"shapes": {}}, "damaged"), ({"shapes_planned": 0}, "damaged"),
    ({"shapes_planned": None}, "damaged"), ({"shapes": [{"schema_version": 1}]}, r"r.json, shapes\[0\], is a damaged report"),
    ({"shapes": [3]}, r"r.json, shapes\[0\], is no report"),
])
def test_damaged_files(reports, changes, message):
    data = json.loads(shapes_to_json(reports["stopped"]))
    with pytest.raises(ReportFileError, match=message):
        shapes_from_json(json.dumps({**data, **changes}), source="r.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"shapes', "[" * 100_000])
def test_files_that_are_none(text):
    with pytest.raises(ReportFileError):
        shapes_from_json(text)


def test_the_telling_report_is_replayed(reports):
    again = zeroulp.replay(reports["stopped"].telling, without_remainder)
    assert again.verdict is Verdict.INCORRECT
    assert again.findings[0].sentence == reports["stopped"].telling.findings[0].sentence


def test_the_report_is_made_of_its_parts(reports):
    report = reports["right"]
    assert ShapesReport(report.reports, report.planned) == report
    assert report.problem == SMALL
