"""What a tracked run tells those who draw operands: bits that were missing, divisors, what a redraw changes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F

from zeroulp import track


def test_an_ending_says_how_many_bits_the_sum_needed():
    x = torch.full((4, 64), 2.0**10 + 1).double()
    tracked = track.track(lambda x: x @ x.T, [x])
    (ending,) = tracked.endings
    assert 24 < ending.bits < 27
    assert tracked.share() == 0
    rounded = track.track(lambda x: x * x, [torch.full((4,), 2.0**13 + 1).double()])
    assert rounded.endings[0].bits is None  # one product, rounded once


@pytest.mark.parametrize(
    "reference, divisors",
    [
        (lambda x: x.mean(1), (12.0,)),
        (lambda x: F.avg_pool2d(x[None, None], 3).sum(), (9.0,)),
        (lambda x: x / 5, (5.0,)),
        (lambda x: x / 4, ()),
        (lambda x: F.adaptive_avg_pool1d(x, 4), (3.0,)),
    ],
)
def test_divisors_are_noted(reference, divisors):
    x = torch.ones(8, 12).double() * 60
    assert track.track(reference, [x]).divisors == divisors


def test_changes_are_those_of_exact_elements():
    x, y = torch.tensor([1.0, 2.0, 3.0]).double(), torch.tensor([1.0, 5.0, 6.0]).double()

    def reference(x):
        return torch.stack([x[0], x[1], torch.sin(x[2])])

    tracked = track.track(reference, [x])
    assert track.changes(tracked, {"0": y})[0].tolist() == [False, True, False]


def test_a_branch_that_nothing_is_taken_from_costs_no_bits():
    """The product with 0.2 has 24 more bits; where no element is negative none of them is used."""
    def reference(x, w):
        return F.leaky_relu(x, 0.2) @ w

    w = torch.ones(4, 2).double()
    positive = torch.arange(1.0, 5.0).double().reshape(1, 4)
    assert track.track(reference, [positive, w]).share() == 1
    assert track.track(reference, [-positive, w]).share() == 0
