"""Correct kernels of another structure are accepted, and faults of the problem's own kind are found."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from zeroulp import check, from_json, replay, to_json
from zeroulp.checks.problem_file import load_problem
from zeroulp.errors import ReportFileError
from zeroulp.problems import Scan

KINDS = ["conv", "matmuls", "scans", "indexed", "neighbours", "packed", "recurrences"]
SEEDS, MANY = (1, 2, 3), range(20, 40)
CASES = [(kind, case) for kind in KINDS for case in importlib.import_module(f"tests.problems.{kind}").CASES]
RIGHT = [(case.problem, kernel, f"{kind}, {case.problem.title}: {name}") for kind, case in CASES for name, kernel in case.right.items()]
WRONG = [(case.problem, kernel, f"{kind}, {case.problem.title}: {name}") for kind, case in CASES for name, kernel in case.wrong.items()]


def rows(table):
    return [pytest.param(problem, kernel, id=name) for problem, kernel, name in table]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("problem", "kernel"), rows(RIGHT))
def test_a_kernel_of_another_structure_is_correct(problem, kernel):
    for seed in SEEDS:
        report = check(kernel, problem, seed=seed, framework="numpy")
        assert report.verdict.value == "CORRECT", str(report)
        assert report.coverage == 1
        assert min(report.tracking.live.values()) > 0


@pytest.mark.parametrize(("problem", "kernel"), rows(WRONG))
def test_a_fault_is_found(problem, kernel):
    report = check(kernel, problem, seed=4, framework="numpy")
    assert report.verdict.value == "INCORRECT", str(report)
    assert report.findings[0].kind == "wrong-result", str(report)


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "kernel"), rows(RIGHT))
def test_no_seed_accuses_a_correct_kernel(problem, kernel):
    for seed in MANY:
        report = check(kernel, problem, seed=seed, framework="numpy")
        assert report.verdict.value == "CORRECT", str(report)


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "kernel"), rows(WRONG))
def test_every_seed_finds_a_fault(problem, kernel):
    for seed in MANY:
        report = check(kernel, problem, seed=seed, framework="numpy")
        assert report.verdict.value == "INCORRECT", str(report)


def test_there_are_five_faults_of_each_problem():
    assert all(len(case.wrong) >= 5 and case.right for _, case in CASES)


@pytest.mark.parametrize("case", {case.problem.origin.name: case for _, case in CASES}.values(), ids=lambda case: case.problem.origin.name)
def test_the_reference_is_found_again_for_a_replay(case):
    kernel = next(iter(case.wrong.values()))
    report = from_json(to_json(check(kernel, case.problem, seed=5, framework="numpy")))
    assert report.problem.reference is None
    again = replay(report, kernel)
    assert again.verdict.value == "INCORRECT"
    assert again.problem.reference == case.problem.reference


def test_a_problem_of_a_file_is_found_again_without_the_file_and_as_it_was(tmp_path):
    file = tmp_path / "problem.py"
    file.write_text("import zeroulp\nproblem = zeroulp.problems.Scan((3, 20))\n")
    report = from_json(to_json(check(lambda x: x, load_problem(str(file)), seed=1, framework="numpy")))
    file.write_text("import zeroulp\nproblem = zeroulp.problems.Scan((3, 20), reverse=True)\n")
    assert replay(report, lambda x: x).verdict.value == "INCORRECT"
    file.unlink()
    assert replay(report, lambda x: x.cumsum(-1, dtype=x.dtype)).verdict.value == "CORRECT"


@pytest.mark.parametrize(("name", "arguments"), [("no such", "{}"), ("scan", "["), ("scan", "[1]")])
def test_a_report_with_a_reference_that_is_not_there_is_one_clear_error(name, arguments):
    report = from_json(to_json(check(lambda x: x, Scan((3, 20)), seed=1, framework="numpy")))
    origin = replace(report.problem.origin, name=name, arguments=arguments)
    with pytest.raises(ReportFileError, match="no reference of zeroulp.problems"):
        replay(replace(report, problem=report.problem.replace(origin=origin)), lambda x: x)
