"""Problems in files: checked and replayed from the command line, kernels kept apart."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

pytest.importorskip("torch")

from tests.cli.conftest import command  # noqa: F401
from tests.linear import problems
from tests.linear.problems import CONV, SCAN, SCATTER
from zeroulp import Linear, check, from_json, replay, to_json
from zeroulp.errors import ReportFileError

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))

PROBLEM = """
import torch
from zeroulp import Linear, Matmul, Tensor

def scatter(x, i):
    return torch.zeros(7, 5).index_add(0, i, x)

problem = Linear(scatter, [Tensor("x", (20, 5)), Tensor("i", (20,), role="index", below=7)])
layer = Linear(lambda x, w: torch.relu(x @ w.T), [Tensor("x", (6, 8)), Tensor("w", (5, 8))], name="layer")
softmax = Linear(lambda x: torch.softmax(x, 1), [Tensor("x", (4, 4))])
random = Linear(lambda x: x + torch.rand(4, 4), [Tensor("x", (4, 4))])
plain = Matmul(4, 5, 6, a="float32")
other = 5
"""

KERNELS = """
import os, time
import numpy as np

def right(x, i):
    out = np.zeros((7, 5), np.float32)
    np.add.at(out, i, x)
    return out

def duplicates_lost(x, i):
    out = np.zeros((7, 5), np.float32)
    out[i] += x
    return out

def layer(x, w):
    return np.maximum(np.dot(x, w.T), 0)

def matmul(a, b):
    return a @ b

def leaves(x, i):
    os._exit(0)

def sleeps(x, i):
    time.sleep(60)

def softmax(x):
    return x

def knows(x, i):
    import gc
    from zeroulp.problem import Linear
    found = [one for one in gc.get_objects() if isinstance(one, Linear)]
    assert not [one for one in found if one.reference or one.origin.source]
    return right(x, i)
"""


@pytest.fixture
def files(tmp_path):
    for name, text in (("problem.py", PROBLEM), ("kernels.py", KERNELS)):
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


@pytest.mark.parametrize(("kernel", "name", "status"), [
    ("right", "", 0), ("duplicates_lost", "", 1), ("layer", ":layer", 0), ("matmul", ":plain", 0), ("right", ":problem", 0),
    ("softmax", ":softmax", 3), ("leaves", "", 4), ("nobody", "", 2), ("right", ":other", 2), ("right", ":missing", 2), ("softmax", ":random", 2),
])
def test_the_exit_status_is_the_verdict(command, files, kernel, name, status):  # noqa: F811
    ran = command("check", f"{files}/kernels.py:{kernel}", "--problem", f"{files}/problem.py{name}", "--seed", "5")
    assert ran.status == status, ran.out + ran.err


def test_a_worker_knows_nothing_of_the_reference(command, files):  # noqa: F811
    ran = command("check", f"{files}/kernels.py:knows", "--problem", f"{files}/problem.py", "--isolate", "process")
    assert ran.status == 0, ran.out


def test_a_hanging_kernel_is_ended(command, files):  # noqa: F811
    ran = command("check", f"{files}/kernels.py:sleeps", "--problem", f"{files}/problem.py", "--deadline", "1")
    assert ran.status == 4
    assert "still running after 1 s" in ran.out


def test_a_report_is_written_and_replayed(command, files):  # noqa: F811
    file = files / "report.json"
    target, problem = f"{files}/kernels.py:duplicates_lost", f"{files}/problem.py"
    assert command("check", target, "--problem", problem, "--json", file, "--isolate", "none").status == 1
    data = json.loads(file.read_text())
    jsonschema.validate(data, SCHEMA)
    assert data["problem"]["origin"]["problem"] == f"{files}/problem.py:problem"
    assert "index_add" in data["problem"]["origin"]["source"]
    again = command("replay", file)
    assert again.status == 1
    assert "scatter returns wrong values" in again.out
    assert command("replay", file, f"{files}/kernels.py:right").status == 0
    (files / "problem.py").write_text(PROBLEM.replace("index_add(0, i, x)", "index_add(0, i, 2 * x)"))
    changed = command("replay", file)
    assert changed.status == 2
    assert "has changed" in changed.err
    (files / "problem.py").unlink()
    gone = command("replay", file)
    assert gone.status == 2
    assert "cannot be found" in gone.err


@pytest.mark.parametrize("words", [("plan", "--shapes", "ragged"), ("rules", "KERNEL"), ("check", "KERNEL", "--grid", "4,8"), ("check", "KERNEL", "--shapes", "ragged")])
def test_what_is_for_matmul_alone_says_so(command, files, words):  # noqa: F811
    words = [f"{files}/kernels.py:right" if word == "KERNEL" else word for word in words]
    ran = command(*words, "--problem", f"{files}/problem.py")
    assert ran.status == 2
    assert "given by a reference" in ran.err


@pytest.mark.parametrize("problem", [CONV, problems.MASKED, SCATTER, problems.TOTAL, problems.LARGEST, problems.HALF_CONV], ids=lambda p: p.name)
def test_reports_go_to_json_and_back(problem):
    report = check(problem.reference, problem, seed=3)
    data = json.loads(to_json(report))
    jsonschema.validate(data, SCHEMA)
    back = from_json(to_json(report))
    assert back == report
    assert back.problem.reference is None
    assert str(back) == str(report)
    again = replay(back, problem.reference)
    assert again.verdict == report.verdict
    assert [trial.digest for trial in again.trials] == [trial.digest for trial in report.trials]
    for one, other in zip(again.trials, report.trials, strict=True):  # which is followed besides is a matter of chance
        assert one.certificate == other.certificate or "alike" in {one.certificate.theorem, other.certificate.theorem}


def test_a_replay_shows_the_same_difference():
    report = check(problems.duplicates_lost, SCATTER, seed=3)
    again = replay(report)
    assert again.findings[0].sentence == report.findings[0].sentence
    assert again.trial(again.findings[0].trial).outcome == report.trial(report.findings[0].trial).outcome
    assert replay(report, problems.scatter_backwards).verdict.value == "CORRECT"


def test_a_difference_that_needs_the_trial_before_is_replayed_with_it():
    known = {}

    def kernel(x):
        key = x.ravel()[:40].tobytes()
        if key not in known:
            known[key] = x.cumsum(1)
        return known[key].copy()

    report = check(kernel, SCAN, seed=11)
    assert report.findings[0].kind == "stale-result"
    assert len(report.findings[0].replay) == 2
    known.clear()
    assert replay(report, kernel).findings[0].kind == "stale-result"


def test_a_reference_that_cannot_be_found_again_may_be_given():
    def local(x):
        return x.cumsum(1)

    problem = Linear(local, SCAN.tensors)
    report = from_json(to_json(check(problems.carry_lost, problem, seed=1)))
    with pytest.raises(ReportFileError, match="cannot be found"):
        replay(report)
    given = replace(report, problem=report.problem.replace(reference=local))
    assert replay(given).verdict.value == "INCORRECT"


@pytest.mark.parametrize("change", [
    lambda trial: trial["settings"].update(magnitude=0), lambda trial: trial["settings"].update(density=0.5),
    lambda trial: trial["settings"].update(operand="y"), lambda trial: trial["settings"].update(drawing=-1), lambda trial: trial["settings"].update(every=2),
    lambda trial: trial.update(probe="nothing"), lambda trial: trial["certificate"].update(largest_sum="1"),
])
def test_a_report_that_was_changed_is_refused(change):
    report = check(problems.carry_lost, SCAN, seed=1)
    data = json.loads(to_json(report))
    change(data["trials"][0])
    with pytest.raises(ReportFileError):
        replay(from_json(json.dumps(data)))


@pytest.mark.parametrize(("kernel", "verdict"), [(problems.loops, "CORRECT"), (problems.in_tf32, "INCORRECT")])
def test_a_worker_comes_to_the_same(kernel, verdict):
    here, there = (check(kernel, CONV, seed=9, isolation=isolation) for isolation in ("none", "process"))
    assert here.verdict.value == there.verdict.value == verdict
    assert [t.digest for t in here.trials] == [t.digest for t in there.trials]
    assert [t.outcome for t in here.trials] == [t.outcome for t in there.trials]
