"""Plans: which trials, how many, in which order and layouts, and what is skipped."""

from __future__ import annotations

import math

import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul
from zeroulp.errors import ProblemError, UnknownNameError
from zeroulp.plan import MOST_CALLS, make_plan, trials_of
from zeroulp.probes import TABLE, Options, probe_named
from zeroulp.problem import LAYOUTS


DEFAULT = set(TABLE)
FOUR = ("signed", "wide", "binary", "fractional")


def probes_of(plan):
    return [trial.probe for trial in plan.trials]


@pytest.mark.parametrize("k", [1, 17, 512, 4096, 9000, 40_000])
@pytest.mark.parametrize("a", ["float16", "bfloat16", "float32", "float64", "e4m3", "int8"])
@pytest.mark.parametrize("accumulate", ["any", ""])
def test_a_default_plan_calls_about_thirty_times_at_most(a, k, accumulate):
    plan = make_plan(Matmul(64, 64, k, a=a, accumulate=accumulate))
    assert 5 <= plan.calls <= MOST_CALLS
    assert plan.calls == sum(trial.calls for trial in plan.trials)


@pytest.mark.parametrize("a", ["float16", "float32", "float64"])
def test_the_wished_escape_probability_is_reached_where_the_format_is_wide_enough(a):
    plan = make_plan(Matmul(64, 64, 300, a=a))
    assert plan.escape_probability < plan.wished == 1e-9
    assert len(plan.trials) < MOST_CALLS - 4


def test_probes_take_turns():
    plan = make_plan(Matmul(64, 64, 300, a="float16"))
    names = probes_of(plan)
    assert set(names[: len(DEFAULT) + 2]) == DEFAULT  # and two trials that change the first in place
    assert names[0] == "signed"
    assert [trial.index for trial in plan.trials] == list(range(len(plan.trials)))


def test_every_variant_of_wide_is_there():
    plan = make_plan(Matmul(64, 64, 300, a="float16"))
    variants = {(t.settings["side"], t.settings["alike"]) for t in plan.trials if t.probe == "wide"}
    assert variants == {("a", False), ("b", False), ("a", True)}


def test_each_probes_first_trial_calls_again():
    problem = Matmul(8, 8, 30, a="float16")
    assert [t.calls for t in make_plan(problem, trials=3, probes=FOUR).trials] == [2, 2] + [1] * 10
    assert [t.calls for t in make_plan(problem, trials=2, repeat=0, probes=FOUR).trials] == [1] * 8
    assert [t.calls for t in make_plan(problem, trials=2, repeat=9, probes=["wide"]).trials] == [10, 1]


@pytest.mark.parametrize("trials", [1, 3, 7])
def test_as_many_trials_as_are_asked_for(trials):
    plan = make_plan(Matmul(8, 8, 30, a="float16"), trials=trials)
    assert {probes_of(plan).count(name) for name in DEFAULT} == {trials}


def test_probes_run_in_the_order_asked_for_and_once_each():
    plan = make_plan(Matmul(8, 8, 30, a="float16"), trials=1, probes=["binary", "signed", "binary"])
    assert probes_of(plan) == ["binary", "signed"]


@pytest.mark.parametrize("k", [30, 3000, 9000])
@pytest.mark.parametrize("a", ["float16", "bfloat16"])
def test_more_trials_never_raise_the_escape_probability(a, k):
    escapes = [make_plan(Matmul(8, 8, k, a=a, accumulate="any"), trials=trials).escape_probability for trials in range(1, 12)]
    assert all(0 < later < earlier <= 1 for earlier, later in zip(escapes, escapes[1:]))


def test_the_escape_probability_is_the_product_over_trials():
    plan = make_plan(Matmul(8, 8, 30, a="float16"), trials=3)
    missed = [1 - probe_named(t.probe).detection(plan.problem, t.settings) for t in plan.trials]
    assert plan.escape_probability == pytest.approx(math.prod(missed))
    assert sum(m < 1 for m in missed) >= 9


@pytest.mark.parametrize("wished", [0.5, 1e-3, 1e-6, 1e-12])
def test_a_smaller_wish_takes_more_trials_and_is_met(wished):
    plan = make_plan(Matmul(8, 8, 100, a="float16"), escape_probability=wished)
    assert plan.escape_probability <= wished
    assert len(plan.trials) >= len(make_plan(Matmul(8, 8, 100, a="float16"), escape_probability=0.9).trials)


@pytest.mark.parametrize(("wished", "trials"), [(1e-6, 49), (1e-9, 73)])
def test_binary_at_one_half_takes_as_many_trials_as_the_theory_says(wished, trials):
    """T = ln(eps) / ln(1 - 1/4), rounded up."""
    escape = lambda count: make_plan(Matmul(8, 8, 30, a="float16"), probes=["binary"], p_zero=0.5, trials=count).escape_probability
    assert escape(trials) <= wished < escape(trials - 1)


def test_trials_that_repeat_rows_are_not_counted():
    assert make_plan(Matmul(8, 8, 30, a="float16", layouts="broadcast")).escape_probability == 1
    some = make_plan(Matmul(8, 8, 30, a="float16", layouts="any"), trials=12).escape_probability
    assert make_plan(Matmul(8, 8, 30, a="float16"), trials=12).escape_probability < some < 1


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 4), (3, 0, 4), (3, 4, 0)])
def test_empty_problems_cannot_be_wrong_in_a_value(m, n, k):
    plan = make_plan(Matmul(m, n, k, a="float16"))
    assert plan.escape_probability == 0
    assert plan.trials


def test_layouts_any_uses_every_layout_for_every_operand():
    plan = make_plan(Matmul(8, 8, 30, a="float16", beta=1, bias="float16", layouts="any"), trials=6)
    for name in ("a", "b", "c", "bias"):
        assert {trial.layouts[name] for trial in plan.trials} == set(LAYOUTS)
    outputs = {name for name, layout in LAYOUTS.items() if not layout.broadcast}
    assert {trial.layouts["out"] for trial in plan.trials} == outputs


def test_layouts_any_combines_layouts_of_a_and_b():
    plan = make_plan(Matmul(8, 8, 30, a="float16", layouts="any"), trials=20)
    pairs = {(trial.layouts["a"], trial.layouts["b"]) for trial in plan.trials}
    assert len(pairs) >= len(LAYOUTS) ** 2 / 2


def test_layouts_by_operand():
    plan = make_plan(Matmul(8, 8, 30, a="float16", layouts={"b": "padded", "out": "column"}))
    assert all(t.layouts == {"a": "contiguous", "b": "padded", "out": "column"} for t in plan.trials)


def test_an_output_is_never_given_stride_zero():
    assert {t.layouts["out"] for t in make_plan(Matmul(8, 8, 30, a="float16", layouts="broadcast")).trials} == {"contiguous"}


def test_b_is_not_repeated_along_k_where_blocks_of_k_are_zero():
    plan = make_plan(Matmul(8, 8, 5000, a="float16", accumulate="any", layouts="broadcast"), probes=FOUR)
    layouts = {(t.probe, t.layouts["b"]) for t in plan.trials}
    assert layouts == {("signed", "contiguous"), ("wide", "contiguous"), ("binary", "broadcast"), ("fractional", "broadcast")}


def test_a_probe_without_certificate_is_skipped_with_reason_and_remedy():
    plan = make_plan(Matmul(8, 8, 30, a="int8"))
    (skipped,) = (skipped for skipped in plan.skipped if skipped.probe == "fractional")
    assert "int8 holds whole numbers" in skipped.reason
    assert skipped.remedy == "choose a wider format for it"


def test_a_problem_that_cannot_be_exact_has_no_trials_and_every_reason():
    plan = make_plan(Matmul(8, 8, 30, a="float16", alpha=1 / 3))
    assert plan.trials == ()
    assert {skipped.probe for skipped in plan.skipped} == DEFAULT
    assert all(skipped.reason for skipped in plan.skipped)
    assert all("power of two" in skipped.remedy for skipped in plan.skipped if "subnormal" not in skipped.reason)


def test_every_trial_carries_a_certificate_that_holds():
    for a in ("float16", "bfloat16", "e4m3", "int8", "float64"):
        assert all(trial.certificate.holds for trial in make_plan(Matmul(8, 8, 700, a=a)).trials)


@pytest.mark.parametrize("options", [
    dict(escape_probability=0), dict(escape_probability=1), dict(trials=0), dict(trials=1.5), dict(trials=True), dict(repeat=-1),
    dict(repeat=True), dict(p_zero=1), dict(p_zero=-0.1), dict(p_zero=float("nan")), dict(probes=[]),
    dict(p_zero="0.5"), dict(p_zero=True), dict(escape_probability="1e-9"), dict(escape_probability=None),
])
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises(ProblemError):
        make_plan(Matmul(1, 1, 1, a="float16"), **options)


def test_an_unknown_probe_is_refused():
    with pytest.raises(UnknownNameError, match="unknown probe 'binry'") as caught:
        make_plan(Matmul(1, 1, 1, a="float16"), probes=["binry"])
    assert "binary" in caught.value.do


def test_trials_outside_a_plan_have_their_own_numbers():
    trials = trials_of(Matmul(4, 4, 30, a="float16"), "signed", Options(declared=False, bits=8), first_index=10**6, most=5)
    assert [trial.index for trial in trials] == [10**6 + i for i in range(5)]
    assert all(trial.certificate.largest_sum <= 256 for trial in trials)


def test_trials_outside_a_plan_are_none_where_nothing_is_certain():
    assert trials_of(Matmul(4, 4, 20, a="bfloat16", beta=129.0), "signed", Options(declared=False, bits=8), first_index=0, most=5) == []


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def test_binary_at_k_9000_is_inconclusive_and_says_why():
    report = zeroulp.check(right, Matmul(8, 8, 9000, a="float16"), probes=["binary"], trials=5, p_zero=0.5, seed=1)
    assert report.verdict.value == "INCONCLUSIVE"
    ((reason, remedy),) = report.reasons
    assert "a sum is 2250 on average" in reason and "up to 2048" in reason
    assert "p_zero" in remedy
    assert report.coverage < 1


def test_binary_at_k_9000_with_p_zero_derived_is_not_inconclusive():
    report = zeroulp.check(right, Matmul(8, 8, 9000, a="float16"), probes=["binary"], trials=5, seed=1)
    assert (report.verdict.value, report.coverage) == ("CORRECT", 1)


def test_a_problem_without_trials_is_inconclusive_and_calls_nothing():
    called = []
    report = zeroulp.check(lambda a, b: called.append(1), Matmul(8, 8, 30, a="float16", alpha=0.1), seed=1)
    assert (report.verdict.value, report.calls, called) == ("INCONCLUSIVE", 0, [])
    assert {reason.split(":")[0] for reason, _ in report.reasons} == DEFAULT


def test_positions_left_out_of_one_trial_may_be_compared_in_another():
    """At k = 8192 half of the sums exceed 2048; over 30 trials each position is compared some time."""
    report = zeroulp.check(right, Matmul(4, 4, 8192, a="float16"), probes=["binary"], trials=30, p_zero=0.5, seed=1)
    assert (report.verdict.value, report.coverage) == ("CORRECT", 1)
    assert any(0 < trial.share_compared < 1 for trial in report.trials)
    assert "in at least one of them" in str(report)
