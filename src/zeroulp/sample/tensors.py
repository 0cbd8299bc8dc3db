"""Drawn operands as tensors that a reference can be tracked on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zeroulp.problem import Tensor

_NAMED = ("float16", "bfloat16", "float32")  # which the tracker knows by their types


def as_tensors(operands: Sequence[Tensor], values: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """
    PyTorch's tensors of what was drawn, for `zeroulp.track.track`.

    Args:
        operands: What the kernel takes, in order.
        values: As `Strategy.values` returns them.

    Returns:
        By name, in order. Float32, float16 and bfloat16 operands have that type; narrower floats float64, so that
        they count as stored in the contract's format, which holds all their numbers; integers and truth values theirs.
    """
    return {tensor.name: _tensor(tensor, values[tensor.name]) for tensor in operands}


def _tensor(tensor: Tensor, values: NDArray[Any]) -> Any:
    made = torch.from_numpy(values)
    if tensor.number_format is None:
        return made.to(getattr(torch, tensor.format))
    if tensor.number_format.is_integer or tensor.format in _NAMED:
        return made.to(getattr(torch, tensor.format))
    return made
