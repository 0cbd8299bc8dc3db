"""Convolutions along one, two or three axes, transposed ones too, and their gradients."""

from __future__ import annotations

from typing import Any

from zeroulp.errors import UnknownNameError, UsageError
from zeroulp.problem import Linear, Tensor
from zeroulp.problems.reference import problem, reference

_GRADIENTS = ("", "x", "w")


def Conv(
    x: tuple[int, ...],
    w: tuple[int, ...],
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: int | tuple[int, ...] = 0,
    bias: bool = False,
    gradient: str = "",
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    A convolution, or one of its gradients.

    Args:
        x: Shape of the input: (batch, channels, extents of one to three axes).
        w: Shape of the weight: (channels out, channels in / groups, extents), or, transposed, (channels in,
            channels out / groups, extents). Depthwise: as many groups as channels.
        stride: Of all axes, or of each; likewise the other three.
        padding: With zeros, on both sides.
        dilation: Distance of two taps.
        groups: Of channels, which do not mix.
        transposed: Whether it is the transposed convolution.
        output_padding: Of a transposed one: further elements at the far ends.
        bias: Whether there is an operand b, one number for each channel out.
        gradient: ``""``: the kernel gets x, w (and b); ``"x"``: it gets grad, of the output's shape, and w, and returns
            the gradient of x; ``"w"``: it gets grad and x.
        format: Of all operands and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem. Sums of channels in / groups times taps products; of the output's elements for a gradient. Exact
        wherever these fit the accumulator, as in a matmul with so many terms. A Winograd or FFT kernel does not sum the
        same products, and is not right by this.

    Raises:
        UsageError: If the shapes do not fit.
    """
    axes = len(w) - 2
    if len(x) != len(w) or axes not in (1, 2, 3):
        raise UsageError(f"a convolution of x {x} and w {w}", do="both have 3, 4 or 5 axes: 2 and one to three extents")
    if gradient not in _GRADIENTS:
        raise UnknownNameError("gradient", gradient, _GRADIENTS)
    spread = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding}
    sizes = {name: _each(name, value, axes) for name, value in spread.items()}
    into, out = (w[0], w[1] * groups) if transposed else (w[1] * groups, w[0])
    if x[1] != into or (w[0] % groups) or groups < 1:
        what = f"x has {x[1]} channels, and w {w} in {groups} groups takes {into}"
        raise UsageError(what, do="correct a shape, or groups")
    ends = zip(x[2:], w[2:], *sizes.values(), strict=True)
    extents = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1 if transposed else (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d, o in ends
    )
    if min(extents) < 1:
        raise UsageError(f"nothing is left of x {x} by w {w}", do="larger extents, or more padding")
    arguments: dict[str, Any] = {**sizes, "groups": groups, "transposed": transposed}
    grad = Tensor("grad", (x[0], out, *extents), format)
    tensors = {"x": Tensor("x", x, format), "w": Tensor("w", w, format, "weight")}
    name = f"conv{'_transpose' if transposed else ''}{axes}d"
    if gradient:
        if bias:
            raise UsageError("a gradient with a bias", why="it does not depend on one", do="leave bias out")
        other = "w" if gradient == "x" else "x"
        arguments |= {"shape": list(x if gradient == "x" else w), "wanted": gradient}
        operands, name = [grad, tensors[other]], f"the {gradient} gradient of {name}"
        return problem(convolution_gradient, arguments, operands, name=name, format=format, contract=contract)
    operands = [*tensors.values(), *([Tensor("b", (out,), format, "weight")] if bias else [])]
    return problem(convolution, arguments, operands, name=name, format=format, contract=contract)


def _each(name: str, value: int | tuple[int, ...], axes: int) -> list[int]:
    found = [value] * axes if isinstance(value, int) else list(value)
    if len(found) != axes or min(found) < (name in ("stride", "dilation")):
        raise UsageError(f"{name}={value!r} for {axes} axes", do="one number, or one for each axis; none negative")
    return found


@reference
def convolution(torch: Any, x: Any, w: Any, b: Any = None, *, transposed: bool, **sizes: Any) -> Any:
    """Forward."""
    axes, call = w.dim() - 2, torch.nn.functional
    if transposed:
        return getattr(call, f"conv_transpose{axes}d")(x, w, b, **sizes)
    sizes.pop("output_padding")
    return getattr(call, f"conv{axes}d")(x, w, b, **sizes)


@reference
def convolution_gradient(torch: Any, grad: Any, other: Any, *, wanted: str, shape: list[int], **sizes: Any) -> Any:
    """With respect to x or w; of the one that is wanted only the shape is read."""
    zeros = other.new_zeros(shape)
    x, w = (zeros, other) if wanted == "x" else (other, zeros)
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    mask = [wanted == "x", wanted == "w", False]
    found = torch.ops.aten.convolution_backward(grad, x, w, None, *(sizes[name] for name in names), mask)
    return found[0 if wanted == "x" else 1]
