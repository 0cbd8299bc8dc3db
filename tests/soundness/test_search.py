"""
A search for a correct kernel that is accused, by hypothesis, over the space of `benchmarks.campaign`.

A few seconds in the default run. With ``-m slow`` it takes an hour, or ZEROULP_SEARCH_MINUTES. What
it finds it makes smaller, and prints as Python that runs it again.
"""

from __future__ import annotations

import itertools
import os
import time

import pytest
from hypothesis import HealthCheck, Phase, assume, find, given, seed, settings
from hypothesis import strategies as st

from benchmarks.campaign import FAMILIES, draw_case
from zeroulp.draw import fresh_seed
from zeroulp.report import Verdict

MINUTES = float(os.environ.get("ZEROULP_SEARCH_MINUTES", "60"))
QUIET = dict(deadline=None, database=None, suppress_health_check=list(HealthCheck))


class Drawn:
    """Hypothesis makes the choices."""

    def __init__(self, draw):
        self._draw = draw

    def of(self, options):
        return self._draw(st.sampled_from(list(options)))

    def whole(self, low, high):
        return self._draw(st.integers(low, high))


@st.composite
def cases(draw, family=None):
    case = draw_case(Drawn(draw), family)
    assume(case is not None)
    return case


def search(number, examples, family=None):
    """One round of the search; *number* fixes its choices."""

    @seed(number)
    @settings(max_examples=examples, print_blob=False, **QUIET)
    @given(cases(family))
    def nobody_is_accused(case):
        report = case.check()
        assert report.verdict in (Verdict.CORRECT, Verdict.INCONCLUSIVE), f"\n{case.reproduction()}\n\n{report}"

    nobody_is_accused()


def test_a_short_search_accuses_nobody():
    search(number=1, examples=60)


@pytest.mark.slow
def test_a_long_search_accuses_nobody():
    started, number = time.monotonic(), fresh_seed()
    for rounds, family in enumerate(itertools.cycle(FAMILIES)):
        search(number + rounds, 100, family)
        minutes = (time.monotonic() - started) / 60
        if minutes > MINUTES:
            print(f"{rounds + 1} rounds of 100 examples from seed {number:#x} in {minutes:.1f} minutes")
            return


def test_the_search_can_fail_and_makes_what_it_finds_small():
    def is_accused(case):
        return case.faulty("drops a product").check().verdict is Verdict.INCORRECT

    phases = [Phase.generate, Phase.shrink]
    found = find(cases("sequential"), is_accused, settings=settings(max_examples=30, phases=phases, **QUIET))
    assert (found.problem.m, found.problem.n, found.problem.k) == (1, 1, 1)
    assert found.problem.layouts == "contiguous"
