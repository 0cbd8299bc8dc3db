"""The problem: ``out = alpha * a @ b + beta * c + bias``, its sizes, formats and contract."""

from __future__ import annotations

import dataclasses
import math
import operator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

from zeroulp.errors import ProblemError
from zeroulp.formats import Format, format_named
from zeroulp.problem.contract import Contract
from zeroulp.problem.layout import Shape, layout_named

_CLAUSES = ("accumulate", "accumulator_precision", "rounding", "subnormals", "signed_zero", "nonfinite", "saturate")


@dataclass(frozen=True)
class Operand:
    """An operand or the output: its name, format and shape (in elements)."""

    name: str
    format: Format
    shape: Shape

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Matmul:
    """
    A matrix product and the contract its kernel keeps.

    The kernel is called as ``kernel(a, b)``, followed by ``c`` where ``beta`` is not 0, by
    ``bias`` where there is one, and by ``out`` under destination passing. ``alpha`` and
    ``beta`` are constants of the problem; a kernel with parameters of these names gets them.

    Args:
        m: Rows of the output, 0 or more.
        n: Columns of the output, 0 or more.
        k: Length of the sums, 0 or more.
        batch: Leading dimensions that all operands but ``bias`` share.
        a: Format of ``a``: (*batch, m, k), or (*batch, k, m) if ``transpose_a``.
        b: Format of ``b``: (*batch, k, n), or (*batch, n, k) if ``transpose_b``; default: as ``a``.
        out: Format of the output and of ``c``: (*batch, m, n). Default: as ``a``, but int32
            for int8 operands and float32 for tfloat32 ones.
        transpose_a: Whether ``a`` is given transposed.
        transpose_b: Whether ``b`` is given transposed.
        alpha: Factor of the product.
        beta: Factor of ``c``.
        bias: Format of a bias of shape (n,), or None for no bias.
        layouts: ``"contiguous"``, another name of a layout, ``"any"`` to vary them from trial
            to trial, or a mapping from operand to name.
        accumulate: Least accumulator allowed. Default: float64 for float64 operands, int32
            for integers, else float32.
        accumulator_precision: See `Contract`, as for the clauses that follow.
        rounding: ``"ties-to-even"`` or ``"ties-either"``.
        subnormals: ``"either"``, ``"preserve"`` or ``"flush"``.
        signed_zero: ``"either"`` or ``"strict"``.
        nonfinite: ``"propagate"``, ``"ieee"`` or ``"ignore"``.
        saturate: Whether overflow gives the largest finite number; None: as the output's format
            suggests.

    Raises:
        ProblemError: If sizes, formats and clauses contradict each other.
        UnknownNameError: If a name is in none of our tables.

    Examples:
        >>> Matmul(m=512, n=512, k=4096, a="half").sentence()
        'float16 x float16 -> float16; sums in float32, one rounding, ties to even'
    """

    m: int
    n: int
    k: int
    _: KW_ONLY
    batch: Shape = ()
    a: str
    b: str = ""
    out: str = ""
    transpose_a: bool = False
    transpose_b: bool = False
    alpha: float = 1.0
    beta: float = 0.0
    bias: str | None = None
    layouts: Any = "contiguous"
    accumulate: str = ""
    accumulator_precision: int | None = None
    rounding: str = "ties-to-even"
    subnormals: str = "either"
    signed_zero: str = "either"
    nonfinite: str = "propagate"
    saturate: bool | None = None

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            self._set(name, _size(name, getattr(self, name)))
        batch = self.batch if isinstance(self.batch, (tuple, list)) else (self.batch,)
        self._set("batch", tuple(_size("batch", size) for size in batch))
        a = format_named(self.a)
        b = format_named(self.b or a)
        default_out = "int32" if a.is_integer and b.is_integer else a.storage_name
        out = format_named(self.out or default_out)
        for name, format_ in (("a", a), ("b", b), ("out", out)):
            self._set(name, format_.name)
        if self.bias is not None:
            self._set("bias", format_named(self.bias).name)
        for name in ("alpha", "beta"):
            self._set(name, _factor(name, getattr(self, name)))
        self._set("accumulate", self.accumulate or _default_accumulator(a, b))
        self._check_formats(a, b, out)
        self._check_layouts()
        _ = self.contract

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_formats(self, a: Format, b: Format, out: Format) -> None:
        named = [("a", a), ("b", b), ("out", out)]
        if self.bias is not None:
            named.append(("bias", format_named(self.bias)))
        for name, format_ in named:
            if format_.is_scale:
                raise ProblemError(
                    f"{format_} holds scales, not matrix elements",
                    where=f"format of {name}",
                    why="it has no zero and no sign",
                )
            if format_.storage and name not in ("a", "b"):
                raise ProblemError(
                    f"{format_} is a format of operands",
                    where=f"format of {name}",
                    why=f"such values are stored as {format_.storage}",
                    do=f"pass {name}={format_.storage!r}",
                )
        floats = [name for name, format_ in named if not format_.is_integer]
        if self.accumulate == "int32" and not (a.is_integer and b.is_integer):
            raise ProblemError(
                "accumulate='int32' needs integer operands",
                where=f"a is {a}, b is {b}",
                do="leave accumulate out, or pass 'float32'",
            )
        if out.is_integer and floats:
            raise ProblemError(
                f"an integer output of floating-point operands ({', '.join(floats)})",
                why="no common rule says how the sum is rounded to an integer",
                do="pass a floating-point output format",
            )

    def _check_layouts(self) -> None:
        names = {operand.name for operand in (*self.operands, self.output)}
        if isinstance(self.layouts, str):
            if self.layouts != "any":
                layout_named(self.layouts)
            return
        if not isinstance(self.layouts, dict):
            raise ProblemError(f"layouts={self.layouts!r} is neither a name nor a mapping from operand to name")
        for name, layout in self.layouts.items():
            if name not in names:
                raise ProblemError(f"layouts name the operand {name!r}", why=f"there are {', '.join(sorted(names))}")
            if layout == "any":
                raise ProblemError(
                    f"layouts vary for {name} alone", do="pass layouts='any' to vary them all, or name one layout"
                )
            if layout_named(layout).broadcast and name == "out":
                raise ProblemError(
                    f"the layout {layout!r} of the output",
                    where="layouts",
                    why="its rows would be one and the same memory",
                    do="choose a layout without stride 0 for out",
                )

    title: ClassVar[str] = "matmul"
    """What a sentence about a kernel begins with."""

    order: ClassVar[str] = "a, b, c, bias, out"
    """In which a kernel gets what there is of these."""

    @property
    def constants(self) -> dict[str, float]:
        """What a kernel gets by keyword if it has parameters of these names."""
        return {"alpha": self.alpha, "beta": self.beta}

    @cached_property
    def contract(self) -> Contract:
        """The contract's clauses."""
        return Contract(**{name: getattr(self, name) for name in _CLAUSES})

    @cached_property
    def a_format(self) -> Format:
        """Format of a."""
        return format_named(self.a)

    @cached_property
    def b_format(self) -> Format:
        """Format of b."""
        return format_named(self.b)

    @cached_property
    def out_format(self) -> Format:
        """Format of the output."""
        return format_named(self.out)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The inputs, in the order of the kernel's arguments."""
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        operands = [
            Operand("a", self.a_format, (*self.batch, *a)),
            Operand("b", self.b_format, (*self.batch, *b)),
        ]
        if self.beta != 0:
            operands.append(Operand("c", self.out_format, self.output.shape))
        if self.bias is not None:
            operands.append(Operand("bias", format_named(self.bias), (self.n,)))
        return tuple(operands)

    @cached_property
    def output(self) -> Operand:
        """The output."""
        return Operand("out", self.out_format, (*self.batch, self.m, self.n))

    def replace(self, **changes: Any) -> Matmul:
        """The same problem with other fields."""
        return dataclasses.replace(self, **changes)

    def sentence(self) -> str:
        """Formats and contract, in words."""
        return f"{self.a} x {self.b} -> {self.out}; {self.contract.sentence()}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {"operation": "matmul", **dataclasses.asdict(self), "batch": list(self.batch)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Matmul:
        """The problem that `to_dict` described."""
        return cls(**{name: value for name, value in data.items() if name != "operation"})


def _size(name: str, value: Any) -> int:
    try:
        size = operator.index(value)
    except TypeError:
        size = -1
    if size < 0 or isinstance(value, bool):
        raise ProblemError(f"{name}={value!r} is no size", why="sizes are whole numbers, 0 or more")
    return size


def _factor(name: str, value: Any) -> float:
    try:
        factor = float(value)
    except (TypeError, ValueError):
        factor = math.nan
    if not math.isfinite(factor):
        raise ProblemError(f"{name}={value!r} is no finite number")
    return factor


def _default_accumulator(a: Format, b: Format) -> str:
    if a.is_integer and b.is_integer:
        return "int32"
    return "float64" if "float64" in (a.name, b.name) else "float32"
