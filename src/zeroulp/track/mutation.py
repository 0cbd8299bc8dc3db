"""Operators that write into a tensor: as if they made a new one, which is then copied there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import torch
from zeroulp.track.call import METADATA, tensors_in
from zeroulp.track.grades import Ending
from zeroulp.track.settling import store, widen_rounded
from zeroulp.track.state import State, of_number

if TYPE_CHECKING:
    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker

_OTHERS = {"_index_put_impl_": "index_put"}


def mutate(tracker: Tracker, call: Call) -> Any:
    """Run an operator that writes, and enter what is known of what it wrote to."""
    if call.name in METADATA:
        return call.run()
    written = [a.name for a in call.func._schema.arguments if a.alias_info and a.alias_info.is_write]  # noqa: SLF001
    target = call.arguments[written[0]]
    if any(tensor.is_complex() for tensor in call.tensors()):
        return _untracked(tracker, call, written)
    if call.name in {"zero_", "fill_", "copy_"}:
        source = {
            "zero_": lambda: of_number(0),
            "fill_": lambda: call.state("value"),
            "copy_": lambda: call.state("src"),
        }
        known = source[call.name]()
        if target.dtype == torch.float64:
            _overwrite(tracker, call, target, known)
        else:
            call.run()
            tracker.ledger.write(target, replace(known, bound=None))
        return target
    made = _afresh(tracker, call, written) if len(written) == 1 and isinstance(target, torch.Tensor) else None
    if made is None:
        return _untracked(tracker, call, written)
    if target.shape != made.shape:
        target.resize_(made.shape)
    known = tracker.ledger.state(made)
    if target.dtype == torch.float64:
        _overwrite(tracker, call, target, known)
    else:
        target.copy_(made)
        tracker.ledger.write(target, replace(known, bound=None))
    return target


def _overwrite(tracker: Tracker, call: Call, target: Any, source: State) -> None:
    """Copy what *source* says over a tensor of float64, in the format that the program stores it in."""
    value = torch.as_tensor(source.value, dtype=torch.float64).to(target.device)
    bound = None if source.single or source.dead else source.bound.to(target.device, copy=True)
    format_ = tracker.ledger.format(target)
    value = value if source.dead or source.format is format_ else value.clone()
    draft = replace(source, value=value, bound=bound, format=format_)
    if not source.dead:
        if source.format is not None:
            widen_rounded(draft, [source.format])
        if source.format is not format_:
            store(draft, tracker.arithmetic, tracker.loser(call, draft, tracker.number))
    target.copy_(draft.value)
    tracker.ledger.write(target, draft)


def _afresh(tracker: Tracker, call: Call, written: list[str]) -> Any:
    """The same without writing, as the operator's functional counterpart gives it; None if there is none."""
    func = call.func
    space, packet = getattr(torch.ops, func.namespace), func.overloadpacket
    if call.name.endswith("_"):
        packet = getattr(space, _OTHERS.get(call.name, call.name.removesuffix("_")), None)
        found = getattr(packet, func._overloadname, None)  # noqa: SLF001
    else:
        names = [name for name in call.arguments if name not in written]
        overloads = [getattr(packet, name) for name in packet.overloads()]
        found = next((overload for overload in overloads if _names(overload) == names), None)
    if found is None or found._schema.is_mutable:  # noqa: SLF001
        return None
    arguments = found._schema.arguments  # noqa: SLF001
    positional = [call.arguments[a.name] for a in arguments if not a.kwarg_only]
    with tracker:
        return found(*positional, **{a.name: call.arguments[a.name] for a in arguments if a.kwarg_only})


def _names(overload: Any) -> list[str]:
    return [argument.name for argument in overload._schema.arguments]  # noqa: SLF001


def _untracked(tracker: Tracker, call: Call, written: list[str]) -> Any:
    result = call.run()
    spoilt = list(tensors_in([call.arguments[name] for name in written], result))
    if call.floats or call.doubts() or any(tensor.is_complex() for tensor in spoilt):
        number = tracker.step()
        tracker.unknown.setdefault(call.label, number)
        ending = Ending(number, call.label, "an operator that is not in the table", sum(t.numel() for t in spoilt))
        tracker.endings.append(ending)
        for tensor in spoilt:
            tracker.ledger.spoil(tensor, ending)
    return result
