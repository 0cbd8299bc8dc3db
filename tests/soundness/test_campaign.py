"""The campaign of `benchmarks/soundness.py`: a slice of it accuses nobody, and it can fail."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest

import zeroulp
from benchmarks.campaign import FAMILIES, Dice, draw_case
from benchmarks.campaign.rounding import to_format
from zeroulp import encoding
from zeroulp.formats import TABLE
from zeroulp.judge import same
from zeroulp.report import Verdict


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend("benchmarks")
    return importlib.import_module("soundness")


def cases(family, seed=0):
    dice = Dice(f"{family} {seed}")
    while True:
        case = draw_case(dice, family)
        if case is not None:
            yield case


def roomy(case):
    """Whether any wrong product must show."""
    p = case.problem
    if not (p.k > 4 and p.m > 1 and p.n > 1 and p.alpha != 0 and not case.options):
        return False
    report = case.check()
    return report.verdict is Verdict.CORRECT and report.escape_probability < 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_of_every_family_are_accepted_and_their_faulty_twins_are_not(family):
    drawn = cases(family)
    for case in itertools.islice(drawn, 4):
        report = case.check()
        assert report.verdict in (Verdict.CORRECT, Verdict.INCONCLUSIVE), f"{case.reproduction()}\n{report}"
    case = next(filter(roomy, drawn))
    for fault in ("drops a product", "adds a product twice", "forgets a sign"):
        assert case.faulty(fault).check().verdict is Verdict.INCORRECT, fault


@pytest.mark.parametrize("fault", ["keeps too few bits", "cuts the result"])
def test_faults_of_precision_are_seen_too(fault):
    def fits(case):
        p = case.problem
        promised = (p.out, p.accumulate, p.rounding) == ("float16", "float32", "ties-to-even")
        return promised and p.m * p.n > 100 and roomy(case)

    case = next(filter(fits, cases("blocks of k")))
    assert case.faulty(fault).check().verdict is Verdict.INCORRECT


def test_a_campaign_without_accusations_exits_with_0(script, capsys):
    assert script.main(["--checks", "9", "--seed", "1"]) == 0
    assert "all                                           9       0" in capsys.readouterr().out


def test_an_accusation_is_printed_with_all_it_takes_to_see_it_again(script, capsys, monkeypatch):
    case = next(filter(roomy, cases("split-K")))
    monkeypatch.setattr(script, "case_of", lambda *_: case.faulty("drops a product"))
    monkeypatch.setattr(script, "with_a_fault", lambda *_: None)
    assert script.main(["--checks", "1", "--seed", "1"]) == 1
    out = capsys.readouterr().out
    assert "ACCUSED in case 0: split-K" in out and "--seed 0x1 --case 0" in out
    text = next(line for line in out.splitlines() if line.startswith("print(Case("))
    names = {}
    exec("from zeroulp import Matmul\nfrom benchmarks.campaign import Arithmetic, Case, Kernel, Sum, Unit\n"
         f"report = {text.removeprefix('print(').removesuffix(')')}", names)
    assert names["report"].verdict is Verdict.INCORRECT


def test_a_family_whose_faults_all_escape_fails_the_campaign(script, monkeypatch):
    monkeypatch.setattr(script, "EVERY", 1)
    monkeypatch.setattr(script, "with_a_fault", lambda case, *_: case)
    assert script.main(["--checks", "3", "--seed", "2"]) == 1


@pytest.mark.parametrize("format_", [f for f in TABLE if not f.is_scale and not f.storage], ids=str)
def test_two_ways_to_round_agree(format_):
    """The campaign's own rounding and the library's, which were written apart."""
    rng = np.random.default_rng(3)
    values = rng.standard_normal(4000) * np.exp2(rng.uniform(format_.emin - 4, min(format_.emax, 1000), 4000))
    if format_.is_integer:
        values = np.rint(np.clip(values, -100, 100))
    own = encoding.bits_of(to_format(values, format_))
    assert same(own, encoding.round_values(values, format_), format_, zero_sign=True).all()


@pytest.mark.parametrize("more", [{}, {"beta": -2.0}, {"bias": "float32"}], ids=str)
def test_zeros_of_sums_that_a_negative_alpha_multiplies_may_have_either_sign(more):
    """alpha * (+0) is -0, and the sum of (alpha * products) that cancel is +0; both compute the formula."""
    problem = zeroulp.Matmul(30, 30, 16, a="float16", alpha=-1.0, signed_zero="strict", **more)

    def kernel(a, b, *rest, first):
        a, b = a.astype(np.float32), b.astype(np.float32)
        total = (-a) @ b if first else -(a @ b)
        for factor, term in zip((problem.beta, 1.0) if problem.beta else (1.0,), rest):
            total = total + np.float32(factor) * term.astype(np.float32)
        return total.astype(np.float16)

    for first in (False, True):
        report = zeroulp.check(lambda *operands: kernel(*operands, first=first), problem, seed=3, framework="numpy")
        assert report.verdict is Verdict.CORRECT, str(report)


@pytest.mark.parametrize("nonfinite", ["propagate", "ieee"])
def test_a_compensated_sum_may_make_nan_of_an_overflow_unless_ieee_is_promised(nonfinite):
    def kahan(a, b):
        total = lost = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in range(a.shape[1]):
            y = a[:, k, None] * b[k] - lost
            new = total + y
            total, lost = new, (new - total) - y
        return total

    problem = zeroulp.Matmul(12, 9, 40, a="float32", nonfinite=nonfinite)
    verdict = zeroulp.check(kahan, problem, seed=1, framework="numpy").verdict
    assert verdict is (Verdict.CORRECT if nonfinite == "propagate" else Verdict.INCORRECT)
