"""Correct kernels are accepted at every neighbour of every shape."""

from __future__ import annotations

import numpy as np
import pytest

import zeroulp
from tests.emulation import matmul_in_order, tensor_core
from zeroulp import Verdict, check_shapes, ragged_shapes


def accept(kernel, problem, seed=1, shapes=None, **options):
    shapes = shapes or ragged_shapes(problem, 9)
    report = check_shapes(kernel, problem, shapes, seed=seed, **options)
    assert report.verdict is Verdict.CORRECT, f"{problem}\n{report}"
    assert len(report.reports) == report.planned > 1
    return report


def right(out=None, **more):
    """In float32 (float64 for float64), with whatever operands there are."""
    def kernel(a, b, *rest):
        work = np.float64 if a.dtype == np.float64 else np.float32
        total = np.matmul(a.astype(work), b.astype(work)) * work(more.get("alpha", 1))
        rest = list(rest)
        if "beta" in more:
            total += work(more["beta"]) * rest.pop(0).astype(work)
        if rest:
            total += rest.pop(0).astype(work)
        return total.astype(out or a.dtype)

    return kernel


@pytest.mark.parametrize(("sizes", "name"), [
    ((2, 2, 2), "float16"), ((5, 7, 16), "float32"), ((16, 8, 40), "float16"), ((1, 24, 33), "float32"), ((32, 32, 32), "float16"),
], ids=str)
def test_small_shapes(sizes, name):
    accept(right(), zeroulp.Matmul(*sizes, a=name), 2, "ragged+empty")


def test_a_single_product_has_no_neighbours():
    problem = zeroulp.Matmul(1, 1, 1, a="float16")
    assert ragged_shapes(problem) == (problem,)
    assert check_shapes(right(), problem, seed=1).verdict is Verdict.CORRECT


@pytest.mark.parametrize("name", ["bfloat16", "float64", "float8_e5m2"])
def test_formats(name):
    accept(right(out="float32" if name == "float8_e5m2" else None),
           zeroulp.Matmul(24, 16, 40, a=name, out="float32" if name == "float8_e5m2" else ""))


def test_integers():
    accept(lambda a, b: a.astype(np.int32) @ b.astype(np.int32), zeroulp.Matmul(24, 16, 40, a="int8"))


@pytest.mark.parametrize("order", ["split-k"])
def test_orders(order):
    accept(matmul_in_order(order, out="float16"), zeroulp.Matmul(8, 9, 40, a="float16"))


def test_units_that_align_and_truncate():
    accept(tensor_core(fraction_bits=24, step=8), zeroulp.Matmul(8, 9, 40, a="float16"), probes=["signed", "wide", "binary"])


@pytest.mark.parametrize("changes", [
    dict(transpose_b=True, layouts="padded"), dict(transpose_a=True, layouts="broadcast"),
    dict(batch=(2,), layouts="any"), dict(batch=(4, 1)),
], ids=str)
def test_layouts_and_batches(changes):
    def kernel(a, b):
        a = a.swapaxes(-1, -2) if changes.get("transpose_a") else a
        b = b.swapaxes(-1, -2) if changes.get("transpose_b") else b
        return right()(a, b)

    accept(kernel, zeroulp.Matmul(17, 16, 32, a="float16", **changes))


def test_epilogues():
    accept(right(alpha=0.5, beta=-1), zeroulp.Matmul(17, 16, 32, a="float16", alpha=0.5, beta=-1, bias="float32", layouts="any"))


def test_torch():
    torch = pytest.importorskip("torch")
    accept(torch.matmul, zeroulp.Matmul(32, 16, 32, a="float32"), shapes="ragged", framework="torch")
