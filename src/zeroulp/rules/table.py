"""
The rules, as the files named with them state them; the snapshot read is in each source.

Errors are computed in float64 here, also where a tool computes them in the output's format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp.rules.base import Rule, Values

if TYPE_CHECKING:
    from zeroulp.formats import Format
    from zeroulp.problem import Matmul
    from zeroulp.rules.base import Accept


def _normal(generator: np.random.Generator, shape: tuple[int, ...], format_: Format, problem: Matmul) -> Values:
    """N(0, 1); clipped to ±2 for formats of 8 bits; whole numbers for integers."""
    del problem
    if format_.is_integer:
        return generator.integers(-127, 128, shape).astype(np.float64)
    values = generator.standard_normal(shape)
    return np.clip(values, -2, 2) if format_.bits <= 8 else values


def _uniform(generator: np.random.Generator, shape: tuple[int, ...], format_: Format, problem: Matmul) -> Values:
    """U(0, 1); whole numbers for integers."""
    del problem
    return generator.integers(0, 2, shape).astype(np.float64) if format_.is_integer else generator.random(shape)


def _zero_one(generator: np.random.Generator, shape: tuple[int, ...], format_: Format, problem: Matmul) -> Values:
    """0 and 1 with equal probability; two zeros to a one where some size exceeds 8192."""
    del format_
    values = [0.0, 1.0] if max(problem.m, problem.n, problem.k) <= 8192 else [0.0, 0.0, 1.0]
    return generator.choice(np.array(values), shape)


def _allclose(rtol: float, atol: float) -> Accept:
    def accept(actual: Values, reference: Values, format_: Format) -> tuple[bool, str]:
        del format_
        with np.errstate(invalid="ignore"):
            ratio = np.abs(actual - reference) / (atol + rtol * np.abs(reference))
        worst = float(np.max(np.where(np.isnan(ratio), np.inf, ratio), initial=0.0))
        return worst <= 1, f"largest error {worst:.3g} of the tolerance"

    return accept


def _by_format(accept_wide: Accept, accept_narrow: Accept) -> Accept:
    """One criterion for outputs of 32 bits and more, another for narrower ones."""

    def accept(actual: Values, reference: Values, format_: Format) -> tuple[bool, str]:
        return (accept_wide if format_.bits >= 32 else accept_narrow)(actual, reference, format_)

    return accept


def _absolute_and_relative(actual: Values, reference: Values, format_: Format) -> tuple[bool, str]:
    """FlashInfer-Bench: an element fails only if both its absolute and its relative error exceed 1e-2."""
    del format_
    if not np.isfinite(actual).all():
        return False, "a NaN or an infinity"
    error = np.abs(actual - reference)
    wrong = (error > 1e-2) & (error / (np.abs(reference) + 1e-8) > 1e-2)
    return not wrong.any(), f"{np.count_nonzero(wrong)} of {wrong.size} outputs beyond both limits"


def _most_within(actual: Values, reference: Values, format_: Format) -> tuple[bool, str]:
    """SOL-ExecBench: at least 99 % of the elements within atol + rtol * |reference|, 1e-2 each."""
    del format_
    if not np.isfinite(actual).all() or (actual.size and not actual.any()):
        return False, "a NaN, an infinity, or nothing but zeros"
    wrong = np.abs(actual - reference) > 1e-2 + 1e-2 * np.abs(reference)
    share = float(np.count_nonzero(wrong)) / max(1, wrong.size)
    return share <= 0.01, f"{share:.2%} of the outputs outside, 1% allowed"


def _similarity(actual: Values, reference: Values, format_: Format) -> tuple[bool, str]:
    """DeepGEMM: one number for the whole output, limits 1e-5 (16 bits and more) and 1e-3 (8-bit operands)."""
    del format_
    with np.errstate(invalid="ignore"):
        denominator = float(np.sum(actual * actual + reference * reference))
        difference = 1 - 2 * float(np.sum(actual * reference)) / denominator if denominator else 0.0
    return difference < 1e-3, f"1 - similarity = {difference:.2g}, less than 1e-3 allowed"


def _exact_up_to_limit(actual: Values, reference: Values, format_: Format) -> tuple[bool, str]:
    """The binary protocol: equal wherever the reference is below the first integer the format misses."""
    compared = np.abs(reference) <= format_.exact_integer_limit - 1
    wrong = compared & ~(actual == reference)
    share = float(np.count_nonzero(compared)) / max(1, compared.size)
    return not wrong.any(), f"{np.count_nonzero(wrong)} outputs differ, {share:.0%} compared"


RULES: tuple[Rule, ...] = (
    Rule(
        "torch.allclose defaults",
        "PyTorch documentation: rtol 1e-5, atol 1e-8",
        "N(0, 1)",
        "every |error| <= 1e-8 + 1e-5 |reference|",
        1,
        _normal,
        _allclose(1e-5, 1e-8),
    ),
    Rule(
        "KernelBench",
        "ScalingIntelligence/KernelBench 423217d, src/kernelbench/eval.py",
        "U(0, 1)",
        "allclose, rtol = atol = 1e-4 for float32, 1e-2 for 16 bits",
        5,
        _uniform,
        _by_format(_allclose(1e-4, 1e-4), _allclose(1e-2, 1e-2)),
    ),
    Rule(
        "FlashInfer-Bench",
        "flashinfer-ai/flashinfer-bench 40e6ca78, flashinfer_bench/bench/utils.py",
        "N(0, 1)",
        "no error above 1e-2 both absolutely and relatively",
        3,
        _normal,
        _absolute_and_relative,
    ),
    Rule(
        "SOL-ExecBench",
        "NVIDIA/SOL-ExecBench 8d2237d, core/bench/correctness.py, core/data/workload.py",
        "N(0, 1)",
        "99% of outputs within 1e-2 + 1e-2 |reference|",
        10,
        _normal,
        _most_within,
    ),
    Rule(
        "GPU MODE matmul",
        "gpu-mode/reference-kernels f83cb92, problems/pmpp_v2/matmul_py, utils.py",
        "U(0, 1)",
        "every |error| <= 1e-8 + 1e-5 |reference|",
        1,
        _uniform,
        _allclose(1e-5, 1e-8),
    ),
    Rule(
        "DeepGEMM similarity",
        "deepseek-ai/DeepGEMM 54e2261, deep_gemm/testing/numeric.py",
        "N(0, 1)",
        "1 - 2<x,y>/(<x,x>+<y,y>) < 1e-3",
        1,
        _normal,
        _similarity,
    ),
    Rule(
        "0/1 exact match",
        "deepreinforce-ai/CUDA-L2 dbe0177, zero_one_correctness_check.py",
        "0 and 1",
        "equal where the reference is below the exact limit",
        5,
        _zero_one,
        _exact_up_to_limit,
    ),
)
