"""Correct kernels of every kind are never accused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import zeroulp
from tests.emulation import ORDERS, matmul_in_order, tensor_core
from zeroulp.report import Verdict

SHAPES = ((1, 1, 1), (2, 3, 1), (1, 5, 9), (5, 1, 17), (3, 4, 33), (7, 5, 40), (4, 4, 16))
SOME, REST = (("contiguous", 1), ("any", 2)), (("contiguous", 2), ("any", 1))
DRAWS = [pytest.param(SOME, id="some"), pytest.param(REST, id="rest", marks=pytest.mark.slow)]
"""Layouts and seeds: each layout with one seed, and, where there is time, with the other one."""
FORMATS = (
    ("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("float8_e4m3fn", "float32"),
    ("float8_e5m2", "float32"), ("float16", "float32"), ("bfloat16", "float32"),
)


def accept(kernel, problem, seed, **options):
    report = zeroulp.check(kernel, problem, seed=seed, **options)
    assert report.verdict is Verdict.CORRECT, f"{kernel.__name__}, seed {seed:#x}, {problem}\n{report}"
    return report


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("a", "out"), FORMATS, ids=lambda value: value)
def test_every_order_is_accepted(order, a, out, draws):
    """8 orders x 7 format pairs x 7 ragged shapes x 2 layouts: 784 checks, and as many that are slow."""
    kernel = matmul_in_order(order, out=out)
    for (m, n, k), (layouts, seed) in itertools.product(SHAPES, draws):
        accept(kernel, zeroulp.Matmul(m, n, k, a=a, out=out, layouts=layouts), seed)


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("order", ["sequential", "pairwise", "random", "blocked", "split-k", "fma"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_partial_sums_in_the_output_format_are_legal_under_any(order, name, draws):
    kernel = matmul_in_order(order, partial=name)
    for (m, n, k), (layouts, seed) in itertools.product(SHAPES, draws):
        accept(kernel, zeroulp.Matmul(m, n, k, a=name, accumulate="any", layouts=layouts), seed)


@pytest.mark.parametrize("order", ORDERS)
def test_a_wider_accumulator_than_promised_is_accepted(order):
    kernel = matmul_in_order(order, accumulator="float64")
    for (m, n, k), name in itertools.product(SHAPES, ("float16", "bfloat16", "float32", "float64")):
        accept(kernel, zeroulp.Matmul(m, n, k, a=name), seed=4)


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("model", [
    dict(fraction_bits=23, step=4), dict(fraction_bits=24, step=8), dict(fraction_bits=25, step=16),
], ids=["Volta", "Ampere", "Hopper"])
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_units_that_align_and_truncate_are_accepted(model, name, draws):
    for (m, n, k), (layouts, seed) in itertools.product(SHAPES + ((4, 4, 200),), draws):
        accept(tensor_core(**model), zeroulp.Matmul(m, n, k, a=name, layouts=layouts), seed)


@pytest.mark.parametrize("k", [16, 40, 300])
def test_an_fp8_unit_with_13_fraction_bits_is_accepted(k):
    """Hopper's FP8 sums keep 14 bits; the default contract knows."""
    for seed in (1, 2):
        kernel = tensor_core(fraction_bits=13, step=32, precision=14)
        accept(kernel, zeroulp.Matmul(5, 6, k, a="e4m3", out="float32"), seed)


def test_an_fp8_unit_with_13_fraction_bits_breaks_a_promise_of_24():
    """The test above can fail: with the promise of a full float32 the same unit is seen."""
    kernel = tensor_core(fraction_bits=13, step=32, precision=14)
    problem = zeroulp.Matmul(5, 6, 300, a="e4m3", out="float32", accumulator_precision=24)
    assert zeroulp.check(kernel, problem, seed=1).verdict is Verdict.INCORRECT


@pytest.mark.parametrize("batch", [(2,), (2, 3)])
@pytest.mark.parametrize("transposed", [(False, True), (True, False), (True, True)])
def test_batches_and_transposed_operands(batch, transposed):
    def kernel(a, b):
        a = np.swapaxes(a, -1, -2) if transposed[0] else a
        b = np.swapaxes(b, -1, -2) if transposed[1] else b
        return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)

    for layouts in ("contiguous", "any", "broadcast"):
        problem = zeroulp.Matmul(3, 5, 18, batch=batch, a="float16", transpose_a=transposed[0],
                                 transpose_b=transposed[1], layouts=layouts)
        accept(kernel, problem, seed=7)


@pytest.mark.parametrize("layouts", ["contiguous", "column", "padded", "padded-column", "offset", "broadcast", "any"])
@pytest.mark.parametrize("writes", [False, True])
def test_every_layout(layouts, writes):
    def into(a, b, out):
        out[...] = (a.astype(np.float32) @ b.astype(np.float32)).astype(out.dtype)

    def returning(a, b):
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)

    for name in ("float16", "bfloat16", "float32"):
        problem = zeroulp.Matmul(6, 7, 70, a=name, layouts=layouts)
        accept(into if writes else returning, problem, seed=8, destination_passing=writes)


@pytest.mark.parametrize("k", [10_000, 40_000])
@pytest.mark.parametrize("accumulate", ["float32", "any"])
def test_long_sums_beyond_the_budget_are_thinned_not_guessed(k, accumulate):
    def kernel(a, b):
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)

    for name in ("float16", "bfloat16"):
        for layouts in ("contiguous", "broadcast", "any"):
            accept(kernel, zeroulp.Matmul(3, 4, k, a=name, accumulate=accumulate, layouts=layouts), seed=9, trials=3)


@pytest.mark.parametrize(("alpha", "beta", "bias"), [
    (1, 1, None), (0.5, -2, None), (-4, 0, "float32"), (3, 0.25, "float16"), (1, 0, "bfloat16"), (0, 1, None),
    (2.0**-6, 2.0**-3, None), (2.0**-8, 2.0**5, "float32"),
])
def test_epilogues(alpha, beta, bias):
    def kernel(a, b, *rest, alpha, beta):
        total = alpha * (a.astype(np.float64) @ b.astype(np.float64))
        rest = list(rest)
        if beta:
            total = total + beta * rest.pop(0).astype(np.float64)
        if rest:
            total = total + rest.pop(0).astype(np.float64)
        return total.astype(np.float32).astype(a.dtype)

    for name in ("float16", "bfloat16", "float32"):
        accept(kernel, zeroulp.Matmul(5, 6, 70, a=name, alpha=alpha, beta=beta, bias=bias), seed=10)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 1, 0)])
def test_empty_problems(m, n, k):
    report = accept(lambda a, b: a @ b, zeroulp.Matmul(m, n, k, a="float32"), seed=11)
    assert report.problem.output.shape == (m, n)


def test_integers():
    def kernel(a, b):
        return a.astype(np.int32) @ b.astype(np.int32)

    for k in (1, 50, 1000):
        accept(kernel, zeroulp.Matmul(5, 6, k, a="int8", layouts="any"), seed=12)
        accept(lambda a, b: kernel(a, b).astype(np.int8), zeroulp.Matmul(5, 6, k, a="int8", out="int8"), seed=12)
        accept(lambda a, b: kernel(a, b).astype(np.float32), zeroulp.Matmul(5, 6, k, a="int8", out="float32"), seed=12)


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e2m3", "e3m2", "fp4"])
def test_narrow_formats_to_float32_and_to_themselves(name):
    from tests.emulation import convert
    from zeroulp.formats import format_named

    wide = lambda a, b: a.astype(np.float32) @ b.astype(np.float32)
    accept(wide, zeroulp.Matmul(5, 6, 70, a=name, out="float32"), seed=13)
    narrow = lambda a, b: convert(wide(a, b), format_named(name).name)
    accept(narrow, zeroulp.Matmul(5, 6, 70, a=name), seed=13)


def test_tf32_operands_survive_truncation_to_tf32():
    def kernel(a, b):
        cut = lambda x: (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
        return cut(a) @ cut(b)

    accept(kernel, zeroulp.Matmul(5, 6, 70, a="tf32"), seed=14)
    assert zeroulp.check(kernel, zeroulp.Matmul(5, 6, 70, a="float32"), seed=14).verdict is Verdict.INCORRECT


def test_flush_to_zero_and_negative_zeros_are_legal():
    def kernel(a, b):
        out = (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
        out[np.abs(out) < np.finfo(a.dtype).smallest_normal] = 0
        out[out == 0] = -0.0
        return out

    accept(kernel, zeroulp.Matmul(9, 9, 20, a="float16"), seed=15)


def test_ties_either_way_are_legal_where_the_contract_says_so():
    def away(a, b):
        exact = a.astype(np.float64) @ b.astype(np.float64)
        step = np.ldexp(1.0, np.maximum(np.frexp(exact)[1] - 11, -24))
        return (np.sign(exact) * np.floor(np.abs(exact) / step + 0.5) * step).astype(np.float16)

    problem = zeroulp.Matmul(40, 40, 12, a="float16")
    assert zeroulp.check(away, problem, seed=16).verdict is Verdict.INCORRECT
    accept(away, problem.replace(rounding="ties-either"), seed=16)


@pytest.mark.parametrize("order", ["sequential", "reversed", "pairwise", "random", "blocked", "split-k", "kahan"])
@pytest.mark.parametrize("out", ["float16", "float32"])
def test_a_float16_accumulator_is_legal_where_it_is_declared(order, out):
    kernel = matmul_in_order(order, accumulator="float16", out=out)
    for (m, n, k), seed in [*itertools.product(SHAPES, (1, 2)), ((3, 3, 2100), 1)]:  # the last one beyond 2048
        accept(kernel, zeroulp.Matmul(m, n, k, a="float16", out=out, accumulate="float16"), seed)
