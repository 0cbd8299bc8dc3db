"""Kernels that compute another formula: each is found in every seed, and named."""

from __future__ import annotations

import numpy as np
import pytest

import zeroulp
from zeroulp.report import Verdict


def product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def f32(x):
    return x.astype(np.float32)


def without(ks):
    def kernel(a, b):
        a = f32(a).copy()
        a[:, ks] = 0
        return a @ f32(b)

    return kernel


def element(i, j, change):
    def kernel(a, b):
        out = product(a, b)
        out[i, j] = change(out, i, j)
        return out

    return kernel


def stale(tile):
    def kernel(a, b):
        b = f32(b).copy()
        start = (b.shape[0] - 1) // tile * tile
        b[start:] = b[start - tile : start - tile + b.shape[0] - start]
        return f32(a) @ b

    return kernel


def one_term(weight, i=3, j=5, k=7):
    """One output has one product with another weight."""

    def kernel(a, b):
        out = product(a, b)
        out[i, j] += (weight - 1) * f32(a)[i, k] * f32(b)[k, j]
        return out

    return kernel


def misread(i=3, j=5, k=7):
    """One output reads b[k + 1] where b[k] is meant."""

    def kernel(a, b):
        out, b = product(a, b), f32(b)
        out[i, j] += f32(a)[i, k] * (b[k + 1, j] - b[k, j])
        return out

    return kernel


M, N, K = 12, 10, 65

FORMULAS = {
    "last k": (without([K - 1]), "leaves out the product k = 64 of 65, the last one"),
    "first k": (without([0]), "leaves out the product k = 0 of 65"),
    "tail of k": (without(slice(60, None)), "leaves out the products from k = 60 on, 5 of 65"),
    "head of k": (without(slice(0, 4)), "leaves out the first 4 of 65 products"),
    "k twice": (lambda a, b: product(a, b) + np.outer(f32(a)[:, 7], f32(b)[7]), "counts twice the product k = 7"),
    "a squared": (lambda a, b: f32(a) ** 2 @ f32(b), "multiplies by a twice"),
    "b squared": (lambda a, b: f32(a) @ f32(b) ** 2, "multiplies by b twice"),
    "abs a": (lambda a, b: abs(f32(a)) @ f32(b), "uses the absolute value of a"),
    "abs b": (lambda a, b: f32(a) @ abs(f32(b)), "uses the absolute value of b"),
    "abs both": (lambda a, b: abs(f32(a)) @ abs(f32(b)), "uses the absolute values of a and b"),
    "relu a": (lambda a, b: np.maximum(f32(a), 0) @ f32(b), "takes negative elements of a as zero"),
    "negated": (lambda a, b: -product(a, b), "has the wrong sign"),
    "zeros": (lambda a, b: product(a, b) * 0, "returns zeros"),
    "stale tile": (stale(16), "reads an old tile of b for the last 1 of 65 products (tiles of 16)"),
    "min": (lambda a, b: np.minimum(f32(a)[:, :, None], f32(b)[None]).sum(1), ""),
    "clamped at 1": (lambda a, b: np.clip(f32(a), -1, 1) @ f32(b), ""),
    "clamped result": (lambda a, b: np.clip(product(a, b), -16, 16), ""),
    "relu result": (lambda a, b: np.maximum(product(a, b), 0), ""),
    "rows swapped": (lambda a, b: product(a, b)[[1, 0, *range(2, M)]], "in "),
    "columns shifted": (lambda a, b: np.roll(product(a, b), 1, axis=1), ""),
    "last row zero": (element(M - 1, slice(None), lambda out, i, j: 0), "in row 11 only"),
    "last column stale": (element(slice(None), N - 1, lambda out, i, j: out[:, N - 2]), "in column 9 only"),
    "one element zero": (element(3, 5, lambda out, i, j: 0), ""),
    "two elements swapped": (lambda a, b: swap(product(a, b)), ""),
    "transposed tile": (lambda a, b: transpose_tile(product(a, b)), ""),
    "doubled": (lambda a, b: 2 * product(a, b), ""),
    "off by one quantum": (lambda a, b: product(a, b) + 1, ""),
    "scaled by 1 + 2^-8": (lambda a, b: product(a, b) * np.float32(1 + 2**-8), ""),
    "one missing product": (one_term(0), ""),
    "one doubled product": (one_term(2), ""),
    "one misread element": (misread(), ""),
}


def swap(out):
    out[0, 1], out[2, 3] = out[2, 3].copy(), out[0, 1].copy()
    return out


def transpose_tile(out):
    out[:4, :4] = out[:4, :4].T.copy()
    return out


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("a", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_wrong_formula_is_found(name, a):
    formula, clause = FORMULAS[name]
    out = "float32" if a == "float8_e4m3fn" else a
    kernel = lambda x, y: formula(x, y).astype(out)
    for seed in range(3):
        report = zeroulp.check(kernel, zeroulp.Matmul(M, N, K, a=a, out=out), seed=seed)
        assert report.verdict is Verdict.INCORRECT, name
        assert [f.kind for f in report.findings] == ["wrong-result"], (name, report.findings)
        assert clause in report.findings[0].sentence


@pytest.mark.parametrize(("formula", "clause"), [
    (lambda a, b, c, bias: a @ b + bias, ""),
    (lambda a, b, c, bias: a @ b, "leaves out the epilogue"),
    (lambda a, b, c, bias: a @ b + c + bias, ""),
    (lambda a, b, c, bias: 2 * (a @ b) + c / 2 + bias, ""),
    (lambda a, b, c, bias: a @ b + c / 2, ""),
    (lambda a, b, c, bias: c / 2 + bias, "returns the epilogue alone"),
    (lambda a, b, c, bias: a @ b + c / 2 + 2 * bias, ""),
], ids=["beta", "epilogue", "beta is 1", "alpha", "bias", "product", "bias twice"])
def test_wrong_epilogue_is_found(formula, clause):
    kernel = lambda *operands: formula(*(f32(x) for x in operands)).astype(np.float16)
    problem = zeroulp.Matmul(M, N, K, a="float16", beta=0.5, bias="float16")
    right = lambda a, b, c, bias: (f32(a) @ f32(b) + f32(c) / 2 + f32(bias)).astype(np.float16)
    assert zeroulp.check(right, problem, seed=0).verdict is Verdict.CORRECT
    for seed in range(3):
        report = zeroulp.check(kernel, problem, seed=seed)
        assert report.verdict is Verdict.INCORRECT
        assert clause in report.findings[0].sentence


def test_faults_that_the_binary_protocol_is_blind_to():
    """What equals a * b on 0/1 passes it, and not the other probes."""
    for formula in (FORMULAS["a squared"], FORMULAS["abs a"], FORMULAS["min"], FORMULAS["clamped at 1"]):
        kernel = lambda a, b, f=formula[0]: f(a, b).astype(a.dtype)
        problem = zeroulp.Matmul(M, N, K, a="float16")
        assert zeroulp.check(kernel, problem, seed=0, probes=["binary"], trials=5).verdict is Verdict.CORRECT
        assert zeroulp.check(kernel, problem, seed=0).verdict is Verdict.INCORRECT


def test_an_isolated_fault_beyond_the_budget_is_found_block_by_block():
    """K = 5000 exceeds float16's 2048: one lone missing product is seen once its block is the non-zero one."""
    kernel = lambda a, b: one_term(0, k=4321)(a, b).astype(np.float16)
    for seed in range(3):
        report = zeroulp.check(kernel, zeroulp.Matmul(6, 6, 5000, a="float16", accumulate="any"), seed=seed)
        assert report.verdict is Verdict.INCORRECT
