"""Faults that show from one call to the next: poison, places, changes in place, late results, rates."""

from __future__ import annotations

import math
import threading
import time

import numpy as np
import pytest

import zeroulp
from zeroulp.checks.bench import KEPT_RESULTS
from zeroulp.checks.inputs import draw_inputs
from zeroulp.errors import ProblemError
from zeroulp.plan import MOST_CALLS, calls_for, make_plan
from zeroulp.report import Verdict, from_json, to_json

PROBLEM = zeroulp.Matmul(9, 10, 33, a="float16")
SEEDS = range(2)


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def address(x):
    return x.__array_interface__["data"][0]


def found(make, problem=PROBLEM, seeds=SEEDS, *, again=True, **options):
    """Reports of a fresh kernel for each seed, all INCORRECT; each is seen again by its replay."""
    reports = []
    for seed in seeds:
        report = zeroulp.check(make(), problem, seed=seed, **options)
        assert report.verdict is Verdict.INCORRECT, str(report)
        if again:
            replayed = zeroulp.replay(from_json(to_json(report)), make())
            assert replayed.verdict is Verdict.INCORRECT, f"{report}\n{report.findings[0].replay}\n{replayed}"
        reports.append(report)
    return reports


def kinds(reports):
    return {report.findings[0].kind for report in reports}


# --- what stands in the output


def only_over_nan():
    def kernel(a, b, out):
        if not np.isfinite(out.astype(np.float32)).all():
            out[...] = right(a, b)

    return kernel


def only_over_nan_one_by_one():
    def kernel(a, b, out):
        stale = ~np.isfinite(out.astype(np.float32))
        out[stale] = right(a, b)[stale]

    return kernel


def added_to_numbers():
    def kernel(a, b, out):
        out[...] = (a.astype(np.float32) @ b.astype(np.float32) + np.nan_to_num(out.astype(np.float32), posinf=0, neginf=0)).astype(out.dtype)

    return kernel


@pytest.mark.parametrize("a", ["float16", "bfloat16", "float32", "e4m3", "e4m3fnuz"])
@pytest.mark.parametrize("make", [only_over_nan, only_over_nan_one_by_one, added_to_numbers], ids=lambda make: make.__name__)
def test_an_output_that_holds_numbers(make, a):
    reports = found(make, PROBLEM.replace(a=a, b=a, out=a), destination_passing=True)
    assert kinds(reports) == {"unwritten-output"}


def only_over_another_result():
    """Takes an output that holds various numbers for the result."""

    def kernel(a, b, out):
        numbers = out.astype(np.float32)
        if not np.isfinite(numbers).all() or (numbers == numbers[0, 0]).all():
            out[...] = right(a, b)

    return kernel


def test_an_output_that_holds_the_result_of_the_trial_before():
    assert kinds(found(only_over_another_result, destination_passing=True)) <= {"unwritten-output", "stale-result"}


def rows_unwritten():
    def kernel(a, b, out):
        out[:8] = right(a, b)[:8]

    return kernel


@pytest.mark.parametrize("a", ["float16", "e4m3", "e4m3fnuz", "fp4"])
def test_unwritten_outputs_keep_their_name(a):
    assert kinds(found(rows_unwritten, PROBLEM.replace(a=a, b=a, out=a), destination_passing=True)) == {"unwritten-output"}


# --- results that change later


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_buffers_in_turn(count):
    def make():
        buffers, calls = [np.empty((9, 10), np.float16) for _ in range(count)], []

        def kernel(a, b):
            calls.append(1)
            out = buffers[len(calls) % count]
            out[...] = right(a, b)
            return out

        return kernel

    assert kinds(found(make)) == {"aliased-output"}
    assert kinds(found(make, isolation="none", trials=3)) == {"aliased-output"}


def test_only_a_handful_of_results_is_kept():
    alive, most = set(), []

    class Counted(np.ndarray):
        def __del__(self):
            alive.discard(id(self))

    def kernel(a, b):
        out = right(a, b).view(Counted)
        alive.add(id(out))
        most.append(len(alive))
        return out

    assert zeroulp.check(kernel, PROBLEM, seed=1, repeat=50).verdict is Verdict.CORRECT
    assert len(most) > 60
    assert max(most) <= KEPT_RESULTS + 3


# --- places


def captured_addresses():
    captured = {}

    def kernel(a, b):
        return right(captured.setdefault("a", a), captured.setdefault("b", b))

    return kernel


@pytest.mark.parametrize("problem", [PROBLEM, zeroulp.Matmul(70, 80, 90, a="bfloat16"), zeroulp.Matmul(6, 5, 16, a="e4m3")])
def test_a_captured_address(problem):
    assert kinds(found(captured_addresses, problem)) == {"stale-result"}


def test_most_trials_in_a_row_have_the_same_places():
    moved = [trial.moved for trial in make_plan(PROBLEM).trials]
    assert any(moved)
    assert sum(moved) <= len(moved) / 4
    assert not any(left and right for left, right in zip(moved, moved[1:]))


# --- changes in place


def cached(key):
    def make():
        cache = {}

        def kernel(a, b):
            return cache.setdefault(key(a, b), right(a, b)).copy()

        return kernel

    return make


def packed(key):
    def make():
        cache = {}

        def kernel(a, b):
            return right(a, cache.setdefault(key(b), b.copy()))

        return kernel

    return make


WHOLE = lambda x: x.tobytes()
PARTS = {
    "corner": lambda x: x[:2, :2].tobytes(),
    "corners": lambda x: (x[0, 0], x[-1, 0], x[0, -1], x[-1, -1]),
    "first row": lambda x: x[0].tobytes(),
    "last row": lambda x: x[-1].tobytes(),
    "first column": lambda x: x[:, 0].tobytes(),
    "edges": lambda x: (x[0].tobytes(), x[-1].tobytes(), x[:, 0].tobytes(), x[:, -1].tobytes()),
    "every 64th": lambda x: x.ravel()[::64].tobytes(),
    "every 8th": lambda x: x.ravel()[::8].tobytes(),
    "first quarter": lambda x: x.ravel()[: x.size // 4].tobytes(),
    "sum": lambda x: float(x.astype(np.float64).sum()),
}


@pytest.mark.parametrize("problem", [PROBLEM, zeroulp.Matmul(64, 48, 96, a="bfloat16")], ids=["9x10x33", "64x48x96"])
@pytest.mark.parametrize("part", list(PARTS))
def test_a_cache_that_looks_at_a_part(part, problem):
    look = PARTS[part]
    for key in (lambda a, b: (look(a), look(b)), lambda a, b: (WHOLE(a), look(b)), lambda a, b: (look(a), WHOLE(b))):
        assert kinds(found(cached(key), problem, seeds=range(2))) <= {"stale-result", "wrong-result"}


@pytest.mark.parametrize("part", list(PARTS))
def test_packed_weights_that_are_looked_up_by_a_part(part):
    assert kinds(found(packed(PARTS[part]), seeds=range(3))) <= {"stale-result", "wrong-result"}


def test_the_finding_needs_the_trial_that_was_changed():
    (report,) = found(cached(lambda a, b: (a[0].tobytes(), b[:, 0].tobytes())), seeds=[1])
    record = report.trial(report.findings[0].trial)
    assert record.based_on is not None
    assert report.findings[0].replay == (record.based_on, record.index)


@pytest.mark.parametrize("a", ["float16", "bfloat16", "float32", "float64", "e4m3", "fp4", "int8"])
@pytest.mark.parametrize("shape", [(9, 10, 33), (1, 1, 1), (1, 8, 64), (40, 50, 3000)])
@pytest.mark.parametrize("transposed", [False, True])
def test_one_or_two_elements_of_one_operand_change_and_the_result_follows(shape, a, transposed):
    problem = zeroulp.Matmul(*shape, a=a, transpose_a=transposed, transpose_b=transposed)
    plan = make_plan(problem)
    changed = [trial for trial in plan.trials if trial.based_on is not None]
    assert [trial.changed for trial in changed] == ["a", "b"]
    for seed in range(5):
        for trial in changed:
            base = plan.trials[trial.based_on]
            old, new = draw_inputs(problem, base, seed), draw_inputs(problem, trial, seed)
            assert trial.certificate == base.certificate and trial.layouts == base.layouts
            for name in ("a", "b"):
                assert (np.sort(np.abs(old.integers[name]), None) == np.sort(np.abs(new.integers[name]), None)).all()
                assert ((old.integers[name] == 0) == (new.integers[name] == 0)).all()
                count = np.count_nonzero(old.integers[name] != new.integers[name])
                assert count in ((1, 2) if name == trial.changed else (0,))
            assert (old.expected.codes != new.expected.codes).any()


@pytest.mark.parametrize("a", ["float16", "bfloat16", "e4m3", "int8"])
def test_the_plan_is_no_longer_for_it(a):
    assert make_plan(zeroulp.Matmul(64, 64, 512, a=a)).calls <= MOST_CALLS


# --- late results


def late(seconds, *, returned):
    def make():
        def kernel(a, b, out=None):
            out = np.full((9, 10), np.nan, a.dtype) if returned else out
            values = right(a, b)
            out[:4] = values[:4]

            def rest():
                time.sleep(seconds)
                out[4:] = values[4:]

            threading.Thread(target=rest).start()
            return out

        return kernel

    return make


@pytest.mark.parametrize("returned", [True, False])
def test_a_thread_that_ends_after_the_call(returned):
    options = {} if returned else {"destination_passing": True}
    assert kinds(found(late(0.015, returned=returned), seeds=range(3), again=False, **options)) == {"late-result"}


def test_a_second_result_that_is_late():
    def make():
        calls, in_time, too_late = [], late(0, returned=True)(), late(0.015, returned=True)()

        def kernel(a, b):
            calls.append(1)
            return too_late(a, b) if len(calls) == 2 else right(a, b)

        return kernel

    assert kinds(found(make, seeds=range(3), again=False)) == {"late-result"}


def test_nobody_waits_for_a_right_kernel(monkeypatch):
    monkeypatch.setattr("zeroulp.checks.bench.time.sleep", lambda seconds: pytest.fail("waited"))
    assert zeroulp.check(right, PROBLEM, seed=1).verdict is Verdict.CORRECT


# --- rates


def wrong_at(when):
    def make():
        calls = []

        def kernel(a, b):
            calls.append(1)
            out = right(a, b)
            out[3, 4] += when(len(calls))
            return out

        return kernel

    return make


@pytest.mark.parametrize(("escape", "rate", "calls"), [(1e-9, 0.05, 405), (1e-9, 0.5, 30), (1e-3, 0.01, 688), (0.5, 0.9, 1)])
def test_calls_for_a_rate(escape, rate, calls):
    assert calls_for(rate, escape) == calls
    assert (1 - rate) ** calls <= escape < (1 - rate) ** (calls - 1)
    plan = make_plan(PROBLEM, escape_probability=escape, race_rate=rate)
    assert plan.trials[0].calls == 1 + calls


@pytest.mark.parametrize("rate", [0, 1, -0.1, 2, math.nan, "0.1", True])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ProblemError, match="race_rate"):
        make_plan(PROBLEM, race_rate=rate)


def test_a_rate_and_a_number_of_calls_contradict_each_other():
    with pytest.raises(ProblemError, match="both"):
        make_plan(PROBLEM, race_rate=0.1, repeat=3)


def test_the_default_is_one_further_call():
    assert make_plan(PROBLEM).trials[0].calls == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_one_call_in_twenty(seed):
    rng = np.random.default_rng(seed)
    report = zeroulp.check(wrong_at(lambda call: rng.random() < 0.05)(), PROBLEM, seed=seed, race_rate=0.05)
    assert report.findings[0].kind == "nondeterministic"
    assert report.options["repeat"] == 405


@pytest.mark.parametrize("last", [10, 20])
def test_right_for_some_calls_by_default(last):
    report = zeroulp.check(wrong_at(lambda call: call > last)(), PROBLEM, seed=1)
    assert report.verdict is Verdict.INCORRECT


@pytest.mark.parametrize("last", [10, 25, 100, 200])
def test_right_for_many_calls_with_repeat(last):
    report = zeroulp.check(wrong_at(lambda call: call > last)(), PROBLEM, seed=1, repeat=last)
    assert {finding.kind for finding in report.findings} <= {"nondeterministic", "wrong-result"}
    assert report.verdict is Verdict.INCORRECT


def test_state_left_from_an_earlier_call():
    """A workspace sized by the largest sum so far: what an earlier, larger use left is added again."""

    def make():
        kept = np.zeros(10, np.float32)

        def kernel(a, b):
            out = a.astype(np.float32) @ b.astype(np.float32)
            out[0] += kept
            kept[:] = out[-1] * (np.abs(out[-1]) > np.abs(kept))
            return out.astype(a.dtype)

        return kernel

    for seed in SEEDS:
        assert zeroulp.check(make(), PROBLEM, seed=seed, repeat=3).verdict is Verdict.INCORRECT
