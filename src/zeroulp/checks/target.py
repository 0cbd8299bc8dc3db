"""What a function given in Python is called, so that a worker or a replay can find it again."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.errors import UsageError
from zeroulp.kernels import KernelSpec

if TYPE_CHECKING:
    from collections.abc import Callable


def spec_of(
    kernel: Callable[..., Any] | str,
    framework: str | None,
    signature: str | None,
    *,
    destination_passing: bool,
    device: str = "cpu",
) -> KernelSpec:
    """Which kernel is meant, as plain data. Raises UsageError if it is neither a function nor a target."""
    if not isinstance(device, str):
        raise UsageError(f"the device is a {type(device).__name__}", do="pass its name: 'cpu', 'cuda' or 'cuda:1'")
    if isinstance(kernel, str):
        return KernelSpec(kernel, framework, signature, destination_passing, device)
    if not callable(kernel):
        raise UsageError(f"the kernel is a {type(kernel).__name__}", do="pass a function, or 'file.py:function'")
    return KernelSpec(target_of(kernel), framework, signature, destination_passing, device)


def can_be_found(function: Callable[..., Any]) -> bool:
    """Whether its module has this very function under its name: no lambda, closure, method or changed object."""
    module = getattr(function, "__module__", None) or ""
    found: Any = sys.modules.get(module)
    for part in getattr(function, "__qualname__", "?").split("."):
        found = getattr(found, part, None)
    return found is function and not target_of(function).startswith("__main__:")


def target_of(function: Callable[..., Any]) -> str:
    """How the function would be named on the command line, as well as that can be told."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", "") or "__main__"
    try:
        file = inspect.getsourcefile(function)
    except TypeError:
        file = None
    if file and Path(file).suffix == ".py" and "<" not in name:
        return f"{file}:{name}"
    return f"{module}:{name}"
