"""Operators written with simpler ones, each of which has a rule of its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import aten, torch
from zeroulp.track.rules.base import Rule, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker

_REDUCTIONS = {0: lambda x: x, 1: torch.mean, 2: torch.sum}


def decomposed(body: Callable[..., Any]) -> Rule:
    """
    A rule for an operator that is a program of others.

    Args:
        body: Takes those of the operator's arguments that it names; returns NotImplemented where it does not apply.
    """
    names = list(inspect.signature(body).parameters)

    def rule(tracker: Tracker, call: Call) -> Any:
        with tracker.part_of(call), tracker:
            result = body(**{name: call.arguments[name] for name in names})
        if result is NotImplemented:
            return unknown(tracker, call, "no rule for these arguments")
        return result

    return rule


def leaky_relu(self: Any, negative_slope: float) -> Any:
    """max(x, 0) + slope * min(x, 0)."""
    return torch.where(self > 0, self, self * negative_slope)


def prelu(self: Any, weight: Any) -> Any:
    """The same with slopes from a tensor."""
    return torch.where(self > 0, self, self * weight)


def threshold(self: Any, threshold: float, value: float) -> Any:
    """Elements above a threshold, a number in place of the others."""
    return torch.where(self > threshold, self, value)


def threshold_backward(grad_output: Any, self: Any, threshold: float) -> Any:
    """The gradient where the element was above."""
    return torch.where(self > threshold, grad_output, 0.0)


def leaky_relu_backward(grad_output: Any, self: Any, negative_slope: float) -> Any:
    """The gradient, times the slope where the element was negative."""
    return torch.where(self > 0, grad_output, grad_output * negative_slope)


def hardtanh_backward(grad_output: Any, self: Any, min_val: float, max_val: float) -> Any:
    """The gradient where nothing was cut off."""
    return torch.where((self <= min_val) | (self >= max_val), 0.0, grad_output)


def hardshrink(self: Any, lambd: float) -> Any:
    """Elements of modulus above a limit, 0 in place of the others."""
    return torch.where((self >= -lambd) & (self <= lambd), 0.0, self)


def softshrink(self: Any, lambd: float) -> Any:
    """Elements moved towards 0 by a limit."""
    return torch.where(self > lambd, self - lambd, torch.where(self < -lambd, self + lambd, 0.0))


def mse_loss(self: Any, target: Any, reduction: int) -> Any:
    """Squares of differences."""
    difference = self - target
    return _REDUCTIONS[reduction](difference * difference)


def smooth_l1_loss(self: Any, target: Any, reduction: int, beta: float) -> Any:
    """Squares of small differences, moduli of large ones."""
    if beta <= 0:
        return _REDUCTIONS[reduction]((self - target).abs())
    size = (self - target).abs()
    return _REDUCTIONS[reduction](torch.where(size < beta, size * size * 0.5 / beta, size - 0.5 * beta))


def huber_loss(self: Any, target: Any, reduction: int, delta: float) -> Any:
    """The same, scaled."""
    size = (self - target).abs()
    return _REDUCTIONS[reduction](torch.where(size <= delta, size * size * 0.5, (size - 0.5 * delta) * delta))


def vector_norm(self: Any, ord: Any, dim: Any, keepdim: bool) -> Any:  # noqa: A002, FBT001
    """The norms that are sums or maxima of moduli."""
    if ord == 1:
        return self.abs().sum(dim, keepdim=keepdim)
    if ord in {float("inf"), float("-inf")}:
        pick = torch.amax if ord > 0 else torch.amin
        return pick(self.abs(), dim if dim is not None else [], keepdim)
    return NotImplemented


def norm(self: Any, p: Any, dim: Any, keepdim: bool) -> Any:  # noqa: FBT001
    """`vector_norm` by its older name."""
    return vector_norm(self, 2 if p is None else p, dim, keepdim)


def reversed_difference(self: Any, other: Any, alpha: Any) -> Any:
    """Other minus self."""
    return aten.sub.Tensor(_tensor(other, self), self, alpha=alpha)


def _tensor(number: Any, like: Any) -> Any:
    return (
        number if isinstance(number, torch.Tensor) else aten.scalar_tensor(number, dtype=like.dtype, device=like.device)
    )


def addcmul(self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    """Self + value * tensor1 * tensor2."""
    return self + tensor1 * tensor2 * value


def heaviside_sign(self: Any) -> Any:
    """-1, 0 or 1."""
    return torch.where(self > 0, 1.0, torch.where(self < 0, -1.0, 0.0))


def cross(self: Any, other: Any, dim: int) -> Any:
    """The product of vectors in space."""
    turned = [torch.roll(x, shift, dim) for x, shift in ((self, -1), (other, -2), (self, -2), (other, -1))]
    return turned[0] * turned[1] - turned[2] * turned[3]


def trace(self: Any) -> Any:
    """The sum of the diagonal."""
    return self.diagonal().sum()


def index_fill(self: Any, dim: int, index: Any, value: Any) -> Any:
    """A number in place of the elements at some indices."""
    if isinstance(value, torch.Tensor):
        return NotImplemented
    mask = torch.zeros(self.shape[dim], dtype=torch.bool, device=self.device).index_fill(0, index, True)
    return torch.where(mask.reshape([-1 if i == dim % self.dim() else 1 for i in range(self.dim())]), value, self)


def embedding_bag_backward(  # noqa: PLR0917
    grad: Any,
    indices: Any,
    offsets: Any,
    num_weights: int,
    scale_grad_by_freq: Any,
    mode: int,
    per_sample_weights: Any,
    padding_idx: int,
) -> Any:
    """The gradient of sums or averages of rows, added up in each row."""
    if scale_grad_by_freq or mode not in {0, 1}:
        return NotImplemented
    places = torch.arange(indices.numel(), device=indices.device)
    bags = torch.searchsorted(offsets.contiguous(), places, right=True) - 1
    if mode == 1:
        counts = torch.bincount(bags, minlength=grad.shape[0])
        counts = counts - torch.bincount(bags[indices == padding_idx], minlength=grad.shape[0])
        grad = grad / counts.clamp(min=1).unsqueeze(1)
    rows = grad[bags]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    rows = torch.where((indices == padding_idx).unsqueeze(1), 0.0, rows)
    return torch.zeros(num_weights, grad.shape[1], dtype=grad.dtype, device=grad.device).index_add(0, indices, rows)


def masked_fill(self: Any, mask: Any, value: Any) -> Any:
    """A number in place of the elements under a mask."""
    return torch.where(mask, value, self)
