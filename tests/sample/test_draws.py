"""What is drawn for a program is exact where it is said to be, and reaches every output that it can."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.sample.programs import PROGRAMS
from zeroulp import track
from zeroulp.errors import ProgramError
from zeroulp.problem import Tensor as T
from zeroulp.sample import Shown, as_tensors, draws, explore, strategy_of

NAMES = [name for name, _, _ in PROGRAMS]


@pytest.mark.parametrize("_, reference, operands", PROGRAMS, ids=NAMES)
def test_the_best_strategy_reaches_every_output(_, reference, operands):
    found = draws(reference, operands)
    best = found[0].coverage
    assert best.share == 1
    assert best.live > 0.2
    assert best.telling == max(each.coverage.telling for each in found)


@pytest.mark.parametrize("_, reference, operands", PROGRAMS, ids=NAMES)
def test_what_a_strategy_says_is_what_the_tracker_sees(_, reference, operands):
    for strategy in draws(reference, operands, seed=5):
        values = strategy.values(5, strategy.trial)
        tracked = track.track(reference, as_tensors(operands, values))
        assert tracked.share() == strategy.coverage.share
        assert tracked.bits == strategy.coverage.bits <= strategy.coverage.budget


@pytest.mark.parametrize("_, reference, operands", PROGRAMS, ids=NAMES)
def test_pytorch_returns_what_is_exact(_, reference, operands):
    for strategy in draws(reference, operands):
        for trial in (0, 1):
            assert track.self_check(track.track(reference, as_tensors(operands, strategy.values(3, trial)))).agrees


@pytest.mark.parametrize("_, reference, operands", PROGRAMS, ids=NAMES)
def test_other_trials_are_as_exact(_, reference, operands):
    best = draws(reference, operands)[0]
    shares = [track.track(reference, as_tensors(operands, best.values(9, trial))).share() for trial in range(3)]
    assert sum(shares) / 3 > 0.9


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["matmul", "conv", "perceptron", "cumsum", "max pool", "argmax", "linear attention"])
def test_narrow_formats_take_fewer_bits(name, storage):
    _, reference, operands = PROGRAMS[NAMES.index(name)]
    narrow = [T(t.name, t.shape, storage, t.role) for t in operands]
    best = draws(reference, narrow, storage=storage, accumulate="any")[0]
    assert best.coverage.share > 0.9 and best.coverage.live > 0.3
    check = track.self_check(track.track(reference, as_tensors(narrow, best.values(0, 0)), storage=storage, accumulate="any"))
    assert check.agrees


def test_each_operand_in_turn_has_the_bits_that_are_left():
    """40 terms cost 5.3 bits, so 18 are left; a product of an operand with itself leaves half of them to it."""
    found = draws(lambda a, b: a @ b.float(), [T("a", (12, 40)), T("b", (40, 9), "bfloat16")])
    assert [(each.settings["operand"], each.settings["magnitude"]) for each in found] == [("a", 2**18 - 1), ("b", 2**8 - 1)]
    relu = draws(lambda a, b: torch.relu(a @ b), [T("a", (12, 40)), T("b", (40, 9))])
    assert {"a", "b", ""} == {each.settings["operand"] for each in relu}
    drawn = [each.values(1, 1) for each in found]
    assert np.abs(drawn[0]["a"]).max() > 2**17 and set(np.unique(drawn[0]["b"])) == {-1, 1}
    assert np.abs(drawn[1]["b"]).max() > 2**7 and set(np.unique(drawn[1]["a"])) == {-1, 1}
    twice = draws(lambda a: a @ a.T, [T("a", (12, 40))])
    assert twice[0].settings["magnitude"] == 2**9 - 1


def test_indices_occur_twice_in_one_strategy_and_once_in_another():
    found = draws(lambda x, i: torch.zeros(20, 6, dtype=x.dtype).index_add(0, i, x),
                  [T("x", (18, 6)), T("i", (18,), role="index", below=20)])
    counts = [len(np.unique(each.values(3, 3)["i"])) for each in found]
    assert min(counts) < 18 == max(counts)
    wide = {each.name: each.settings["magnitude"] for each in found if each.settings["operand"] == "x"}
    assert set(wide) == {"wide", "wide_apart"} and wide["wide_apart"] == 2**24 - 1 and min(wide.values()) >= 2**11 - 1


def test_what_rounds_once_is_used_where_that_counts():
    operands = [T("a", (8, 64), "float16"), T("b", (64, 8), "float16")]
    contract = {"storage": "float32"}
    exact, rounded = (explore(torch.matmul, operands, contract, rounded=rounded) for rounded in (False, True))
    assert all(run.coverage.share == 1 for run in exact)
    assert any(run.coverage.share < 0.9 and run.coverage.determined == 1 for run in rounded)


@pytest.mark.parametrize("_, reference, operands", PROGRAMS, ids=NAMES)
def test_a_strategy_is_found_again_by_its_name_and_settings(_, reference, operands):
    for strategy in draws(reference, operands):
        again = strategy_of(strategy.name, strategy.settings, operands)
        assert again.drawings == strategy.drawings and again.settings == strategy.settings


@pytest.mark.parametrize("name, change", [
    ("nothing", {}), ("wide", {"magnitude": 0}), ("wide", {"magnitude": 2**31}), ("wide", {"terms": -1}), ("wide", {"terms": 9}),
    ("wide", {"every": True}), ("wide", {"every": 1.5}), ("wide", {"step": 4}), ("wide", {"operand": "z"}), ("wide", {"operand": "i"}),
    ("signed", {"operand": "x"}), ("wide", {"operand": 3}), ("wide", {"density": 1}),
])
def test_settings_that_make_no_sense_are_refused(name, change):
    with pytest.raises((ValueError, TypeError)):
        strategy_of(name, change, [T("x", (3,)), T("i", (3,), role="index", below=4)])


@pytest.mark.parametrize("bits", [8, 14, 24])
def test_the_bits_of_the_accumulator_are_used_and_not_exceeded(bits):
    operands = [T("a", (16, 64)), T("b", (64, 16))]
    best = draws(torch.matmul, operands, accumulator_bits=bits)[0].coverage
    assert bits - 3 < best.bits <= bits


def test_a_long_sum_has_fewer_terms():
    """2^17 terms with an accumulator of 11 bits: at most 2^11 are not zero."""
    best = draws(lambda x: x.sum(), [T("x", (1 << 17,))], accumulator_bits=11)[0]
    assert best.coverage.share == 1
    assert 0 < np.abs(best.values(0, 3)["x"]).sum() <= 1 << 11


def test_a_deep_chain_gets_fewer_non_zeros_than_a_shallow_one():
    dense = [T("x", (8, 64)), *[T(f"w{i}", (64, 64), role="weight") for i in range(2)]]
    deep = [T("x", (8, 64)), *[T(f"w{i}", (64, 64), role="weight") for i in range(10)]]

    def chain(x, *layers):
        for w in layers:
            x = x @ w.T
        return x

    counts = [np.count_nonzero(draws(chain, ops)[0].values(0, 0)["w0"]) for ops in (dense, deep)]
    assert counts[0] > 4 * counts[1] > 0


def test_strategies_cover_what_one_alone_does_not():
    """Exact indices need that nothing is equal; averages over 3 need multiples of 3."""

    def reference(x, y):
        return x.argmax(1), y.mean(1)

    shown = Shown(tuple(draws(reference, [T("x", (8, 100)), T("y", (8, 3))])))
    assert shown.outputs == (1.0, 1.0)
    assert not shown.unseen
    assert any("distinct" in each.name for each in shown.strategies)


def test_an_operation_that_sees_constants_only_is_named():
    shown = Shown(tuple(draws(lambda x: (x * 0.0).sum() + x.abs().amax(), [T("x", (8, 8))])))
    assert (1, "mul") in shown.unseen
    assert "no exact data for: 1 mul" in shown.text()


def test_a_constant_output_is_not_telling():
    coverage = draws(lambda x: x - x, [T("x", (8, 8))])[0].coverage
    assert coverage.share == 1 and coverage.live == 0 and coverage.telling == 0


def test_what_has_no_exact_values_says_where_exactness_ends():
    coverage = draws(lambda x: torch.special.bessel_j0(x), [T("x", (8, 8))])[0].coverage
    assert coverage.telling == 0
    assert "bessel" in coverage.ended.sentence()
    assert "bessel" in coverage.sentence()


def test_a_reference_that_fails_is_an_error():
    with pytest.raises(ProgramError, match="fails on float64"):
        draws(torch.matmul, [T("a", (3, 4)), T("b", (5, 6))])


def test_time_is_bounded():
    assert len(draws(torch.matmul, [T("a", (8, 8)), T("b", (8, 8))], seconds=0)) == 1
    operands = [T("a", (8, 8)), T("b", (8, 8)), T("c", (8, 8))]
    assert [len(draws(torch.addmm, operands, limit=limit, seconds=math.inf)) for limit in (1, 2, 6)] == [1, 2, 3]
