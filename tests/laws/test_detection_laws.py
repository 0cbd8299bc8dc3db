"""
What `Probe.detection` claims, by experiment: no bilinear fault of one output escapes more often.

Each sample is one output: its own row, column and fault. It is seen where the bits of the wrong
sum, rounded to the output, differ from those of the right one at a compared position.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import zeroulp
from zeroulp import encoding
from zeroulp.draw import Seed
from zeroulp.exactness import certify
from zeroulp.plan import make_plan
from zeroulp.probes import draw_all, Options, probe_named

SAMPLES, SAMPLES_OF_LONG_SUMS = 1500, 600
CONFIDENCE = 1e-6  # chance that a true claim is called false


def pairs(rng, k, count):
    first = rng.integers(0, k, count)
    return first, (first + rng.integers(1, max(k, 2), count)) % k


def missing(a, b, rng):
    rows, (i, _) = np.arange(len(a)), pairs(rng, a.shape[1], len(a))
    return -a[rows, i] * b[rows, i]


def doubled(a, b, rng):
    return -missing(a, b, rng)


def misread(a, b, rng):
    rows, (i, j) = np.arange(len(a)), pairs(rng, a.shape[1], len(a))
    return a[rows, i] * (b[rows, j] - b[rows, i])


def swapped(a, b, rng):
    rows, (i, j) = np.arange(len(a)), pairs(rng, a.shape[1], len(a))
    return (a[rows, i] - a[rows, j]) * (b[rows, j] - b[rows, i])


def random_weights(a, b, rng):
    """Three rows by three columns of weights from -2 to 2, not all zero."""
    count, k = len(a), a.shape[1]
    weights = rng.integers(-2, 3, (count, 3, 3))
    weights[:, 0, 0] += ~weights.any(axis=(1, 2))
    start, step = pairs(rng, k, count)
    at = (start[:, None] + np.arange(3) * max(1, k // 3)) % k
    rows = np.arange(count)[:, None]
    return np.einsum("tx,txy,ty->t", a[rows, at], weights, b[rows, at])


FAULTS = (missing, doubled, misread, swapped, random_weights)


def detected(problem, probe_name, fault, samples=SAMPLES, seed=1, options=Options()):
    """
    (share of faults seen, share claimed, independent samples), over the probe's variants in turn.

    All outputs of a trial of ``wide`` have one block of k in common, drawn for the trial: where
    there are several blocks, only trials are independent.
    """
    probe = probe_named(probe_name)
    variants = [
        settings for settings in probe.variants(problem, options)
        if certify(problem, probe.family(problem, settings), declared=True).holds
    ]
    blocks = probe_name == "wide" and any(settings["terms"] < problem.k for settings in variants)
    trials = len(variants) * -(-150 // len(variants)) if blocks else len(variants)
    each = -(-samples // trials)
    seen = claimed = 0.0
    rng = np.random.default_rng(seed)
    for trial in range(trials):
        settings = variants[trial % len(variants)]
        certificate = certify(problem, probe.family(problem, settings), declared=True)
        drawn = draw_all(problem, probe, settings, Seed(seed, trial), {"a": (each, problem.k), "b": (problem.k, each)})
        a, b = drawn["a"].astype(np.int64), drawn["b"].T.astype(np.int64)
        right = np.einsum("tk,tk->t", a, b)
        wrong = right + fault(a, b, rng)
        codes = [encoding.round_integers(x, certificate.quantum_exponent, problem.out_format, saturate=True) for x in (right, wrong)]
        compared = True
        if certificate.masked:
            compared = np.einsum("tk,tk->t", abs(a), abs(b)) <= certificate.budget
        seen += np.count_nonzero((codes[0] != codes[1]) & compared)
        claimed += each * probe.detection(problem, settings)
    total = each * trials
    return seen / total, claimed / total, trials if blocks else total


def contradicts(seen, claimed, samples):
    """Whether so few would be seen with probability below CONFIDENCE if the claim held (Chernoff)."""
    if seen >= claimed or claimed <= 0:
        return False
    divergence = (1 - seen) * math.log((1 - seen) / (1 - claimed)) if claimed < 1 else math.inf
    divergence += seen * math.log(seen / claimed) if seen else 0.0
    return samples * divergence > -math.log(CONFIDENCE)


def problems(k, accumulate):
    return [
        zeroulp.Matmul(1, 1, k, a="float16", out=out, accumulate=accumulate) if out != "bfloat16"
        else zeroulp.Matmul(1, 1, k, a="bfloat16", accumulate=accumulate)
        for out in ("float16", "bfloat16", "float32")
    ]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("probe", ["signed", "wide", "binary", "fractional"])
@pytest.mark.parametrize("accumulate", ["any", "float32"])
@pytest.mark.parametrize("k", [6, 300, 2500])
def test_no_fault_escapes_more_often_than_claimed(probe, fault, k, accumulate):
    """k = 300 is beyond bfloat16's budget, 2500 beyond float16's."""
    claims = []
    for problem in problems(k, accumulate):
        seen, claimed, samples = detected(problem, probe, fault, SAMPLES if k < 1000 else SAMPLES_OF_LONG_SUMS)
        assert not contradicts(seen, claimed, samples), f"{problem}: {seen:.4f} seen, {claimed:.4f} claimed"
        claims.append(claimed)
    assert max(claims) > 0


@pytest.mark.parametrize("p_zero", [0.25, 0.5, 0.75, 0.9])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_no_fault_escapes_binary_inputs_more_often_than_claimed_at_any_density(p_zero, fault):
    problem = zeroulp.Matmul(1, 1, 40, a="float16")
    seen, claimed, samples = detected(problem, "binary", fault, 4000, options=Options(p_zero=p_zero))
    assert claimed == pytest.approx(min(p_zero, 1 - p_zero) ** 2)
    assert not contradicts(seen, claimed, samples)


def test_positions_that_are_left_out_lower_the_claim():
    """At k = 9000 and p = 1/2 nearly every sum is beyond float16's 2048: nothing is claimed, and nothing seen."""
    problem = zeroulp.Matmul(1, 1, 9000, a="float16")
    seen, claimed, _ = detected(problem, "binary", missing, 300, options=Options(p_zero=0.5))
    assert claimed == 0
    assert seen < 0.01


@pytest.mark.parametrize(("probe", "fault", "out", "k", "bound"), [
    ("binary", missing, "float16", 40, 1 / 4),
    ("binary", swapped, "float16", 40, 1 / 4),
    ("fractional", swapped, "float16", 40, 4 / 9),
    ("signed", swapped, "bfloat16", 256, 1 / 4),
    ("signed", swapped, "bfloat16", 60, 9 / 16),
])
def test_worst_cases_come_close_to_the_bound(probe, fault, out, k, bound):
    problem = zeroulp.Matmul(1, 1, k, a=out, accumulate="any")
    seen, claimed, samples = detected(problem, probe, fault, 6000)
    assert claimed == pytest.approx(bound, rel=1e-6)
    assert abs(seen - claimed) < 5 * math.sqrt(claimed * (1 - claimed) / samples)


@pytest.mark.parametrize("k", [1, 6, 300, 2048])
def test_a_lone_missing_product_is_seen_with_certainty_by_signed_inputs_within_the_budget(k):
    problem = zeroulp.Matmul(1, 1, k, a="float16", accumulate="any")
    assert detected(problem, "signed", missing)[0] == 1
    assert detected(problem, "signed", doubled)[0] == 1


def test_beyond_the_budget_each_product_is_touched_by_exactly_one_block():
    problem = zeroulp.Matmul(1, 1, 5000, a="float16", accumulate="any")
    probe = probe_named("signed")
    variants = probe.variants(problem, Options())
    touched = [
        draw_all(problem, probe, settings, Seed(3, trial), {"a": (1, 5000), "b": (5000, 1)})["b"].ravel() != 0
        for trial, settings in enumerate(variants)
    ]
    assert len(variants) == 6  # three blocks, twice: plain and scaled
    for cycle in (touched[:3], touched[3:]):
        assert np.array_equal(np.sum(cycle, axis=0), np.ones(5000))


@pytest.mark.parametrize("trials", [6, 20])
@pytest.mark.parametrize("k", [16_000, 30_000])
def test_trials_of_wide_do_not_leave_the_same_products_out_every_time(trials, k):
    """They are every fourth trial of a plan; a block chosen by the trial's number alone could be the same in all."""
    problem = zeroulp.Matmul(1, 1, k, a="float16", out="float32")
    plan = make_plan(problem, trials=trials)
    probe, escaped, untouched = probe_named("wide"), 1.0, np.zeros((40, k), bool)
    full = [t for t in plan.trials if t.probe == "wide" and t.settings["terms"] < k]
    for trial in full:
        escaped *= 1 - probe.detection(problem, trial.settings)
    for check in range(len(untouched)):
        touched = [
            draw_all(problem, probe, t.settings, Seed(check, t.index), {"a": (1, k), "b": (k, 1)})["b"].ravel() != 0 for t in full
        ]
        untouched[check] = ~np.any(touched, axis=0)
    assert untouched.mean() <= escaped + 5 * math.sqrt(escaped / len(untouched))


@pytest.mark.slow
def test_the_escape_probability_of_a_plan_is_kept_by_experiment():
    """One product missing, binary at p = 1/2, five trials: (3/4)^5 of the kernels pass, as the plan says."""
    problem = zeroulp.Matmul(1, 1, 20, a="float16")
    plan = make_plan(problem, trials=5, probes=["binary"], p_zero=0.5)
    assert plan.escape_probability == pytest.approx(0.75**5)

    def kernel(a, b):
        return (a[:, 1:].astype(np.float32) @ b[1:].astype(np.float32)).astype(a.dtype)

    checks = 400
    passed = sum(
        zeroulp.check(kernel, problem, seed=seed, trials=5, probes=["binary"], p_zero=0.5, repeat=0).verdict.value == "CORRECT"
        for seed in range(checks)
    )
    expected = plan.escape_probability
    assert abs(passed / checks - expected) < 4.5 * math.sqrt(expected * (1 - expected) / checks)


def test_a_claim_that_is_too_high_would_be_contradicted():
    problem = zeroulp.Matmul(1, 1, 40, a="float16")
    seen, claimed, samples = detected(problem, "binary", missing)
    assert contradicts(seen, claimed + 0.1, samples)
    assert not contradicts(seen, claimed, samples)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("probe", ["signed", "wide", "binary", "fractional"])
@pytest.mark.parametrize("k", [2, 3, 17, 257, 1000, 5000])
def test_no_fault_escapes_more_often_than_claimed_in_a_long_run(probe, fault, k):
    for problem in (p for accumulate in ("any", "float32") for p in problems(k, accumulate)):
        seen, claimed, samples = detected(problem, probe, fault, 20_000 if k < 1000 else 4000, seed=2)
        assert not contradicts(seen, claimed, samples), f"{problem}: {seen:.4f} seen, {claimed:.4f} claimed"
