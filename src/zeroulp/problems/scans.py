"""Along an axis: reductions, running sums, sums within segments."""

from __future__ import annotations

from typing import Any

from zeroulp.errors import UnknownNameError, UsageError
from zeroulp.problem import Linear, Tensor
from zeroulp.problems.reference import problem, reference

REDUCTIONS = ("sum", "mean", "sum of squares", "prod", "amax", "amin", "argmax", "argmin")


def Reduce(
    shape: tuple[int, ...],
    axis: int | tuple[int, ...] = -1,
    *,
    kind: str = "sum",
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    A reduction along axes.

    Args:
        shape: Of x.
        axis: What is reduced: one axis or several; argmax and argmin have one.
        kind: ``"sum"``, ``"mean"``, ``"sum of squares"``, ``"prod"``, ``"amax"``, ``"amin"``, ``"argmax"`` or
            ``"argmin"``.
        format: Of x, and of the output but for places, which are int64.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem. Sums are exact while they fit, and a mean of 2^j elements too. Another mean leans on its division:
        it takes ``division="last"``, and of its results only those that no way to divide can miss are compared.
        Extremes are exact always, their places where no other element is equal.

    Raises:
        UsageError: If there is no such axis or kind.
    """
    axes = _axes(shape, axis)
    if kind not in REDUCTIONS:
        raise UnknownNameError("kind of reduction", kind, REDUCTIONS)
    if len(axes) > 1 and kind in ("prod", "argmax", "argmin"):
        raise UsageError(f"{kind} along {len(axes)} axes", do="one axis")
    arguments = {"axes": axes, "kind": kind}
    return problem(reduction, arguments, [Tensor("x", shape, format)], name=kind, format=format, contract=contract)


def _axes(shape: tuple[int, ...], axis: int | tuple[int, ...]) -> list[int]:
    axes = [axis] if isinstance(axis, int) else list(axis)
    rank = len(shape)
    if not axes or any(not -rank <= one < rank for one in axes) or len({one % rank for one in axes}) < len(axes):
        raise UsageError(f"axis {axis} of the shape {shape}", do=f"from {-rank} to {rank - 1}, each once")
    return axes


@reference
def reduction(torch: Any, x: Any, *, axes: list[int], kind: str) -> Any:
    """For `Reduce`."""
    if kind == "sum of squares":
        return (x.float() * x.float()).sum(axes).to(x.dtype)
    return getattr(torch, kind)(x, axes[0] if len(axes) == 1 else axes)


def Scan(
    shape: tuple[int, ...],
    axis: int = -1,
    *,
    exclusive: bool = False,
    reverse: bool = False,
    segmented: bool = False,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    Running sums along an axis.

    Args:
        shape: Of x, and of the output.
        axis: Along which.
        exclusive: Whether an element is left out of its own sum.
        reverse: Whether sums run from the end.
        segmented: Whether there is a mask first, of the same shape: a sum starts anew where it is set (in the direction
            of the sums).
        format: Of x and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem. Exact while the sum of all moduli from the start, or from that of the segment, fits. A kernel that
        takes segments from differences of running sums adds more than that: only where all of it fits is it sure to
        return the same.

    Raises:
        UsageError: If there is no such axis.
    """
    _axes(shape, axis)
    operands = [Tensor("x", shape, format), *([Tensor("first", shape, role="mask")] if segmented else [])]
    arguments = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    words = [word for word, on in (("reverse", reverse), ("exclusive", exclusive), ("segmented", segmented)) if on]
    return problem(scan, arguments, operands, name=" ".join([*words, "scan"]), format=format, contract=contract)


@reference
def scan(torch: Any, x: Any, first: Any = None, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """For `Scan`; segments by steps of 1, 2, 4, ..., as Hillis and Steele do it."""
    values, starts = x.movedim(axis, -1), None if first is None else first.movedim(axis, -1)
    if reverse:
        values, starts = values.flip(-1), None if starts is None else starts.flip(-1)
    values = _shifted(torch, values, 1) if exclusive else values
    if starts is None:
        total = torch.cumsum(values, -1)
    else:
        if exclusive:
            values = torch.where(starts, 0, values)
        total, step = values.float(), 1
        while step < values.shape[-1]:
            total = torch.where(starts, total, total + _shifted(torch, total, step))
            starts, step = starts | _shifted(torch, starts, step), 2 * step
        total = total.to(values.dtype)
    return (total.flip(-1) if reverse else total).movedim(-1, axis).contiguous()


def _shifted(torch: Any, x: Any, by: int) -> Any:
    """Elements moved towards the end, zeros before them."""
    return torch.cat([torch.zeros_like(x[..., :by]), x[..., :-by]], -1)
