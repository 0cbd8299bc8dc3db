"""What is spared is no part of a verdict: who is believed, and when operands are followed after all."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.linear import problems
from zeroulp import Linear, Tensor, check, encoding, replay
from zeroulp.formats import BY_NAME
from zeroulp.linear import fit, following
from zeroulp.track import target_run, tracked

F = torch.nn.functional
OPERANDS = [Tensor("x", (6, 24)), Tensor("w", (24, 8), role="weight")]
PRODUCT = Linear(lambda x, w: x @ w, OPERANDS, name="product")
MIXED = Linear(lambda x, w: torch.cat([x @ w, torch.sin(x @ w)], 1), OPERANDS, name="mixed")


@pytest.fixture(autouse=True)
def surprise(monkeypatch):
    """The trial for which the reference is not believed is the first that has no drawing of its own."""
    monkeypatch.setattr("zeroulp.checks.linear_run.fresh_seed", lambda: 0)


@pytest.fixture
def runs(monkeypatch):
    """How often references are tracked, and run in float64 beside that."""
    counts = {"tracked": 0, "plain": 0}

    def counted(name, function):
        def call(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        return call

    monkeypatch.setattr(tracked, "track_program", counted("tracked", tracked.track_program))
    monkeypatch.setattr("zeroulp.track.program.Program.plainly", counted("plain", tracked.Program.plainly))
    return counts


def test_each_strategy_is_tracked_once_and_one_other_trial_run_in_float64(runs):
    report = check(lambda x, w: x.flip(1) @ w.flip(0), PRODUCT, seed=1, framework="torch")
    assert report.verdict.value == "CORRECT" and len(report.trials) == 8
    assert runs == {"tracked": 2, "plain": 1}
    theorems = [trial.certificate.theorem for trial in report.trials]
    assert theorems.count("tracked") == 2 and theorems.count("alike") == 6
    assert "drawn like some that were followed" in report.trials[-1].certificate.sentence()


def test_where_something_is_not_exact_every_trial_is_followed(runs):
    report = check(MIXED.reference, MIXED, seed=1, framework="torch")
    assert {trial.certificate.theorem for trial in report.trials} == {"tracked"}
    assert runs["tracked"] >= len(report.trials)


def test_a_kernel_that_differs_is_judged_by_the_tracked_run_alone():
    """It is wrong in late trials only; what is said of it comes with the certificate of that very drawing."""
    calls = []

    def kernel(x, w):
        calls.append(1)
        return x @ w + (len(calls) > 8) * torch.eye(6, 8)

    report = check(kernel, PRODUCT, seed=1)
    assert report.verdict.value == "INCORRECT"
    assert len(report.trials) > 4
    assert [trial.certificate.theorem for trial in report.trials][-2:] == ["alike", "tracked"]
    assert replay(report, lambda x, w: x @ w).verdict.value == "CORRECT"


@pytest.mark.parametrize("error", [1.0, float("nan")])
def test_a_reference_that_goes_wrong_in_its_own_formats_accuses_nobody(monkeypatch, error):
    """From some run on it returns something else than in float64: correct kernels are right, and those that do the same are."""
    plainly, count = target_run._run, []

    def off(program, device):
        count.append(1)
        return [value + error if len(count) > 10 else value for value in plainly(program, device)]

    monkeypatch.setattr(target_run, "_run", off)
    report = check(lambda x, w: x.flip(1) @ w.flip(0), PRODUCT, seed=1, framework="torch")
    assert report.findings == ()
    assert len(count) > 10
    theorems = [trial.certificate.theorem for trial in report.trials]
    assert "alike" in theorems and theorems[-1] == "tracked"
    assert report.trials[-1].share_compared == 0  # the self-check of that drawing disagrees: nothing is exact there


def test_an_operand_that_is_changed_in_place_is_drawn_as_its_own_trial_is():
    whole = check(problems.im2col, problems.CONV, seed=3)
    again = replay(whole, problems.im2col)
    assert [trial.digest for trial in again.trials] == [trial.digest for trial in whole.trials]
    assert sum(trial.based_on is not None for trial in whole.trials) == 2


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_expected_bits_are_rounded_once(name):
    """Those of a cast are those of integer arithmetic, ties included."""
    format_, numbers = BY_NAME[name], np.random.default_rng(1)
    wide = numbers.integers(-(2**26), 2**26, 4000) * 2.0 ** numbers.integers(-30, 3, 4000)
    halves = numbers.integers(-(2**9), 2**9, 4000) + 0.5
    values = np.concatenate([wide, wide.astype(np.float32), halves * 2.0**-9, 2.0**11 + halves, [0.0, -0.0]])
    output = tracked.Output(torch.from_numpy(values), None, 0, None, format_, None)
    found = following._codes(output, format_, np.ones(values.shape, bool))
    assert np.array_equal(found, encoding.round_values(values, format_))


def test_a_random_reference_is_told_from_one_that_is_off():
    state = []

    def random(x, w):
        state.append(1)
        return x @ w + len(state) % 7

    with pytest.raises(Exception, match="random"):
        fit(Linear(random, OPERANDS), 1)


def test_a_fault_that_the_reference_shares_is_found_in_the_trial_that_nobody_could_know(monkeypatch):
    """The reference's own run goes wrong with the kernel, but for the drawings that chose the strategies."""
    plainly, numbers = target_run._run, []

    def off(program, device):
        return [value + (value == value.max()) * (len(numbers) > 0) for value in plainly(program, device)]

    def kernel(x, w):
        numbers.append(1)
        result = x @ w
        return result + (result == result.max())

    monkeypatch.setattr(target_run, "_run", off)
    report = check(kernel, PRODUCT, seed=1, framework="torch")
    assert report.verdict.value != "CORRECT"
