"""Plans: which trials, how many, in which order and layouts, and what is skipped."""

from __future__ import annotations

import math

import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul
from zeroulp.counts import MOST_CALLS, MOST_CALLS_ASKED
from zeroulp.errors import ProblemError, UnknownNameError
from zeroulp.plan import make_plan, trials_of
from zeroulp.probes import TABLE, Options, probe_named
from zeroulp.problem import LAYOUTS


DEFAULT = set(TABLE) - {"cover"}  # where the budget does not hold all of k
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
    plan = make_plan(Matmul(8, 8, 100, a="bfloat16", accumulate="any", alpha=1 / 3))
    assert plan.trials == ()
    assert {skipped.probe for skipped in plan.skipped} == DEFAULT | {"cover"}
    assert all(skipped.reason for skipped in plan.skipped)
    odd = ("real", "specials")
    assert all("power of two" in skipped.remedy for skipped in plan.skipped if skipped.probe not in odd)


def test_every_trial_carries_a_certificate_that_holds():
    for a in ("float16", "bfloat16", "e4m3", "int8", "float64"):
        assert all(trial.certificate.holds for trial in make_plan(Matmul(8, 8, 700, a=a)).trials)


@pytest.mark.parametrize("options", [
    dict(escape_probability=0), dict(escape_probability=1), dict(trials=0), dict(trials=1.5), dict(trials=True), dict(repeat=-1),
    dict(repeat=True), dict(p_zero=1), dict(p_zero=-0.1), dict(p_zero=float("nan")), dict(probes=[]),
    dict(p_zero="0.5"), dict(p_zero=True), dict(escape_probability="1e-9")
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
    report = zeroulp.check(lambda a, b: called.append(1), Matmul(8, 8, 100, a="bfloat16", accumulate="any", alpha=0.1), seed=1)
    assert (report.verdict.value, report.calls, called) == ("INCONCLUSIVE", 0, [])
    assert {reason.split(":")[0] for reason, _ in report.reasons} == DEFAULT | {"cover"}


def test_positions_left_out_of_one_trial_may_be_compared_in_another():
    """At k = 8192 half of the sums exceed 2048; over 30 trials each position is compared some time."""
    report = zeroulp.check(right, Matmul(4, 4, 8192, a="float16"), probes=["binary"], trials=30, p_zero=0.5, seed=1)
    assert (report.verdict.value, report.coverage) == ("CORRECT", 1)
    assert any(0 < trial.share_compared < 1 for trial in report.trials)
    assert "in at least one of them" in str(report)


@pytest.mark.parametrize(("a", "out", "k", "reached"), [
    ("bfloat16", "bfloat16", 256, 1e-9), ("bfloat16", "bfloat16", 4096, 1e-9), ("bfloat16", "bfloat16", 16384, 1e-9),
    ("float16", "float16", 16384, 1e-9), ("e4m3", "e4m3", 256, 1e-7), ("e4m3", "bfloat16", 1024, 1e-4), ("e5m2", "e5m2", 1024, 1e-3),
])
def test_narrow_outputs_of_wide_sums_have_a_bound_all_the_same(a, out, k, reached):
    """`cancel` keeps results small where sums of random signs would leave the output's exact integers."""
    plan = make_plan(Matmul(64, 64, k, a=a, out=out))
    assert plan.escape_probability < reached and plan.calls <= MOST_CALLS


@pytest.mark.parametrize(("a", "k", "reached"), [("float16", 1024, 1e-4), ("float16", 4096, 1e-3), ("bfloat16", 256, 4e-3), ("bfloat16", 1024, 1e-2)])
def test_sums_beyond_the_budget_are_covered_in_blocks(a, k, reached):
    plan = make_plan(Matmul(64, 64, k, a=a, accumulate="any"))
    assert "cover" in probes_of(plan)
    assert plan.escape_probability < reached and plan.calls <= MOST_CALLS


def test_cover_counts_in_whole_cycles_only():
    problem, probe = Matmul(64, 64, 1024, a="bfloat16", accumulate="any"), probe_named("cover")
    variants = probe.variants(problem, Options())
    missed = [probe.missed(problem, variants[:count]) for count in range(len(variants) + 1)]
    half = len(variants) // 2
    assert missed[:half] == [1] * half
    assert missed[half] == missed[-2] > missed[-1] > 0


@pytest.mark.parametrize("wished", [1e-2, 1e-9, 1e-12])
def test_a_bound_that_is_asked_for_takes_as_many_calls_as_it_takes(wished):
    problem = Matmul(64, 64, 1024, a="bfloat16", accumulate="any")
    plan = make_plan(problem, escape_probability=wished)
    assert plan.escape_probability <= wished
    assert plan.unmet == ()
    assert plan.calls <= MOST_CALLS_ASKED
    assert wished > 1e-3 or plan.calls > MOST_CALLS


def test_a_bound_is_asked_for_in_every_layout():
    """Trials whose rows repeat count for nothing, and others are added in their place."""
    plan = make_plan(Matmul(8, 8, 30, a="float16", layouts="any"), escape_probability=1e-12)
    assert plan.escape_probability <= 1e-12
    assert plan.unmet == ()


@pytest.mark.parametrize(("problem", "options", "why", "remedy"), [
    (Matmul(8, 8, 4096, a="e4m3", accumulate="any"), {}, "would take more than 1,000 calls", "wider sums"),
    (Matmul(8, 8, 30, a="float16"), {"probes": ["one_hot"]}, "these trials claim no bound", "other probes too"),
    (Matmul(8, 8, 30, a="float16"), {"trials": 1}, "calls reach", "more trials"),
    (Matmul(8, 8, 30, a="float16", layouts="broadcast"), {}, "rows that repeat", "layouts without stride 0"),
])
def test_a_bound_out_of_reach_is_inconclusive_and_says_why(problem, options, why, remedy):
    report = zeroulp.check(right_in_any_format, problem, escape_probability=1e-9, seed=1, **options)
    assert report.verdict.value == "INCONCLUSIVE"
    ((reason, help),) = report.reasons
    assert why in reason and remedy in help
    assert report.coverage == 1 and report.calls <= MOST_CALLS
    assert "not all that was asked for" in str(report)
    assert zeroulp.replay(report, right_in_any_format).verdict.value == "INCONCLUSIVE"


def test_a_bound_out_of_reach_that_nobody_asked_for_is_said_and_no_more():
    report = zeroulp.check(right_in_any_format, Matmul(8, 8, 1024, a="e4m3", accumulate="any"), seed=1)
    assert report.verdict.value == "CORRECT"
    assert report.escape_probability > report.wished
    assert "more than the wished 1e-09" in str(report)


def test_a_wrong_kernel_is_incorrect_whether_or_not_a_bound_is_out_of_reach():
    problem = Matmul(8, 8, 4096, a="e4m3", accumulate="any")
    report = zeroulp.check(lambda a, b: right_in_any_format(a[:, :2048], b[:2048]), problem, escape_probability=1e-9, seed=1)
    assert report.verdict.value == "INCORRECT"


def test_a_probe_asked_for_by_name_without_certificate_is_inconclusive():
    report = zeroulp.check(lambda a, b: a.astype("int32") @ b.astype("int32"), Matmul(8, 8, 30, a="int8"), probes=["signed", "fractional"], seed=1)
    assert report.verdict.value == "INCONCLUSIVE"
    ((reason, remedy),) = report.reasons
    assert reason.startswith("fractional, asked for by name: ") and "int8 holds whole numbers" in reason
    assert remedy == "choose a wider format for it"
    assert report.calls > 0


def test_variants_without_certificate_are_named():
    """With alpha = 1/2 sums of one sign at the top of the range could exceed it; the other variants of `wide` run."""
    problem = Matmul(8, 8, 30, a="float16", alpha=0.5)
    plan = make_plan(problem)
    (skipped,) = (one for one in plan.skipped if one.probe == "wide")
    assert (skipped.probe, skipped.variant) == ("wide", "side=a, alike=True")
    assert "sums can exceed 65504" in skipped.reason
    assert {t.settings["alike"] for t in plan.trials if t.probe == "wide"} == {False}
    assert plan.unmet == make_plan(problem, probes=["wide"]).unmet == ()
    report = zeroulp.check(lambda a, b, alpha: right(a, b * a.dtype.type(alpha)), problem, seed=1)
    assert report.verdict.value == "CORRECT"
    assert "not checked       wide (side=a, alike=True): sums can exceed" in str(report)
    assert zeroulp.from_json(zeroulp.to_json(report)).skipped == report.skipped


def right_in_any_format(a, b):
    wide = a.astype(np.float32) @ b.astype(np.float32)
    return wide.astype(a.dtype)
