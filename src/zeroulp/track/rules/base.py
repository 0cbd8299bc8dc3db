"""What a rule is, and what several kinds of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import torch
from zeroulp.track.grades import Grade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.track.call import Call
    from zeroulp.track.state import State
    from zeroulp.track.tracker import Tracker

Rule = Callable[["Tracker", "Call"], Any]
"""Runs a call, enters what is known of its results with `Tracker.settle`, and returns them."""

NOT_EXACT = int(Grade.NOT_EXACT)


def unknown(tracker: Tracker, call: Call, reason: str) -> Any:
    """Run a call of which nothing can be said."""
    result = call.run()
    tracker.give_up(call, result, reason)
    return result


def worst(states: Sequence[State], shape: Any) -> Any:
    """The worst grade, element by element, of states that broadcast to a shape; None if all are algebraic."""
    result = None
    for state in states:
        if not state.clean:
            grades = state.grades.expand(shape)
            result = grades if result is None else torch.maximum(result, grades)
    return result


def doubtful(grade: Any) -> Any:
    """Grades of what is computed from elements of these grades: exact, or not."""
    return None if grade is None else torch.where(grade > 0, NOT_EXACT, 0).to(torch.uint8)
