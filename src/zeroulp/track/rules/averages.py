"""Sums of the elements of one tensor, and averages: an exact sum, and one division."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import torch
from zeroulp.track.rules.base import NOT_EXACT, unknown
from zeroulp.track.rules.bounds import Bounds, SumOfModuli
from zeroulp.track.rules.multilinear import multilinear
from zeroulp.track.rules.products import divided_by_count
from zeroulp.track.rules.selection import selection_of_bags
from zeroulp.track.state import State, joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker


def _total(state: State, add: Callable[[Any], Any], moduli: SumOfModuli | None = None) -> State:
    """The state of a sum of elements of one tensor; *moduli*: that of their moduli, where there is a short way."""
    draft = joined([state])
    draft.value, draft.factors = add(state.value), None
    draft.dead = state.dead
    if moduli and state.single:
        draft.bound = moduli.result()
    elif not state.dead:
        bounds = Bounds(lambda moduli: [add(moduli["self"])], {"self": state}, sums=True)
        draft.bound, _ = bounds.of(0, draft.exponent)
    if not state.clean and not state.dead:
        reached = add((state.grades > 0).to(torch.float64)) > 0
        draft.grade = torch.where(reached, NOT_EXACT, 0).to(torch.uint8)
    return draft


def _over_dims(tracker: Tracker, call: Call) -> State:
    """The state of the sum of the argument over some dimensions, or all."""
    dims, keep = call.arguments.get("dim") or None, call.arguments.get("keepdim", False)

    def add(values: Any) -> Any:
        return values.sum() if dims is None and not keep else values.sum(dims, keepdim=keep)

    values = call.arguments["self"]
    moduli = SumOfModuli(values, add, dims, keep=keep) if values.dtype == torch.float64 else None
    if moduli and moduli.aside:
        tracker.ledger.look(values, moduli.aside)
    return _total(call.state("self"), add, moduli)


def total(tracker: Tracker, call: Call) -> Any:
    """The sum of all elements, or over some dimensions."""
    if call.arguments["dtype"] not in {None, torch.float64}:
        return unknown(tracker, call, f"a sum as {call.arguments['dtype']}")
    return tracker.settle(call, _over_dims(tracker, call))


def mean(tracker: Tracker, call: Call) -> Any:
    """Over all elements, or over some dimensions."""
    added = _over_dims(tracker, call)
    if not added.value.numel():
        return unknown(tracker, call, "a mean of nothing")
    return divided_by_count(tracker, call, added, call.arguments["self"].numel() // added.value.numel())


def pool(tracker: Tracker, call: Call) -> Any:
    """Over windows, which may reach beyond the edge."""
    state, dims = call.state("self"), 3 if "3d" in call.name else 2
    added = _total(state, lambda values: call.run(self=values, divisor_override=1))
    if (override := call.arguments["divisor_override"]) is not None:
        return divided_by_count(tracker, call, added, override)
    shape = [1] * (state.value.dim() - dims) + list(state.value.shape[-dims:])
    ones = torch.ones(shape, dtype=torch.float64, device=state.value.device)
    within, share = call.run(self=ones, divisor_override=1), call.run(self=ones)
    counts = torch.where(within > 0, (within / share).round(), 1.0)  # windows that see padding alone: 0 / anything
    return divided_by_count(tracker, call, added, _single(counts))


def adaptive_pool(tracker: Tracker, call: Call) -> Any:
    """Over windows that share the input out."""
    state, out = call.state("self"), call.arguments["output_size"]
    sizes = state.value.shape[-len(out) :]
    edges = [[(i * n // o, -(-(i + 1) * n // o)) for i in range(o)] for n, o in zip(sizes, out, strict=True)]
    counts = torch.ones((), dtype=torch.float64, device=state.value.device)
    for axis in edges:
        widths = torch.tensor([stop - start for start, stop in axis], dtype=torch.float64, device=counts.device)
        counts = counts.unsqueeze(-1) * widths

    def add(values: Any) -> Any:
        for axis, windows in zip(range(-len(out), 0), edges, strict=True):
            sums = [values.narrow(axis, start, stop - start).sum(axis, keepdim=True) for start, stop in windows]
            values = torch.cat(sums, axis)
        return values

    return divided_by_count(tracker, call, _total(state, add), _single(counts))


def _single(counts: Any) -> Any:
    """One number, if they are all the same."""
    first = float(counts.flatten()[0]) if counts.numel() else 1.0
    return first if bool((counts == first).all()) else counts


def pool_backward(tracker: Tracker, call: Call) -> Any:
    """Shares of a gradient, added up where windows overlap: a quotient each, and their sum."""
    ceil, pads = call.arguments["ceil_mode"], call.arguments["count_include_pad"]
    given, sizes = call.arguments["divisor_override"], call.arguments["kernel_size"]
    if given is None and (ceil or not pads):
        return unknown(tracker, call, "shares of windows of several sizes")
    if call.arguments["divisor_override"] == 1:
        return _SHARES(tracker, call)
    whole = given or math.prod(sizes * (3 if "3d" in call.name else 2) if len(sizes) == 1 else sizes)
    with tracker.part_of(call), tracker:
        shares = call.arguments["grad_output"] / whole
        return call.run(grad_output=shares, divisor_override=1)


_SHARES = multilinear("grad_output")
_BAG_SUM = multilinear("weight*per_sample_weights", "", "", "")


def embedding_bag(tracker: Tracker, call: Call) -> Any:
    """Sums, averages or maxima of rows."""
    mode = call.arguments["mode"]
    if mode == 0:
        return _BAG_SUM(tracker, call)
    if call.doubts() is not None or call.arguments["per_sample_weights"] is not None:
        return unknown(tracker, call, "bags of rows whose indices are not exact, or which are weighted")
    if mode == 2:
        return selection_of_bags(tracker, call)
    state, others = call.state("weight"), call.run(mode=0)[1:]
    added = _total(state, lambda values: call.run(weight=values, mode=0)[0])
    counts = call.run(weight=torch.ones_like(state.value[:, :1]), mode=0)[0].clamp(min=1)
    return divided_by_count(tracker, call, added, _single(counts)), *others
