"""Whether what a reference returns depends on what it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ProgramError
from zeroulp.track.backend import torch
from zeroulp.track.dyadic import power
from zeroulp.track.grades import Grade, Operation
from zeroulp.track.target_run import native
from zeroulp.track.tracked import track_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroulp.track.tracked import Output, Tracked

LEAST_SHARE = 0.01
"""Share of the exact elements that have to change with the operands, for a program to be live."""

LIVELY = 0.25
"""Share of the exact elements that change, from which on nobody looks any closer."""

_FEW = 64  # elements that mostly tell
_NOISE = -30  # log2 of what float64 may add to an element beside its bound, far above its rounding
_NATIVE_NOISE = -12  # the least that is taken for it in the contract's formats


@dataclass(frozen=True)
class OperandLiveness:
    """
    What depends on one operand.

    Args:
        name: The operand.
        share: Share of the exact elements returned that changed in one redraw or another, and that are not what they
            would be without the operand: else they may be exact because it adds nothing to them.
        read: Whether any operation looked at its elements.
        cut: Where the difference vanished: the operation after the last one whose result showed it, or the first
            one that read the operand if none did; None: nowhere, or it was not read.
    """

    name: str
    share: float
    read: bool
    cut: Operation | None

    @property
    def live(self) -> bool:
        """Whether anything changed."""
        return self.share > 0.0


@dataclass(frozen=True)
class Liveness:
    """
    What depends on which operand.

    Args:
        share: Share of the exact elements returned that changed with one operand or another.
        exact: How many exact elements there are.
        operands: One by one, in order; those that were redrawn.
        constant: Indices of outputs all of whose exact elements are one number.
        cut: Of the operand that vanished last, if nothing depends on any.
    """

    share: float
    exact: int
    operands: tuple[OperandLiveness, ...]
    constant: tuple[int, ...]
    cut: Operation | None

    @property
    def vacuous(self) -> str:
        """Why equal bits would say nothing, in one line; empty if they would."""
        if self.share >= LEAST_SHARE:
            return ""
        if not self.exact:
            return "no element is exact"
        changed = f"{self.share:.1%} of the elements change" if self.share else "no element changes"
        where = f"; the difference vanishes in operation {self.cut.number}, {self.cut.name}" if self.cut else ""
        return f"{changed} when the operands do{where}"


def liveness(tracked: Tracked, redrawn: Mapping[str, Sequence[Any]], *, quickly: bool = False) -> Liveness:
    """
    Redraw each operand alone, and see which elements change.

    Args:
        tracked: A program that was tracked.
        redrawn: For each operand that is to be looked at, a few other drawings of it, of the same shape and type.
        quickly: Look no further at an operand with which many elements change in the contract's own formats.

    Returns:
        Shares of the exact elements (of grades other than NOT_EXACT) that change.

    Raises:
        ProgramError: If a redrawn operand is unlike the one it stands for, or the shape of a result depends on it.
    """
    masks = [output.grade < int(Grade.NOT_EXACT) for output in tracked.outputs]
    changed_by_any = [torch.zeros_like(mask) for mask in masks]
    rows = []
    for name, drawings in redrawn.items():
        changed = [torch.zeros_like(mask) for mask in masks]
        for drawing in drawings:
            parts = changes(tracked, {name: drawing}, quickly=quickly)
            changed = [total | part for total, part in zip(changed, parts, strict=True)]
            if quickly and _share(changed, masks) >= LIVELY:
                break
        if _share(changed, masks):
            changed = [mask & part for mask, part in zip(changed, _shown(tracked, name, quickly=quickly), strict=True)]
        share = _share(changed, masks)
        cut = None if share or name in tracked.unread else vanishing(tracked, name, drawings)
        rows.append(OperandLiveness(name, share, name not in tracked.unread, cut))
        changed_by_any = [total | part for total, part in zip(changed_by_any, changed, strict=True)]
    share = _share(changed_by_any, masks)
    cuts = [row.cut for row in rows if row.cut is not None]
    constant = [i for i, output in enumerate(tracked.outputs) if _constant(output, masks[i])]
    last = max(cuts, key=lambda operation: operation.number, default=None)
    exact = sum(int(mask.count_nonzero()) for mask in masks)
    return Liveness(share, exact, tuple(rows), tuple(constant), None if share else last)


def changes(tracked: Tracked, operands: Mapping[str, Any], *, quickly: bool = False) -> list[Any]:
    """
    Which exact elements are different when the program runs on other operands.

    Args:
        tracked: A program that was tracked.
        operands: Other drawings of some of its operands, of the same shapes and types.
        quickly: Run it in the contract's own formats, if many elements change by more than these may be off.

    Returns:
        For each output a mask: of a grade other than NOT_EXACT, and changed.

    Raises:
        ProgramError: As `liveness` does.
    """
    program = tracked.program
    other = {name: _alike(name, program.operands, drawing) for name, drawing in operands.items()}
    before = [output.values for output in tracked.outputs]
    masks = [output.grade < int(Grade.NOT_EXACT) for output in tracked.outputs]
    if quickly and (after := native(program, operands={**program.operands, **other})) is not None:
        _same_shapes(", ".join(operands), before, after)
        pairs = zip(tracked.outputs, after, masks, strict=True)
        found = [_differ_natively(tracked, output, values) & mask for output, values, mask in pairs]
        if _share(found, masks) >= LIVELY:
            return found
    after = program.plain({**program.operands, **other})
    _same_shapes(", ".join(operands), before, after)
    return [_differ(o, values) & mask for o, values, mask in zip(tracked.outputs, after, masks, strict=True)]


def _shown(tracked: Tracked, name: str, *, quickly: bool) -> list[Any]:
    """Which exact elements are different when an operand is all zeros; all, where the program does not run on such."""
    try:
        return changes(tracked, {name: torch.zeros_like(tracked.program.operands[name])}, quickly=quickly)
    except ProgramError:
        return [torch.ones_like(output.grade, dtype=torch.bool) for output in tracked.outputs]


def _alike(name: str, operands: Mapping[str, Any], drawing: Any) -> Any:
    if name not in operands:
        raise ProgramError(f"there is no operand {name!r} to redraw", do=f"there are {', '.join(operands)}")
    if drawing.shape != operands[name].shape or drawing.dtype != operands[name].dtype:
        found, wanted = ((tuple(t.shape), str(t.dtype)) for t in (drawing, operands[name]))
        raise ProgramError(f"operand {name!r} was redrawn as {found}, and it is {wanted}")
    return drawing


def _same_shapes(name: str, before: Sequence[Any], after: Sequence[Any]) -> None:
    shapes = [[tuple(tensor.shape) for tensor in tensors] for tensors in (before, after)]
    if shapes[0] != shapes[1]:
        raise ProgramError(
            f"the reference returns shapes that depend on the values of {name!r}: {shapes[0]}, then {shapes[1]}",
            why="a kernel is told beforehand where its results go",
            do="return tensors of fixed shapes, what is not used filled with zeros",
        )


def _differ(output: Output, after: Any) -> Any:
    before = output.values
    if before.dtype != torch.float64:
        return before != after
    near = torch.maximum(output.bound, after.abs()) * power(_NOISE)
    both_nan = torch.isnan(before) & torch.isnan(after)
    return ~((before - after).abs() <= near) & (before != after) & ~both_nan


def _differ_natively(tracked: Tracked, output: Output, after: Any) -> Any:
    if output.format is None:
        return output.values != after
    bits = min(output.format.precision, tracked.program.arithmetic.sum_bits(output.format))
    return (output.values - after).abs_().mul_(power(min(bits - 2, -_NATIVE_NOISE))) > output.bound


def _share(changed: Sequence[Any], masks: Sequence[Any]) -> float:
    count = sum(int(mask.count_nonzero()) for mask in masks)
    return sum(int(mask.count_nonzero()) for mask in changed) / count if count else 0.0


def _constant(output: Output, mask: Any) -> bool:
    values = output.values.reshape(-1) if bool(mask.all()) else output.values[mask]
    few = values[:_FEW]
    return values.numel() > 1 and bool((few == values[0]).all()) and bool((values == values[0]).all())


def vanishing(tracked: Tracked, name: str, drawings: Sequence[Any]) -> Operation | None:
    """
    Where the difference vanishes when an operand is redrawn.

    Args:
        tracked: A program that was tracked.
        name: Of the operand; an operation reads it.
        drawings: Other drawings of it.

    Returns:
        The operation after the last one whose result differs by more than rounding, exact or not, or the first that
        reads the operand if none does; None if the last one differs.
    """
    first = track_program(tracked.program, digest=True).operations
    read = tracked.reads[name]
    last = next((i for i, operation in enumerate(first) if operation.number >= read), len(first)) - 1
    for drawing in drawings:
        second = track_program(tracked.program, {**tracked.program.operands, name: drawing}, digest=True).operations
        last = max([last, *_unlike(first, second)])
    return first[last + 1] if last + 1 < len(first) else None


def _unlike(first: Sequence[Operation], second: Sequence[Operation]) -> list[int]:
    """Which operations of two runs have different results, beside what rounds in float64 on the way."""
    found, largest = [], 0.0
    for i, (one, other) in enumerate(zip(first, second, strict=False)):
        pairs = list(zip(one.digest or (), other.digest or (), strict=False))
        largest = max([largest, *(abs(number) for pair in pairs for number in pair if math.isfinite(number))])
        near = largest * power(_NOISE)
        if any(a != b and not abs(a - b) <= near and not (math.isnan(a) and math.isnan(b)) for a, b in pairs):
            found.append(i)
    return found
