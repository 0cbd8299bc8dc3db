"""Sums in too few bits, operands cut to fewer, and who is told so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import zeroulp
from tests.emulation import convert, matmul_in_order, stored
from zeroulp.report import Verdict

SHAPES = ((8, 9, 17), (5, 16, 40), (16, 16, 64), (12, 12, 300))


def kinds(report):
    return [finding.kind for finding in report.findings]


@pytest.mark.parametrize("order", ["sequential", "reversed", "pairwise", "random", "blocked", "split-k", "fma"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_partial_sums_in_the_output_format_break_a_float32_contract(order, name):
    kernel = matmul_in_order(order, partial=name)
    for (m, n, k), seed in itertools.product(SHAPES, (1,)):
        problem = zeroulp.Matmul(m, n, k, a=name, accumulate="float32")
        report = zeroulp.check(kernel, problem, seed=seed)
        assert report.verdict is Verdict.INCORRECT
        assert kinds(report) == ["precision-below-contract"], report
        assert zeroulp.check(kernel, problem.replace(accumulate="any"), seed=seed).verdict is Verdict.CORRECT


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn"])
def test_float16_accumulator_behind_a_float32_output(name):
    """Where the output is wide, the sums of small numbers must be seen to stay narrow."""
    kernel = matmul_in_order("blocked", partial="float16", out="float32")
    for seed in range(5):
        report = zeroulp.check(kernel, zeroulp.Matmul(16, 16, 257, a=name, out="float32"), seed=seed)
        # 8-bit products have room for 14 bits: there, sums of 11 bits and one last rounding to 11 can look alike
        allowed = ("precision-below-contract", "rounding") if name == "float8_e4m3fn" else ("precision-below-contract",)
        assert [kind in allowed for kind in kinds(report)] == [True], report


@pytest.mark.parametrize(("name", "cut", "k"), [
    ("float16", "bfloat16", 64), ("float16", "float8_e4m3fn", 64), ("bfloat16", "float8_e4m3fn", 64),
    ("float32", "float16", 64), ("float32", "tfloat32", 64), ("float32", "tfloat32", 20_000),
    ("float32", "bfloat16", 4096), ("float64", "float32", 64), ("float16", "bfloat16", 9000),
])
@pytest.mark.parametrize("which", ["a", "b"])
def test_cut_operands_are_seen_and_named(name, cut, k, which):
    work = np.float64 if name == "float64" else np.float32

    def kernel(a, b):
        narrow = lambda x: stored(x.astype(work), cut)
        a = narrow(a) if which == "a" else a.astype(work)
        b = narrow(b) if which == "b" else b.astype(work)
        return (a @ b).astype(name)

    for seed in range(3 if k < 4096 else 1):
        report = zeroulp.check(kernel, zeroulp.Matmul(6, 6, k, a=name), seed=seed)
        assert kinds(report) == ["input-precision"], report


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_truncated_output_is_seen(name):
    def kernel(a, b):
        exact = a.astype(np.float64) @ b.astype(np.float64)
        bits = 11 if name == "float16" else 8
        step = np.ldexp(1.0, np.frexp(exact)[1] - bits)
        return (np.trunc(exact / step) * step).astype(np.float32).astype(a.dtype)

    for seed in range(5):
        assert zeroulp.check(kernel, zeroulp.Matmul(8, 8, 64, a=name), seed=seed).verdict is Verdict.INCORRECT


def test_an_output_that_went_through_bfloat16_is_seen():
    kernel = lambda a, b: convert(a.astype(np.float64) @ b.astype(np.float64), "bfloat16").astype(np.float16)
    for seed in range(5):
        assert zeroulp.check(kernel, zeroulp.Matmul(8, 8, 64, a="float16"), seed=seed).verdict is Verdict.INCORRECT


def test_emulated_float32_of_three_tf32_products_is_seen():
    """3xTF32 keeps 22 bits of a product: not a float32 kernel."""

    def kernel(a, b):
        high = lambda x: convert(x, "tfloat32").astype(np.float32)
        ah, bh = high(a), high(b)
        al, bl = high(a - ah), high(b - bh)
        return ah @ bh + (ah @ bl + al @ bh)

    seen = [zeroulp.check(kernel, zeroulp.Matmul(8, 8, k, a="float32"), seed=s).verdict for k in (2, 16) for s in range(4)]
    assert Verdict.INCORRECT in seen
