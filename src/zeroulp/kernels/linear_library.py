"""
A symbol of a shared library as a kernel of a problem that is given by a reference.

Without a signature the function gets a pointer to each operand, in order, and one to the output, and returns nothing.
A signature says it otherwise, in the way of `zeroulp.kernels.signature`::

    x, weight, out, x.0, weight.0:i64, scale:f32 -> i32

Pointers: the operands by their names, and ``out``. Integers: ``x.0`` is the length of the first dimension of ``x``
(``i32`` unless said ``i64``). An operand without dimensions may be passed by value: ``scale:f32``, ``f64``, ``i32`` or
``i64``. All arrays are contiguous, the last dimension the fastest. A returned integer other than 0 is an error code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.errors import KernelRaisedError, UsageError
from zeroulp.kernels.shared_library import find_symbol
from zeroulp.kernels.signature import POINTER, REALS, read_signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.encoding import Array
    from zeroulp.kernels.signature import Parameter
    from zeroulp.problem import Linear

_SIZES, _FLOATS = ("i32", "i64"), ("f32", "f64")


class LinearLibraryKernel:
    """
    A C function that writes into its output.

    Args:
        path: The shared library.
        symbol: The function.
        text: What it takes; None: a pointer to each operand, and one to the output.
        problem: Operands and output.
    """

    framework = "c"

    def __init__(self, path: Path, symbol: str, text: str | None, problem: Linear) -> None:
        self._path, self._symbol, self._text = path, symbol, text
        self._names = [operand.name for operand in problem.operands]
        self._shapes = {operand.name: operand.shape for operand in (*problem.operands, problem.output)}
        usual = ", ".join(self._shapes)
        self._signature = read_signature(text or usual, lambda role: _types_of(role, problem, self._shapes), usual)
        if "out" not in self._signature.roles:
            what = f"no out in the signature {text!r}"
            raise UsageError(what, why="the kernel has to write somewhere", do=f"write it like {usual!r}")
        self._function = find_symbol(path, symbol)
        self._function.argtypes = [parameter.type for parameter in self._signature.parameters]
        self._function.restype = self._signature.returns

    def for_problem(self, problem: Linear) -> LinearLibraryKernel:
        """The same symbol for another problem; its library stays loaded."""
        return LinearLibraryKernel(self._path, self._symbol, self._text, problem)

    def attach(self, block: Array) -> None:
        """A C symbol works on the block itself."""

    def __call__(self, operands: Sequence[Array], out: Array | None) -> Array:
        """Call it; see `zeroulp.kernels.spec.Kernel`."""
        assert out is not None, "a C kernel has an output to write to"
        arrays = {**dict(zip(self._names, operands, strict=True)), "out": out}
        status = self._function(*[self._value(each, arrays) for each in self._signature.parameters])
        if self._signature.returns is not None and status != 0:
            raise KernelRaisedError(f"the kernel returned the error code {status}")
        return out

    def _value(self, parameter: Parameter, arrays: dict[str, Array]) -> Any:
        name, dot, number = parameter.role.partition(".")
        if dot:
            return self._shapes[name][int(number)]
        if parameter.type is POINTER:
            return arrays[name].ctypes.data
        value = arrays[name][()]
        return float(value) if parameter.type in REALS else int(value)


def _types_of(role: str, problem: Linear, shapes: dict[str, tuple[int, ...]]) -> tuple[str, ...]:
    """The types that a role may have, the usual one first. Raises KeyError, with all roles, if it is none."""
    name, dot, number = role.partition(".")
    if dot and name in shapes and number.isdecimal() and int(number) < len(shapes[name]):
        return _SIZES
    if dot or name not in shapes:
        raise KeyError(f"{', '.join(shapes)}, and x.0 for the length of the first dimension of x")
    if name == "out" or shapes[name]:
        return ("ptr",)
    format_ = next(tensor.number_format for tensor in problem.tensors if tensor.name == name)
    return ("ptr", *(_SIZES if format_ is None or format_.is_integer else _FLOATS))


def linear_library_kernel(path: str, symbol: str, signature: str | None, problem: Linear) -> LinearLibraryKernel:
    """The kernel at ``path:symbol``. Raises UsageError where it cannot be called for this problem."""
    return LinearLibraryKernel(Path(path), symbol, signature, problem)
