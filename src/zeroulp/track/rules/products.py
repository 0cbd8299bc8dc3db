"""Products element by element, powers and quotients."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeroulp.track.arithmetic import FLOAT32
from zeroulp.track.backend import torch
from zeroulp.track.dyadic import NEUTRAL, is_power, low_exponents, odd_parts, power, quantum_exponent, rounded
from zeroulp.track.grades import Grade
from zeroulp.track.rules.base import doubtful, unknown, worst
from zeroulp.track.settling import fit_sums, normal
from zeroulp.track.state import Span, State, multiplied, of_number

if TYPE_CHECKING:
    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker

_LARGEST_POWER = 8
DIVISION = "division"


def multiply(tracker: Tracker, call: Call) -> Any:
    """An element times an element."""
    return product_of(tracker, call, [call.state("self"), call.state("other")])


def product_of(tracker: Tracker, call: Call, states: list[State]) -> Any:
    """
    The product of two states that broadcast.

    Exactness:
        A power of two times what was rounded once is still rounded once, as nothing leaves the normal range.
    """
    left, right = states
    draft = multiplied(states)
    draft.format = format_ = call.result_format() or tracker.ledger.storage
    draft.value = torch.as_tensor(left.value * right.value)
    draft.dead = left.dead or right.dead
    if not draft.dead:
        draft.bound = None if left.single and right.single else torch.as_tensor(left.bounds * right.bounds)
        grade = worst(states, draft.value.shape)
        if grade is not None:
            draft.grade = doubtful(grade)
            for kept, other in ((left, right), (right, left)):
                if not kept.clean and other.clean:
                    once = (kept.grades == int(Grade.ROUNDED_ONCE)) & _is_single_power(other)
                    once = once.expand(draft.value.shape) & normal(draft.value, format_)
                    draft.grade = torch.where(once, int(Grade.ROUNDED_ONCE), draft.grade).to(torch.uint8)
    return tracker.settle(call, draft)


def _is_single_power(state: State) -> Any:
    if not torch.is_tensor(state.value):
        return torch.tensor(is_power(state.value))
    single = torch.frexp(state.value)[0].abs() == 0.5
    if state.bound is not None:
        single &= state.bounds == state.value.abs()
    return single if state.factors is not None else torch.zeros_like(single)


def raise_power(tracker: Tracker, call: Call) -> Any:
    """A small whole power, as the product that it is."""
    exponent = call.arguments["exponent"]
    if not isinstance(exponent, (int, float)) or exponent not in range(1, _LARGEST_POWER + 1):
        return unknown(tracker, call, "a power whose exponent is no whole number from 1 to 8")
    base = call.arguments["self"]
    with tracker.part_of(call), tracker:
        result = base * 1.0 if exponent == 1 else base
        for _ in range(int(exponent) - 1):
            result = result * base
    return result


def running_product(tracker: Tracker, call: Call) -> Any:
    """
    Products of many elements, or of the first few.

    Exactness:
        A product of integers none of which is 0 is at least as large as each product of some of them. So if the
        odd parts of single terms multiply to at most 2**p, and the powers of two stay within range, no order rounds.
    """
    state = call.state("self")
    if state.factors is None or not state.clean:
        return unknown(tracker, call, "a product of elements that are sums, or not exact")
    sums = tracker.arithmetic.sums(call.result_format() or tracker.ledger.storage)
    p = tracker.arithmetic.sum_bits(sums)
    odd, low = odd_parts(state.value), low_exponents(state.value)
    low = torch.where(low == NEUTRAL, 0, low).to(torch.float64)
    reach = _summed(call, torch.where(low > 0, low, 0.0)), _summed(call, torch.where(low < 0, -low, 0.0))
    odds = call.run(self=torch.where(odd == 0, 1.0, odd))  # of some factors, although one may be 0
    exact = (odds <= power(p)) & (reach[0] + p <= sums.emax) & (reach[1] <= -sums.emin)
    value = call.run()
    draft = State(value, None, quantum_exponent(torch.where(exact, value, 0.0)), leans=state.leans)
    draft.span, draft.factors = Span(*(int(torch.where(exact, r, 0.0).max()) for r in reach)), None
    draft.cause = state.cause
    number = tracker.step()
    tracker.loser(call, draft, number)(~exact, f"the product has more than {p} bits, or leaves the range of {sums}")
    return tracker.settle(call, draft, arithmetic=False, number=number)


def _summed(call: Call, values: Any) -> Any:
    """The same reduction of exponents, as a sum."""
    if call.name == "cumprod":
        return torch.cumsum(values, call.arguments["dim"])
    if call.arguments.get("dim") is None:
        return values.sum()
    return values.sum(call.arguments["dim"], keepdim=call.arguments["keepdim"])


def divide(tracker: Tracker, call: Call) -> Any:
    """A quotient: a product, if the divisor is a power of two."""
    if call.arguments.get("rounding_mode") is not None:
        return unknown(tracker, call, "a quotient that is rounded to a whole number")
    over, under = call.state("self"), call.state("other")
    if not torch.is_tensor(under.value) and is_power(under.value):
        return product_of(tracker, call, [over, of_number(1.0 / under.value)])
    if torch.is_tensor(under.value) and under.clean and bool(_is_single_power(under).all()):
        inverse = 1.0 / under.value
        exponent = quantum_exponent(inverse)
        single = replace(under, value=inverse, bound=None, exponent=exponent, span=Span.of(exponent))
        return product_of(tracker, call, [over, replace(single, leans=under.leans | {DIVISION})])
    return quotient(tracker, call, over, under)


def quotient(tracker: Tracker, call: Call, over: State, under: State, number: int | None = None) -> Any:
    """
    An exact number divided by another, once.

    Exactness:
        The true quotient is a number of the format, and both a division and a product with the rounded reciprocal
        give it. Kernels that divide the terms of a sum one by one are not covered: the result leans on `DIVISION`.
    """
    states = [over, under]
    number = tracker.step() if number is None else number
    if not torch.is_tensor(under.value) or under.value.numel() == 1:
        tracker.divisors.add(float(under.value))
    format_ = call.result_format() or tracker.ledger.storage
    value = torch.as_tensor(over.value / under.value)
    draft = State(value, None, 0, leans=over.leans | under.leans | {DIVISION}, factors=1, format=format_)
    draft.cause = multiplied(states).cause
    if over.dead or under.dead:
        draft.dead = True
        return tracker.settle(call, draft, number=number)
    true = torch.isfinite(value) & (rounded(value, FLOAT32) == value) & (value * under.value == over.value)
    for each in tracker.arithmetic.divides_in(format_):
        divisor = torch.as_tensor(under.value, dtype=torch.float64)
        inverse = rounded(1.0 / divisor, each)
        true &= (rounded(over.value * inverse, each) == value) & normal(inverse, each) & normal(value, each)
    grade = worst(states, value.shape)
    draft.grade = doubtful(grade)
    exact = true if draft.grade is None else true & (draft.grade == 0)
    lose = tracker.loser(call, draft, number)
    lose(~true if draft.grade is None else ~true & (draft.grade == 0), "the quotient is rounded, or may be")
    draft.exponent = quantum_exponent(torch.where(exact, value, 0.0))
    draft.span = Span.of(draft.exponent)
    return tracker.settle(call, draft, arithmetic=False, number=number)


def reciprocal(tracker: Tracker, call: Call) -> Any:
    """One divided by an element."""
    state = call.state("self")
    one = torch.ones_like(state.value)
    return quotient(tracker, call, State(one, None, 0, factors=0), state)


def divided_by_count(tracker: Tracker, call: Call, total: State, count: Any) -> Any:
    """
    An average: an exact sum, then divided once by how many terms there are.

    Args:
        tracker: That sees it.
        call: The call.
        total: The sum, before storage.
        count: A whole number, or a tensor of them.
    """
    if isinstance(count, (int, float)) and is_power(count):
        shift = round(math.log2(count))
        total.value, total.exponent = total.value / count, total.exponent - shift
        total.bound = None if total.bound is None else total.bound / count
        total.span = Span(total.span.high + max(0, -shift), total.span.low + max(0, shift))
        return tracker.settle(call, total)
    number = tracker.step()
    total.format = call.result_format() or tracker.ledger.storage
    if not total.dead:
        fit_sums(total, tracker.arithmetic, tracker.loser(call, total, number))
    divisor = torch.as_tensor(count, dtype=torch.float64, device=total.value.device)
    tracker.divisors.update(each for each in divisor.unique().tolist() if not is_power(each))
    divisor = divisor.expand(total.value.shape)
    return quotient(tracker, call, total, State(divisor, None, 0), number)
