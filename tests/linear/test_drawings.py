"""Operands: the same bits everywhere, numbers of their formats, and what comes of them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.linear import problems
from zeroulp import Linear, Tensor, UsageError, check
from zeroulp.arrays import HOST
from zeroulp.arrays.fingerprint import fingerprint
from zeroulp.arrays.torch import Torch
from zeroulp.checks import Session
from zeroulp.checks.linear_bench import LinearJudge, different, draw_linear
from zeroulp.checks.linear_run import linear_plan
from zeroulp.draw import Seed
from zeroulp.linear import changed, draw, fit
from zeroulp.sample import strategy_of

ALL = (problems.MASKED, problems.SCATTER, problems.LARGEST, problems.HALF_CONV, problems.TOTAL, problems.MATMULS)
DRAWN_BY = [("signed", {"magnitude": 15}), ("sparse", {"every": 4}), ("wide", {"magnitude": 2**20, "operand": "x"}), ("distinct", {}), ("powers", {})]


@pytest.mark.parametrize("problem", ALL, ids=lambda p: p.name)
def test_the_library_of_a_device_fills_and_judges_as_the_host_does(problem):
    arrays = Torch(torch.device("cpu"))
    fitted = fit(problem, 1)
    for trial in linear_plan(fitted).trials[:3]:
        inputs = draw_linear(fitted.problem, trial, 1, "cpu")
        there = {o.name: torch.empty(o.shape, dtype=getattr(torch, o.format.name)) for o in fitted.problem.operands}
        here = {name: np.empty_like(array) for name, array in inputs.values.items()}
        inputs.fill(arrays, there)
        inputs.fill(HOST, here)
        assert all(fingerprint(arrays.codes(there[name])) == fingerprint(HOST.codes(here[name])) for name in there)
        codes = arrays.codes(problem.reference(*there.values()))
        assert LinearJudge().outcome(inputs, None, [], codes).compared == inputs.followed.compared.sum()
        assert not different(codes, codes.clone(), fitted.problem).any()
        assert different(codes, codes + 1, fitted.problem).all()


@pytest.mark.parametrize(("name", "settings"), DRAWN_BY, ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.parametrize("problem", ALL, ids=lambda p: p.name)
def test_drawings_are_stored_as_the_kernel_gets_them(problem, name, settings):
    settings = settings if any(t.name == settings.get("operand", t.name) for t in problem.tensors) else {}
    one, same, other = (draw(problem, name, settings, 3, trial) for trial in (1, 1, 2))
    numbered = draw(problem, name, {**settings, "drawing": 2}, 3, 1)
    values = strategy_of(name, settings, problem.tensors).values(3, 1)
    for tensor in problem.tensors:
        array = one[tensor.name]
        assert array.shape == tensor.shape
        assert array.dtype.name == tensor.format
        assert array.flags.c_contiguous
        assert np.array_equal(np.asarray(array, np.float64), values[tensor.name])
        assert np.array_equal(array, same[tensor.name])
        assert np.array_equal(numbered[tensor.name], other[tensor.name])
        if tensor.size > 16:
            assert not np.array_equal(array, other[tensor.name])


def test_indices_are_within_their_bound_and_distinct_where_they_are_to_be():
    tensors = [Tensor("i", (50,), role="index", below=7), Tensor("j", (50,), "int32", role="index", below=60, distinct=True)]
    drawn = draw(Linear(lambda i, j: i, tensors), "wide", {}, 1, 1)
    assert set(drawn["i"].tolist()) == set(range(7))
    assert np.unique(drawn["j"]).size == 50
    assert 0 <= drawn["j"].min() <= drawn["j"].max() < 60


def test_a_change_in_place_keeps_what_a_number_may_be():
    def redrawn(array):
        return changed({"x": array}, "x", Seed(1, 1).stream("change"))["x"]

    before = np.arange(20)
    after = redrawn(before)
    assert sorted(after) == list(before)
    assert (after != before).sum() == 2
    assert redrawn(np.full(5, 3.0, np.float32)).sum() == 9
    assert (redrawn(np.full(5, 3)) == 3).all()
    assert redrawn(np.zeros(4, bool)).sum() == 1


def test_bits_that_are_left_go_to_one_operand():
    fitted = fit(problems.CONV, 1)
    wide = {one.settings["operand"]: one.settings["magnitude"] for one in fitted.strategies if one.name == "wide"}
    assert set(wide) == {"x", "w", "b"}
    assert min(wide.values()) >= 2**16


def test_the_report_says_which_operations_saw_exact_data():
    def reference(x, w):
        return torch.relu(x @ w) * 0 + x @ w

    problem = Linear(reference, [Tensor("x", (4, 8)), Tensor("w", (8, 5))])
    report = check(lambda x, w: x @ w, problem, seed=1)
    seen = {(number, name): probes for number, name, probes in report.tracking.operations}
    assert list(seen) == [(1, "mm"), (2, "relu"), (3, "mul"), (4, "mm"), (5, "add")]
    assert seen[3, "mul"] == () and all({"wide", "ternary"} >= set(seen[key]) > set() for key in seen if key != (3, "mul"))
    assert "exact data in     4 of 5 operations of the reference; none but constants in 3 mul" in str(report)


def test_places_are_chosen_among_numbers_that_differ():
    """Of equal ones a kernel may choose any, and where they are equal nothing is compared."""
    report = check(lambda x: x.topk(3, 1)[1], Linear(lambda x: x.topk(3, 1)[1], [Tensor("x", (8, 40))]), seed=1, framework="torch")
    assert report.verdict.value == "CORRECT"
    assert {trial.probe for trial in report.trials} == {"distinct"}


def test_indices_occur_with_and_without_duplicates():
    trials = linear_plan(fit(problems.SCATTER, 1)).trials
    counts = {np.unique(draw(problems.SCATTER, t.probe, t.settings, 1, t.index)["i"]).size for t in trials}
    assert {trial.probe for trial in trials} == {"wide", "wide_apart"}
    assert max(counts) == 7


def test_sums_that_are_too_long_are_thinned_out():
    problem = Linear(lambda x, w: x @ w, [Tensor("x", (2, 4000), "bf16"), Tensor("w", (4000, 3), "bf16")], accumulate="any")
    fitted = fit(problem, 1)
    assert all(one.settings["every"] > 1 for one in fitted.strategies)
    assert check(lambda x, w: (x.float() @ w.float()).bfloat16(), problem, seed=1, framework="torch").coverage > 0.5


def test_whole_numbers_and_truth_values_may_be_results():
    operands = [Tensor("x", (6, 16), "int8"), Tensor("y", (16, 4), "int8")]
    product = Linear(lambda x, y: x.int() @ y.int(), operands)
    assert check(lambda x, y: (x.double() @ y.double()).int(), product, seed=1, framework="torch").verdict.value == "CORRECT"
    assert check(lambda x, y: ((x.int() @ y.int()) & -2), product, seed=1, framework="torch").verdict.value == "INCORRECT"
    larger = Linear(lambda x, y: x > y, [Tensor("x", (6, 4)), Tensor("y", (6, 4))])
    assert check(np.greater, larger, seed=1).verdict.value == "CORRECT"
    assert check(np.greater_equal, larger, seed=1).verdict.value == "INCORRECT"
    assert check(lambda x, y: np.zeros((6, 4), bool), larger, seed=1).verdict.value == "INCORRECT"


def test_each_operation_by_itself_is_another_contract():
    def reference(x, y):
        return (x + y) - y

    problem = Linear(reference, [Tensor("x", (9,)), Tensor("y", (9,))])
    assert check(lambda x, y: x.copy(), problem, seed=1).findings == ()
    assert check(lambda x, y: (x + y) - y, problem.replace(refactored=False), seed=1).findings == ()


def test_one_session_runs_several_problems():
    with Session(lambda x, y: np.dot(x[::-1], y[::-1])) as session:
        for size in (5, 50, 3):
            problem = Linear(problems.total, [Tensor("x", (size,)), Tensor("y", (size,))])
            assert check(session, problem, seed=1).verdict.value == "CORRECT"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device")
def test_a_device_that_is_not_there_is_one_clear_error():
    with pytest.raises(UsageError, match="there is no device 'cuda'"):
        check(problems.im2col, problems.CONV, device="cuda")
