"""What is known of one tensor, or of a number that takes part beside tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zeroulp.track.arithmetic import FLOAT32
from zeroulp.track.backend import torch
from zeroulp.track.dyadic import NEUTRAL, is_power, rounded_scalar, scalar_quantum
from zeroulp.track.grades import Grade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.formats import Format
    from zeroulp.track.grades import Ending

LARGEST_FLOAT32 = FLOAT32.max_finite


@dataclass(frozen=True)
class Span:
    """
    How far the quanta of partial products reach, as exponents of two.

    Args:
        high: Sum of the positive exponents of the factors' quanta.
        low: Sum of the moduli of their negative ones.
    """

    high: int = 0
    low: int = 0

    @staticmethod
    def of(exponent: int) -> Span:
        """That of one factor."""
        return Span() if exponent >= NEUTRAL // 2 else Span(max(0, exponent), max(0, -exponent))

    def times(self, other: Span) -> Span:
        """That of a product."""
        return Span(self.high + other.high, self.low + other.low)

    def beside(self, other: Span) -> Span:
        """That of a sum."""
        return Span(max(self.high, other.high), max(self.low, other.low))


@dataclass
class State:
    """
    What is known of a tensor.

    Args:
        value: The exact elements, float64; or a Python number.
        bound: Sum of |terms| behind every element, the same shape, float64 or float32. None: each element is a single
            term, and its own modulus the bound. Without meaning where the grade is not exact.
        grade: `Grade` of every element (uint8); None: all algebraic.
        dead: Whether no element is exact; *grade* is None then.
        exponent: Base-2 exponent of the quantum, a power of two that divides every term of every exact element.
        span: How far the quanta of its factors reach.
        factors: How many factors that are no powers of two a single term has; None: elements have several terms.
        format: Format that it is stored in; None: it does not take part in promotion.
        stored: Format that all exact elements are known to be normal numbers of.
        cause: Where exactness ended, for elements that are not algebraic.
        leans: What its exactness leans on beside sums and products.
    """

    value: Any
    bound: Any
    exponent: int
    grade: Any = None
    dead: bool = False
    span: Span = field(default_factory=Span)
    factors: int | None = 1
    format: Format | None = None
    stored: Format | None = None
    cause: Ending | None = None
    leans: frozenset[str] = frozenset()

    @property
    def clean(self) -> bool:
        """Whether every element is algebraic."""
        return self.grade is None and not self.dead

    @property
    def grades(self) -> Any:
        """The grade of every element, written out."""
        if self.grade is not None:
            return self.grade
        worst = Grade.NOT_EXACT if self.dead else Grade.ALGEBRAIC
        return torch.full_like(torch.as_tensor(self.value), int(worst), dtype=torch.uint8)

    @property
    def bounds(self) -> Any:
        """The bound of every element written out, in float64; zeros if nothing is exact."""
        if self.dead:
            return torch.zeros_like(torch.as_tensor(self.value))
        if not torch.is_tensor(self.value):
            return self.bound
        return self.value.abs() if self.bound is None else self.bound.to(torch.float64)

    @property
    def single(self) -> bool:
        """Whether each exact element is a single term."""
        return self.bound is None or not torch.is_tensor(self.value)


def of_number(number: complex) -> State:
    """A constant of the program: a single factor, rounded to float32 first, as kernels take it."""
    value = float(number.real)
    rounded = rounded_scalar(value, FLOAT32) if abs(value) <= LARGEST_FLOAT32 else math.copysign(math.inf, value)
    rounded = math.nan if math.isnan(value) else rounded
    exponent = scalar_quantum(rounded)
    factors = 0 if is_power(rounded) or rounded == 0 else 1
    return State(rounded, abs(rounded), exponent, span=Span.of(exponent), factors=factors)


def joined(states: Sequence[State]) -> State:
    """What a tensor inherits that is put together from elements of these: no arithmetic."""
    first = states[0]
    span, exponent, leans = first.span, first.exponent, first.leans
    for state in states[1:]:
        span, exponent, leans = span.beside(state.span), min(exponent, state.exponent), leans | state.leans
    counts = [state.factors for state in states]
    factors = None if None in counts else max(count for count in counts if count is not None)
    draft = State(None, None, exponent, span=span, factors=factors, cause=first_cause(states), leans=leans)
    draft.stored = first.stored if all(state.stored is first.stored for state in states) else None
    return draft


def multiplied(states: Sequence[State]) -> State:
    """What a tensor inherits whose elements are products, or sums of products, of elements of these."""
    first = states[0]
    result = replace(first, value=None, bound=None, grade=None, dead=False, stored=None, cause=first_cause(states))
    for state in states[1:]:
        result.exponent += state.exponent
        result.span = result.span.times(state.span)
        result.leans |= state.leans
        known = result.factors is not None and state.factors is not None
        result.factors = (result.factors or 0) + (state.factors or 0) if known else None
    return result


def first_cause(states: Sequence[State]) -> Ending | None:
    """Where exactness ended first."""
    causes = [state.cause for state in states if state.cause is not None and not state.clean]
    return min(causes, key=lambda cause: cause.number) if causes else None
