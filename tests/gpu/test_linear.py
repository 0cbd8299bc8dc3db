"""Kernels of a reference on a CUDA device: cuDNN's, cuBLAS's and PyTorch's own, and faulty ones."""

from __future__ import annotations

import importlib.util

import pytest

if not importlib.util.find_spec("torch"):
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch

from tests.linear import problems
from tests.problems.test_problems import CASES
from zeroulp import Linear, Tensor, check
from zeroulp.report import Verdict

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

TORCH = {"im2col", "conv2d", "split_matmuls", "scatter_by_matmul", "masked_by_products", "largest_by_sorting"}
SHIPPED = {case.problem.title: case.problem for _, case in CASES}
CONV = [Tensor("x", (8, 64, 56, 56)), Tensor("weight", (64, 64, 3, 3), role="weight")]


@pytest.fixture(scope="module", autouse=True)
def device():
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")


@pytest.fixture(autouse=True)
def flags(monkeypatch):
    """Products in all of their bits, and sums in float32, unless a test says otherwise."""
    for name in ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"):
        monkeypatch.setattr(torch.backends.cuda.matmul, name, False)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def on_device(table):
    found = [(problem, kernel) for problem, kernel in table if kernel.__name__ in TORCH]
    return [pytest.param(problem, kernel, id=f"{problem.name}-{kernel.__name__}") for problem, kernel in found]


def convolution(x, weight):
    return torch.nn.functional.conv2d(x, weight, padding=1)


@pytest.mark.parametrize(("problem", "kernel"), on_device(problems.RIGHT))
def test_a_kernel_of_another_structure_is_correct(problem, kernel):
    for seed in (1, 2, 3):
        report = check(kernel, problem, seed=seed, framework="torch", device="cuda")
        assert report.verdict is Verdict.CORRECT, str(report)
        assert report.coverage == 1


@pytest.mark.parametrize(("problem", "kernel"), [
    (problems.CONV, problems.flipped_weights), (problems.CONV, problems.in_tf32), (problems.CONV, problems.batch_of_one),
    (problems.CONV, problems.last_channel_lost), (problems.MASKED, problems.mask_turned), (problems.LARGEST, problems.smallest),
    (problems.MATMULS, problems.no_relu),
], ids=lambda x: getattr(x, "__name__", x.__class__.__name__))
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_fault_is_found(problem, kernel, isolation):
    target = kernel if isolation == "none" else f"{problems.__file__}:{kernel.__name__}"
    report = check(target, problem, seed=4, framework="torch", device="cuda", isolation=isolation)
    assert report.verdict is Verdict.INCORRECT, str(report)
    assert report.findings[0].kind == "wrong-result", str(report)


@pytest.mark.parametrize("problem", SHIPPED.values(), ids=SHIPPED)
def test_what_pytorch_does_on_the_device_is_not_accused(problem):
    report = check(problem.reference, problem, seed=1, framework="torch", device="cuda")
    assert report.verdict is not Verdict.INCORRECT, str(report)
    assert report.verdict is Verdict.CORRECT or report.reasons[0][0].startswith("the reference itself"), str(report)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("tries", [False, True])
def test_cudnn_is_correct_whatever_algorithm_it_chooses(name, tries, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", tries)
    problem = Linear(convolution, [Tensor(t.name, t.shape, name, t.role) for t in CONV], storage=name)
    report = check(convolution, problem, seed=2, framework="torch", device="cuda")
    assert report.verdict is Verdict.CORRECT, str(report)


def test_operands_narrowed_to_tensorfloat_are_found(monkeypatch):
    problem = Linear(convolution, CONV)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    report = check(convolution, problem, seed=2, framework="torch", device="cuda")
    assert report.verdict is Verdict.INCORRECT, str(report)


def test_from_the_command_line_in_a_process_of_its_own(tmp_path):
    target = f"{problems.__file__}:im2col"
    report = check(target, problems.CONV, seed=9, framework="torch", device="cuda", isolation="process")
    assert report.verdict is Verdict.CORRECT, str(report)
    assert report.isolation == "process"
