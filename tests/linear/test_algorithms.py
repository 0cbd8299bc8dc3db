"""Kernels that do not sum the products of the reference: Winograd's transforms, Fourier's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import zeroulp
from zeroulp import Linear, Tensor, from_json, replay, to_json
from zeroulp.errors import ProblemError

F = torch.nn.functional
B = np.array([[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
              [0, 4, 0, -5, 0, 1]], np.float32)  # fmt: skip
G = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], np.float32) / np.float32(24)
A = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]], np.float32)


def check(kernel, problem, **options):
    framework = "torch" if kernel in (conv2d, fourier) else "numpy"
    return zeroulp.check(kernel, problem, framework=framework, **options)


def conv2d(x, w):
    return F.conv2d(x, w, padding=1)


def problem(**clauses):
    name = clauses.get("storage", "float32")
    return Linear(conv2d, [Tensor("x", (2, 24, 8, 12), name), Tensor("w", (5, 24, 3, 3), name, role="weight")], **clauses)


def winograd(x, w):
    """F(4 x 4, 3 x 3) in float32: I. Lavin, S. Gray, Fast algorithms for convolutional neural networks, 2016."""
    dtype = x.dtype
    x, w = (np.asarray(array, np.float32) for array in (x, w))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    u = G @ w @ G.T
    out = np.empty((2, 5, 8, 12), np.float32)
    for i, j in itertools.product(range(0, 8, 4), range(0, 12, 4)):
        v = B @ padded[:, :, i : i + 6, j : j + 6] @ B.T
        out[:, :, i : i + 4, j : j + 4] = A @ np.einsum("ncxy,ocxy->noxy", v, u) @ A.T
    return out.astype(dtype)


def fourier(x, w):
    """By PyTorch's transforms in float32."""
    fx, fw = torch.fft.rfft2(x.float(), s=(10, 14)), torch.fft.rfft2(w.float().flip(2, 3), s=(10, 14))
    out = torch.fft.irfft2(torch.einsum("ncxy,ocxy->noxy", fx, fw), s=(10, 14))
    return out[:, :, 1:9, 1:13].to(x.dtype).contiguous()


def noisy(x, w, draw=np.random.default_rng(3)):
    return (winograd(x, w) + draw.normal(size=(2, 5, 8, 12)) / 64).astype(x.dtype)


def unsteady(x, w, seen=[]):
    seen.append(0)
    out = winograd(x, w)
    out[1, 3, 5, 7] += len(seen) % 2
    return out


def one_tap_lost(x, w):
    w = w.copy()
    w[4, 23, 2, 2] = 0
    return winograd(x, w)


def last_tile_stale(x, w):
    out = winograd(x, w)
    out[:, :, 4:, 8:] = out[:, :, 4:, 4:8]
    return out


def one_output_off(x, w):
    out = winograd(x, w)
    out[1, 2, 3, 4] += 1
    return out


def flipped(x, w):
    return winograd(x, w[:, :, ::-1])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", [conv2d, winograd, fourier, noisy], ids=lambda kernel: kernel.__name__)
def test_any_algorithm_is_correct_where_the_contract_lets_it(kernel, seed):
    report = check(kernel, problem(algorithm="any"), seed=seed)
    assert report.verdict.value == "CORRECT", str(report)
    assert report.coverage == 1
    assert {trial.certificate.theorem for trial in report.trials} <= {"nearest", "alike"}
    assert "half a quantum" in str(report)


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_in_narrow_formats(storage):
    for kernel in (winograd, fourier):
        report = check(kernel, problem(algorithm="any", storage=storage), seed=2)
        assert report.verdict.value == "CORRECT", str(report)


def test_the_direct_contract_tells_them_apart():
    report = check(winograd, problem(), seed=1)
    assert report.verdict.value == "INCORRECT"
    assert dict(report.findings[0].evidence)["another algorithm"].endswith("declare algorithm='any'")
    for narrow in (torch.bfloat16, torch.float16):
        narrowed = zeroulp.check(lambda x, w, narrow=narrow: conv2d(x.to(narrow).float(), w), problem(), framework="torch", seed=1)
        assert not narrowed.findings[0].evidence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", [one_tap_lost, last_tile_stale, one_output_off, flipped], ids=lambda kernel: kernel.__name__)
def test_faults_are_found_all_the_same(kernel, seed):
    report = check(kernel, problem(algorithm="any"), seed=seed)
    assert report.verdict.value == "INCORRECT", str(report)
    assert report.findings[0].kind == "wrong-result", str(report)
    again = replay(from_json(to_json(report)))
    assert again.verdict.value == "INCORRECT"


def test_bits_that_vary_are_no_fault_and_wholes_that_vary_are():
    report = check(unsteady, problem(algorithm="any"), seed=4)
    assert report.verdict.value == "INCORRECT"


def test_sums_that_leave_no_bits_for_it_are_refused():
    with pytest.raises(ProblemError, match="none remains"):
        problem(algorithm="any", storage="float16", accumulate="float16")


def test_a_single_number_that_varies_is_told():
    seen = []

    def kernel(x, y):
        seen.append(0)
        return (x * y).sum() + len(seen) % 2

    total = Linear(lambda x, y: (x * y).sum(), [Tensor("x", (30,)), Tensor("y", (30,))], algorithm="any")
    assert zeroulp.check(kernel, total, framework="torch", seed=1).verdict.value == "INCORRECT"
    steady = zeroulp.check(lambda x, y: (x * y).sum() + len(seen) / 1e6, total, framework="torch", seed=1)
    assert steady.verdict.value == "CORRECT"
    seen.clear()

    def later(x, y):
        seen.append(0)
        return (x * y).sum() + (len(seen) == 2)

    assert zeroulp.check(later, total, framework="torch", seed=1).findings[0].kind == "nondeterministic"
