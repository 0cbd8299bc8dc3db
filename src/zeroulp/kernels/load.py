"""From a target such as ``file.py:function`` to a kernel that can be called."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.errors import KernelNotFoundError, KernelRaisedError, UsageError
from zeroulp.kernels.frameworks import framework_for
from zeroulp.kernels.linear_library import linear_library_kernel
from zeroulp.kernels.python import PythonKernel, call_guarded
from zeroulp.kernels.shared_library import library_kernel
from zeroulp.problem import Linear

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from zeroulp.kernels.spec import Kernel, KernelSpec
    from zeroulp.problem import Problem

_LIBRARY_SUFFIXES = (".so", ".dylib", ".dll")


def load(spec: KernelSpec, problem: Problem) -> Kernel:
    """
    Find the kernel that *spec* means.

    Raises:
        UsageError: If it is malformed, or what it names does not exist.
        KernelRaisedError: If its module raises when imported.
    """
    place, name = split_target(spec.target)
    if "<" in name:
        raise KernelNotFoundError(
            f"{name!r} cannot be found by its name",
            why="it was a lambda, or a function within a function, handed over in Python",
            do="name a function at the top of a file, as file.py:function",
        )
    if place.endswith(_LIBRARY_SUFFIXES):
        if spec.device != "cpu":
            do = "wrap it in a Python function on tensors, or leave the device at 'cpu'"
            raise UsageError(f"a C symbol on {spec.device!r}", why="it is called with pointers to host memory", do=do)
        if isinstance(problem, Linear):
            return linear_library_kernel(place, name, spec.signature, problem)
        return library_kernel(place, name, spec.signature, problem)
    if spec.signature:
        raise UsageError("a signature for a Python function", do="leave it out; it is for C symbols")
    module = _module_from_file(Path(place)) if place.endswith(".py") else _module_named(place)
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if function is None:
        raise KernelNotFoundError(f"{place} has no function {name!r}", do=_suggest(name, module))
    return wrap(function, spec, problem)


def wrap(function: Callable[..., Any], spec: KernelSpec, problem: Problem) -> Kernel:
    """A function as a kernel for *problem*; its framework is found if *spec* names none."""
    if not callable(function):
        raise UsageError(f"{spec.target} is a {type(function).__name__}, not a function")
    framework = framework_for(spec.framework, function, spec.device)
    if spec.destination_passing and framework.constant:
        what = f"destination passing to a kernel of {framework.name}"
        raise UsageError(what, why="its arrays cannot be written into", do="let the kernel return its result")
    return PythonKernel(function, framework, problem, destination_passing=spec.destination_passing, device=spec.device)


def _suggest(name: str, module: ModuleType) -> str:
    """Functions that may be meant: close names, else those that the module defines itself."""
    public = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
    close = difflib.get_close_matches(name, public, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    own = [n for n in public if getattr(vars(module)[n], "__module__", None) == module.__name__]
    return f"it has: {', '.join((own or public)[:20]) or 'none'}"


def split_target(target: str) -> tuple[str, str]:
    """The place and the name in ``place:name``. Raises UsageError if it is not of that form."""
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise UsageError(
            f"{target!r} names no kernel",
            do="write file.py:function, package.module:function or library.so:symbol",
        )
    return place, name


def is_library(target: str) -> bool:
    """Whether the target is a C symbol."""
    return target.rpartition(":")[0].endswith(_LIBRARY_SUFFIXES)


def _module_from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise KernelNotFoundError(f"no file {path}", where=f"looked in {Path.cwd()}", do="correct the path")
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    name = f"zeroulp_kernel_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise KernelNotFoundError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that the file's own tools (Triton, inspect, pickle) find it
    call_guarded(spec.loader.exec_module, module)
    return module


def _module_named(name: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    if not all(part.isidentifier() for part in name.split(".")):
        raise KernelNotFoundError(f"no module {name!r}", do="write package.module:function, or file.py:function")
    try:
        module: ModuleType = call_guarded(importlib.import_module, name)
    except KernelRaisedError as error:
        missing = getattr(error.__cause__, "name", None) if isinstance(error.__cause__, ModuleNotFoundError) else None
        if not missing or not f"{name}.".startswith(f"{missing}."):
            raise  # it is there, and something that it imports is not
        parent = missing.rpartition(".")[0]
        why = f"{parent} can be imported, {missing} is not in it" if parent else ""
        raise KernelNotFoundError(f"no module {name!r}", why=why, do="is it installed, or on PYTHONPATH?") from error
    return module
