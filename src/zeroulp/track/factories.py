"""Tensors that a program makes of nothing: constants, and memory that nobody has written to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.track.arithmetic import FLOAT32
from zeroulp.track.backend import torch
from zeroulp.track.grades import Ending
from zeroulp.track.settling import as_constant

if TYPE_CHECKING:
    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker

EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})
PLAIN = frozenset({"zeros", "ones", "zeros_like", "ones_like", "new_zeros", "new_ones", "eye"})
LITERAL = frozenset({"lift_fresh", "full", "full_like", "new_full"})
NUMBER = frozenset({"scalar_tensor"})
COMPUTED = frozenset({"arange", "linspace", "logspace"})
FACTORIES = EMPTY | PLAIN | LITERAL | NUMBER | COMPUTED


def make(tracker: Tracker, call: Call) -> Any:
    """Run an operator that makes a tensor, and enter what is known of it."""
    result = call.run()
    if result.dtype != torch.float64:
        return result
    format_ = call.named_format or _format_like(tracker, call)
    if call.name in EMPTY:
        result.zero_()
        tracker.ledger.name_format(result, format_)
        tracker.ledger.spoil(result, Ending(tracker.number, call.label, "nobody wrote to this memory"))
    elif call.name in NUMBER:  # of Python: it takes the format of what it meets
        as_constant(tracker.ledger, result, FLOAT32)
        tracker.ledger.rename_format(result, format_)
    elif call.name in LITERAL:
        as_constant(tracker.ledger, result, format_)
    else:
        tracker.ledger.name_format(result, format_)
        if call.name in COMPUTED and not tracker.ledger.state(result).clean:
            cause = Ending(tracker.number, call.label, "its numbers have to be rounded, and each in its own way")
            tracker.ledger.spoil(result, cause)
    return result


def _format_like(tracker: Tracker, call: Call) -> Any:
    """The format of the tensor that a new one is made like; else the one that needs no name."""
    like = call.floats
    return tracker.ledger.format(like[0]) if like else tracker.ledger.storage
