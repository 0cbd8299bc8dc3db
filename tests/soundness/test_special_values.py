"""Correct kernels that treat special values in one of the ways that the contract allows are never accused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import zeroulp
from tests.emulation import ORDERS, matmul_in_order, tensor_core
from zeroulp import Matmul
from zeroulp.report import Verdict

SHAPES = ((1, 1, 1), (2, 3, 1), (1, 5, 9), (5, 1, 17), (3, 4, 33), (7, 5, 40))


def f32(x):
    return np.asarray(x).astype(np.float32)


def accept(kernel, problem, seed=1, **options):
    report = zeroulp.check(kernel, problem, seed=seed, **{"probes": ["specials"], **options})
    assert report.verdict is Verdict.CORRECT, f"seed {seed:#x}, {problem}\n{report}"
    return report


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_is_accepted(order):
    pairs = (("float16", "float16"), ("bfloat16", "bfloat16"), ("float32", "float32"), ("e5m2", "float32"), ("bfloat16", "float16"))
    for (a, out), (m, n, k), layouts in itertools.product(pairs, SHAPES, ("contiguous", "any")):
        accept(matmul_in_order(order, out=out), Matmul(m, n, k, a=a, out=out, layouts=layouts))


@pytest.mark.parametrize("model", [
    dict(fraction_bits=23, step=4), dict(fraction_bits=24, step=8), dict(fraction_bits=25, step=16),
], ids=["Volta", "Ampere", "Hopper"])
def test_units_that_align_and_truncate_are_accepted(model):
    for a, (m, n, k), subnormals in itertools.product(("float16", "bfloat16"), ((5, 6, 37), (1, 3, 8)), ("either", "preserve")):
        accept(tensor_core(**model), Matmul(m, n, k, a=a, subnormals=subnormals), seed=2)


def test_an_fp8_unit_with_13_fraction_bits_is_accepted():
    accept(tensor_core(fraction_bits=13, step=32, precision=14), Matmul(5, 6, 300, a="e4m3", out="float32"))


def kahan(a, b):
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    lost = np.zeros_like(total)
    for k in range(a.shape[1]):
        term = f32(a[:, k, None]) * f32(b[None, k]) - lost
        new = total + term
        lost = (new - total) - term
        total = new
    return total.astype(a.dtype)


def split(a, b):
    def parts(x):
        found = []
        for _ in range(3):
            found.append((x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32))
            x = x - found[-1]
        return found

    return sum(x @ y for x in parts(f32(a)) for y in parts(f32(b))).astype(a.dtype)


def row_scaled(a, b):
    largest = abs(f32(a)).max(1, keepdims=True)
    scale = np.exp2(np.floor(np.log2(np.where(largest > 0, largest, 1)))).astype(np.float32)
    return (((f32(a) / scale) @ f32(b)) * scale).astype(a.dtype)


@pytest.mark.parametrize("kernel", [kahan, split])
@pytest.mark.parametrize("a", ["float16", "bfloat16", "float32"])
def test_nan_may_stand_for_an_infinity_by_default(kernel, a):
    for (m, n, k), seed in itertools.product(SHAPES, (1, 2)):
        accept(kernel, Matmul(m, n, k, a=a), seed)
    report = accept(kernel, Matmul(7, 5, 40, a=a))
    assert report.special_values["infinity"] in ("nan", "mixed")
    ieee = zeroulp.check(kernel, Matmul(7, 5, 40, a=a, nonfinite="ieee"), probes=["specials"], seed=1)
    assert "nonfinite='ieee' forbids" in ieee.findings[0].sentence


def test_rows_that_are_scaled_by_their_largest_element_are_accepted():
    for shape in SHAPES:
        accept(row_scaled, Matmul(*shape, a="float16"))


@pytest.mark.parametrize("subnormals", ["either", "flush"])
@pytest.mark.parametrize(("a", "smallest"), [("float16", 2.0**-14), ("bfloat16", 2.0**-126), ("float32", 2.0**-126)])
def test_units_that_flush_are_accepted(a, smallest, subnormals):
    def flush(x):
        return np.where(abs(f32(x)) < smallest, np.float32(0), f32(x))

    def both(a, b):
        return flush(flush(a) @ flush(b)).astype(a.dtype)

    def operands(a, b):
        return (flush(a) @ flush(b)).astype(a.dtype)

    def results(a, b):
        return flush(f32(a) @ f32(b)).astype(a.dtype)

    kernels = (both, operands, results) if subnormals == "either" else (both,)
    for kernel, (m, n, k), layouts in itertools.product(kernels, SHAPES, ("contiguous", "any")):
        accept(kernel, Matmul(m, n, k, a=a, subnormals=subnormals, layouts=layouts))
        accept(kernel, Matmul(m, n, k, a=a, subnormals=subnormals, signed_zero="strict"))
    assert accept(both, Matmul(7, 5, 40, a=a, subnormals=subnormals)).special_values["subnormal results"] == "zero"


@pytest.mark.parametrize(("a", "limit"), [("e4m3", 448), ("e5m2", 57344)])
def test_conversions_to_8_bits_may_saturate_or_not(a, limit):
    def clamp(a, b):
        return np.clip(f32(a) @ f32(b), -limit, limit).astype(a.dtype)

    def plain(a, b):
        return (f32(a) @ f32(b)).astype(a.dtype)

    for shape in SHAPES:
        accept(clamp, Matmul(*shape, a=a))
        accept(clamp, Matmul(*shape, a=a, saturate=True))
        accept(plain, Matmul(*shape, a=a))
        accept(plain, Matmul(*shape, a=a, saturate=False))
    assert accept(clamp, Matmul(7, 5, 40, a=a)).special_values["overflow"] == "largest"


def test_epilogues_and_batches():
    def kernel(a, b, c, bias):
        return (f32(a) @ f32(b) * np.float32(-1) + f32(c) + f32(bias)).astype(a.dtype)

    for shape in SHAPES:
        accept(kernel, Matmul(*shape, a="float16", alpha=-1, beta=1, bias="float16", batch=(2,)))


def test_alpha_may_change_the_sign_of_a_sum_that_cancels():
    """alpha (a b) is -0 where the products cancel, (alpha a) b is +0: both are correct."""

    def after(a, b):
        return (np.float32(-1) * (f32(a) @ f32(b))).astype(a.dtype)

    def before(a, b):
        return ((np.float32(-1) * f32(a)) @ f32(b)).astype(a.dtype)

    for kernel, seed in itertools.product((after, before), range(4)):
        accept(kernel, Matmul(9, 8, 4, a="float16", alpha=-1, signed_zero="strict"), seed, probes=None)


@pytest.mark.parametrize("flush", [False, True], ids=["subnormals kept", "flushed"])
@pytest.mark.parametrize("a", ["float16", "bfloat16", "float32", "float64"])
def test_pytorch_on_the_cpu(a, flush):
    """At k in whole tiles: for k = 200 its bfloat16 kernels on AMX let a NaN reach the row before (PyTorch 2.13)."""
    torch = pytest.importorskip("torch")

    def kernel(a, b):
        return torch.matmul(a, b)

    try:
        if not torch.set_flush_denormal(flush):
            pytest.skip("this processor cannot flush")
        for shape in ((5, 6, 32), (1, 3, 8), (33, 40, 192), (64, 64, 64)):
            accept(kernel, Matmul(*shape, a=a), framework="torch")
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("a", ["float16", "float32", "float64"])
def test_numpy(a):
    for shape in SHAPES:
        accept(lambda x, y: x @ y, Matmul(*shape, a=a, accumulate="any" if a == "float16" else ""))


def test_sums_of_which_the_bits_alone_are_promised_may_leave_the_range_of_a_wider_format():
    """Found by the campaign: float32 sums under accumulate="float64" and 11 bits, which alpha brings back into range."""
    def kernel(a, b, alpha):
        with np.errstate(over="ignore"):
            return np.clip((f32(a) @ f32(b)) , -3.4028235e38, 3.4028235e38) * np.float32(alpha)

    problem = Matmul(9, 8, 51, a="bfloat16", out="float32", accumulate="float64", accumulator_precision=11, alpha=2.0**-6, nonfinite="ignore", saturate=True)
    for seed in range(3):
        accept(kernel, problem, seed=seed, probes=None)


def test_sums_in_float64_may_reach_a_16_bit_output_by_way_of_float32():
    """Found by the campaign: 2^128 in float64 has no place in float32, whatever alpha makes of it afterwards."""
    def kernel(a, b, alpha):
        with np.errstate(over="ignore"):
            single = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)
        return (np.clip(single, -3.3895e38, 3.3895e38) * np.float32(alpha)).astype(a.dtype)

    problem = Matmul(9, 8, 51, a="bfloat16", accumulate="float64", alpha=2.0**-6, nonfinite="ignore", saturate=True)
    for seed in range(3):
        accept(kernel, problem, seed=seed, probes=None)


def test_sums_of_few_bits_may_have_the_range_of_float32():
    """accumulator_precision names bits and no range: products of subnormal float64 numbers vanish in such sums."""

    def kernel(a, b):
        products = a.astype(np.float64)[:, :, None] * b.astype(np.float64)[None]
        return products.astype(np.float32).sum(1, dtype=np.float32) + np.float32(0)

    clauses = {"subnormals": "preserve", "signed_zero": "strict", "nonfinite": "ignore", "saturate": False}
    problem = Matmul(7, 9, 18, a="float32", b="float64", out="float32", accumulate="float64", accumulator_precision=20, **clauses)
    for seed in range(3):
        report = zeroulp.check(kernel, problem, seed=seed)
        assert report.findings == (), str(report)
