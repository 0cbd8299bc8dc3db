"""A problem that is given by a reference in PyTorch: its operands, its one output, and what its kernels promise."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from zeroulp.errors import ProblemError, UnknownNameError, UsageError
from zeroulp.formats import BY_NAME, Format, format_named
from zeroulp.problem.matmul import Operand
from zeroulp.problem.tensor import Tensor

STORED_IN = ("float32", "float16", "bfloat16")
SUMMED_IN = ("any", "float16", "float32", "float64")
DIVIDED = ("any", "last")
ALGORITHMS = ("direct", "any")
SLACK = 16
"""Bits of sums that are left to the errors of other algorithms: Winograd's for tiles of 4 x 4 lose up to 15."""
_WHOLE = ("int8", "int32")


@dataclass(frozen=True)
class Origin:
    """
    Where a reference was written down.

    Args:
        name: Of the function, as its module knows it.
        file: Its file; empty if it has none.
        source: Its text; empty if nobody knows it.
        problem: What the problem is called in a file that defines it; empty if it was made elsewhere.
        arguments: Of a reference of `zeroulp.problems`, found by its name: what it is called with, as JSON; else empty.
    """

    name: str = ""
    file: str = ""
    source: str = ""
    problem: str = ""
    arguments: str = ""

    @classmethod
    def of(cls, reference: Any) -> Origin:
        """As far as it can be told."""
        if isinstance(own := getattr(reference, "origin", None), Origin):
            return own
        found = reference if hasattr(reference, "__qualname__") else type(reference)
        try:
            file = str(Path(inspect.getsourcefile(found) or "").resolve()) if inspect.getsourcefile(found) else ""
            source = inspect.getsource(found)
        except (OSError, TypeError):
            file = source = ""
        return cls(str(found.__qualname__), file, source)


@dataclass(frozen=True)
class Linear:
    """
    A kernel's problem, said by a reference: a function of PyTorch tensors.

    The kernel gets arrays of its framework in the order and the formats of the operands, and returns one array. Which
    elements are compared follows from the reference, run in float64 and watched (see `zeroulp.track`): those that every
    correct kernel returns with the same bits, whatever it sums in which order.

    Args:
        reference: Takes tensors in the order of the operands, returns one tensor. Neither random nor in place.
        tensors: The operands: `zeroulp.Tensor` each.
        name: What reports call the kernel's task; default: the reference's name.
        storage: Format of tensors that the reference gives none: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        accumulate: The least precise format in which a kernel keeps sums and what it does not store; ``"any"``: as
            precise as the result.
        accumulator_precision: Significand bits that sums keep, where that is fewer than the format has.
        refactored: Whether kernels may merge and rearrange sums and products between two selections; False: each
            operation of the reference is computed by itself, and stored.
        division: ``"any"``: a kernel may divide term by term, so that what comes after a division by anything but a
            constant power of two is not compared. ``"last"``: it divides where the reference does.
        algorithm: ``"direct"``: kernels sum the products of the reference. ``"any"``: they may sum others (Winograd's
            transforms, Fourier's), and their results may be off by up to half a quantum of the exact ones; sums are
            kept so small that errors are less by far.
        out: Format of the output; found by running the reference.
        shape: Shape of the output; likewise.
        origin: Where the reference stands; likewise.

    Raises:
        UsageError: If that describes no problem.

    Examples:
        >>> Linear(lambda x, w: x @ w, [Tensor("x", (4, 8)), Tensor("w", (8, 3))], name="matmul").title
        'matmul'
    """

    reference: Callable[..., Any] | None = field(compare=False)
    tensors: tuple[Tensor, ...]
    _: KW_ONLY
    name: str = ""
    storage: str = "float32"
    accumulate: str = "float32"
    accumulator_precision: int | None = None
    refactored: bool = True
    division: str = "any"
    algorithm: str = "direct"
    out: str = ""
    shape: tuple[int, ...] | None = None
    origin: Origin | None = None

    nonfinite: ClassVar[str] = "ieee"
    """Nothing is put between the rows of an operand."""

    def __post_init__(self) -> None:
        if self.reference is not None and not callable(self.reference):
            raise UsageError(f"the reference is a {type(self.reference).__name__}", do="pass a function of tensors")
        self._set("tensors", _checked(self.tensors))
        if self.origin is None:
            self._set("origin", Origin.of(self.reference))
        assert self.origin is not None, "it was set just now"
        if not self.name:
            own = self.origin.name.rpartition(".")[2]
            self._set("name", own if own.isidentifier() else "the kernel")
        self._set("storage", format_named(self.storage).name)
        words = {"storage": STORED_IN, "accumulate": SUMMED_IN, "division": DIVIDED, "algorithm": ALGORITHMS}
        for clause, known in words.items():
            if getattr(self, clause) not in known:
                raise UnknownNameError(f"value for the clause {clause}", getattr(self, clause), known)
        bits = self.accumulator_precision
        if bits is not None and not (isinstance(bits, int) and 1 <= bits <= 53):
            what = f"accumulator_precision={bits!r} is no number of significand bits"
            raise ProblemError(what, do="pass an integer from 1 to 53, or leave it out")
        if self.algorithm == "any" and (self.sum_bits or 0) < 1:
            what = f"algorithm='any' with sums of {(self.sum_bits or 0) + SLACK} bits"
            why = f"{SLACK} of them are left to an algorithm's own errors, and none remains"
            raise ProblemError(what, why=why, do="accumulate='float32' or 'float64', if kernels keep such sums")
        if self.shape is not None:
            self._set("shape", tuple(self.shape))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def sum_bits(self) -> int | None:
        """Significand bits that sums may take up, where that is fewer than their format has; None: all."""
        if self.algorithm == "direct":
            return self.accumulator_precision
        formats = [BY_NAME[self.storage], *(t.number_format for t in self.tensors if t.number_format is not None)]
        floats = [format_.precision for format_ in formats if not format_.is_integer]
        most = min(floats) if self.accumulate == "any" else BY_NAME[self.accumulate].precision
        return min(most, self.accumulator_precision or most) - SLACK

    @property
    def title(self) -> str:
        """What a sentence about a kernel begins with."""
        return self.name

    @property
    def order(self) -> str:
        """In which a kernel gets its arguments."""
        return ", ".join([*(tensor.name for tensor in self.tensors), "out"])

    @property
    def constants(self) -> dict[str, float]:
        """Nothing is given by keyword."""
        return {}

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The inputs, in the order of the kernel's arguments."""
        return tuple(Operand(tensor.name, BY_NAME[tensor.format], tensor.shape) for tensor in self.tensors)

    @property
    def is_resolved(self) -> bool:
        """Whether the output is known."""
        return self.shape is not None and bool(self.out)

    @cached_property
    def out_format(self) -> Format:
        """Format of the output, once it is known."""
        return BY_NAME[self.out]

    @cached_property
    def output(self) -> Operand:
        """The output, once it is known."""
        assert self.shape is not None, "the reference has not been run"
        return Operand("out", self.out_format, self.shape)

    def replace(self, **changes: Any) -> Linear:
        """The same problem with other fields."""
        return dataclasses.replace(self, **changes)

    def bare(self) -> Linear:
        """What a kernel's process is told: operands and output, and nothing of the reference."""
        return self.replace(reference=None, origin=Origin())

    def sentence(self) -> str:
        """Formats and contract, in words."""
        formats = ", ".join(tensor.format for tensor in self.tensors)
        sums = "sums as precise as their result" if self.accumulate == "any" else f"sums in {self.accumulate}"
        if self.accumulator_precision is not None:
            sums += f" with {self.accumulator_precision} bits"
        merged = "sums and products merged at will" if self.refactored else "each operation computed by itself"
        divided = "" if self.division == "any" else ", divisions where the reference has them"
        other = "" if self.algorithm == "direct" else ", any algorithm that is right to within half a quantum"
        return f"{formats} -> {self.out or 'as the reference'}; {sums}, {merged}{divided}{other}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; of the reference its text."""
        fields = {name: value for name, value in vars(self).items() if name in _FIELDS}
        tensors = [{**vars(tensor), "shape": list(tensor.shape)} for tensor in self.tensors]
        shape = None if self.shape is None else list(self.shape)
        return {"operation": "linear", **fields, "tensors": tensors, "shape": shape, "origin": vars(self.origin)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Linear:
        """The problem that `to_dict` described, without its reference."""
        fields = {name: value for name, value in data.items() if name != "operation"}
        fields["tensors"] = tuple(Tensor(**tensor) for tensor in fields["tensors"])
        return cls(None, **{**fields, "origin": Origin(**fields["origin"])})


_FIELDS = tuple(f.name for f in dataclasses.fields(Linear) if f.name != "reference")


def _checked(tensors: Any) -> tuple[Tensor, ...]:
    """The operands. Raises UsageError if they are none."""
    if not isinstance(tensors, Sequence) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise UsageError("the operands are not zeroulp.Tensor each", do='pass [zeroulp.Tensor("x", (2, 3)), ...]')
    names = [tensor.name for tensor in tensors]
    for name in names:
        if not isinstance(name, str) or not name.isidentifier() or name == "out":
            raise UsageError(f"an operand is called {name!r}", do="give it the name of an argument, other than out")
        if names.count(name) > 1:
            raise UsageError(f"two operands are called {name!r}", do="give each a name of its own")
    if not tensors:
        raise UsageError("a kernel without operands", why="nothing could be varied")
    for tensor in tensors:
        format_ = tensor.number_format
        if format_ is not None and format_.name not in (*STORED_IN, *_WHOLE):
            do = f"choose {', '.join((*STORED_IN, *_WHOLE))}"
            raise UsageError(f"operand {tensor.name} is of {format_}, which no reference is followed in", do=do)
        if math.prod(tensor.shape) == 0:
            raise UsageError(f"operand {tensor.name} of shape {tensor.shape} is empty", do="choose a larger shape")
    return tuple(tensors)
