"""Faults at sizes at which a result is looked at in part: the same kind of finding, in the same place."""

from __future__ import annotations

import collections
import re
import types

import numpy as np
import pytest

import zeroulp
from benchmarks.zoo import FAULTY
from zeroulp.checks import excerpt, explore
from zeroulp.checks.bench import Observation
from zeroulp.checks.inputs import Inputs, draw_inputs
from zeroulp.checks.naming import name_difference
from zeroulp.judge import Differs, judge
from zeroulp.plan import make_plan

_OF_A_KIND = 3  # entries of the zoo


def sample():
    """Some of each kind of fault."""
    seen = collections.Counter()
    for entry in FAULTY:
        seen[entry.kind] += 1
        if seen[entry.kind] <= _OF_A_KIND and not entry.available():
            yield entry


def found(entry):
    problem = zeroulp.Matmul(**{**entry.problem, **entry.changes})
    report = zeroulp.check(entry.make(), problem, seed=1, **entry.options, **entry.extra)
    outcome = report.trial(report.findings[0].trial).outcome
    return [finding.kind for finding in report.findings], report.findings[0].sentence, outcome


def place(sentence):
    """Where, in words; empty if it is not said."""
    said = re.search(r"in (every output|out\[[^]]*\] only|row \d+ only|column \d+ only|the last [^.]*|[\d,]+ of [\d,]+ outputs)\.$", sentence)
    return said.group() if said else ""


@pytest.mark.parametrize("side", [64, 6])
@pytest.mark.parametrize("entry", list(sample()), ids=lambda entry: entry.name)
def test_a_part_has_the_name_of_the_whole(entry, side, monkeypatch):
    """With as many calls as a small problem gets."""
    kinds, sentence, outcome = found(entry)
    monkeypatch.setattr(excerpt, "LARGE", 0)
    monkeypatch.setattr(excerpt, "SIDE", side)
    monkeypatch.setattr(explore, "LARGE_TRIALS", 10**9)
    monkeypatch.setattr(explore, "LARGE_CALLS", 10**9)
    own_kinds, own_sentence, own_outcome = found(entry)
    assert own_kinds == kinds
    assert place(own_sentence) == place(sentence)
    assert own_outcome == outcome


N = 272  # more than 2^24 products


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def one_ulp(a, b):
    out = right(a, b)
    out[100, 201] = np.nextafter(out[100, 201], out.dtype.type(np.inf))
    return out


def last_row(a, b):
    out = right(a, b)
    out[-1] = -out[-1]
    return out


def last_k(a, b):
    return right(a[:, :-1], b[:-1])


def last_block(a, b):
    out = right(a, b)
    out[-16:, -16:] = right(a[-16:, :-32], b[:-32, -16:])
    return out


def unwritten(a, b, out):
    corner = out[-16:, -16:].copy()
    out[...] = right(a, b)
    out[-16:, -16:] = corner


def racy(a, b):
    out = right(a, b)
    racy.calls += 1
    out[racy.calls % N, 3] += 1
    return out


racy.calls = 0


def narrow(a, b):
    total = np.zeros((a.shape[0], b.shape[1]), np.float16)
    for ks in np.array_split(np.arange(a.shape[1]), 8):
        total = (total + a[:, ks].astype(np.float32) @ b[ks].astype(np.float32)).astype(np.float16)
    return total.astype(a.dtype)


def cached(a, b):
    if not cached.results or cached.a.ctypes.data != a.ctypes.data:
        cached.a, cached.results = a, [right(a, b)]
    return cached.results[0].copy()


cached.results = []


@pytest.fixture
def without_the_whole(monkeypatch):
    """Nothing may be worked out in full on the host."""

    def refused(*_):
        raise AssertionError("the whole result was worked out on the host")

    monkeypatch.setattr(Inputs, "expected_under", refused)
    monkeypatch.setattr(Inputs, "integers", property(refused))
    monkeypatch.setattr(Inputs, "codes", property(refused))


@pytest.mark.parametrize(("kernel", "kind", "sentence"), [
    (one_ulp, "wrong-result", "matmul computes something else, in out[100, 201] only."),
    (last_row, "wrong-result", f"matmul has the wrong sign, in row {N - 1} only."),
    (last_k, "wrong-result", f"matmul leaves out the product k = {N - 1} of {N}, the last one, in every output."),
    (last_block, "wrong-result", f"matmul leaves out the products from k = {N - 32} on, 32 of {N}, in "),
    (unwritten, "unwritten-output", f"matmul leaves outputs unwritten, in 256 of {N * N:,} outputs."),
    (racy, "nondeterministic", "matmul is wrong, and returns other bits when called again on the same inputs, in out["),
    (narrow, "precision-below-contract", "matmul keeps at most 1"),
    (cached, "stale-result", "matmul returns an earlier result: its inputs changed in place"),
])
@pytest.mark.parametrize("format_", ["float16", "float32"])
def test_large_faults_are_located_and_named_from_a_part(kernel, kind, sentence, format_, without_the_whole):
    problem = zeroulp.Matmul(N, N, N, a=format_)
    report = zeroulp.check(kernel, problem, seed=1, destination_passing=kernel is unwritten, probes=["signed", "wide"])
    assert (report.findings[0].kind, report.findings[0].sentence[: len(sentence)]) == (kind, sentence)
    label, text = report.findings[0].evidence[-1]
    assert label == "named from" or kind == "stale-result"
    assert kind == "stale-result" or re.fullmatch(rf"4,096 of {N * N:,} outputs, [1-9][\d,]* of them wrong", text)


def test_how_many_calls_a_name_may_take(monkeypatch):
    problem = zeroulp.Matmul(N, N, N, a="float32")
    report = zeroulp.check(narrow, problem, seed=1)
    wrong = sum(isinstance(trial.outcome, Differs) for trial in report.trials)
    assert wrong == 1
    planned = sum(trial.calls for trial in report.trials)
    assert report.calls <= planned + 3 + 4 + 2 + explore.LARGE_CALLS
    monkeypatch.setattr(explore, "LARGE_CALLS", 3)
    short = zeroulp.check(narrow, problem, seed=1)
    assert short.calls < report.calls
    outputs = short.trials[-1].outcome.differing
    assert short.findings[0].sentence == f"matmul returns wrong values, in {outputs:,} of {N * N:,} outputs."
    assert short.trials[-1].outcome == report.trials[-1].outcome


def test_rows_of_special_values_have_their_numbers(monkeypatch):
    """A part's row is said by its number in the whole."""

    def quiet(a, b):
        with np.errstate(all="ignore"):
            return right(np.nan_to_num(a, nan=0.0), b)

    problem = zeroulp.Matmul(40, 50, 60, a="float16")
    small = zeroulp.check(quiet, problem, seed=3).findings[0]
    monkeypatch.setattr(excerpt, "LARGE", 0)
    monkeypatch.setattr(excerpt, "SIDE", 16)
    large = zeroulp.check(quiet, problem, seed=3).findings[0]
    assert (small.kind, small.sentence) == (large.kind, large.sentence)
    assert re.search(r"must give NaN, in (row|rows) \d|in (row|rows) \d", large.sentence)


def test_a_sampled_bound_says_nothing_of_the_rest():
    """Ordinary numbers are looked at in some rows and columns: elsewhere it may be wrong too."""

    def kernel(a, b):
        out = right(a, b)
        if not np.array_equal(a, np.rint(a)):  # no integers
            out[::2] *= 2
        return out

    report = zeroulp.check(kernel, zeroulp.Matmul(N, N, N, a="float32"), seed=1, probes=["real"], trials=1)
    outcome = report.trials[-1].outcome
    assert outcome.compared < outcome.elements
    said = f"in {outcome.differing:,} of {outcome.compared:,} outputs that were looked at."
    assert report.findings[0].sentence.endswith(said)


def test_a_result_that_is_right_by_now_was_wrong():
    """No name is made up for it, and no further call is made."""
    for problem in (zeroulp.Matmul(9, 10, 20, a="float16"), zeroulp.Matmul(N, N, N, a="float16")):
        trial = make_plan(problem).trials[0]
        inputs = draw_inputs(problem, trial, 1)
        codes = inputs.expected.codes
        outcome = judge(codes ^ (np.arange(problem.n) == 3).astype(codes.dtype), inputs.expected, problem.out_format)
        bench = types.SimpleNamespace(problem=problem)
        finding = name_difference(bench, trial, Observation(inputs, results=[codes], poisons=[0], outcome=outcome), None)
        assert (finding.kind, finding.sentence) == ("wrong-result", "matmul returns wrong values, in column 3 only.")


def test_a_long_sum_meets_a_wrong_result_by_chance():
    """One wrong output among many partial sums is not said to be one of them; many at the same k are."""
    problem = zeroulp.Matmul(80, 80, 3000, a="float32")

    def kernel(count):
        def wrong(a, b):
            out = right(a, b)
            out[:count, :count] = right(a[:count, :2990], b[:2990, :count])
            return out

        return wrong

    said = [zeroulp.check(kernel(count), problem, seed=1, probes=["signed"], trials=1).findings[0].sentence for count in (1, 20)]
    assert said[0] == "matmul computes something else, in out[0, 0] only."
    assert said[1] == "matmul leaves out the products from k = 2990 on, 10 of 3000, in 400 of 6,400 outputs."
