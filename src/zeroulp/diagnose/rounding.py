"""Results that are right but for the last step: the exact sum, rounded in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.formats import TABLE
from zeroulp.judge import same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroulp.diagnose.case import Case
    from zeroulp.encoding import Array
    from zeroulp.formats import Format

_FEWEST = 2  # wrong outputs below which a way of rounding is a guess


def explain_rounding(case: Case) -> str:
    """
    How the kernel rounds instead, in a clause; an empty string if no such way gives all its bits.

    The exact results must be the kernel's at every position under that one way of rounding.
    """
    format_ = case.problem.out_format
    if format_.is_integer or np.count_nonzero(case.wrong) < _FEWEST or np.abs(case.total).max() >= 2**53:
        return ""
    if case.family.terms == 1:  # a single product: rounded operands look the same as a rounded result
        return ""
    exact = case.exact
    for clause, codes in _ways(exact, format_):
        if same(case.actual, codes, format_).all():
            return clause
    return ""


def is_one_of_two_neighbours(case: Case) -> bool:
    """Whether every result is the number just below or just above the exact one, and some are not the nearest."""
    format_ = case.problem.out_format
    if format_.is_integer or np.abs(case.total).max() >= 2**53:
        return False
    exact = case.exact
    low, high = _neighbours(exact, format_)
    return bool((same(case.actual, low, format_) | same(case.actual, high, format_)).all())


def _neighbours(exact: Array, format_: Format) -> tuple[Array, Array]:
    """The encodings next to *exact* toward zero and away from it; both its own if it is a number of the format."""
    nearest = encoding.round_values(exact, format_)
    value = encoding.decode(nearest, format_)
    one = nearest.dtype.type(1)
    toward_zero = np.where(np.abs(value) > np.abs(exact), nearest - one, nearest)
    return toward_zero, np.where(value != exact, toward_zero + one, nearest)


def _ways(exact: Array, format_: Format) -> Iterator[tuple[str, Array]]:
    """Other ways to round *exact* (float64, exact) to the format."""
    nearest = encoding.round_values(exact, format_)
    toward_zero, away = _neighbours(exact, format_)
    inexact = encoding.decode(nearest, format_) != exact
    yield "rounds toward zero instead of to nearest", toward_zero
    yield "rounds away from zero instead of to nearest", away
    yield "rounds down instead of to nearest", np.where(exact < 0, away, toward_zero)
    yield "rounds up instead of to nearest", np.where(exact < 0, toward_zero, away)
    middle = (encoding.decode(toward_zero, format_) + encoding.decode(away, format_)) / 2 == exact
    yield "rounds ties away from zero instead of to even", np.where(inexact & middle, away, nearest)
    yield "rounds ties toward zero instead of to even", np.where(inexact & middle, toward_zero, nearest)
    for other in TABLE:
        if other.is_integer or other.is_scale or other.name in (format_.name, "float64"):
            continue
        through = encoding.decode(encoding.round_values(exact, other), other)
        first = f"to {other.precision} significant bits (as in {other})"
        yield f"rounds twice, first {first}, then to {format_}", encoding.round_values(through, format_)
