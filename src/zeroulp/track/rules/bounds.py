"""
Bounds of sums and of sums of products: the same operator on moduli.

Exactness:
    Where no two tensors are multiplied float32 will do, in half of the memory. Terms are multiples of the result's
    quantum q and none is negative, so rounded partial sums never decrease: while the last one is below 2**24 q all of
    them were, and none was rounded. Products of tensors are left to float64: how float32 multiplies them depends on
    settings of PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zeroulp.track.arithmetic import FLOAT32
from zeroulp.track.backend import torch
from zeroulp.track.dyadic import BLOCK, Aside, most, power, unwritten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.track.state import State

Into = Callable[[dict[str, Any], Any], Any]
"""Writes the result of the call on other arguments into memory."""

AtOnce = Callable[[dict[str, Any]], Any]
"""Float32 bounds, and the largest, from what is known of tensors of one shape (numpy's) and of numbers; or None."""

_LEAST = -60  # exponent of a quantum whose multiples are far from subnormal in float32


class Bounds:
    """
    The bounds of one call's results, run when they are first asked for.

    Args:
        run: The call on other arguments; returns its results in order.
        states: Of the arguments that the results are made of.
        minus: Names of numbers that are to be taken with the other sign.
        sums: Whether no two tensors are multiplied, and all floating arguments are among *states*.
        into: How a part of the only result is made of the same part of each argument, if it may be.
        flat: Whether any elements are such a part, not only those of a part of the first dimension.
        at_once: How the only result is made in one pass, if it may be.
    """

    def __init__(
        self,
        run: Callable[[dict[str, Any]], list[Any]],
        states: Mapping[str, State],
        minus: frozenset[str] = frozenset(),
        *,
        sums: bool,
        into: Into | None = None,
        flat: bool = False,
        at_once: AtOnce | None = None,
    ) -> None:
        self._run, self._states, self._minus = run, states, minus
        self._into, self._flat, self._at_once = into, flat, at_once
        self._narrow = sums and all(state.exponent >= _LEAST for state in states.values())
        self._found: dict[Any, list[Any]] = {}

    def of(self, output: int, exponent: int) -> tuple[Any, float]:
        """Those of one result, whose quantum has this exponent, and the largest of them."""
        if self._narrow and exponent >= _LEAST:
            bound, reach = self._in(torch.float32, output)
            if reach < power(FLOAT32.precision + exponent):
                return bound, reach
        return self._in(torch.float64, output)

    def _in(self, dtype: Any, output: int) -> tuple[Any, float]:
        if dtype is torch.float32:
            found = self._in_one_pass(self._at_once) if self._at_once else None
            found = self._in_parts(self._into) if found is None and self._into else found
            if found:
                return found
        if dtype not in self._found:
            self._found[dtype] = self._run({name: self._modulus(name, dtype) for name in self._states})
        bound = self._found[dtype][output]
        return bound, most(bound)

    def _in_one_pass(self, at_once: AtOnce) -> tuple[Any, float] | None:
        """The only result in float32, on the host; None if that cannot be."""
        known, shapes = {}, set()
        for name, state in self._states.items():
            known[name] = self._known(name) if torch.is_tensor(state.value) else abs(state.bound)
            if torch.is_tensor(known[name]):
                if not _is_plain(known[name]):
                    return None
                shapes |= {state.value.shape, known[name].shape}
                known[name] = known[name].numpy()
        found = at_once(known) if len(shapes) == 1 else None
        return None if found is None else (torch.from_numpy(found[0]).reshape(shapes.pop()), found[1])

    def _in_parts(self, into: Into) -> tuple[Any, float] | None:
        """The only result in float32, with little memory; None if the operands are small, or do not lie alike."""
        values = [state.value for state in self._states.values() if torch.is_tensor(state.value)]
        size, first = values[0].numel(), values[0]
        if size <= BLOCK or not all(x.shape == first.shape and x.is_contiguous() for x in values):
            return None
        shape = (size,) if self._flat else first.shape
        step = max(1, BLOCK // (size // shape[0]))
        result, reaches = unwritten(first, torch.float32), []
        parts = {name: self._known(name).reshape(shape).split(step) for name in self._states if self._is_tensor(name)}
        scratch = {name: torch.empty_like(known[0], dtype=torch.float32) for name, known in parts.items()}
        moduli = {name: self._modulus(name, torch.float32) for name in self._states if name not in parts}
        for i, part in enumerate(result.view(shape).split(step)):
            for name, known in parts.items():
                moduli[name] = scratch[name][: len(part)].copy_(known[i])
                if self._states[name].single:
                    moduli[name].abs_()
            into(moduli, part)
            reaches.append(part.amax())
        return result, most(torch.stack(reaches))

    def _is_tensor(self, name: str) -> bool:
        return bool(torch.is_tensor(self._states[name].value))

    def _known(self, name: str) -> Any:
        state = self._states[name]
        return state.value if state.single else state.bound

    def _modulus(self, name: str, dtype: Any) -> Any:
        state = self._states[name]
        if not self._is_tensor(name):
            return -state.bound if name in self._minus else state.bound
        if dtype is torch.float64:
            value = state.value
            if state.dead or state.bound is not None or value.numel() <= BLOCK or not value.is_contiguous():
                return state.bounds
            return torch.abs(value, out=unwritten(value, dtype))
        known = self._known(name).to(dtype)
        return known.abs_() if state.single else known


def _is_plain(values: Any) -> bool:
    """Whether NumPy may look at a tensor as it is."""
    usual = values.device.type == "cpu" and values.dtype in {torch.float32, torch.float64} and values.is_contiguous()
    return bool(usual and not values.is_neg() and not values.requires_grad)


class SumOfModuli:
    """
    The sum of moduli over some dimensions of a tensor, or all; worked out here, or on the way of another look at it.

    Args:
        values: The tensor.
        add: The sum of elements.
        dims: Over which dimensions; None: all.
        keep: Whether the result has dimensions in place of these.
    """

    def __init__(self, values: Any, add: Callable[[Any], Any], dims: list[int] | None, *, keep: bool) -> None:
        self._values, self._add, self._dims, self._keep = values, add, dims, keep
        large = values.dim() and values.numel() > BLOCK and values.is_contiguous()
        self._rows = BLOCK * len(values) // values.numel() if large else 0
        self._sums: list[Any] = []
        self._whole: Any = None

    @property
    def aside(self) -> Aside | None:
        """How the moduli of the tensor are added up while they are at hand; None if they cannot be."""
        if not self._rows:
            return None
        shape = self._values.shape
        gone = set(range(len(shape))) if self._dims is None else {dim % len(shape) for dim in self._dims}
        kept = len(shape) - len(gone)
        size = self._rows * (self._values.numel() // len(self._values))
        if min(gone) != kept:
            return Aside(self._take, size)

        def give(sums: Any) -> None:
            self._whole = sums.reshape((*shape[:kept], *(1 for _ in shape[kept:] if self._keep)))

        return Aside(self._take, size, math.prod(shape[kept:]), give)

    def _take(self, moduli: Any) -> None:
        self._sums.append(self._add(moduli.view(-1, *self._values.shape[1:])))

    def result(self) -> Any:
        """The sum; it is as exact as float64 is."""
        if self._whole is not None:
            return self._whole
        if not self._rows:
            return torch.linalg.vector_norm(self._values, 1, self._dims, self._keep)
        if not self._sums:
            scratch = torch.empty_like(self._values[: self._rows])
            for part in self._values.split(self._rows):
                self._take(torch.abs(part, out=scratch[: len(part)]))
        first = self._dims is None or 0 in {dim % self._values.dim() for dim in self._dims}
        return torch.stack(self._sums).sum(0) if first else torch.cat(self._sums)
