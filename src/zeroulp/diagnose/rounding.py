"""Results that are right but for the last step: the exact sum, rounded in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from zeroulp import encoding
from zeroulp.formats import TABLE
from zeroulp.judge import same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zeroulp.diagnose.case import Case
    from zeroulp.encoding import Array
    from zeroulp.formats import Format
    from zeroulp.problem import Matmul

Way: TypeAlias = "tuple[str, Callable[[Case], Array]]"
"""A clause, and the encodings that a kernel which rounds in that way returns."""

_FEWEST_AT_RANDOM = 3  # wrong outputs below which a neighbour may be a coincidence
_LONGEST_FIRST = 12  # significant bits beyond the output's that a first rounding is thought to have


def fitting_roundings(case: Case, ways: Sequence[Way] | None = None) -> list[Way]:
    """
    Ways to round the exact results that give the kernel's bits at every position.

    Args:
        case: A trial, right or wrong.
        ways: Those that still come into question; None: all.
    """
    format_ = case.problem.out_format
    if format_.is_integer or np.abs(case.total).max(initial=0) >= 2**53:
        return []
    candidates = _ways(case.problem) if ways is None else ways
    return [way for way in candidates if same(case.actual, way[1](case), format_).all()]


def is_one_of_two_neighbours(case: Case) -> bool:
    """Whether every result is the number just below or just above the exact one, and some are not the nearest."""
    format_ = case.problem.out_format
    if format_.is_integer or np.abs(case.total).max(initial=0) >= 2**53:
        return False
    if np.count_nonzero(case.wrong) < _FEWEST_AT_RANDOM:
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


def _ways(problem: Matmul) -> Iterator[Way]:
    """Other ways to round the exact result to the output's format, the simplest first."""
    format_ = problem.out_format
    yield "rounds toward zero instead of to nearest", _toward_zero
    yield "rounds away from zero instead of to nearest", _away
    yield "rounds down instead of to nearest", lambda case: np.where(case.exact < 0, _away(case), _toward_zero(case))
    yield "rounds up instead of to nearest", lambda case: np.where(case.exact < 0, _toward_zero(case), _away(case))
    yield "rounds ties away from zero instead of to even", lambda c: np.where(_ties(c), _away(c), _nearest(c))
    yield "rounds ties toward zero instead of to even", lambda c: np.where(_ties(c), _toward_zero(c), _nearest(c))
    yield "rounds to odd (sets the last bit wherever something was cut off) instead of to nearest", _to_odd
    if problem.bias is not None or problem.beta != 0:
        yield "rounds the product before it adds the epilogue (c or bias), and then once more", _before_the_epilogue
    for other in TABLE:
        if other.is_integer or other.is_scale or other.name in (format_.name, "float64"):
            continue
        first = f"to {other.precision} significant bits (as in {other})"
        yield f"rounds twice, first {first}, then to {format_}", _through(other)
    for width in range(2, min(format_.precision + _LONGEST_FIRST, 52) + 1):
        if width != format_.precision:
            for ties, rounded in (("even", np.rint), ("away from zero", _half_away)):
                clause = f"rounds twice, first to {width} significant bits with ties {ties.replace('even', 'to even')}"
                yield f"{clause}, then to {format_}", _through_bits(width, rounded)


def _nearest(case: Case) -> Array:
    return encoding.round_values(case.exact, case.problem.out_format)


def _toward_zero(case: Case) -> Array:
    return _neighbours(case.exact, case.problem.out_format)[0]


def _away(case: Case) -> Array:
    return _neighbours(case.exact, case.problem.out_format)[1]


def _inexact(case: Case) -> Array:
    return np.asarray(encoding.decode(_nearest(case), case.problem.out_format) != case.exact)


def _ties(case: Case) -> Array:
    """Where the exact result lies halfway between two numbers of the output's format."""
    format_ = case.problem.out_format
    low, high = _neighbours(case.exact, format_)
    middle = (encoding.decode(low, format_) + encoding.decode(high, format_)) / 2 == case.exact
    return np.asarray(_inexact(case) & middle)


def _to_odd(case: Case) -> Array:
    low = _toward_zero(case)
    odd: Array = np.where(_inexact(case), low | low.dtype.type(1), low)
    return odd


def _before_the_epilogue(case: Case) -> Array:
    format_ = case.problem.out_format
    rest = np.ldexp(case.rest().astype(np.float64), case.exponent)
    product = encoding.decode(encoding.round_values(case.exact - rest, format_), format_)
    return encoding.round_values(product + rest, format_)


def _through(other: Format) -> Callable[[Case], Array]:
    def rounded(case: Case) -> Array:
        first = encoding.decode(encoding.round_values(case.exact, other), other)
        return encoding.round_values(first, case.problem.out_format)

    return rounded


def _through_bits(width: int, to_integer: Callable[[Array], Array]) -> Callable[[Case], Array]:
    def rounded(case: Case) -> Array:
        fraction, exponent = np.frexp(case.exact)
        first = np.ldexp(to_integer(np.ldexp(fraction, width)), exponent - width)
        return encoding.round_values(first, case.problem.out_format)

    return rounded


def _half_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)
