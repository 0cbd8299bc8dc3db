"""
Array libraries at the boundary: host arrays in, host arrays out, memory shared.

The only file that knows frameworks. One is used if the user's own kernel uses it.
"""

from __future__ import annotations

import contextlib
import dis
import importlib
import sys
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from zeroulp.encoding import Array, bits_of
from zeroulp.errors import KernelResultError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Framework:
    """
    How arrays cross the boundary to one library and back.

    Args:
        name: Its name, which is that of its top module.
        to: A host array as one of its arrays, sharing memory.
        back: One of its arrays as a host array, sharing memory; None if it is none of its arrays.
    """

    name: str
    to: Callable[[Array], Any]
    back: Callable[[Any], Array | None]


def _numpy_back(result: Any) -> Array | None:
    return np.asarray(result) if isinstance(result, np.ndarray) else None


# dtypes that numpy has no name for cross as integers of the same width
_TORCH_CARRIERS = {
    "bfloat16": ("int16", np.int16),
    "float8_e4m3fn": ("uint8", np.uint8),
    "float8_e4m3fnuz": ("uint8", np.uint8),
    "float8_e5m2": ("uint8", np.uint8),
    "float8_e5m2fnuz": ("uint8", np.uint8),
}


def _torch_to(array: Array) -> Any:
    torch = importlib.import_module("torch")
    name = array.dtype.name
    if name in _TORCH_CARRIERS:
        return torch.from_numpy(array.view(_TORCH_CARRIERS[name][1])).view(getattr(torch, name))
    if not hasattr(torch, name):
        raise UsageError(f"PyTorch has no dtype for {name}", do="check such a kernel on NumPy arrays")
    return torch.from_numpy(array)


def _torch_back(result: Any) -> Array | None:
    torch = importlib.import_module("torch")
    if not isinstance(result, torch.Tensor):
        return None
    result = result.detach()
    if result.device.type != "cpu":
        raise KernelResultError(
            f"the kernel returned a tensor on {result.device}",
            why="its inputs were on the CPU",
            do="return the result on the device of the inputs",
        )
    name = str(result.dtype).removeprefix("torch.")
    if name in _TORCH_CARRIERS:
        carrier = np.asarray(result.view(getattr(torch, _TORCH_CARRIERS[name][0])).numpy())
        stored: Array = carrier.view(np.dtype(getattr(ml_dtypes, name)))
        return stored
    try:
        return np.asarray(result.numpy())
    except (TypeError, RuntimeError) as error:  # dtypes and storages that numpy has no word for
        raise KernelResultError(
            f"the kernel returned a tensor of {result.dtype}, {result.layout}, which is no plain array",
            why=str(error),
            do="return a dense tensor of the output's dtype",
        ) from error


FRAMEWORKS: dict[str, Framework] = {
    "numpy": Framework("numpy", lambda array: array, _numpy_back),
    "torch": Framework("torch", _torch_to, _torch_back),
}


def framework_named(name: str) -> Framework:
    """The framework called *name*. Raises UsageError if it is not supported."""
    if name not in FRAMEWORKS:
        raise UsageError(
            f"framework {name!r} is not supported",
            do=f"supported: {', '.join(FRAMEWORKS)}; for a C library give its path as library.so:symbol",
        )
    return FRAMEWORKS[name]


def framework_of(function: Callable[..., Any]) -> str:
    """
    What a function eats, by the modules it refers to: torch, if it or its module uses torch; else numpy.

    Names in the function's own code count before names elsewhere in its module.
    """
    target = _innermost(function)
    module = sys.modules.get(getattr(target, "__module__", "") or "")
    names = getattr(target, "__globals__", None) or vars(module or ModuleType("none"))
    code = getattr(target, "__code__", None)
    own = {_top(target), _top(type(target))}
    if code is not None:
        own = {_top(names.get(name)) for name in _names_in(code)} | set(_imports_in(code))
        own |= {_top(value) for value in _enclosed(target)}
    for used in (own, {_top(value) for value in list(names.values())}):
        if "torch" in used or "triton" in used:
            return "torch"
        if "numpy" in used:
            return "numpy"
    return "numpy"


def _top(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return str(name or "").partition(".")[0]


def _innermost(function: Any) -> Any:
    """The plain function behind decorators, partial applications, methods and objects that can be called."""
    for _ in range(10):  # a chain that is longer, or circular, is left as it is
        for name in ("fn", "func", "__wrapped__", "__func__"):
            inner = getattr(function, name, None)
            if callable(inner):
                break
        else:
            inner = vars(type(function)).get("__call__")  # an object of the user's own class
            if not isinstance(inner, FunctionType):
                return function
        function = inner
    return function


def _enclosed(function: Any) -> Iterator[Any]:
    """What a closure holds on to."""
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a variable that was never set
            yield cell.cell_contents


def _imports_in(code: CodeType) -> Iterator[str]:
    """Top modules that a function imports when it is called."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval).partition(".")[0]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports_in(constant)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def spoil_freed_memory(size_bytes: int, code: int, width: int) -> None:
    """
    Leave *code* in memory of this size that was just given back, so that an allocator hands it out next.

    A kernel that forgets to write part of an output it allocated then shows it.
    """
    spoiled = np.full(max(1, size_bytes // width), code, np.dtype(f"u{width}"))
    bits_of(spoiled)
    del spoiled


def versions(framework: str) -> dict[str, str]:
    """Versions of the framework and of what it runs on."""
    found: dict[str, str] = {}
    for name in (framework, "triton"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "__version__"):
            found[name] = str(module.__version__)
    return found
