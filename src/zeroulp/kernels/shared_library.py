"""A symbol of a shared library as a kernel."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp import encoding
from zeroulp.errors import KernelNotFoundError, KernelRaisedError, UsageError
from zeroulp.kernels.signature import BATCH_STRIDES, LEADING, POINTERS, Signature, parse_signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.encoding import Array
    from zeroulp.problem import Matmul


class LibraryKernel:
    """
    A C function that writes into its output (or updates c in place).

    Args:
        path: The shared library.
        symbol: The function.
        signature: What it takes; see `zeroulp.kernels.signature`.
        problem: Sizes, alpha and beta, which are passed by value.
    """

    framework = "c"

    def __init__(self, path: Path, symbol: str, signature: Signature, problem: Matmul) -> None:
        self._path, self._symbol = path, symbol
        self._signature = signature
        self._problem = problem
        self._names = [operand.name for operand in problem.operands]
        _check_roles(signature, problem)
        self._function = find_symbol(path, symbol)
        self._function.argtypes = [parameter.type for parameter in signature.parameters]
        self._function.restype = signature.returns

    def for_problem(self, problem: Matmul) -> LibraryKernel:
        """The same symbol for another problem; its library stays loaded."""
        return LibraryKernel(self._path, self._symbol, self._signature, problem)

    def attach(self, block: Array) -> None:
        """A C symbol works on the block itself."""

    def __call__(self, operands: Sequence[Array], out: Array | None) -> Array:
        """Call it; see `zeroulp.kernels.spec.Kernel`."""
        assert out is not None, "a C kernel has an output to write to"
        arrays = dict(zip(self._names, operands, strict=True))
        if self._signature.in_place:
            if "c" in arrays:
                encoding.bits_of(out)[...] = encoding.bits_of(arrays["c"])
            arrays["c"] = out
        arrays["out"] = out
        status = self._function(*[self._value(role, arrays) for role in self._signature.roles])
        if self._signature.returns is not None and status != 0:
            raise KernelRaisedError(f"the kernel returned the error code {status}")
        return out

    def _value(self, role: str, arrays: dict[str, Array]) -> Any:
        if role in POINTERS:
            return arrays[role].ctypes.data
        if role in LEADING:
            return _leading_dimension(arrays[LEADING[role]])
        if role in BATCH_STRIDES:
            array = arrays[BATCH_STRIDES[role]]
            return array.strides[0] // array.itemsize if array.ndim > 2 else array.size
        if role == "batch":
            return math.prod(self._problem.batch)
        return getattr(self._problem, role)


def library_kernel(path: str, symbol: str, signature: str | None, problem: Matmul) -> LibraryKernel:
    """The kernel at ``path:symbol``. Raises UsageError where it cannot be called for this problem."""
    if not signature:
        raise UsageError(
            f"no signature for the C symbol {symbol!r}",
            why="a shared library does not say what its functions take",
            do="add --signature 'a, b, out, m, n, k, lda, ldb, ldout' with the parameters in order",
        )
    return LibraryKernel(Path(path), symbol, parse_signature(signature), problem)


def find_symbol(path: Path, symbol: str) -> Any:
    """A function of a shared library. Raises KernelNotFoundError if it is not there."""
    if not path.exists():
        raise KernelNotFoundError(f"no shared library at {path}", do="build it first, or correct the path")
    try:
        library = ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise KernelNotFoundError(f"{path} cannot be loaded", why=str(error)) from error
    try:
        return library[symbol]
    except AttributeError as error:
        do = f"'nm -D {path}' lists what it has; in C++ declare the function extern \"C\""
        raise KernelNotFoundError(f"{path} has no symbol {symbol!r}", do=do) from error


def _check_roles(signature: Signature, problem: Matmul) -> None:
    """Refuse what the symbol has no way to be told."""
    roles = signature.roles
    if problem.bias is not None and "bias" not in roles:
        raise UsageError("the problem has a bias and the signature does not", do="add the role bias")
    if problem.beta != 0 and "c" not in roles:
        raise UsageError("the problem has beta and the signature has no c", do="add the role c")
    if "bias" in roles and problem.bias is None:
        raise UsageError("the signature has a bias and the problem does not", do="give the bias a format")
    if problem.beta == 0 and "c" in roles and "out" in roles:
        raise UsageError("the signature has c and out, but beta is 0", do="pass beta, or leave c out")
    if len(problem.batch) > 1 or (problem.batch and "batch" not in roles):
        raise UsageError(
            f"the signature cannot carry batch={problem.batch}",
            do="use one batch dimension and the roles batch, stride_a, stride_b, stride_out",
        )
    if not all(_carries(signature, problem, name) for name in POINTERS if name in roles):
        raise UsageError(
            f"layouts={problem.layouts!r} cannot be told to this C symbol",
            why="its signature has row-major operands and these sizes only: " + ", ".join(roles),
            do="use layouts 'contiguous' or 'offset', or 'padded' with leading dimensions in the signature",
        )


def _carries(signature: Signature, problem: Matmul, name: str) -> bool:
    """Whether the symbol can be told how the operand *name* lies in memory."""
    layouts = problem.layouts
    if isinstance(layouts, dict):
        layouts = layouts.get("out" if name == "c" and signature.in_place else name, "contiguous")
    told = any(LEADING.get(role) == name for role in signature.roles) or name == "bias"
    return layouts in ("contiguous", "offset") or (layouts == "padded" and told)


def _leading_dimension(array: Array) -> int:
    """Elements from one row to the next; at least 1, as BLAS wants it."""
    return max(1, int(array.strides[-2] // array.itemsize if array.shape[-2] else array.shape[-1]))
