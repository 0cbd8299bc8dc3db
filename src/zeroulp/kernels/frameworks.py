"""
Array libraries at the boundary: host arrays in, host arrays out, memory shared; or arrays on a device.

With `zeroulp.kernels.torch_device` the only file that knows frameworks. One is used if the user's
own kernel uses it. Another one is an entry in `FRAMEWORKS`, with a `Device` of its own if its arrays may live on one.
"""

from __future__ import annotations

import contextlib
import dis
import importlib
import sys
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.errors import UsageError
from zeroulp.kernels.python import call_guarded
from zeroulp.kernels.torch_device import CARRIERS, attach, torch_back, torch_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zeroulp.encoding import Array
    from zeroulp.kernels.device import Device


@dataclass(frozen=True)
class Framework:
    """
    How arrays cross the boundary to one library and back.

    Args:
        name: Its name, which is that of its top module.
        to: A host array as one of its arrays, sharing memory (but see *constant*).
        back: One of its arrays as a host array, sharing memory; None if it is none of its arrays.
        attach: A device by its name, with a copy of this block on it; raises UsageError if there is no
            such device. None: its arrays live on the host alone.
        constant: Whether its arrays cannot be written into; then *to* copies.
    """

    name: str
    to: Callable[[Array], Any]
    back: Callable[[Any], Array | None]
    attach: Callable[[str, Array], Device] | None = None
    constant: bool = False


def _numpy_back(result: Any) -> Array | None:
    return np.asarray(result) if isinstance(result, (np.ndarray, np.generic)) else None


def _torch_to(array: Array) -> Any:
    torch = importlib.import_module("torch")
    name, dtype = array.dtype.name, torch_dtype(array.dtype.name)
    if name in CARRIERS:
        return torch.from_numpy(array.view(CARRIERS[name][1])).view(dtype)
    return torch.from_numpy(array)


def _jax_to(array: Array) -> Any:
    """A copy: JAX takes an array for a constant, and our buffers are filled again."""
    numpy = importlib.import_module("jax.numpy")
    try:
        copied = numpy.array(array)
    except (TypeError, RuntimeError) as error:
        why = str(error).strip().partition("\n")[0]
        do = "check such a kernel on NumPy arrays"
        raise UsageError(f"JAX has no dtype for {array.dtype}", why=why, do=do) from error
    if copied.dtype != array.dtype:
        do = 'set jax.config.update("jax_enable_x64", True) where the kernel is defined'
        raise UsageError(f"JAX makes {copied.dtype} of {array.dtype}", why="64-bit numbers are off", do=do)
    return copied


def _jax_back(result: Any) -> Array | None:
    jax = importlib.import_module("jax")
    if not isinstance(result, (jax.Array, np.ndarray)):
        return None
    return np.asarray(call_guarded(np.asarray, result))  # waits; what went wrong in between comes up now


FRAMEWORKS: dict[str, Framework] = {
    "numpy": Framework("numpy", lambda array: array, _numpy_back),
    "torch": Framework("torch", _torch_to, torch_back, attach),
    "jax": Framework("jax", _jax_to, _jax_back, constant=True),
}


def device_named(name: str, framework: str | None, block: Array) -> Device | None:
    """
    A device of its own for arrays in a copy of *block*; None for ``"cpu"``.

    Args:
        name: Of the device.
        framework: Whose arrays live there; None: of the first framework that has devices.
        block: The host's block.

    Raises:
        UsageError: If there is no such device, or the framework has none.
    """
    able = [other for other in FRAMEWORKS.values() if other.attach is not None]
    chosen = framework_named(framework) if framework else able[0]
    if name == "cpu" or chosen.attach is None:
        return None
    return chosen.attach(name, block)


def framework_named(name: str) -> Framework:
    """The framework called *name*. Raises UsageError if it is not supported."""
    if name not in FRAMEWORKS:
        raise UsageError(
            f"framework {name!r} is not supported",
            do=f"supported: {', '.join(FRAMEWORKS)}; for a C library give its path as library.so:symbol",
        )
    return FRAMEWORKS[name]


def framework_for(name: str | None, function: Callable[..., Any], device: str) -> Framework:
    """
    The framework for a function's arrays on *device*: the one named, else what the function uses.

    Raises:
        UsageError: If it is not supported, or its arrays never live on such a device.
    """
    framework = framework_named(name or framework_of(function))
    if device == "cpu" or framework.attach is not None:
        return framework
    able = [other.name for other in FRAMEWORKS.values() if other.attach is not None]
    if name is None:  # it names no library, as lambda a, b: a @ b
        return FRAMEWORKS[able[0]]
    raise UsageError(f"{name} has no arrays on {device!r}", do=f"choose framework {' or '.join(able)}, or device 'cpu'")


def framework_of(function: Callable[..., Any]) -> str:
    """
    What a function eats, by the modules it refers to.

    It is torch for one that uses PyTorch or Triton, jax for one that uses JAX and not NumPy, else numpy.
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
        if "jax" in used:
            return "jax"
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


def versions(framework: str) -> dict[str, str]:
    """Versions of the framework and of what it runs on."""
    found: dict[str, str] = {}
    for name in (framework, "triton"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "__version__"):
            found[name] = str(module.__version__)
    return found
