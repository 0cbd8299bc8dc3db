"""What an element and its neighbours make: pooling, its gradients, and stencils."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.errors import UnknownNameError, UsageError
from zeroulp.problem import Linear, Tensor
from zeroulp.problems.reference import problem, reference

if TYPE_CHECKING:
    from collections.abc import Mapping

_KINDS = ("max", "average")


def Pool(
    x: tuple[int, ...],
    window: tuple[int, ...],
    *,
    kind: str = "max",
    stride: tuple[int, ...] | None = None,
    padding: tuple[int, ...] | None = None,
    gradient: bool = False,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    The largest element, or the average, of every window.

    Args:
        x: Shape of the input: (batch, channels, extents of one to three axes).
        window: Its extents along these axes.
        kind: ``"max"`` or ``"average"``.
        stride: From window to window; default: windows that touch.
        padding: On both sides; never the largest, and a zero of an average, whose count includes it; default: none.
        gradient: Whether it is the gradient of x: the kernel gets grad, of the output's shape, and for ``"max"`` x.
        format: Of all operands and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem. Maxima are exact always; their gradients where no window has two largest. Averages over windows of
        2^j elements are exact while their sums fit; another average leans on its division, see `Reduce`.

    Raises:
        UsageError: If windows do not fit.
    """
    axes = len(x) - 2
    steps, edges = list(stride or window), list(padding or [0] * axes)
    if not 1 <= axes <= 3 or not len(window) == len(steps) == len(edges) == axes:
        raise UsageError(f"windows {window} in x {x}", do="batch, channels, and one to three extents for each")
    if kind not in _KINDS:
        raise UnknownNameError("kind of pooling", kind, _KINDS)
    extents = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(x[2:], window, steps, edges, strict=True)]
    if min(extents) < 1 or min(steps) < 1 or any(2 * p > k for k, p in zip(window, edges, strict=True)):
        raise UsageError(f"windows {window} in x {x} with padding {edges}", do="padding of half a window at most")
    arguments: dict[str, Any] = {"window": list(window), "stride": steps, "padding": edges, "kind": kind}
    inputs, name = [Tensor("x", x, format)], f"{kind}_pool{axes}d"
    if gradient:
        arguments["shape"], name = list(x), f"the gradient of {name}"
        inputs = [Tensor("grad", (*x[:2], *extents), format), *(inputs if kind == "max" else [])]
        return problem(pool_gradient, arguments, inputs, name=name, format=format, contract=contract)
    return problem(pool, arguments, inputs, name=name, format=format, contract=contract)


@reference
def pool(torch: Any, x: Any, *, kind: str, **sizes: Any) -> Any:
    """For `Pool`; one axis as two."""
    window, stride, padding, flat = _planar(sizes)
    name = {"max": "max", "average": "avg"}[kind]
    call = getattr(torch.nn.functional, f"{name}_pool{len(window)}d")
    return call(x.unsqueeze(2), window, stride, padding).squeeze(2) if flat else call(x, window, stride, padding)


def _planar(sizes: dict[str, Any]) -> tuple[list[int], list[int], list[int], bool]:
    """Window, stride and padding along two axes at least, and whether one was added."""
    flat = len(sizes["window"]) == 1
    more = ([1], [1], [0]) if flat else ([], [], [])
    window, stride, padding = (one + sizes[n] for one, n in zip(more, ("window", "stride", "padding"), strict=True))
    return window, stride, padding, flat


@reference
def pool_gradient(torch: Any, grad: Any, x: Any = None, *, kind: str, shape: list[int], **sizes: Any) -> Any:
    """The gradient of `Pool`."""
    window, stride, padding, flat = _planar(sizes)
    x = grad.new_zeros(shape) if x is None else x
    x, grad = (x.unsqueeze(2), grad.unsqueeze(2)) if flat else (x, grad)
    name, aten = f"pool{len(window)}d", torch.ops.aten
    if kind == "average":
        found = getattr(aten, f"avg_{name}_backward")(grad, x, window, stride, padding, False, True, None)
    else:
        one = [1] * len(window)
        _, places = getattr(aten, f"max_{name}_with_indices")(x, window, stride, padding, one, False)
        backward = getattr(aten, f"max_{name}_with_indices_backward")
        found = backward(grad, x, window, stride, padding, one, False, places)
    return found.squeeze(2) if flat else found


def Stencil(
    shape: tuple[int, ...],
    taps: Mapping[tuple[int, ...], float],
    *,
    steps: int = 1,
    periodic: bool = False,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    Every element becomes a sum of its neighbours.

    Args:
        shape: Of x, and of the output.
        taps: Factor of each neighbour, by its offset: ``{(0, 0): -4, (0, 1): 1, (1, 0): 1, (0, -1): 1, (-1, 0): 1}``.
        steps: How often; what each step makes is stored.
        periodic: Whether what lies beyond an edge is what begins at the other; else it is 0.
        format: Of x and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem. Exact with factors of few bits (4, 0.25, but not 0.1), while sums fit: each step costs the bits of
        the sum of all moduli of factors.

    Raises:
        UsageError: If an offset does not go with the shape.
    """
    for offset in taps:
        if len(offset) != len(shape) or any(abs(o) >= n for o, n in zip(offset, shape, strict=True)):
            raise UsageError(f"the offset {offset} in the shape {shape}", do="a whole number for each axis, below it")
    if not taps or steps < 1:
        raise UsageError(f"{len(taps)} taps and {steps} steps", do="one at least of each")
    arguments = {"taps": [[list(offset), factor] for offset, factor in taps.items()], "steps": steps}
    arguments["periodic"] = periodic
    return problem(stencil, arguments, [Tensor("x", shape, format)], name="stencil", format=format, contract=contract)


@reference
def stencil(torch: Any, x: Any, *, taps: list[Any], steps: int, periodic: bool) -> Any:
    """For `Stencil`."""
    axes, shape = list(range(x.dim())), x.shape
    edges = [max(abs(offset[axis]) for offset, _ in taps) for axis in axes]
    for _ in range(steps):
        wide = torch.nn.functional.pad(x, [edge for edge in reversed(edges) for _ in "ab"])
        parts = []
        for offset, factor in taps:
            if periodic:
                moved = torch.roll(x, [-o for o in offset], axes)
            else:
                moved = wide[tuple(slice(e + o, e + o + n) for e, o, n in zip(edges, offset, shape, strict=True))]
            parts.append(factor * moved)
        x = sum(parts[1:], start=parts[0])
    return x
