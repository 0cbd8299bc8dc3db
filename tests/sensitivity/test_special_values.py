"""What a kernel does wrong with special values is seen by default, and said in words."""

from __future__ import annotations

import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul
from zeroulp.report import Verdict

SEEDS = range(6)


def f32(x):
    return np.asarray(x).astype(np.float32)


def clipped(limit):
    return lambda a, b: np.clip(f32(a) @ f32(b), -limit, limit).astype(a.dtype)


def clamped_infinity(a, b):
    infinite = np.isinf(f32(a)).any(axis=1)[:, None] | np.isinf(f32(b)).any(axis=0)
    out = f32(a) @ f32(b)
    return np.where(infinite & np.isinf(out), np.clip(out, -65504, 65504), out).astype(a.dtype)


def finite_clipped(a, b):
    out = f32(a) @ f32(b)
    return np.where(np.isfinite(out), np.clip(out, -65504, 65504), out).astype(a.dtype)


def number_for_nan(a, b):
    out = f32(a) @ f32(b)
    return np.where(np.isnan(out), 7, out).astype(a.dtype)


def leaking(a, b):
    out = f32(a) @ f32(b)
    out[1:] += 0 * out[:-1]
    return out.astype(a.dtype)


def without_sign(a, b):
    out = f32(a) @ f32(b)
    return np.where(np.isinf(out), np.inf, out).astype(a.dtype)


def operands_flushed(smallest, names="ab"):
    def flush(x):
        return np.where(abs(f32(x)) < smallest, 0, f32(x))

    return lambda a, b: ((flush(a) if "a" in names else f32(a)) @ (flush(b) if "b" in names else f32(b))).astype(a.dtype)


def results_flushed(smallest):
    def kernel(a, b):
        out = f32(a) @ f32(b)
        return np.where(abs(out) < smallest, 0, out).astype(a.dtype)

    return kernel


def plain(a, b):
    return (f32(a) @ f32(b)).astype(a.dtype)


def halved_subnormals(a, b):
    x = f32(a)
    return (np.where(abs(x) < 2.0**-14, x / 2, x) @ f32(b)).astype(a.dtype)


CASES = {
    "numbers for NaN": (number_for_nan, {}, "returns numbers where a NaN"),
    "a leak": (leaking, {}, "reach outputs of other rows and columns"),
    "infinity clamped": (clipped(65504), {}, "clamps at 65504 where the sum overflows"),
    "infinity becomes the largest number": (clamped_infinity, {}, "where the sum is infinite"),
    "an infinity without its sign": (without_sign, {}, "returns an infinity of the wrong sign"),
    "overflow clamped": (finite_clipped, {}, "clamps at 65504 where the sum overflows to infinity"),
    "overflow not clamped": (plain, {"saturate": True}, "where the sum overflows, and saturate=True asks for the largest number"),
    "overflow clamped in 8 bits": (clipped(448), {"a": "e4m3", "saturate": False}, "clamps at 448 where the sum overflows to NaN"),
    "operands flushed": (operands_flushed(2.0**-14), {"subnormals": "preserve"}, "counts subnormal operands as zero"),
    "one operand flushed": (operands_flushed(2.0**-14, "b"), {"subnormals": "preserve"}, "counts subnormal operands as zero"),
    "results flushed": (results_flushed(2.0**-14), {"subnormals": "preserve"}, "flushes subnormal results to zero"),
    "subnormals kept": (plain, {"subnormals": "flush"}, "keeps subnormal operands, which subnormals='flush' forbids"),
    "subnormals decoded wrongly": (halved_subnormals, {}, "gets subnormal elements of a wrong"),
}


def test_a_limit_that_ordinary_numbers_meet_too_is_called_a_limit():
    """240 is no end of the range of e4m3: single products of ordinary numbers are cut off there as well."""
    report = zeroulp.check(clipped(240), Matmul(9, 8, 17, a="e4m3"), seed=1)
    assert (report.findings[0].kind, report.findings[0].sentence[:30]) == ("wrong-result", "matmul cuts results off at 240")


@pytest.mark.parametrize("case", CASES)
def test_is_found_by_default_with_every_seed_and_named(case):
    kernel, changes, words = CASES[case]
    problem = Matmul(**{"m": 9, "n": 8, "k": 17, "a": "float16", **changes})
    for seed in SEEDS:
        report = zeroulp.check(kernel, problem, seed=seed)
        assert report.verdict is Verdict.INCORRECT, seed
        assert report.findings[0].kind == "special-values"
        assert words in report.findings[0].sentence


def test_a_leak_is_replayed_to_the_same_bits():
    problem = Matmul(9, 8, 17, a="float16")
    report = zeroulp.check(leaking, problem, seed=3)
    again = zeroulp.replay(report, leaking)
    assert again.findings[0].sentence == report.findings[0].sentence


def test_zeros_are_not_skipped_under_ieee():
    """0 * NaN is NaN where IEEE arithmetic was agreed; a kernel that skips zeros is legal by default."""

    def skipping(a, b):
        x, y = f32(a), f32(b)
        return np.where((x == 0)[:, :, None], 0, x[:, :, None] * y[None]).sum(1).astype(a.dtype)

    for seed in SEEDS:
        assert zeroulp.check(skipping, Matmul(9, 8, 17, a="float16"), seed=seed).verdict is Verdict.CORRECT
        report = zeroulp.check(skipping, Matmul(9, 8, 17, a="float16", nonfinite="ieee"), seed=seed)
        assert "returns numbers where a NaN" in report.findings[0].sentence


def test_negative_zeros_as_inputs_are_zeros():
    """Single products have zeros of either sign beside them: what reads -0 as a number is seen."""

    def odd(a, b):
        return (np.where((a == 0) & np.signbit(a), np.float32(1), f32(a)) @ f32(b)).astype(a.dtype)

    assert zeroulp.check(odd, Matmul(9, 8, 17, a="float16"), seed=1).verdict is Verdict.INCORRECT


def test_the_sign_of_a_zero_counts_where_the_contract_says_so():
    def negative_zeros(a, b):
        out = plain(a, b)
        return np.where(out == 0, a.dtype.type(-0.0), out)

    problem = Matmul(12, 12, 12, a="float16")
    assert zeroulp.check(negative_zeros, problem, seed=1).verdict is Verdict.CORRECT
    assert zeroulp.check(negative_zeros, problem.replace(signed_zero="strict"), seed=1).verdict is Verdict.INCORRECT
    assert zeroulp.check(plain, problem.replace(signed_zero="strict"), seed=1).verdict is Verdict.CORRECT


def test_a_kernel_that_refuses_special_values_is_broken_with_advice():
    def refusing(a, b):
        if not np.isfinite(f32(a)).all():
            raise ValueError("NaN")
        return plain(a, b)

    report = zeroulp.check(refusing, Matmul(9, 8, 17, a="float16"), seed=1)
    assert report.verdict is Verdict.BROKEN
    assert "nonfinite='ignore'" in str(report)
    assert zeroulp.check(refusing, Matmul(9, 8, 17, a="float16", nonfinite="ignore"), seed=1).verdict is Verdict.CORRECT
