"""Correct kernels of another structure are accepted, and faults are found."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.linear import problems
from tests.linear.problems import CONV, MEAN, RIGHT, SCATTER, WRONG
from zeroulp import assert_correct, check

SEEDS = (1, 2, 3)


def named(pair):
    return getattr(pair, "__name__", getattr(pair, "name", ""))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("problem", "kernel"), RIGHT, ids=named)
def test_a_kernel_of_another_structure_is_correct(problem, kernel, seed):
    report = assert_correct(kernel, problem, seed=seed)
    assert report.coverage == 1
    assert report.calls > len(report.trials)
    assert min(report.tracking.live.values()) > 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("problem", "kernel"), WRONG, ids=named)
def test_a_fault_is_found(problem, kernel, seed):
    report = check(kernel, problem, seed=seed)
    assert report.verdict.value == "INCORRECT"
    assert report.findings[0].kind == "wrong-result"
    assert report.findings[0].sentence.startswith(f"{problem.title} returns wrong values, in ")


def test_the_place_of_a_difference_is_said():
    finding = check(problems.batch_of_one, CONV, seed=5).findings[0]
    assert "out[0" not in finding.sentence
    report = check(problems.one_tap_lost, CONV, seed=5)
    outcome = report.trial(report.findings[0].trial).outcome
    assert (outcome.low[1], outcome.high[1]) == (2, 2)
    assert "out[0..1, 2, 0..4, " in str(report)


def test_what_leans_on_a_division_is_compared_only_if_the_contract_says_where_kernels_divide():
    for kernel in (problems.mean_at_the_end, problems.mean_of_quotients):
        report = check(kernel, MEAN, seed=1)
        assert report.verdict.value == "INCONCLUSIVE"
        assert report.coverage == 0
        assert "division" in report.reasons[0][0]
        assert "division='last'" in report.reasons[0][1]
    last = MEAN.replace(division="last")
    assert check(problems.mean_at_the_end, last, seed=1).verdict.value == "CORRECT"
    wrong = check(problems.mean_of_quotients, last, seed=1)
    assert wrong.verdict.value == "INCORRECT"
    assert wrong.findings[0].evidence[0][0] == "leans on"


def test_a_power_of_two_does_not_lean():
    assert check(lambda x: (x / 8).sum(1), problems.Linear(lambda x: x.mean(1), [problems.Tensor("x", (5, 8))]), seed=1).coverage == 1


def test_trials_may_be_many_and_calls_too():
    report = check(problems.scatter_backwards, SCATTER, trials=3, repeat=4, seed=1)
    assert report.verdict.value == "CORRECT"
    strategies = {(trial.probe, trial.settings["operand"]) for trial in report.trials}
    assert len(report.trials) == 3 * len(strategies)
    assert report.calls == len(report.trials) + 4 * len(strategies)
    assert check(problems.scatter_backwards, SCATTER, race_rate=0.5, trials=1, seed=1).calls >= 30
