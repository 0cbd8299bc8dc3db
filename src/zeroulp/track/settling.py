"""
What sums and storage do to a result: the any-order and round-once theorems, element by element.

See `zeroulp.exactness` for the theorems. Here S is the bound of an element, q the quantum of its tensor, and p what
the contract says of sums: while S <= 2**p q no order rounds. What is then stored in a format with fewer bits is
rounded once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from zeroulp.track.arithmetic import FLOAT32, FLOAT64
from zeroulp.track.backend import torch
from zeroulp.track.dyadic import largest, most, odd_parts, power, quantum_exponent, rounded
from zeroulp.track.grades import Ending, Grade
from zeroulp.track.state import Span, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zeroulp.formats import Format
    from zeroulp.track.arithmetic import Arithmetic
    from zeroulp.track.ledger import Ledger

_PAIR = 2  # factors of a product that is rounded once in every order


class Lose(Protocol):
    """How exact elements of a draft cease to be."""

    def __call__(self, mask: Any, reason: str, grade: Grade = Grade.NOT_EXACT, *, bits: float | None = None) -> None:
        """Give the elements of *mask* this grade, for a reason; *bits*: of a sum, where that was too many."""


def exact_bounds(draft: State) -> Any:
    """Bounds of the algebraic elements; 0 for the others."""
    return draft.bounds if draft.grade is None else torch.where(draft.grade == 0, draft.bounds, 0.0)


def largest_bound(draft: State) -> float:
    """The largest bound of an algebraic element; 0 if there is none."""
    if draft.grade is not None:
        return largest(exact_bounds(draft))
    return largest(draft.value) if draft.bound is None else most(draft.bound)


def fit_sums(draft: State, arithmetic: Arithmetic, lose: Lose, reach: float | None = None) -> float | None:
    """
    Take from the algebraic elements those whose sums may round.

    Args:
        draft: Changed in place.
        arithmetic: The contract.
        lose: How elements cease to be algebraic.
        reach: The largest of all bounds, where it is known.

    Returns:
        log2 of the largest bound of the others, in quanta; None if there are none but zeros.
    """
    assert draft.format is not None
    sums, p = arithmetic.sums(draft.format), arithmetic.sum_bits(draft.format)
    if not draft.value.numel():
        return None
    if draft.span.low > -sums.emin:
        lose(exact_bounds(draft) != 0, f"partial results may be no normal numbers of {sums}")
    # a partial result has at most as many quanta, each at most 2**high; its cofactor is at least 2**-low
    top = math.ldexp(sums.max_finite, min(0, max(draft.exponent - draft.span.high, -draft.span.low)))
    limit = min(power(p + draft.exponent), top)
    worst = largest_bound(draft) if reach is None or draft.grade is not None else reach
    if not worst <= limit:
        over = ~(exact_bounds(draft) <= limit)
        quanta = math.log2(worst) - draft.exponent if 0 < worst < math.inf else math.inf
        if draft.factors is not None and draft.factors <= _PAIR:
            over = _single_products(draft, over, arithmetic, lose)
        reason = f"the sum of |terms| reaches 2^{quanta:.1f} quanta, and only 2^{p} are sure to be exact"
        if quanta > p:
            lose(over, reason, bits=quanta)
        else:
            lose(over, f"partial results may leave the range of {sums}")
        worst = largest_bound(draft)
    return math.log2(worst) - draft.exponent if 0 < worst < math.inf else None


def _single_products(draft: State, over: Any, arithmetic: Arithmetic, lose: Lose) -> Any:
    """
    Elements that are one product each of at most two factors: exact if they have p bits, else rounded once.

    Powers of two may take part beside the two; no order of multiplication then rounds elsewhere.

    Returns:
        The elements of *over* that are neither.
    """
    assert draft.format is not None
    sums, p = arithmetic.sums(draft.format), arithmetic.sum_bits(draft.format)
    size = draft.value.abs()
    slack = draft.span.high + draft.span.low
    inside = (size <= math.ldexp(sums.max_finite, -slack)) & (size >= math.ldexp(sums.min_normal, slack))
    short = over & inside & (odd_parts(draft.value) <= power(p))
    draft.bound = None if draft.bound is None else torch.where(short, size, draft.bounds)
    over = over & ~short
    exact = short if draft.grade is None else short & (draft.grade == 0)
    others = ~over if draft.grade is None else ~over & (draft.grade == 0)
    draft.exponent = quantum_exponent(torch.where(exact | others, draft.value, 0.0))
    if p >= FLOAT32.precision and draft.format is not FLOAT64:
        once, direct = rounded(rounded(draft.value, FLOAT32), draft.format), rounded(draft.value, draft.format)
        single = over & inside & (once == direct) & normal(once, draft.format)
        lose(single, f"a product is rounded to {draft.format}", Grade.ROUNDED_ONCE)
        draft.value.copy_(torch.where(single, once, draft.value))
        over &= ~single
    return over


def normal(values: Any, format_: Format) -> Any:
    """Which elements are 0, or normal numbers within the range of a format."""
    size = values.abs()
    return (size == 0) | ((size >= format_.min_normal) & (size <= format_.max_finite))


def store(draft: State, arithmetic: Arithmetic, lose: Lose, bits: float | None = None) -> None:
    """
    Store a draft in its format: algebraic elements that are no numbers of it are rounded once.

    Args:
        draft: Changed in place, its value too.
        arithmetic: The contract.
        lose: How elements cease to be algebraic.
        bits: As `fit_sums` returned it, where it was asked.
    """
    assert draft.format is not None
    if draft.stored is draft.format:
        return
    draft.stored = draft.format
    deliberate = draft.format is FLOAT64  # what another format would round, nobody knows the use of
    format_ = arithmetic.storage if deliberate else draft.format
    inside = bits is not None and bits + draft.exponent <= format_.emax and draft.exponent >= format_.emin
    if inside and bits is not None and bits <= format_.precision and not deliberate:
        return
    value = draft.value
    if inside and not deliberate and largest(value) <= power(format_.precision + draft.exponent):
        return
    stored = rounded(value, format_)
    off = stored != value
    if not inside:
        beyond = ~torch.isinf(value) & ~normal(value, format_)
        off &= ~beyond
        lose(beyond if draft.grade is None else beyond & (draft.grade == 0), f"it is no normal number of {format_}")
    if draft.grade is not None:
        off &= draft.grade == 0
    if not bool(off.any()):
        return
    lose(off, f"it is rounded to {format_}", Grade.NOT_EXACT if deliberate else Grade.ROUNDED_ONCE)
    if not deliberate:
        value.copy_(torch.where(off, stored, value))


def widen_rounded(draft: State, formats: Iterable[Format]) -> None:
    """What was rounded once to one format is not exact in another: a kernel may not have rounded it yet."""
    if draft.grade is not None and any(format_ is not draft.format for format_ in formats):
        draft.grade = torch.where(draft.grade == int(Grade.ROUNDED_ONCE), int(Grade.NOT_EXACT), draft.grade)


def rebase(draft: State) -> None:
    """Take a result for data: its elements are single terms from here on."""
    exact = draft.value if draft.grade is None else torch.where(draft.grade == 0, draft.value, 0.0)
    draft.bound = None
    draft.exponent = quantum_exponent(exact)
    draft.span = Span.of(draft.exponent)
    draft.factors = 1


def as_constant(ledger: Ledger, tensor: Any, format_: Format) -> None:
    """
    Take the numbers of a new tensor for constants: rounded to float32, then to its format.

    Where that is not the same as one rounding to the format, or subnormal, it is not exact.
    """
    direct = rounded(tensor, format_)
    stored = rounded(rounded(tensor, FLOAT32), format_)
    twice = (direct != stored) | (torch.isfinite(stored) & ~normal(stored, format_))
    grade = torch.where(twice, int(Grade.NOT_EXACT), 0).to(torch.uint8) if twice.any() else None
    tensor.copy_(stored)
    state = State(tensor, None, quantum_exponent(stored), grade=grade, format=format_, stored=format_)
    if grade is not None:
        state.cause = Ending(0, "a constant", f"it is rounded to {FLOAT32} and to {format_}, or no normal number of it")
    state.span = Span.of(state.exponent)
    ledger.record(tensor, state)
