"""
Whether a reference in which nothing is exact depends on what it is given: it is run on numbers as they occur.

Inputs from 0 to 1, weights as layers are initialised: rows of a norm of about 1, normal biases. A kernel that ignores
its inputs would pass any comparison with a tolerance where too little changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import sample, track
from zeroulp.draw import Seed
from zeroulp.errors import ProgramError
from zeroulp.sample.pattern import latin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from zeroulp.problem import Tensor
    from zeroulp.track import Tracked

_FIRST = 1 << 33  # numbers of drawings that are no trials
_REDRAWN = 2
_ROUNDING = 2.0**-40  # of the largest number on the way: no more than rounding in float64 adds up to
_LITTLE = 0.01  # of the largest element
_WHOLE = 100  # different numbers of an operand of integers
_NORMAL = 12  # uniform numbers whose sum has a deviation of 1


@dataclass(frozen=True)
class Insensitive:
    """
    What a reference does not depend on.

    Args:
        output: Why its output depends on no operand, or on the inputs too little, in a sentence; empty if it does.
        operands: For each operand that never matters: where what it changes vanishes.
    """

    output: str = ""
    operands: dict[str, str] = field(default_factory=dict)

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """(reason, remedy) pairs, for a report."""
        mend = "mend the reference: any kernel that returns this passes a comparison with a tolerance"
        leave = "leave it out, or mend the reference"
        found = [(f"vacuous: {self.output}", mend)] if self.output else []
        found += [(f"vacuous: operand {name} never matters: {why}", leave) for name, why in self.operands.items()]
        return tuple(found)


def insensitive(
    reference: Callable[..., Any],
    tensors: Sequence[Tensor],
    seed: int,
    given: Mapping[str, Any] | None = None,
    **clauses: Any,
) -> Insensitive:
    """
    Look for what does not matter.

    Args:
        reference: Run in float64, a few times for every operand.
        tensors: The operands.
        seed: Of the drawings.
        given: Operands that are known: PyTorch's tensors by name.
        clauses: Of the contract, as `zeroulp.track.track` takes them.

    Returns:
        What was found; nothing if the reference does not run on such numbers.
    """
    base, *others = [_drawn(tensors, Seed(seed, _FIRST + number)) for number in range(1 + _REDRAWN)]
    base.update({name: value.to(base[name].dtype) for name, value in (given or {}).items()})
    try:
        tracked = track.track(reference, base, **clauses)
        return _found(tensors, track.track_program(tracked.program, digest=True), others)
    except ProgramError:
        return Insensitive()


def _found(tensors: Sequence[Tensor], tracked: Tracked, others: Sequence[dict[str, Any]]) -> Insensitive:
    numbers = [abs(number) for each in tracked.operations for number in (each.digest or ())[:2]]
    noise = _ROUNDING * max((number for number in numbers if math.isfinite(number)), default=0.0)
    dead: dict[str, Any] = {}
    for name in (tensor.name for tensor in tensors):
        if max(_change(tracked, {name: other[name]}) for other in others) <= noise:
            drawings = [other[name] for other in others]
            dead[name] = None if name in tracked.unread else track.vanishing(tracked, name, drawings)
    latest = max((cut for cut in dead.values() if cut), key=lambda cut: cut.number, default=None)
    where = f"; the difference vanishes in operation {latest.number}, {latest.name}" if latest else ""
    if len(dead) == len(tensors):
        return Insensitive(f"no element changes when the operands do, but by rounding{where}")
    operands = {name: _where(tracked, name, cut) for name, cut in dead.items()}
    inputs = [tensor.name for tensor in tensors if tensor.role == "input"]
    if inputs and all(name in dead for name in inputs):
        return Insensitive(f"no element changes when the inputs do, but by rounding{where}", operands)
    size = float(np.abs(_outputs(tracked, {})).max(initial=0.0)) or 1.0
    share = max(_change(tracked, {name: other[name] for name in inputs}) for other in others) / size
    if not inputs or share >= _LITTLE:
        return Insensitive(operands=operands)
    amount = f"change the output by {share:.1g} of its largest element"
    return Insensitive(f"all inputs together {amount}, on numbers from 0 to 1", operands)


def _where(tracked: Tracked, name: str, cut: Any) -> str:
    if name in tracked.unread:
        return "no operation of the reference reads it"
    return f"what it changes vanishes in operation {cut.number}, {cut.name}" if cut else "what it changes is rounding"


def _outputs(tracked: Tracked, changed: dict[str, Any]) -> NDArray[np.float64]:
    """All outputs of the reference in float64, one after the other."""
    found = tracked.program.plain({**tracked.program.operands, **changed})
    return np.concatenate([np.asarray(tensor.cpu().double().numpy()).ravel() for tensor in found])


def _change(tracked: Tracked, changed: dict[str, Any]) -> float:
    """The largest change of an output; infinite where NaN or infinity comes or goes."""
    before, after = (_outputs(tracked, each) for each in ({}, changed))
    if before.shape != after.shape:
        return math.inf
    with np.errstate(invalid="ignore"):
        difference = np.abs(np.where((before == after) | (np.isnan(before) & np.isnan(after)), 0.0, before - after))
    return float(np.where(np.isnan(difference), math.inf, difference).max(initial=0.0))


def _drawn(tensors: Sequence[Tensor], seed: Seed) -> dict[str, Any]:
    return sample.as_tensors(tensors, {tensor.name: _numbers(tensor, seed) for tensor in tensors})


def _numbers(tensor: Tensor, seed: Seed) -> NDArray[Any]:
    """Elements of one operand, as they occur."""
    shape, stream, count = tensor.shape, seed.stream(tensor.name), math.prod(tensor.shape)
    if tensor.role == "mask":
        return np.asarray(stream.chosen(0.5, shape))
    if tensor.below is not None:
        if tensor.distinct:
            return latin(stream, shape, tensor.below)
        return np.asarray(stream.below(tensor.below, shape)).astype(np.int64)
    uniform = (stream.words(count)[:count] / 2.0**32).reshape(shape)
    if tensor.number_format is not None and tensor.number_format.is_integer:
        return np.asarray(np.floor(uniform * _WHOLE) - _WHOLE // 2).astype(np.int64)
    if tensor.role != "weight":
        return np.asarray(uniform)
    if (row := math.prod(shape[1:])) > 1:
        return np.asarray((2 * uniform - 1) / math.sqrt(row))
    return np.asarray(stream.words(_NORMAL * count).reshape(*shape, _NORMAL).sum(-1) / 2.0**32 - _NORMAL / 2)
