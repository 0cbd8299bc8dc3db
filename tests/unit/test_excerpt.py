"""The part of a result that is looked at is the result there, exactly."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from zeroulp import Matmul, encoding
from zeroulp.arrays import HOST, Torch
from zeroulp.checks import excerpt
from zeroulp.checks.bench import Observation
from zeroulp.checks.excerpt import Excerpt, Selection
from zeroulp.checks.inputs import draw_inputs
from zeroulp.checks.repetition import Differences, differences
from zeroulp.judge import Matched, Tally, differing, judge, same, some_of
from zeroulp.plan import make_plan

PROBLEMS = [
    Matmul(70, 81, 33, a="float16", transpose_a=True),
    Matmul(40, 30, 37, a="bfloat16", out="float32", transpose_b=True, bias="bfloat16", alpha=-0.5),
    Matmul(23, 31, 64, a="float16", beta=2.0, batch=(3, 2), layouts="any"),
    Matmul(23, 31, 41, a="float16", layouts="broadcast"),
    Matmul(33, 20, 50, a="int8"),
    Matmul(30, 40, 45, a="float32", rounding="ties-either", signed_zero="strict", subnormals="flush"),
    Matmul(64, 65, 300, a="float16", accumulate="any"),
]


def inputs_of(problem, seed=5):
    """Of one trial of each probe and kind."""
    seen = set()
    for trial in make_plan(problem).trials:
        key = trial.probe, trial.settings.get("kind"), trial.changed
        if key not in seen:
            seen.add(key)
            yield draw_inputs(problem, trial, seed)


def random_selection(problem, rng):
    entries = ((),)
    if problem.batch:
        count = int(np.prod(problem.batch))
        entries = tuple(tuple(int(x) for x in np.unravel_index(i, problem.batch)) for i in sorted(rng.choice(count, 2, replace=False)))
    rows, columns = (np.sort(rng.choice(extent, 7, replace=False)) for extent in (problem.m, problem.n))
    return Selection(entries, rows, columns)


def there(selection, problem, array):
    """Part of a whole array, by plain indexing."""
    whole = np.broadcast_to(array, problem.output.shape)
    return selection.pick(np.ascontiguousarray(whole))


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_what_is_expected_of_a_part_is_what_is_expected_there(problem):
    rng = np.random.default_rng(3)
    compared = 0
    for inputs in inputs_of(problem):
        selection, whole = random_selection(problem, rng), inputs.expected
        part = selection.expected(inputs)
        for name in ("codes", "low", "high", "compared", "zero_sign"):
            wanted, found = getattr(whole, name), getattr(part, name)
            assert (wanted is None) == (found is None), (inputs.trial.probe, name)
            assert wanted is None or np.array_equal(there(selection, problem, wanted), found), (inputs.trial.probe, name)
        nan = np.full(problem.output.shape, encoding.nan_code(problem.out_format) if problem.out_format.has_nan else 1)
        for codes in (whole.codes, *whole.also, whole.codes ^ 1, nan.astype(whole.codes.dtype)):
            codes = np.broadcast_to(codes, problem.output.shape)
            wrong = differing(codes, whole, problem.out_format)
            found = differing(there(selection, problem, codes), part, problem.out_format)
            assert np.array_equal(there(selection, problem, wrong), found)
        compared += 1
    assert compared >= 5


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_operands_and_exact_results_of_a_part_are_those_there(problem):
    rng = np.random.default_rng(4)
    for inputs in inputs_of(problem):
        if inputs.family.bounded:
            continue
        codes = inputs.expected.codes.copy()
        codes[..., ::3, 1::4] ^= 1
        selection = random_selection(problem, rng)
        whole, part = Excerpt(inputs, None, codes), Excerpt(inputs, selection, selection.pick(codes))
        assert np.array_equal(there(selection, problem, whole.case.total), part.case.total)
        assert np.array_equal(there(selection, problem, whole.wrong), part.wrong)
        exact = there(selection, problem, np.ldexp(whole.case.total.astype(float), whole.case.exponent))
        assert np.array_equal(exact, part.case.exact)
        if inputs.overlaid:
            continue
        for operand in part.problem.operands:
            values = encoding.decode(part.codes[operand.name], operand.format)
            assert values.shape == operand.shape
            if operand.name in "ab":
                assert np.array_equal(np.abs(values), part.magnitudes(operand.name))


def wrong_at(problem, mask):
    """The outcome of a result that is wrong where *mask* says."""
    tally, zeros = Tally(problem.out_format, problem.output.shape), np.zeros(np.count_nonzero(mask), np.uint16)
    tally.add(np.nonzero(mask), zeros + 1, zeros)
    return tally.outcome()


def masks(shape, rng):
    for index in (np.s_[..., 5, 9], np.s_[..., -1, :], np.s_[..., :, 3], np.s_[..., -40:, -40:], np.s_[...], np.s_[..., :1, :1]):
        mask = np.zeros(shape, bool)
        mask[index] = True
        yield mask
    yield rng.random(shape) < 0.001
    yield np.broadcast_to(np.eye(shape[-2], shape[-1], dtype=bool), shape)


@pytest.mark.parametrize("batch", [(), (3, 4)], ids=str)
def test_wrong_outputs_the_first_and_the_last_and_right_ones_are_looked_at(batch):
    problem = Matmul(200, 300, 20, a="float16", batch=batch)
    inputs = draw_inputs(problem, make_plan(problem).trials[0], 1)
    for mask in masks(problem.output.shape, np.random.default_rng(1)):
        chosen = Selection.of(inputs, wrong_at(problem, mask))
        assert len(chosen.rows) == len(chosen.columns) == excerpt.SIDE
        assert max(np.diff(chosen.rows).min(), np.diff(chosen.columns).min()) > 0
        picked = chosen.pick(mask)
        assert np.count_nonzero(picked) >= min(np.count_nonzero(mask[chosen.entries[0]]), 2)
        assert mask.all() or not picked.all()
        assert tuple(np.argwhere(mask)[0, :-2]) in chosen.entries
        if len(chosen.entries) == 1:
            own = np.argwhere(mask[chosen.entries[0]])
            assert own[0, 0] in chosen.rows
            assert own[0, 1] in chosen.columns
            assert batch or own[-1, 0] in chosen.rows
            assert batch or own[-1, 1] in chosen.columns


def test_outputs_of_a_right_result_are_spread_over_it():
    problem = Matmul(1000, 3000, 20, a="float16")
    inputs = draw_inputs(problem, make_plan(problem).trials[0], 1)
    chosen = Selection.of(inputs, Matched(1, 1))
    assert (chosen.rows[0], chosen.rows[-1], chosen.columns[-1]) == (0, 999, 2999)
    assert len(chosen.rows) == len(chosen.columns) == excerpt.SIDE
    assert np.diff(chosen.columns).max() < 100


@pytest.mark.parametrize("k", [2**16, 2**22, 2**30])
def test_of_longer_sums_fewer_are_looked_at(k):
    problem = Matmul(500, 500, k, a="float16")
    inputs = dataclasses.replace(draw_inputs(Matmul(5, 5, 20, a="float16"), make_plan(Matmul(5, 5, 20, a="float16")).trials[0], 1), problem=problem)
    chosen = Selection.of(inputs, None)
    assert 2 <= len(chosen.rows) == len(chosen.columns) <= max(2, (2**26 / k) ** 0.5)


def test_places_of_differences_are_kept_up_to_a_number():
    tally, rng = Tally(Matmul(1, 1, 1, a="float16").out_format, (5000, 5000)), np.random.default_rng(2)
    expected = set()
    for start in rng.permutation(50) * 100:  # blocks come in any order
        rows = np.sort(rng.choice(100, 40, replace=False)) + start
        columns = rng.integers(0, 5000, 40)
        tally.add((rows, columns), np.ones(40, np.uint16), np.zeros(40, np.uint16))
        expected |= set(zip(rows.tolist(), columns.tolist(), strict=True))
    outcome = tally.outcome()
    places = [tuple(place) for place in outcome.places.tolist()]
    assert places == sorted(places)
    assert len(places) == len(set(places)) <= 256 < 2000 == outcome.differing
    assert set(places) <= expected
    assert (places[0], places[-1]) == (min(expected), max(expected))
    assert places[0] == outcome.first
    assert len({row // 100 for row, _ in places}) == 50  # all blocks have their share


@pytest.mark.parametrize(("count", "most"), [(0, 5), (3, 5), (5, 5), (6, 5), (1000, 5), (1000, 1), (7, 2), (100, 64)])
def test_some_of_an_array_are_spread_over_it(count, most):
    chosen = some_of(np.arange(count), most)
    assert len(chosen) <= most
    assert np.array_equal(np.unique(chosen), chosen)
    assert count == 0 or chosen[0] == 0
    assert most == 1 or count == 0 or chosen[-1] == count - 1
    assert most < 5 or np.diff([0, *chosen, count]).max(initial=0) <= max(2, 4 * count / most)


def libraries():
    try:
        import torch
    except ImportError:
        return [HOST]
    return [HOST, Torch(torch.device("cpu"))]


@pytest.mark.parametrize("arrays", libraries(), ids=lambda arrays: arrays.name)
def test_a_part_is_the_same_in_any_library(arrays):
    problem = Matmul(70, 80, 20, a="float16")
    inputs = draw_inputs(problem, make_plan(problem).trials[0], 1)
    codes = np.random.default_rng(1).integers(0, 2**16, problem.output.shape).astype(np.uint16)
    selection = random_selection(problem, np.random.default_rng(1))
    found = Excerpt(inputs, selection, np.empty(0)).pick(arrays.from_host(codes))
    assert found.dtype == np.uint16
    assert np.array_equal(found, codes[np.ix_(selection.rows, selection.columns)])


@pytest.mark.parametrize("arrays", libraries(), ids=lambda arrays: arrays.name)
@pytest.mark.parametrize("problem", [Matmul(30, 40, 20, a="float16"), Matmul(9, 11, 20, a="float16", batch=(2, 3))], ids=str)
def test_repetitions_are_compared_block_by_block(problem, arrays):
    inputs = draw_inputs(problem, make_plan(problem).trials[0], 1)
    small = type("Small", (type(arrays),), {"block_elements": 50})
    arrays_small = small() if arrays is HOST else small(arrays.device)
    before = np.random.default_rng(1).integers(0, 2**15, problem.output.shape).astype(np.uint16)
    poison = 0x7E55

    def found(now, poison=poison):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("zeroulp.checks.repetition.arrays_of", lambda _: arrays_small)
            seen = Observation(inputs, poisons=[poison if isinstance(poison, int) else arrays.from_host(poison)])
            return differences(arrays.from_host(now), arrays.from_host(before), seen)

    assert found(before) == Differences(0, are_poison=True)
    before[..., 2, 3], now = 0x8000, before.copy()
    now[..., 2, 3] = 0
    assert found(now).count == 0  # zeros are one
    now[..., 1, 4] ^= 1
    now[..., -1, -1] = poison
    assert found(now) == Differences(2 * int(np.prod(problem.batch)), are_poison=False)
    now[..., 1, 4] = poison
    assert found(now) == Differences(np.count_nonzero(~same(now, before, problem.out_format)), are_poison=True)
    assert found(now, poison=now).are_poison
    assert not found(now, poison=before).are_poison


def test_of_a_large_masked_result_only_what_is_compared_counts(monkeypatch):
    problem = Matmul(40, 50, 3200, a="float16")
    trial = make_plan(problem, probes=["binary"], p_zero=0.2, trials=1).trials[0]
    inputs = draw_inputs(problem, trial, 1)
    masked = dataclasses.replace(inputs, trial=dataclasses.replace(trial, certificate=dataclasses.replace(trial.certificate, budget=1)))
    monkeypatch.setattr("zeroulp.checks.excerpt.LARGE", 0)
    before = inputs.expected.codes
    now = before ^ 1
    assert 0 < inputs.expected.share_compared < 1
    assert differences(now, before, Observation(masked, poisons=[1])).count == 0
    assert differences(now, before, Observation(inputs, poisons=[1])).count == np.count_nonzero(inputs.expected.compared)


def test_the_part_of_a_wrong_result_is_judged_as_the_whole(monkeypatch):
    monkeypatch.setattr(excerpt, "LARGE", 0)
    problem = Matmul(20, 30, 40, a="float16")
    inputs = draw_inputs(problem, make_plan(problem).trials[0], 1)
    codes = inputs.expected.codes.copy()
    codes[3:7, 5] ^= 1
    outcome = judge(codes, inputs.expected, problem.out_format)
    part = Excerpt.of(inputs, codes, outcome)
    assert part.selection is not None
    assert part.outcome == outcome  # it is small, so that all of it is the part
