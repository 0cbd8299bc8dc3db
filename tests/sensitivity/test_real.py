"""Kernels that are right on the inputs of tests, and wrong on ordinary numbers."""

from __future__ import annotations

import numpy as np
import pytest

import zeroulp
from zeroulp.report import Verdict

PROBLEM = zeroulp.Matmul(16, 12, 40, a="float16", out="float32")


def right(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


def look_like_a_test(x):
    """All of one significand's length in bits, or of one power of two in each row, column or k: not full and mixed."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    full = np.ldexp(fraction, 11) % 2 == 1
    mixed = exponent[x != 0].max(initial=0) - exponent[x != 0].min(initial=0) in (4, 5)
    return not (mixed and 0.3 < full.mean() < 0.7)


def cheats(wrong):
    def kernel(a, b):
        return right(a, b) if look_like_a_test(a) or look_like_a_test(b) else wrong(a, b)

    return kernel


WRONG = {
    "zeros": lambda a, b: np.zeros_like(right(a, b)),
    "the last k dropped": lambda a, b: right(a[:, :-1], b[:-1]),
    "operands of eight bits": lambda a, b: right(to_bfloat16(a), to_bfloat16(b)),
    "NaN": lambda a, b: right(a, b) * np.float32(np.nan),
    "one output": lambda a, b: right(a, b) + np.float32(0.5) * (np.arange(a.shape[0] * b.shape[1]) == 77).reshape(a.shape[0], -1),
}


def to_bfloat16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_knows_the_tests_is_caught_and_named(name):
    """The exact probes pass; the one trial of ordinary numbers does not."""
    for seed in (1, 2, 3):
        report = zeroulp.check(cheats(WRONG[name]), PROBLEM, seed=seed)
        assert report.verdict is Verdict.INCORRECT, report
        (finding,) = report.findings
        assert finding.kind == "wrong-result"
        assert "is right on the inputs of exact probes, and farther from the exact result than any order" in finding.sentence
        assert report.trial(finding.trial).probe == "real"
        assert dict(finding.evidence)["every order lies"].startswith("from ")
        assert "bounded because" in str(report) and "a range" in str(report)
        assert zeroulp.replay(report, cheats(WRONG[name])).verdict is Verdict.INCORRECT


def test_without_ordinary_numbers_it_would_not_be_caught():
    exact = [name for name in ("signed", "wide", "one_hot", "cancel", "sparse", "binary", "fractional")]
    assert zeroulp.check(cheats(WRONG["zeros"]), PROBLEM, probes=exact, seed=1).verdict is Verdict.CORRECT


@pytest.mark.parametrize("a", ["float16", "float32"])
@pytest.mark.parametrize("k", [1, 16, 64])
def test_operands_cut_to_bfloat16_are_seen_at_small_k(a, k):
    problem = zeroulp.Matmul(16, 12, k, a=a, out="float32")
    report = zeroulp.check(lambda a, b: right(to_bfloat16(a), to_bfloat16(b)), problem, probes=["real"], seed=1)
    assert report.verdict is Verdict.INCORRECT
    assert report.findings[0].kind == "input-precision"


def test_tf32_is_seen_at_small_k():
    cut = lambda x: (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    report = zeroulp.check(lambda a, b: cut(a) @ cut(b), zeroulp.Matmul(16, 12, 64, a="float32"), probes=["real"], seed=1)
    assert report.verdict is Verdict.INCORRECT


def test_unwritten_outputs_keep_their_name():
    def kernel(a, b, out):
        out[:, 1:] = right(a, b)[:, 1:]

    report = zeroulp.check(kernel, PROBLEM, probes=["real"], seed=1, destination_passing=True)
    assert [finding.kind for finding in report.findings] == ["unwritten-output"]


def test_sums_of_eight_bits_are_seen():
    def kernel(a, b):
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in range(a.shape[1]):
            total = to_bfloat16(total + a[:, k, None].astype(np.float32) * b[k].astype(np.float32))
        return total

    report = zeroulp.check(kernel, PROBLEM, probes=["real"], seed=1)
    assert [finding.kind for finding in report.findings] == ["precision-below-contract"]
