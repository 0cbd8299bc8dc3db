"""A reference and its operands: how they are run in float64, and what can go wrong."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ProgramError, ZeroulpError
from zeroulp.track.backend import pytree, torch
from zeroulp.track.dyadic import FORMATS
from zeroulp.track.modes import Float64Mode, changed_in_place, running

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.formats import Format
    from zeroulp.track.arithmetic import Arithmetic

_WANTS_GRADIENTS = ("does not require grad", "requires_grad", "require grad")


@dataclass
class Program:
    """
    A reference with the operands that it is called with.

    Args:
        reference: Takes the operands in order; returns a tensor, or tensors in tuples, lists or dictionaries.
        operands: By name: tensors of any shape. Floating ones of float64 are in the contract's storage format, others
            in the format that their type names; all are run in float64.
        arithmetic: What a correct kernel computes with.
        gradients: Whether the reference is run with gradients recorded; None: if it turns out to need them.
    """

    reference: Callable[..., Any]
    operands: dict[str, Any]
    arithmetic: Arithmetic
    gradients: bool | None = None
    _double: Any = field(default=None, repr=False)

    @staticmethod
    def of(
        reference: Callable[..., Any], operands: Mapping[str, Any] | Sequence[Any], arithmetic: Arithmetic
    ) -> Program:
        """
        A program, its operands looked at.

        Raises:
            ProgramError: If an operand is no dense tensor, or *operands* are neither a mapping nor a sequence.
        """
        if not callable(reference):
            raise ProgramError(f"the reference is no function but {reference!r}")
        if isinstance(operands, torch.Tensor) or not isinstance(operands, (Mapping, Sequence)):
            raise ProgramError(
                "the operands are neither a mapping nor a sequence of tensors",
                do='pass them as {"a": ..., "b": ...}, or as a list in the order of the arguments',
            )
        named = operands.items() if isinstance(operands, Mapping) else enumerate(operands)
        program = Program(reference, {str(name): _dense(str(name), value) for name, value in named}, arithmetic)
        if isinstance(reference, torch.nn.Module):
            program._double = copy.deepcopy(reference).double()
        return program

    def fresh(self, operands: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The operands for a run: floating ones in float64; in memory of their own, but for those of float64 as is."""
        found = self.operands if operands is None else operands
        taken: set[int] = set()
        with torch.inference_mode(mode=False):  # whose tensors do not count what is written to them
            return {name: _fresh(tensor.detach(), taken) for name, tensor in found.items()}

    def format(self, name: str) -> Format:
        """The format of a floating operand."""
        return FORMATS.get(self.operands[name].dtype, self.arithmetic.storage)

    def run(self, mode: Float64Mode, operands: dict[str, Any]) -> list[Any]:
        """
        The tensors that the reference returns, run under a mode.

        Raises:
            ProgramError: If it fails, changes an operand, or returns no tensor.
        """
        for name, tensor in operands.items():
            if tensor.dtype == torch.float64:
                mode.ledger.name_format(tensor, self.format(name))
            mode.kept[tensor.untyped_storage()._cdata] = name  # noqa: SLF001
        reference = self.reference if self._double is None else self._double
        versions = [tensor._version for tensor in operands.values()]  # noqa: SLF001
        try:
            with running(mode, gradients=bool(self.gradients)):
                returned = reference(*operands.values())
        except ZeroulpError:
            raise
        except Exception as error:
            if self.gradients is None and any(word in str(error) for word in _WANTS_GRADIENTS):
                self.gradients = True
                raise _AgainError from error
            if type(mode) is not Float64Mode:
                raise  # it ran before, untracked
            raise _failure(error) from error
        for (name, tensor), version in zip(operands.items(), versions, strict=True):
            if tensor._version != version:  # noqa: SLF001
                raise changed_in_place(name)
        tensors = [leaf.detach() for leaf in pytree.tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
        if not tensors:
            raise ProgramError(
                f"the reference returns no tensor but {type(returned).__name__}",
                do="return a tensor, or tensors in a tuple, list or dictionary",
            )
        return [mode.widened(t) if t.is_floating_point() and t.dtype != torch.float64 else t for t in tensors]

    def plain(self, operands: Mapping[str, Any] | None = None) -> list[Any]:
        """
        What the reference returns in float64, untracked.

        Args:
            operands: In place of its own, of the same names and types.

        Raises:
            ProgramError: As `run` does, or if it is random by PyTorch's generator.
        """
        return self.plainly(self.fresh(operands))

    def plainly(self, given: dict[str, Any]) -> list[Any]:
        """`plain` on copies that `fresh` made; they may be used again afterwards."""
        try:
            return self.run(Float64Mode(self.arithmetic.storage), given)
        except _AgainError:
            return self.plainly(given)


class _AgainError(Exception):
    """The reference asks for gradients: run it again with them."""


def _fresh(tensor: Any, taken: set[int]) -> Any:
    """One operand for a run: itself, if it is all of a block of float64 that is no other operand's."""
    if not tensor.is_floating_point():
        return tensor.clone()
    storage = tensor.untyped_storage()
    alone = storage.nbytes() == tensor.numel() * tensor.element_size() and storage._cdata not in taken  # noqa: SLF001
    if tensor.dtype == torch.float64 and alone and 0 not in tensor.stride() and not tensor.is_inference():
        taken.add(storage._cdata)  # noqa: SLF001
        return tensor
    return tensor.to(torch.float64, copy=True)


def _dense(name: str, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_complex():
        return value.detach()
    found = f"a tensor of {value.dtype}, {value.layout}" if isinstance(value, torch.Tensor) else type(value).__name__
    raise ProgramError(
        f"operand {name!r} is {found}",
        why="operands are dense real tensors of PyTorch",
        do="pass torch.from_numpy(array) for a NumPy array; bind numbers and settings with functools.partial",
    )


def _failure(error: Exception) -> ProgramError:
    first = str(error).strip().partition("\n")[0]
    return ProgramError(
        f"the reference fails on float64 operands: {type(error).__name__}: {first}",
        why="it is run in float64, where the exact values can be seen",
        do="write it for tensors of any floating type, of the shapes given",
    )


def _same(a: Any, b: Any) -> bool:
    """Equal, NaN being equal to NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return (
        bool(((a == b) | (torch.isnan(a) & torch.isnan(b))).all()) if a.is_floating_point() else bool(torch.equal(a, b))
    )


def same_all(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two runs returned the same."""
    return len(some) == len(others) and all(_same(a, b) for a, b in zip(some, others, strict=True))
