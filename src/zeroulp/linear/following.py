"""
A drawing followed through the reference: the bits that every correct kernel returns, and where there are such.

Compared is an element that is algebraic, or an exact value that is rounded once, if the self-check agrees: the
reference itself, in the formats of the contract on the kernel's device, returns these bits. Elements that lean on a
division are compared if the contract says where kernels divide, subnormal ones never.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding, track
from zeroulp.errors import ProgramError
from zeroulp.exactness import Certificate
from zeroulp.formats import BY_NAME
from zeroulp.kernels.frameworks import framework_named
from zeroulp.reference import Expected
from zeroulp.track.grades import Grade

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zeroulp.encoding import Array
    from zeroulp.formats import Format
    from zeroulp.problem import Linear
    from zeroulp.track import Output, Program, Tracked


_CAST = ("float32", "float16")  # NumPy rounds float64 to these once, ties to even


@dataclass(frozen=True)
class Followed:
    """
    What came of one drawing.

    Args:
        tracked: What the tracker found.
        expected: Encodings, and which of them are compared.
        certificate: Why.
        demoted: What the reference itself does otherwise; empty if nothing.
        unchecked: Why it could not be asked; empty if it was.
    """

    tracked: Tracked
    expected: Expected
    certificate: Certificate
    demoted: str = ""
    unchecked: str = ""

    @property
    def compared(self) -> NDArray[np.bool_]:
        """Which elements are compared."""
        assert self.expected.compared is not None, "there is a mask"
        return self.expected.compared

    @property
    def share(self) -> float:
        """Share of the elements that are compared."""
        return float(self.compared.mean()) if self.compared.size else 1.0


def tensors_of(problem: Linear, values: Mapping[str, Array]) -> dict[str, Any]:
    """Operands as PyTorch's tensors, which share their memory."""
    to = framework_named("torch").to
    return {tensor.name: to(values[tensor.name]) for tensor in problem.tensors}


def values_of(followed: Followed) -> dict[str, Array]:
    """The operands that were followed, as they are stored; nobody is to change them."""
    back = framework_named("torch").back
    found = {name: back(tensor) for name, tensor in followed.tracked.program.operands.items()}
    return {name: array for name, array in found.items() if array is not None}


def tracked_on(problem: Linear, values: Mapping[str, Array], *, steady: bool = False) -> Tracked:
    """
    The reference tracked on these operands; *steady*: as of `zeroulp.track.track`.

    Raises:
        ProgramError: If it cannot be followed, or returns more than one tensor.
    """
    assert problem.reference is not None, "a check has one"
    tracked = track.track(problem.reference, tensors_of(problem, values), **contract_of(problem), steady=steady)
    only_output(tracked)
    return tracked


def contract_of(problem: Linear) -> dict[str, Any]:
    """What a kernel promises, as `zeroulp.track.track` takes it."""
    return {
        "storage": problem.storage,
        "accumulate": problem.accumulate,
        "accumulator_bits": problem.sum_bits,
        "refactored": problem.refactored,
    }


def only_output(tracked: Tracked) -> None:
    """Raise ProgramError if the reference returns more than one tensor."""
    if len(tracked.outputs) != 1:
        raise ProgramError(
            f"the reference returns {len(tracked.outputs)} tensors",
            why="kernels with one output are checked, and others not yet",
            do="check one output at a time: return that one, and wrap the kernel likewise",
        )


def resolved(problem: Linear, values: Mapping[str, Array]) -> Linear:
    """The problem with its output as the reference returns it. Raises ProgramError if that contradicts what is said."""
    return resolved_by(problem, tracked_on(problem, values))


def resolved_by(problem: Linear, tracked: Tracked) -> Linear:
    """The same by a drawing that has been tracked."""
    output = tracked.outputs[0]
    found, shape = _format_of(output).name, tuple(output.values.shape)
    for what, said, is_ in (("format", problem.out, found), ("shape", problem.shape, shape)):
        if said and said != is_:
            raise ProgramError(
                f"the reference returns the {what} {is_}, and the output is said to have {said}",
                do=f"leave it out, or let the reference return that {what}",
            )
    return problem.replace(out=found, shape=shape)


def follow(problem: Linear, values: Mapping[str, Array], device: str = "cpu") -> Followed:
    """
    What every correct kernel returns for these operands.

    Args:
        problem: With its output known.
        values: Stored arrays by name.
        device: Where the reference checks itself.

    Raises:
        ProgramError: If the reference cannot be followed, or returns another shape than before.
    """
    return examined(problem, tracked_on(problem, values, steady=problem.is_resolved), device)


def returned(problem: Linear, values: Mapping[str, Array], program: Program, device: str = "cpu") -> Array | None:
    """
    What the reference itself returns for these operands, in the contract's formats.

    Args:
        problem: With its output known.
        values: Stored arrays by name.
        program: The reference, as it was followed on other operands.
        device: Where to run it.

    Returns:
        Encodings of the output's format; None if it cannot be run there, or returns something else.
    """
    found = track.native(program, device, tensors_of(problem, values))
    if found is None or len(found) != 1 or tuple(found[0].shape) != problem.shape:
        return None
    output = found[0].cpu().contiguous()
    if str(output.dtype).rpartition(".")[2] != problem.out:
        return None
    stored = framework_named("torch").back(output)
    return None if stored is None else encoding.bits_of(np.asarray(stored))


def worked_out(problem: Linear, values: Mapping[str, Array], like: Program) -> Array | None:
    """
    The same in float64, rounded once.

    Args:
        problem: With its output known, in a format of numbers.
        values: Stored arrays by name.
        like: The program of a drawing that was followed.

    Returns:
        Encodings of the output's format; None if that is none of floating numbers, or it cannot be run so.
    """
    try:
        found = like.plain(tensors_of(problem, values))
    except ProgramError:
        return None
    if len(found) != 1 or tuple(found[0].shape) != problem.shape or not found[0].is_floating_point():
        return None
    numbers = np.ascontiguousarray(found[0].cpu().numpy())
    return _rounded(numbers, problem.out_format, np.ones(numbers.shape, bool))


def examined(problem: Linear, tracked: Tracked, device: str) -> Followed:
    """The same for a drawing that has been tracked."""
    output = tracked.outputs[0]
    if tuple(output.values.shape) != problem.shape or _format_of(output).name != problem.out:
        raise ProgramError(
            f"the reference returns {tuple(output.values.shape)} of {_format_of(output)}, and {problem.shape} of "
            f"{problem.out} on other operands",
            why="a kernel is told beforehand where its result goes",
            do="return a tensor of one shape, what is not used filled with zeros",
        )
    if problem.algorithm == "any" and tracked.outputs[0].format is not None:
        return examined_nearly(problem, tracked, device)
    check = track.self_check(tracked, device=device)
    demoted = ""
    if not check.unsupported and any(one.algebraic or one.rounded_once for one in check.outputs):
        demoted = _disagreement(check.outputs[0], device)
        tracked = check.demote(tracked)
    compared = _compared(problem, tracked.outputs[0])
    codes = _codes(tracked.outputs[0], problem.out_format, compared)
    expected = Expected(codes, (), compared, None, _is_rounded(tracked.outputs[0], compared))
    unchecked = f"the reference could not be run on {device}: {check.unsupported}" if check.unsupported else ""
    return Followed(tracked, expected, _certificate(problem, tracked, compared), demoted, unchecked)


def examined_nearly(problem: Linear, tracked: Tracked, device: str) -> Followed:
    """
    The same where kernels need not sum the products of the reference: the nearest multiple of the quantum is compared.

    Exactness:
        An output is n quanta with |n| at most 2^(p - 2), p bits of its format or fewer, so that n - 1/2 and n + 1/2
        are numbers of that format: what lies between them is nearest to n. All or none, since an algorithm that works
        on tiles carries the errors of large sums over to small ones.
    """
    output, format_ = tracked.outputs[0], problem.out_format
    values = np.asarray(output.values.cpu().numpy(), np.float64)
    quantum = 2.0 ** (output.quantum_exponent or 0)
    bits = min(problem.sum_bits or 1, format_.precision - 2)
    exact = bool(_compared(problem, output).all()) and output.quantum_exponent is not None
    fits = exact and bool((np.abs(values) <= 2**bits * quantum).all()) and quantum / 2 >= format_.min_normal
    compared = np.full(values.shape, fits)
    codes = _codes(output, format_, compared)
    ends = (-quantum / 2, quantum / 2)
    low, high = (encoding.round_values(values + end, format_) if fits else codes for end in ends)
    demoted = ""
    found = track.native(tracked.program, device)
    if fits and found is not None and tuple(found[0].shape) == values.shape:
        off = np.abs(np.asarray(found[0].cpu().double().numpy()) - values)
        if not (off <= quantum / 2).all():
            count = int(np.count_nonzero(~(off <= quantum / 2)))
            demoted = f"the reference itself, run on {device}, is off by more than half a quantum in {count:,} elements"
            compared = np.zeros_like(compared)
    expected = Expected(codes, (), compared, None, rounded=False, low=low, high=high)
    ran = found is not None and tuple(found[0].shape) == values.shape
    unchecked = "" if ran else f"the reference could not be run on {device} in these formats"
    certificate = replace(_certificate(problem, tracked, compared), theorem="nearest")
    return Followed(tracked, expected, certificate, demoted, unchecked)


def _compared(problem: Linear, output: Output) -> NDArray[np.bool_]:
    grade = np.asarray(output.grade.cpu().numpy())
    compared = grade == int(Grade.ALGEBRAIC)
    if output.leans and problem.division == "any":
        return np.zeros_like(compared)
    if not output.leans:
        compared |= grade == int(Grade.ROUNDED_ONCE)
    if output.format is not None:
        moduli = np.abs(np.asarray(output.values.cpu().numpy()))
        compared &= (moduli == 0) | ~(moduli < problem.out_format.min_normal)
    return np.asarray(compared)


def _is_rounded(output: Output, compared: NDArray[np.bool_]) -> bool:
    grade = np.asarray(output.grade.cpu().numpy())
    return bool((compared & (grade == int(Grade.ROUNDED_ONCE))).any())


def _format_of(output: Output) -> Format:
    if output.format is not None:
        return output.format
    name = str(output.values.dtype).rpartition(".")[2]
    if name not in BY_NAME:
        raise ProgramError(f"the reference returns a tensor of {name}", do="return float32, float16, bfloat16 or int64")
    return BY_NAME[name]


def _codes(output: Output, format_: Format, compared: NDArray[np.bool_]) -> Array:
    """Encodings, right where they are compared."""
    values = np.ascontiguousarray(output.values.cpu().numpy()).reshape(tuple(output.values.shape))
    return encoding.bits_of(values) if output.format is None else _rounded(values, format_, compared)


def _rounded(values: Array, format_: Format, compared: NDArray[np.bool_]) -> Array:
    """Encodings of float64 numbers, right where they are compared."""
    with np.errstate(over="ignore", invalid="ignore"):
        if format_.name in _CAST:
            return encoding.bits_of(values.astype(encoding.storage_dtype(format_)))
        single = values.astype(np.float32)  # what this holds is rounded once by the next line
        if ((single == values) | ~compared).all():
            return encoding.bits_of(single.astype(encoding.storage_dtype(format_)))
    return encoding.round_values(values, format_)


def _certificate(problem: Linear, tracked: Tracked, compared: NDArray[np.bool_]) -> Certificate:
    output, arithmetic = tracked.outputs[0], tracked.program.arithmetic
    bits = arithmetic.sum_bits(output.format or arithmetic.storage)
    clause = "sums as precise as their result" if problem.accumulate == "any" else f"sums in {problem.accumulate}"
    return Certificate(
        holds=True,
        theorem="tracked",
        declared=problem.accumulate != "any",
        clause=clause,
        precision=bits,
        budget=2**bits,
        largest_sum=round(2**tracked.bits) if tracked.bits else 0,
        quantum_exponent=output.quantum_exponent or 0,
        masked=not bool(compared.all()),
    )


def _disagreement(check: track.OutputCheck, device: str) -> str:
    """What the reference itself does otherwise, in a sentence."""
    count = check.algebraic + check.rounded_once
    text = f"the reference itself, run on {device}, returns something else in {count:,} elements"
    if check.first is None:
        return text
    place, value, found = check.first
    return f"{text}: out[{', '.join(map(str, place))}] is {found:g}, exactly it is {value:g}"
