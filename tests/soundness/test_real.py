"""On ordinary numbers orders differ, and none of them is accused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import zeroulp
from tests.emulation import ORDERS, matmul_in_order, tensor_core
from zeroulp.report import Verdict

SHAPES = ((1, 1, 1), (2, 3, 2), (5, 4, 17), (4, 4, 60), (3, 3, 300))
FORMATS = (("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("e4m3", "float32"), ("e5m2", "float32"), ("float16", "float32"))


def accept(kernel, problem, seed):
    """Nothing wrong is seen; and since no bits are compared, that is all."""
    report = zeroulp.check(kernel, problem, seed=seed, probes=["real"])
    assert report.verdict is Verdict.INCONCLUSIVE, report
    assert report.calls == 1 and report.trials[0].probe == "real", report
    return report


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("a", "out"), FORMATS, ids=lambda value: value)
def test_every_order_lies_within_the_bound(order, a, out):
    kernel = matmul_in_order(order, out=out)
    for (m, n, k), seed in itertools.product(SHAPES, (1, 2)):
        accept(kernel, zeroulp.Matmul(m, n, k, a=a, out=out, layouts="any"), seed)


@pytest.mark.parametrize("order", ["sequential", "reversed", "pairwise", "random", "blocked", "split-k"])
@pytest.mark.parametrize("k", [1, 17, 200])
def test_float16_accumulators_are_legal_where_they_are_declared_or_anything_is(order, k):
    kernel = matmul_in_order(order, accumulator="float16")
    for accumulate, seed in itertools.product(("float16", "any"), (1, 2, 3)):
        accept(kernel, zeroulp.Matmul(6, 7, k, a="float16", accumulate=accumulate), seed)


@pytest.mark.parametrize("order", ["sequential", "pairwise", "random", "split-k"])
@pytest.mark.parametrize(("name", "k"), [("float16", 200), ("bfloat16", 20)])
def test_partial_sums_in_the_output_format_are_legal_under_any(order, name, k):
    for seed in (1, 2, 3):
        accept(matmul_in_order(order, partial=name), zeroulp.Matmul(6, 7, k, a=name, accumulate="any"), seed)


MODELS = {
    "volta": {"fraction_bits": 23, "step": 4}, "ampere": {"fraction_bits": 24, "step": 8},
    "hopper": {"fraction_bits": 25, "step": 16}, "fp8": {"fraction_bits": 13, "step": 32, "precision": 14},
    "fp8, short steps": {"fraction_bits": 13, "step": 16, "precision": 14},
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("k", [1, 40, 600])
def test_tensor_core_models_lie_within_the_bound(model, k):
    name = "e4m3" if "fp8" in model else "float16"
    for seed in (1, 2, 3):
        accept(tensor_core(**MODELS[model], out="float32"), zeroulp.Matmul(5, 6, k, a=name, out="float32"), seed)


@pytest.mark.parametrize("model", MODELS)
def test_the_worst_case_of_truncation_lies_within_the_bound(model):
    """Numbers of one sign, so that every step loses in one direction: a third of the bound or less, and not nothing."""
    rng, k = np.random.default_rng(1), 512
    a, b = (rng.uniform(1, 2, (8, k)).astype(np.float16) for _ in "ab")
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    got = tensor_core(**MODELS[model], out="float64")(a, b.T)
    bits = MODELS[model].get("precision", 24)
    share = np.abs(got - exact).max() / (3 * k * 2.0**-bits * exact.max())
    assert 0.01 < share < 0.5


def test_floating_point_of_64_bits():
    for k, seed in itertools.product((1, 30, 500), (1, 2)):
        accept(lambda a, b: a @ b, zeroulp.Matmul(6, 7, k, a="float64"), seed)


@pytest.mark.parametrize(("alpha", "beta", "bias"), [(1 / 3, 0, None), (0.1, -0.7, "float32"), (1, 1, "bfloat16"), (-3, 1e-3, None), (1e-4, 100, None)])
def test_epilogues_that_have_no_exact_probe(alpha, beta, bias):
    def kernel(a, b, *rest, alpha, beta):
        total = np.float32(alpha) * (a.astype(np.float32) @ b.astype(np.float32))
        rest = list(rest)
        if beta:
            total = total + np.float32(beta) * rest.pop(0).astype(np.float32)
        if rest:
            total = total + rest.pop(0).astype(np.float32)
        return total.astype(a.dtype)

    for name, k in itertools.product(("float16", "bfloat16", "float32"), (3, 70)):
        accept(kernel, zeroulp.Matmul(5, 6, k, a=name, alpha=alpha, beta=beta, bias=bias), seed=5)


def test_results_that_flush_and_results_that_vary_from_call_to_call():
    rng = np.random.default_rng(1)

    def kernel(a, b):
        order = rng.permutation(a.shape[1])
        out = (a[:, order].astype(np.float32) @ b[order].astype(np.float32)).astype(a.dtype)
        out[np.abs(out) < np.finfo(a.dtype).smallest_normal] = -0.0
        return out

    for seed in range(5):
        accept(kernel, zeroulp.Matmul(30, 30, 400, a="float16"), seed)


def test_batches_and_transposed_operands():
    def kernel(a, b):
        return np.matmul(np.swapaxes(a, -1, -2).astype(np.float32), np.swapaxes(b, -1, -2).astype(np.float32)).astype(a.dtype)

    for layouts in ("contiguous", "any", "broadcast"):
        accept(kernel, zeroulp.Matmul(3, 5, 18, batch=(2, 3), a="float16", transpose_a=True, transpose_b=True, layouts=layouts), seed=7)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64"])
def test_pytorch_lies_within_the_bound(name):
    torch = pytest.importorskip("torch")
    for k, seed in itertools.product((1, 64, 1000), (1, 2)):
        report = zeroulp.check(lambda a, b: torch.matmul(a, b), zeroulp.Matmul(20, 30, k, a=name), seed=seed, probes=["real"], framework="torch")
        assert report.verdict is Verdict.INCONCLUSIVE, report
