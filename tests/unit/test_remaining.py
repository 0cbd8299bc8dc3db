"""The estimate of the time that is left."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroulp.checks.remaining import Remaining

SIZES = (16, 64, 256, 1024, 4096)
CUBE = list(itertools.product(SIZES, repeat=3))


def cost(shape, c0, c1, c2):
    m, n, k = shape
    return c0 + c1 * m * n * k + c2 * (m * n + m * k + k * n)


@given(st.sampled_from([(0.03, 0, 0), (0, 1e-9, 0), (0.02, 1e-11, 3e-8), (0, 2e-12, 1e-8), (1.0, 1e-8, 0)]), st.permutations(CUBE))
def test_times_that_follow_the_work_are_foretold(coefficients, shapes):
    remaining = Remaining(shapes)
    for shape in shapes[:40]:
        remaining.saw(shape, cost(shape, *coefficients))
        remaining.done(shape)
    truth = sum(cost(shape, *coefficients) for shape in shapes[40:])
    assert remaining.seconds() == pytest.approx(truth, rel=1e-3)


def test_a_plain_count_would_be_far_off():
    shapes = sorted(CUBE, key=lambda shape: cost(shape, 0.02, 1e-11, 3e-8))
    remaining = Remaining(shapes)
    for shape in shapes[:60]:
        remaining.saw(shape, cost(shape, 0.02, 1e-11, 3e-8))
        remaining.done(shape)
    truth = sum(cost(shape, 0.02, 1e-11, 3e-8) for shape in shapes[60:])
    by_count = sum(cost(shape, 0.02, 1e-11, 3e-8) for shape in shapes[:60]) / 60 * 65
    assert remaining.seconds() == pytest.approx(truth, rel=1e-3)
    assert by_count < truth / 5


def test_nothing_is_said_before_anything_is_seen_and_nothing_is_left_at_the_end():
    remaining = Remaining([(4, 4, 4)])
    assert remaining.seconds() is None
    remaining.saw((4, 4, 4), 2.0)
    assert remaining.seconds() == pytest.approx(2.0)
    remaining.done((4, 4, 4))
    assert remaining.seconds() == 0


@given(st.lists(st.tuples(st.tuples(*[st.integers(0, 10**5)] * 3), st.floats(0, 1e6)), min_size=1, max_size=20))
def test_it_is_a_time_whatever_was_seen(seen):
    """Also with sizes of 0, equal shapes, times of nothing and no order in them."""
    remaining = Remaining([(7, 8, 9), *(shape for shape, _ in seen)])
    for shape, seconds in seen:
        remaining.saw(shape, seconds)
        remaining.done(shape)
        assert 0 <= remaining.seconds() < float("inf")


def test_a_batch_counts():
    one, four = Remaining([(64, 64, 64)]), Remaining([(64, 64, 64)], 4)
    for remaining in (one, four):
        remaining.saw((32, 32, 32), 1.0)
        remaining.saw((16, 16, 16), 0.125)
    assert one.seconds() == pytest.approx(four.seconds())
