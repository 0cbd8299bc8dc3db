"""Operators that move elements: what is known of each goes with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import torch
from zeroulp.track.dyadic import NEUTRAL
from zeroulp.track.rules.base import NOT_EXACT, Rule, doubtful, unknown
from zeroulp.track.state import State, joined, of_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker


def structural(*names: str, fill: str = "", clash: Callable[[Call], Any] | None = None) -> Rule:
    """
    A rule for operators that copy, move, repeat or drop elements.

    Args:
        names: Arguments whose elements the result is made of, tensors or lists of them.
        fill: An argument that is a number that the result is filled up with.
        clash: Which elements of the result are written more than once, in no order: these are not exact.
    """

    def rule(tracker: Tracker, call: Call) -> Any:
        if call.doubts(*names) is not None:
            return unknown(tracker, call, "a place depends on a value that is not exact")
        states = {id(tensor): tracker.ledger.state(tensor) for tensor in call.tensors(*names)}
        parts = list(states.values())
        number = call.arguments.get(fill) if fill else None
        constant = [] if number is None else [of_number(number)]
        value = call.run(**({fill: constant[0].value} if constant else {}))
        bounds = None
        if not all(state.single for state in parts):
            bounds = _moved(call, names, states, lambda s: s.bounds, {fill: constant[0].bound} if constant else {})
        grades = None
        if not all(state.clean for state in parts):
            grades = _moved(call, names, states, lambda s: s.grades.to(torch.float64), {fill: 0.0} if constant else {})
        many = isinstance(value, (list, tuple))
        step = tracker.step()
        results = []
        for i, part in enumerate(value if many else [value]):
            draft = joined([*parts, *constant])
            draft.value, draft.bound = part, bounds[i] if many and bounds is not None else bounds
            draft.grade = None if grades is None else (grades[i] if many else grades).round().to(torch.uint8)
            twice = clash(call) if clash else None
            if twice is not None and twice.any():
                draft.grade = torch.where(twice, NOT_EXACT, draft.grades).to(torch.uint8)
            results.append(tracker.settle(call, draft, arithmetic=False, number=step))
        return type(value)(results) if many else results[0]

    return rule


def _moved(
    call: Call, names: tuple[str, ...], states: dict[int, State], pick: Callable[[State], Any], more: Any
) -> Any:
    """The same operator on something else that is known of every element."""
    return call.run(**{name: _picked(call.arguments[name], states, pick) for name in names}, **more)


def _picked(tree: Any, states: dict[int, State], pick: Callable[[State], Any]) -> Any:
    if isinstance(tree, torch.Tensor):
        return pick(states[id(tree)])
    return [_picked(x, states, pick) for x in tree] if isinstance(tree, (list, tuple)) else tree


def where(tracker: Tracker, call: Call) -> Any:
    """A choice between elements by a mask: an element whose mask is not exact is not either."""
    condition, states = call.arguments["condition"], [call.state("self"), call.state("other")]
    value = call.run(**{n: s.value for n, s in zip(("self", "other"), states, strict=True)})
    draft = joined(states)
    draft.value = value
    if not all(state.single for state in states):
        draft.bound = torch.where(condition, *[torch.as_tensor(state.bounds) for state in states]).expand(value.shape)
    mask = tracker.ledger.doubtful(condition)
    if states[0].exponent != states[1].exponent:  # one that nothing is taken from has no say in the quantum
        pairs = zip(states, (condition, ~condition), strict=True)
        draft.exponent = min((state.exponent for state, chosen in pairs if _takes(state, chosen)), default=NEUTRAL)
    if not all(state.clean for state in states):
        draft.grade = torch.where(condition, *[state.grades for state in states]).expand(value.shape)
    if mask is not None:
        doubt = torch.where(mask.grades > 0, NOT_EXACT, 0).expand(value.shape)
        draft.grade = torch.maximum(draft.grades, doubt.to(torch.uint8))
        draft.cause = draft.cause or mask.cause
    return tracker.settle(call, draft, arithmetic=False)


def _takes(state: State, chosen: Any) -> bool:
    """Whether an exact element that has any terms is among those chosen."""
    if state.dead:
        return False
    bound = torch.as_tensor(state.value if state.bound is None else state.bound)
    exact = bound != 0 if state.grade is None else (bound != 0) & (state.grade == 0)
    return bool((exact & chosen).any())


def gather(tracker: Tracker, call: Call) -> Any:
    """Elements by their places: one whose place is not exact is not either."""
    state, places = call.state("self"), tracker.ledger.doubtful(call.arguments["index"])
    draft = joined([state])
    draft.value, draft.bound = call.run(), None if state.bound is None else call.run(self=state.bound)
    if not state.clean:
        draft.grade = call.run(self=state.grades)
    if places is not None:
        draft.grade = torch.maximum(draft.grades, torch.where(places.grades > 0, NOT_EXACT, 0).to(torch.uint8))
        draft.cause = draft.cause or places.cause
    return tracker.settle(call, draft, arithmetic=False)


def cast(tracker: Tracker, call: Call) -> Any:
    """A conversion: rounded once where the new format has fewer bits; to integers, the fraction dropped."""
    state, value = call.state("self"), call.run()
    if value.dtype != torch.float64:
        if not value.is_floating_point() and not value.is_complex():
            grade = None if state.clean else doubtful(state.grades)
            if value.dtype != torch.bool:  # what is beyond the integers becomes one or another
                lost = value.to(torch.float64) != state.value.trunc()
                grade = torch.where(lost, NOT_EXACT, 0 if grade is None else grade)
            tracker.integers(value, grade, [state])
            return value
        return unknown(tracker, call, f"a conversion to {value.dtype}")
    draft = joined([state])
    draft.value, draft.bound = value, None if state.bound is None else state.bound.clone()
    draft.grade = None if state.clean else state.grades.clone()
    return tracker.settle(call, draft, arithmetic=False)


def copied(tracker: Tracker, call: Call) -> Any:
    """An operator that changes no element's modulus, and keeps its place."""
    state = call.state("self")
    draft = joined([state])
    draft.value, draft.bound = call.run(), None if state.bound is None else state.bound.clone()
    draft.grade = None if state.clean else state.grades.clone()
    return tracker.settle(call, draft, arithmetic=False)
