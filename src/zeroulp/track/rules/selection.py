"""
Operators that choose among elements, or look at one alone, and add nothing.

What they return is data: a single term each. A kernel has to have the operands at hand
before it chooses, so no operation is merged across one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import torch
from zeroulp.track.dyadic import NEUTRAL, quantum_exponent
from zeroulp.track.rules.base import NOT_EXACT, Rule, doubtful, unknown, worst
from zeroulp.track.state import Span, State, first_cause, joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker


def chosen(states: list[State], value: Any, grade: Any) -> State:
    """What is known of elements chosen from these states."""
    draft = joined(states)
    draft.value, draft.factors = value, 1
    draft.grade, draft.cause = grade, first_cause(states)
    draft.span = Span.of(draft.exponent)
    return draft


def pointwise(*, keeps_rounded: bool, whole: bool = False) -> Rule:
    """
    A rule for functions of one element whose value is exact wherever the element is.

    Args:
        keeps_rounded: Whether they commute with rounding to nearest: monotone or odd, and exact.
        whole: Whether their values are whole numbers.
    """

    def rule(tracker: Tracker, call: Call) -> Any:
        state = call.state("self")
        value = call.run()
        grade = None if state.clean else state.grades.clone()
        draft = chosen([state], value, grade if keeps_rounded else doubtful(grade))
        if whole and draft.exponent < NEUTRAL:
            draft.exponent = max(0, draft.exponent)
            draft.span = Span.of(draft.exponent)
        return tracker.settle(call, draft, arithmetic=False)

    return rule


def pairwise(tracker: Tracker, call: Call) -> Any:
    """The larger or the smaller of two."""
    states = [call.state("self"), call.state("other")]
    value = call.run(other=states[1].value) if torch.is_tensor(call.arguments["other"]) else call.run()
    return tracker.settle(call, chosen(states, value, _copy(worst(states, value.shape))), arithmetic=False)


def clamp(tracker: Tracker, call: Call) -> Any:
    """Between two limits, which are numbers or tensors or missing."""
    limits = [name for name in ("min", "max", "min_val", "max_val") if call.arguments.get(name) is not None]
    states = [call.state("self"), *(call.state(name) for name in limits)]
    value = call.run(**{name: state.value for name, state in zip(limits, states[1:], strict=True)})
    draft = chosen(states, value, _copy(worst(states, value.shape)))
    if draft.exponent < states[0].exponent:
        exact = value if draft.grade is None else torch.where(draft.grade == 0, value, 0.0)
        draft.exponent = quantum_exponent(exact)
        draft.span = Span.of(draft.exponent)
    return tracker.settle(call, draft, arithmetic=False)


def _copy(grade: Any) -> Any:
    return None if grade is None else grade.clone()


def compare(tracker: Tracker, call: Call) -> Any:
    """Truth values: exact where what they look at is. What was rounded once is surely on the right side of 0."""
    names = [name for name in ("self", "other") if isinstance(call.arguments.get(name), (torch.Tensor, int, float))]
    states = [call.state(name) for name in names]
    zero = [not torch.is_tensor(state.value) and state.value == 0 for state in states]
    result = call.run(**{n: s.value for n, s in zip(names, states, strict=True) if not torch.is_tensor(s.value)})
    grade = worst(states, result.shape)
    if grade is not None:
        least = 1 if any(zero) and call.name in _SIDES else 0
        tracker.integers(result, torch.where(grade > least, NOT_EXACT, 0), states)
    return result


def decide(tracker: Tracker, call: Call) -> Any:
    """Integers or truth values that depend on all elements: exact if all of these are."""
    states = [tracker.ledger.state(tensor) for tensor in call.tensors()]
    if not all(state.clean for state in states):
        return unknown(tracker, call, "an answer that depends on elements that are not exact")
    return call.run()


_SIDES = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def reduction(ties: Callable[[Any, Any, Call], Any] | None = None) -> Rule:
    """
    A rule for the largest, smallest or middle element of a row.

    Args:
        ties: Where the place of the element is open, if the operator returns it too: from
            the operand, the elements chosen and the call.
    """

    def rule(tracker: Tracker, call: Call) -> Any:
        state, result = call.state("self"), call.run()
        value = result[0] if isinstance(result, tuple) else result
        grade = None if state.clean else _of_rows(state.grades, call, value)
        chosen_value = tracker.settle(call, chosen([state], value, grade), arithmetic=False)
        if not isinstance(result, tuple):
            return chosen_value
        if ties and len(result) > 1:
            doubt = ties(state.value, value, call)
            doubt = doubt if grade is None else doubt | (grade > 0)
            tracker.integers(result[1], torch.where(doubt, NOT_EXACT, 0), [state])
        return (chosen_value, *result[1:])

    return rule


def _of_rows(grades: Any, call: Call, value: Any) -> Any:
    """The worst grade in each row that a reduction looks at."""
    dims = call.arguments.get("dim")
    if dims is None or dims == []:
        return grades.amax().expand(value.shape).clone()
    return grades.amax(dims, keepdim=call.arguments.get("keepdim", False))


def equal_in_row(values: Any, picked: Any, call: Call) -> Any:
    """Whether several elements of a row equal the one that was chosen."""
    dim = call.arguments.get("dim")
    if dim is None:
        return (values == picked).sum() > 1
    keep = call.arguments.get("keepdim", False)
    return (values == (picked if keep or not values.dim() else picked.unsqueeze(dim))).sum(dim, keepdim=keep) > 1


def selection_of_bags(tracker: Tracker, call: Call) -> Any:
    """The largest elements of bags of rows."""
    state, result = call.state("weight"), call.run()
    if not state.clean:
        return unknown(tracker, call, "bags of rows that are not exact")
    value = tracker.settle(call, chosen([state], result[0], None), arithmetic=False)
    tracker.integers(result[3], torch.full_like(result[3], NOT_EXACT), [])
    return value, *result[1:]
