"""Operators that return places: of the largest element, of all in order, of the first few. A tie leaves them open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import torch
from zeroulp.track.dyadic import largest, power
from zeroulp.track.rules.base import NOT_EXACT, unknown
from zeroulp.track.rules.selection import chosen

if TYPE_CHECKING:
    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker

_FLOAT64_BITS = 53


def argument(tracker: Tracker, call: Call) -> Any:
    """The place of the largest or smallest element."""
    state, result, dim = call.state("self"), call.run(), call.arguments["dim"]
    values, keep = state.value, call.arguments["keepdim"]
    if dim is None:
        picked, grade = values.flatten()[result.flatten()], state.grades.amax()
        tie = (values == picked).sum() > 1
        doubt = (tie | (grade > 0)).expand(result.shape)
    else:
        picked = values.gather(dim, result if keep else result.unsqueeze(dim)) if values.dim() else values
        doubt = (values == picked).sum(dim, keepdim=keep) > 1
        if not state.clean:
            doubt |= state.grades.amax(dim, keepdim=keep) > 0
    tracker.integers(result, torch.where(doubt, NOT_EXACT, 0), [state])
    return result


def sort(tracker: Tracker, call: Call) -> Any:
    """All elements in order: each row is exact if all of it is; the places, where no two are equal."""
    state, (value, places), dim = call.state("self"), call.run(), call.arguments["dim"]
    grade = _row(state, dim, value)
    result = tracker.settle(call, chosen([state], value, grade), arithmetic=False)
    stable = bool(call.arguments.get("stable"))
    _enter_places(tracker, places, _neighbours(value, dim) & (not stable), grade, state)
    return result, places


def top(tracker: Tracker, call: Call) -> Any:
    """The first few elements in order."""
    if not call.arguments["sorted"]:
        return unknown(tracker, call, "the first few elements in no order")
    state, (value, places), dim = call.state("self"), call.run(), call.arguments["dim"]
    grade = _row(state, dim, value)
    copies = _copies(state.value, value, dim)
    result = tracker.settle(call, chosen([state], value, grade), arithmetic=False)
    _enter_places(tracker, places, copies > 1, grade, state)
    return result, places


def _copies(values: Any, picked: Any, dim: int) -> Any:
    """How often each chosen element stands in its row."""
    if not values.dim():
        return torch.ones_like(picked)
    rows, wanted = values.movedim(dim, -1).contiguous(), picked.movedim(dim, -1).contiguous()
    ordered = rows.sort(-1).values
    count = torch.searchsorted(ordered, wanted, right=True) - torch.searchsorted(ordered, wanted)
    return count.movedim(-1, dim)


def _neighbours(values: Any, dim: int) -> Any:
    """Elements of a row in order that equal one beside them."""
    doubt = torch.zeros_like(values, dtype=torch.bool)
    if values.dim() and values.shape[dim] > 1:
        n = values.shape[dim]
        same = values.narrow(dim, 1, n - 1) == values.narrow(dim, 0, n - 1)
        doubt.narrow(dim, 1, n - 1).logical_or_(same)
        doubt.narrow(dim, 0, n - 1).logical_or_(same)
    return doubt


def _row(state: Any, dim: int, value: Any) -> Any:
    """The worst grade of a row, for each element of the result."""
    if state.clean:
        return None
    grades = state.grades
    return (grades.amax(dim, keepdim=True) if grades.dim() else grades).expand(value.shape).clone()


def _enter_places(
    tracker: Tracker, places: Any, tie: Any, grade: Any, state: Any, *, number: int | None = None
) -> None:
    doubt = tie if grade is None else tie | (grade > 0)
    tracker.integers(places, torch.where(doubt, NOT_EXACT, 0), [state], number)


def max_pool(tracker: Tracker, call: Call) -> Any:
    """
    The largest element of each window, and its place.

    A second run tells ties: each element is raised by less than half a quantum, the more the later it stands, so
    that among equal ones another place wins.
    """
    state, result = call.state("self"), call.run()
    value, places = result
    grade = None
    if not state.clean:
        grade = call.run(self=state.grades.to(torch.float64))[0].to(torch.uint8)
    drafted, number = tracker.settle(call, chosen([state], value, grade), arithmetic=False), tracker.number
    bits, exponent = state.value.numel().bit_length() + 1, min(0, state.exponent)

    def enter(places: Any) -> None:
        if largest(state.value) <= power(_FLOAT64_BITS - 1 - bits + exponent):
            raised = torch.arange(state.value.numel(), dtype=torch.float64, device=places.device)
            raised = raised.reshape(state.value.shape).mul_(power(exponent - bits)).add_(state.value)
            tie = call.run(self=raised)[1] != places
        else:
            tie = torch.ones_like(places, dtype=torch.bool)
        _enter_places(tracker, places, tie, grade, state, number=number)

    tracker.ledger.later(places, enter)
    return drafted, places


def running_extreme(tracker: Tracker, call: Call) -> Any:
    """The largest or smallest element so far; its place is not told."""
    state, (value, places), dim = call.state("self"), call.run(), call.arguments["dim"]
    grade = None if state.clean else torch.cummax(state.grades.to(torch.float64), dim).values.to(torch.uint8)
    result = tracker.settle(call, chosen([state], value, grade), arithmetic=False)
    tracker.integers(places, torch.full_like(places, NOT_EXACT), [])
    return result, places
