"""What is known of a program once it has been tracked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ProgramError, ZeroulpError
from zeroulp.track.arithmetic import arithmetic_of
from zeroulp.track.backend import torch
from zeroulp.track.dyadic import NEUTRAL, equal
from zeroulp.track.grades import Ending, Grade, Operation
from zeroulp.track.program import Program, _AgainError, _same, same_all
from zeroulp.track.rules import TABLE
from zeroulp.track.tracker import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zeroulp.formats import Format
    from zeroulp.track.state import State


@dataclass(frozen=True)
class Output:
    """
    One tensor that the reference returns.

    Args:
        values: What a correct kernel returns where the grade is exact: float64, or the integers or truth values.
        terms: `bound` in memory; None: each exact element is a single term.
        quantum_exponent: Base-2 exponent of the power of two that divides every term; None: all exact elements are 0.
        grade: `Grade` of every element (uint8).
        format: Format that the reference stores it in; None for integers and truth values.
        ended: Where exactness first ended on the way to elements that are not algebraic; None: nowhere.
        leans: What the grades lean on beside sums and products (``"division"``): a kernel that goes about it in
            another way may be right and differ.
    """

    values: Any
    terms: Any
    quantum_exponent: int | None
    grade: Any
    format: Format | None
    ended: Ending | None
    leans: frozenset[str] = frozenset()

    @property
    def bound(self) -> Any:
        """Sum of |terms| behind every element (float64); without meaning where it is not exact, 0 for integers."""
        if self.format is None:
            return torch.zeros(self.values.shape, dtype=torch.float64, device=self.values.device)
        return self.values.abs() if self.terms is None else self.terms.to(torch.float64)

    def share(self, grade: Grade) -> float:
        """Share of the elements of this grade; 1 for ALGEBRAIC where there are no elements."""
        if not self.grade.numel():
            return float(grade is Grade.ALGEBRAIC)
        return int((self.grade == int(grade)).count_nonzero()) / int(self.grade.numel())


@dataclass(frozen=True)
class Tracked:
    """
    A program that was tracked on its operands.

    Args:
        program: Reference, operands and contract.
        outputs: The tensors that the reference returns, in order.
        operations: What it ran, and which data each operation saw.
        endings: Where exact elements ceased to be, in order.
        unknown: Operators that the table has no rule for, with the number of the first operation of each.
        reads: For each operand the number of the first operation that looked at its elements; those that none
            looked at are missing.
        dynamic: Operators that returned shapes that depend on data, with the number of the first one.
        divisors: Numbers other than powers of two that the program divides by, as averages do by how many terms
            there are. Multiples of them have exact quotients.
    """

    program: Program
    outputs: tuple[Output, ...]
    operations: tuple[Operation, ...]
    endings: tuple[Ending, ...]
    unknown: dict[str, int]
    reads: dict[str, int]
    dynamic: dict[str, int]
    divisors: tuple[float, ...] = ()

    @property
    def unread(self) -> tuple[str, ...]:
        """Operands whose elements no operation looked at."""
        return tuple(name for name in self.program.operands if name not in self.reads)

    @property
    def bits(self) -> float:
        """Bits of the contract's sums that the program uses: the most that an operation does; 0 if none adds."""
        return max((operation.bits for operation in self.operations if operation.bits is not None), default=0.0)

    def share(self, grade: Grade = Grade.ALGEBRAIC) -> float:
        """Share of all elements returned that are of this grade."""
        count = sum(output.grade.numel() for output in self.outputs)
        matching = sum(int((output.grade == int(grade)).count_nonzero()) for output in self.outputs)
        return matching / count if count else float(grade is Grade.ALGEBRAIC)


def track(
    reference: Callable[..., Any],
    operands: Mapping[str, Any] | Sequence[Any],
    *,
    storage: str | Format = "float32",
    accumulate: str = "float32",
    accumulator_bits: int | None = None,
    refactored: bool = True,
    steady: bool = False,
) -> Tracked:
    """
    Run a reference in float64, and decide for each element it returns whether every correct kernel returns its bits.

    Args:
        reference: A function of PyTorch tensors (or a module); called with the operands in order. Any of those that
            PyTorch's own operators make up, backward passes included.
        operands: Tensors by name, or in order. Floating ones of float64 are taken to be in *storage*; others are in
            the format of their type. Left as they are.
        storage: Format of tensors that the reference gives no type: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        accumulate: The least precise format in which a kernel keeps sums and what it does not store;
            ``"any"``: the format of the result, in which partial sums may be stored.
        accumulator_bits: Significand bits that sums keep, where that is fewer than the format has.
        refactored: Whether kernels may merge operations. True: an element is algebraic if no order of its terms, no
            split and no rearrangement of sums and products rounds, whatever becomes of the operations between one
            selection (relu, max, a comparison, a division, a value read in Python) and the next. False: each operation
            is computed by itself, in any order; what it returns is stored.
        steady: Take for granted that the reference is not random beside PyTorch's generator: it is run once, not twice.

    Returns:
        What every element returned is, how far it is determined, and what the operations saw.

    Raises:
        ProgramError: If the reference is random, fails in float64, returns no tensor, changes an operand, takes
            values out of PyTorch, or looks at values that are not exact.
        UsageError: If a word of the contract is unknown, or PyTorch is missing.

    Exactness:
        An element is algebraic while its sum of |terms| is at most 2**p quanta, p the bits of sums, and all it is
        made of is stored without rounding (see `zeroulp.exactness`). Every partial result whose terms, times some
        other term, are terms of the element is then a number of p bits. Partial results that are multiplied by zero
        alone are taken to be finite. Numbers in the program (0.1) are rounded to float32 first.

    Examples:
        >>> import torch
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> track(lambda x: x @ x + 1, [x]).outputs[0].values.tolist()
        [[8.0, 11.0], [16.0, 23.0]]
    """
    arithmetic = arithmetic_of(storage, accumulate, accumulator_bits, refactored=refactored)
    return track_program(Program.of(reference, operands, arithmetic), steady=steady)


def track_program(
    program: Program, operands: Mapping[str, Any] | None = None, *, digest: bool = False, steady: bool = False
) -> Tracked:
    """
    Track a program, on its own operands or on others of the same names and types.

    Args:
        program: Reference, operands and contract.
        operands: In place of the program's own.
        digest: Whether operations keep a digest of their results.
        steady: As of `track`.

    Raises:
        ProgramError: As `track` does.
    """
    given = program.fresh(operands)
    plain = None if steady else program.plainly(given)
    tracker = Tracker(program.arithmetic, TABLE, digest=digest)
    try:
        returned = program.run(tracker, given)
    except _AgainError:
        return track_program(program, operands, digest=digest, steady=steady)
    except ZeroulpError:
        raise
    except Exception:
        if plain is None:
            program.plain(operands)  # says so if it is the reference that fails
        raise
    tracker.see(*returned)
    outputs = tuple(_output(tracker, tensor) for tensor in returned)
    tracker.ledger.forget()
    if plain is not None:
        _refuse_random(program, operands, outputs, plain)
    places = {name: tensor.untyped_storage()._cdata for name, tensor in given.items()}  # noqa: SLF001
    reads = {name: tracker.seen[place] for name, place in places.items() if place in tracker.seen}
    return Tracked(
        program,
        outputs,
        tuple(tracker.operations),
        tuple(tracker.endings),
        dict(tracker.unknown),
        reads,
        dict(tracker.dynamic),
        tuple(sorted(tracker.divisors)),
    )


def refuse_random(tracked: Tracked) -> None:
    """Raise ProgramError if the reference returns something else when it is run again."""
    _refuse_random(tracked.program, None, tracked.outputs, tracked.program.plain())


def _refuse_random(
    program: Program, operands: Mapping[str, Any] | None, outputs: Sequence[Output], plain: list[Any]
) -> None:
    if not _agree(outputs, plain) and not same_all(plain, program.plain(operands)):
        raise ProgramError(
            "the reference is random: it returns something else when it is run again",
            why="a kernel cannot draw the same numbers, so there are no bits to expect",
            do="make what is random an operand",
        )


def _output(tracker: Tracker, tensor: Any) -> Output:
    state: State = tracker.ledger.state(tensor)
    floating = tensor.dtype == torch.float64
    exponent = state.exponent if floating and state.exponent < NEUTRAL // 2 and not state.dead else None
    return Output(
        values=tensor.clone() if tensor.untyped_storage()._cdata in tracker.kept else tensor,  # noqa: SLF001
        terms=state.bound,
        quantum_exponent=exponent,
        grade=state.grades.reshape(tensor.shape),
        format=(tracker.ledger.format(tensor) if floating else None),
        ended=None if state.clean else state.cause,
        leans=state.leans,
    )


def _agree(outputs: Sequence[Output], plain: Sequence[Any]) -> bool:
    """Whether all that is algebraic is what a run without tracking returned."""
    if len(outputs) != len(plain):
        return False
    for output, value in zip(outputs, plain, strict=True):
        if output.values.shape != value.shape or output.values.dtype != value.dtype:
            return False
        if not equal(output.values, value):
            differ = (output.values != value) & (output.grade == int(Grade.ALGEBRAIC))
            if differ.any() and not _same(output.values[differ], value[differ]):
                return False
    return True
