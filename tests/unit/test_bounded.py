"""The range in which every correct kernel lies: wide enough, and not the whole number line."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from zeroulp import Matmul, encoding, make_plan
from zeroulp.checks.inputs import draw_inputs
from zeroulp.exactness import certify
from zeroulp.formats import format_named
from zeroulp.judge import Differs, Matched, judge, within
from zeroulp.probes import Options, probe_named

PROBLEMS = [
    Matmul(3, 4, 5, a="float16"), Matmul(3, 4, 5, a="float32"), Matmul(2, 3, 30, a="float64"), Matmul(2, 3, 9, a="e4m3", out="float32"),
    Matmul(2, 2, 12, a="bfloat16", accumulate="any"), Matmul(3, 2, 20, a="float32", alpha=1 / 3, beta=-0.7, bias="float32"),
    Matmul(2, 3, 7, a="float16", batch=(2,), transpose_a=True, transpose_b=True), Matmul(2, 3, 7, a="fp4", out="float16"),
    Matmul(2, 2, 40, a="float64", b="float32", out="float32", accumulate="float64"),
]


def trial_of(problem):
    (trial,) = make_plan(problem, probes=["real"]).trials
    return trial


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.sentence()[:40])
def test_the_range_holds_the_bound_worked_out_in_fractions(problem):
    trial = trial_of(problem)
    inputs = draw_inputs(problem, trial, 3)
    expected = inputs.expected
    value = {o.name: encoding.decode(inputs.codes[o.name], o.format) for o in problem.operands}
    a = np.swapaxes(value["a"], -1, -2) if problem.transpose_a else value["a"]
    b = np.swapaxes(value["b"], -1, -2) if problem.transpose_b else value["b"]
    low, high = (encoding.decode(codes, problem.out_format) for codes in (expected.low, expected.high))
    nearest = encoding.decode(expected.codes, problem.out_format)
    unit = Fraction(2) ** -problem.out_format.precision
    for place in np.ndindex(problem.output.shape):
        row, column = a[place[:-1]], b[(*place[:-2], slice(None), place[-1])]
        terms = [Fraction(problem.alpha) * Fraction(float(x)) * Fraction(float(y)) for x, y in zip(row, column, strict=True)]
        terms += [Fraction(problem.beta) * Fraction(float(value["c"][place]))] if "c" in value else []
        terms += [Fraction(float(value["bias"][place[-1]]))] if "bias" in value else []
        exact, moduli = sum(terms), sum(map(abs, terms))
        eta = Fraction(3 * trial.certificate.roundings, 2**trial.certificate.precision)
        bound = eta / (1 - eta) * moduli
        radius = bound + unit * (abs(exact) + bound)
        assert Fraction(float(low[place])) <= exact - radius <= exact + radius <= Fraction(float(high[place]))
        width = Fraction(float(high[place])) - Fraction(float(low[place]))
        slack = Fraction(11, 10) if trial.certificate.precision < 53 else 2  # there the reference's own error counts
        assert width <= 2 * radius * slack + 8 * unit * abs(exact) + 8 * Fraction(problem.out_format.min_normal) * (problem.k + 8)
        assert abs(Fraction(float(nearest[place])) - exact) <= unit * abs(exact) * Fraction(1001, 1000) + Fraction(problem.out_format.min_normal)


def test_the_judge_allows_both_ends_and_nothing_beyond():
    problem = Matmul(4, 4, 20, a="float16")
    expected = draw_inputs(problem, trial_of(problem), 1).expected
    format_ = problem.out_format
    for codes, step in ((expected.low, -1), (expected.high, 1)):
        assert isinstance(judge(codes, expected, format_), Matched)
        value = encoding.decode(codes, format_)
        beyond = np.nextafter(value.astype(np.float16), np.float16(step * np.inf))
        assert isinstance(judge(encoding.bits_of(beyond), expected, format_), Differs)
        outcome = judge(np.where(np.eye(4, dtype=bool), encoding.bits_of(beyond), codes), expected, format_)
        assert outcome.differing == 4


def test_zeros_of_either_sign_lie_in_a_range_around_zero_and_nan_in_none():
    format_ = format_named("float16")
    codes = encoding.bits_of(np.array([0.0, -0.0, np.nan, -np.nan, np.inf, 1.0, -1.0], np.float16))
    low, high = (np.full(7, encoding.bits_of(np.array([x], np.float16))[0]) for x in (-1.0, 1.0))
    assert within(codes, low, high, format_).tolist() == [True, True, False, False, False, True, True]
    assert within(codes, low, np.full(7, codes[1]), format_).tolist() == [True, True, False, False, False, False, True]


@pytest.mark.parametrize(("problem", "why"), [
    (Matmul(4, 4, 100, a="bfloat16", accumulate="any"), "could lose all of a sum"),
    (Matmul(4, 4, 4096, a="e4m3", out="float32"), "4,104 roundings to 14 bits"),
    (Matmul(4, 4, 4096, a="e4m3"), "sums can come near 448"),
])
def test_a_bound_that_says_nothing_is_none(problem, why):
    plan = make_plan(problem, probes=["real"])
    assert plan.trials == ()
    (skipped,) = plan.skipped
    assert why in skipped.reason and skipped.remedy


def test_the_certificate_claims_no_bits():
    problem = Matmul(4, 4, 100, a="float16")
    certificate = trial_of(problem).certificate
    assert certificate.theorem == "bounded" and certificate.roundings == 108
    assert certificate.relative_error == pytest.approx(3 * 108 * 2.0**-24, rel=1e-4)
    assert certificate.sentence().startswith("no equal bits, but a range: 108 roundings to 24 bits")


def test_inputs_have_all_their_bits_and_mixed_exponents():
    problem, probe = Matmul(30, 30, 200, a="float16", b="bfloat16", out="float32"), probe_named("real")
    inputs = draw_inputs(problem, trial_of(problem), 1)
    for name, format_ in (("a", problem.a_format), ("b", problem.b_format)):
        values = encoding.decode(inputs.codes[name], format_)
        fraction, exponent = np.frexp(values)
        odd = np.ldexp(fraction, format_.precision) % 2 == 1
        assert 0.45 < odd.mean() < 0.55 and 0.45 < (values < 0).mean() < 0.55
        assert set(np.unique(exponent)) == {-2, -1, 0, 1, 2, 3}
    (settings,) = probe.variants(problem, Options())
    assert certify(problem, probe.family(problem, settings), declared=True).holds


def test_one_trial_of_ordinary_numbers_is_in_every_default_plan_and_called_once():
    for a in ("float16", "bfloat16", "float32", "float64"):
        plan = make_plan(Matmul(8, 8, 300, a=a))
        assert [trial.calls for trial in plan.trials if trial.probe == "real"] == [1]
    assert [trial.calls for trial in make_plan(Matmul(8, 8, 300, a="float16"), probes=["real"], repeat=5).trials] == [1]
