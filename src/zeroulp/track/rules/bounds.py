"""
Bounds of sums and of sums of products: the same operator on moduli.

Exactness:
    Where no two tensors are multiplied float32 will do, in half of the memory. Terms are multiples of the result's
    quantum q and none is negative, so rounded partial sums never decrease: while the last one is below 2**24 q all of
    them were, and none was rounded. Products of tensors are left to float64: how float32 multiplies them depends on
    settings of PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.track.arithmetic import FLOAT32
from zeroulp.track.backend import torch
from zeroulp.track.dyadic import largest, power

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zeroulp.track.state import State

_BLOCK = 1 << 16  # elements that stay in a cache
_LEAST = -60  # exponent of a quantum whose multiples are far from subnormal in float32


class Bounds:
    """
    The bounds of one call's results, run when they are first asked for.

    Args:
        run: The call on other arguments; returns its results in order.
        states: Of the arguments that the results are made of.
        minus: Names of numbers that are to be taken with the other sign.
        sums: Whether no two tensors are multiplied, and all floating arguments are among *states*.
        elementwise: Whether an element of the result is made of the elements at the same place.
    """

    def __init__(
        self,
        run: Callable[[dict[str, Any]], list[Any]],
        states: Mapping[str, State],
        minus: frozenset[str] = frozenset(),
        *,
        sums: bool,
        elementwise: bool = False,
    ) -> None:
        self._run, self._states, self._minus = run, states, minus
        self._elementwise = elementwise
        self._narrow = sums and all(state.exponent >= _LEAST for state in states.values())
        self._found: dict[Any, list[Any]] = {}

    def of(self, output: int, exponent: int) -> Any:
        """Those of one result, whose quantum has this exponent."""
        if self._narrow and exponent >= _LEAST:
            bound = self._in(torch.float32)[output]
            if largest(bound) < power(FLOAT32.precision + exponent):
                return bound
        return self._in(torch.float64)[output]

    def _in(self, dtype: Any) -> list[Any]:
        if dtype not in self._found:
            narrow = dtype is torch.float32
            in_blocks = self._in_blocks(dtype) if narrow and self._elementwise else None
            self._found[dtype] = in_blocks or self._run({name: self._modulus(name, dtype) for name in self._states})
        return self._found[dtype]

    def _in_blocks(self, dtype: Any) -> list[Any] | None:
        """The same block by block, with little memory; None if the operands are small, or do not lie alike."""
        values = [state.value for state in self._states.values() if torch.is_tensor(state.value)]
        size, first = values[0].numel(), values[0]
        if size <= _BLOCK or not all(x.shape == first.shape and x.is_contiguous() for x in values):
            return None
        result = torch.empty(first.shape, dtype=dtype, device=first.device)
        flat = result.view(-1)
        for start in range(0, size, _BLOCK):
            part = slice(start, start + _BLOCK)
            flat[part] = self._run({name: self._modulus(name, dtype, part) for name in self._states})[0]
        return [result]

    def _modulus(self, name: str, dtype: Any, part: slice | None = None) -> Any:
        state = self._states[name]
        if not torch.is_tensor(state.value):
            return -state.bound if name in self._minus else state.bound
        if dtype is torch.float64:
            return state.bounds
        known = state.value if state.single else state.bound
        if part is not None:
            known = known.reshape(-1)[part]
        return known.to(dtype).abs_() if state.single else known.to(dtype)
