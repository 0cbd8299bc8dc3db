"""What a check of a reference's kernel would do, said beforehand."""

from __future__ import annotations

import textwrap

import pytest

pytest.importorskip("torch")

from tests.cli.conftest import command  # noqa: F401
from tests.linear import problems
from tests.linear.problems import CONV, SCAN, SCATTER
from zeroulp import Linear, Matmul, Tensor, UsageError, check, make_linear_plan, make_plan

PROBLEM = """
import torch
from zeroulp import Linear, Tensor

def layer(x, w):
    return torch.relu(x @ w.T)

problem = Linear(layer, [Tensor("x", (6, 8)), Tensor("w", (5, 8))])
softmax = Linear(lambda x, w: torch.softmax(x @ w, 1), [Tensor("x", (4, 6)), Tensor("w", (6, 5))])
half = Linear(lambda x: torch.stack([x[0] * 2, torch.exp(x[1])]), [Tensor("x", (2, 6))])
vacuous = Linear(lambda x: torch.relu(-x.abs() - 1), [Tensor("x", (4, 4))])
random = Linear(lambda x: x + torch.rand(4, 4), [Tensor("x", (4, 4))])
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "problem.py"
    path.write_text(textwrap.dedent(PROBLEM))
    return path


@pytest.mark.parametrize("problem", [CONV, SCAN, SCATTER, problems.MASKED, problems.HALF_CONV], ids=lambda p: p.name)
def test_a_check_with_the_same_seed_runs_these_trials(problem):
    plan = make_linear_plan(problem, seed=7)
    report = check(problem.reference, problem, seed=7)
    assert plan.coverage == report.coverage
    assert plan.calls == report.calls
    assert plan.tracking == report.tracking
    assert bool(plan.unmet) == (report.verdict.value == "INCONCLUSIVE")
    assert [(t.index, t.probe, t.settings) for t in plan.trials] == [(t.index, t.probe, t.settings) for t in report.trials]
    pairs = [(t.certificate, r.certificate) for t, r in zip(plan.trials, report.trials, strict=True)]
    assert all(planned == seen for planned, seen in pairs if seen.theorem == "tracked")
    assert pairs[0][1].theorem == "tracked"


def test_shares_are_those_of_the_elements_that_are_compared():
    plan = make_linear_plan(Linear(lambda x: x.cumsum(0) / 3, [Tensor("x", (16,))], division="any"))
    assert set(plan.shares) == {0.0}
    assert plan.coverage == 0
    assert any("division" in reason for reason, _ in plan.unmet)


def test_options_change_the_number_of_calls():
    few = make_linear_plan(SCAN, trials=1, repeat=0)
    assert few.calls == len(few.trials)
    assert make_linear_plan(SCAN, trials=1, repeat=3).calls == 4 * few.calls
    assert make_linear_plan(SCAN, race_rate=0.05).calls > 100
    with pytest.raises(UsageError, match="trials=0"):
        make_linear_plan(SCAN, trials=0)


def test_each_kind_of_problem_has_a_plan_of_its_own():
    with pytest.raises(UsageError, match="is a Matmul"):
        make_linear_plan(Matmul(4, 4, 4, a="float32"))
    with pytest.raises(UsageError, match="is a Linear"):
        make_plan(SCAN)


@pytest.mark.parametrize(("name", "status", "words"), [
    ("", 0, ["calls of layer: x 6 x 8, w 5 x 8 -> 6 x 5", "100% of the outputs are exact", "with x", "with w", "of 2^24", "MiB"]),
    ("softmax", 3, ["exactness ends at operation 2, _softmax", "0% of the outputs", "not enough: nothing is compared", "what would help"]),
    ("half", 3, ["exactness ends at operation", "50% of the outputs are exact", "not enough: 50.00% of the outputs were never compared"]),
    ("vacuous", 3, ["0% with x", "not enough: vacuous: no element changes", "relu"]),
    ("random", 2, ["random"]),
])
def test_the_command_says_it_in_words(command, file, name, status, words):  # noqa: F811
    ran = command("plan", "--problem", f"{file}:{name}" if name else file)
    assert ran.status == status, ran.out + ran.err
    for word in words:
        assert word in ran.out + ran.err


@pytest.mark.parametrize("option", [("--probe", "signed"), ("--p-zero", "0.5"), ("--escape-probability", "1e-6")])
def test_options_of_matmul_are_refused(command, file, option):  # noqa: F811
    ran = command("plan", "--problem", file, *option)
    assert ran.status == 2
    assert "given by a reference" in ran.err


def test_the_command_counts_calls(command, file):  # noqa: F811
    few = command("plan", "--problem", file, "--trials", "1", "--repeat", "0")
    many = command("plan", "--problem", file, "--trials", "2", "--repeat", "2")
    trials, calls = (int(word) for word in many.out.split(" calls")[0].split(" trials, "))
    assert few.out.startswith(f"{trials // 2} trials, {trials // 2} calls")
    assert calls > trials
