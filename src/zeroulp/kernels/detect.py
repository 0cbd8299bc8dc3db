"""Which library's arrays a function eats, found from the names in it; nothing is imported or called for that."""

from __future__ import annotations

import contextlib
import dis
import sys
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
