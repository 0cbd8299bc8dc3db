"""Operators that write, add or choose at places that integers name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import aten, torch
from zeroulp.track.rules.base import unknown
from zeroulp.track.rules.multilinear import multilinear
from zeroulp.track.rules.selection import chosen, equal_in_row, pairwise, reduction
from zeroulp.track.rules.structural import structural

if TYPE_CHECKING:
    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker


def _written_twice(call: Call, func: Any, *args: Any, **kwargs: Any) -> Any:
    """Places where ones add up to more than one."""
    return func(torch.zeros_like(call.arguments["self"], dtype=torch.float64), *args, **kwargs) > 1


def _scatter_clash(call: Call) -> Any:
    index = call.arguments["index"]
    ones = torch.ones(index.shape, dtype=torch.float64, device=index.device)
    return _written_twice(call, aten.scatter_add.default, call.arguments["dim"], index, ones)


def _put_clash(call: Call) -> Any:
    ones = torch.ones((), dtype=torch.float64, device=call.arguments["self"].device)
    return _written_twice(call, aten.index_put.default, call.arguments["indices"], ones, accumulate=True)


def index_copied(call: Call) -> Any:
    """Elements that a copy by indices writes twice."""
    source = call.arguments["source"]
    ones = torch.ones_like(source, dtype=torch.float64)
    return _written_twice(call, aten.index_add.default, call.arguments["dim"], call.arguments["index"], ones)


_SCATTER = structural("self", "src", clash=_scatter_clash)
_SCATTER_NUMBER = structural("self", fill="value")
_PUT = structural("self", "values", clash=_put_clash)
_PUT_ADDED = multilinear("self + values")
_ADDED = multilinear("self + src")
_SEGMENTS = multilinear("data")
_REDUCED = reduction(equal_in_row)


def scattered(tracker: Tracker, call: Call) -> Any:
    """Elements put at places, or one number."""
    if call.arguments.get("reduce") is not None:
        return unknown(tracker, call, "elements multiplied or added at places, by an old name")
    return (_SCATTER_NUMBER if "value" in call.arguments else _SCATTER)(tracker, call)


def index_put(tracker: Tracker, call: Call) -> Any:
    """Elements assigned at places, or added there."""
    return (_PUT_ADDED if call.arguments["accumulate"] else _PUT)(tracker, call)


def scatter_reduce(tracker: Tracker, call: Call) -> Any:
    """Sums, or the largest or smallest, of what falls on each place."""
    if call.arguments["reduce"] == "sum":
        return _ADDED(tracker, call)
    states = [call.state("self"), call.state("src")]
    clean = all(state.clean for state in states) and call.doubts() is None
    if call.arguments["reduce"] not in {"amax", "amin"} or not clean:
        return unknown(tracker, call, "averages or products at places, or extremes of what is not exact")
    return tracker.settle(call, chosen(states, call.run(), None), arithmetic=False)


def segment_reduce(tracker: Tracker, call: Call) -> Any:
    """Sums of segments."""
    if call.arguments["reduce"] != "sum" or call.arguments["initial"] is not None:
        return unknown(tracker, call, "segments that are not added up, or not from 0")
    return _SEGMENTS(tracker, call)


def extreme(tracker: Tracker, call: Call) -> Any:
    """The larger of two, or the largest of all, or of each row."""
    return (pairwise if "other" in call.arguments else _REDUCED)(tracker, call)
