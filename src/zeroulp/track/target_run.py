"""The reference itself, in the formats that a kernel computes in: does it return what it is said to?"""

from __future__ import annotations

import contextlib
import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zeroulp.track.backend import pytree, torch
from zeroulp.track.dyadic import dtype_of
from zeroulp.track.grades import Ending, Grade
from zeroulp.track.modes import array_namespace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroulp.formats import Format
    from zeroulp.track.program import Program
    from zeroulp.track.tracked import Output, Tracked


_UNSUPPORTED = (RuntimeError, NotImplementedError, TypeError, AssertionError)  # the last of a build without CUDA


@dataclass(frozen=True)
class OutputCheck:
    """
    How one output compares.

    Args:
        algebraic: How many algebraic elements differ.
        rounded_once: How many elements that are rounded once differ.
        differs: Which of both do.
        first: The first of them: its place, what it should be and what it is; None if none does.
    """

    algebraic: int
    rounded_once: int
    differs: Any
    first: tuple[tuple[int, ...], float, float] | None


@dataclass(frozen=True)
class SelfCheck:
    """
    The reference in its own formats against the exact values.

    Args:
        outputs: One by one; empty if it could not be run.
        device: Where it ran.
        unsupported: Why it could not be run there in these formats; empty if it could.
    """

    outputs: tuple[OutputCheck, ...]
    device: str
    unsupported: str = ""

    @property
    def agrees(self) -> bool:
        """Whether it ran, and no algebraic element differs."""
        return not self.unsupported and not any(output.algebraic for output in self.outputs)

    def demote(self, tracked: Tracked) -> Tracked:
        """
        The same program, outputs demoted where the reference disagrees.

        Elements that are rounded once are all given up in an output where one of them differs; algebraic elements
        likewise, all of that output: what the reference does there is not what the tracker saw.
        """
        outputs = []
        for output, check in zip(tracked.outputs, self.outputs or (None,) * len(tracked.outputs), strict=True):
            doubted = None
            if check is not None and check.algebraic:
                doubted = torch.ones_like(output.grade, dtype=torch.bool)
            elif check is not None and check.rounded_once:
                doubted = output.grade == int(Grade.ROUNDED_ONCE)
            outputs.append(output if doubted is None else _demoted(output, doubted, self.device))
        return replace(tracked, outputs=tuple(outputs))


def self_check(tracked: Tracked, *, device: str = "cpu") -> SelfCheck:
    """
    Run the reference in the contract's formats, and compare with what is exact.

    Args:
        tracked: A program that was tracked.
        device: Where to run it, as PyTorch names it. Products in TensorFloat-32 are off.

    Returns:
        How many elements differ. A reference that PyTorch cannot run there in these formats is no error.
    """
    try:
        returned = _run(tracked.program, device)
    except _UNSUPPORTED as error:
        first = str(error).strip().partition("\n")[0]
        return SelfCheck((), device, f"{type(error).__name__}: {first}")
    if len(returned) != len(tracked.outputs):
        return SelfCheck((), device, f"it returns {len(returned)} tensors instead of {len(tracked.outputs)}")
    checks = []
    for output, found in zip(tracked.outputs, returned, strict=True):
        if found.shape != output.values.shape or found.is_floating_point() != output.values.is_floating_point():
            return SelfCheck((), device, f"it returns {tuple(found.shape)}, not {tuple(output.values.shape)}")
        checks.append(_compare(output, found.to(device="cpu", dtype=output.values.dtype)))
    return SelfCheck(tuple(checks), device)


def native(program: Program, device: str = "cpu", operands: Mapping[str, Any] | None = None) -> list[Any] | None:
    """
    What the reference itself returns in the contract's formats.

    Args:
        program: With its reference.
        device: Where to run it.
        operands: In place of the program's own, of the same names and types.

    Returns:
        Tensors on that device; None if PyTorch cannot run it there in these formats.
    """
    try:
        return _run(program if operands is None else replace(program, operands=dict(operands)), device)
    except _UNSUPPORTED:
        return None


def _compare(output: Output, found: Any) -> OutputCheck:
    if found.dtype == output.values.dtype and torch.equal(found, output.values):
        return OutputCheck(0, 0, torch.zeros_like(output.grade, dtype=torch.bool), None)
    grade, values = output.grade.cpu(), output.values.cpu()
    same = values == found
    if values.is_floating_point():
        same |= torch.isnan(values) & torch.isnan(found)
    wrong = ~same & (grade < int(Grade.NOT_EXACT))
    places = wrong.nonzero()
    first = None
    if len(places):
        place = tuple(int(i) for i in places[0])
        first = place, float(values[place]), float(found[place])
    algebraic = int((wrong & (grade == int(Grade.ALGEBRAIC))).sum())
    return OutputCheck(algebraic, int(wrong.sum()) - algebraic, wrong, first)


def _demoted(output: Output, doubted: Any, device: str) -> Output:
    grade = torch.where(doubted.to(output.grade.device), int(Grade.NOT_EXACT), output.grade)
    reason = f"the reference itself returns something else on {device}"
    ending = Ending(0, "the self-check", reason, int(doubted.sum()))
    return replace(output, grade=grade.to(torch.uint8), ended=output.ended or ending)


def _run(program: Program, device: str) -> list[Any]:
    reference = program.reference
    storage = dtype_of(program.arithmetic.storage)
    if isinstance(reference, torch.nn.Module):
        reference = copy.deepcopy(reference).to(device=device, dtype=storage)
    operands = [_operand(tensor, program.arithmetic.storage, device) for tensor in program.operands.values()]
    with _plainly(storage), array_namespace(), torch.set_grad_enabled(bool(program.gradients)):
        returned = reference(*operands)
    return [leaf.detach() for leaf in pytree.tree_leaves(returned) if isinstance(leaf, torch.Tensor)]


def _operand(tensor: Any, storage: Format, device: str) -> Any:
    dtype = dtype_of(storage) if tensor.dtype == torch.float64 else tensor.dtype
    return tensor.to(device=device, dtype=dtype, copy=True)


@contextlib.contextmanager
def _plainly(dtype: Any) -> Iterator[None]:
    """The format that needs no name as PyTorch's default, and products in all of their bits."""
    default = torch.get_default_dtype()
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    torch.set_default_dtype(dtype)
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
        torch.set_default_dtype(default)
