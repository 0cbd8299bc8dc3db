"""Problems that stand in Python files: found by their names, and found again for a replay."""

from __future__ import annotations

import importlib.util
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ReportFileError, UsageError, ZeroulpError
from zeroulp.problem import Linear, Matmul
from zeroulp.problems import Reference

if TYPE_CHECKING:
    from types import ModuleType

    from zeroulp.problem import Problem

_NAME = "problem"


def load_problem(target: str) -> Problem:
    """
    The problem that a Python file defines.

    Args:
        target: ``"file.py"``, in which it is called ``problem``; or ``"file.py:name"``.

    Raises:
        UsageError: If there is no such file, it cannot be imported, or defines no such problem.
    """
    path, colon, name = target.rpartition(":")
    if not (colon and name.isidentifier() and path.endswith(".py")):
        path, name = target, _NAME
    module = _imported(path, f"correct the path {path!r} of the problem")
    problem: Any = getattr(module, name, None)
    if not isinstance(problem, (Matmul, Linear)):
        what = f"{path} defines no `{name}`"
        if problem is not None:
            what = f"`{name}` in {path} is a {type(problem).__name__}, not a zeroulp.Matmul or zeroulp.Linear"
        raise UsageError(what, do=f"write there: {name} = zeroulp.Matmul(m=..., n=..., k=..., a=...)")
    if isinstance(problem, Linear):
        assert problem.origin is not None, "it has one from the start"
        file = str(Path(path).resolve())
        origin = replace(problem.origin, file=problem.origin.file or file, problem=f"{file}:{name}")
        return problem.replace(origin=origin)
    return problem


def with_reference(problem: Linear) -> Linear:
    """
    A problem that was read from a report, with its reference found again, where it stood.

    Raises:
        ReportFileError: If it is not there, or has changed.
    """
    origin = problem.origin
    assert origin is not None, "a report says where it stood"
    if problem.reference is not None:
        return problem
    try:
        reference = _reference(problem)
    except UsageError as error:
        why = f"{error.what}; {error.why}" if error.why else error.what
        do = "bring the file back, or pass replace(report, problem=...) to zeroulp.replay"
        what = "the reference of this report cannot be found"
        raise ReportFileError(what, where=origin.file, why=why, do=do) from error
    found = problem.replace(reference=reference, origin=None).origin
    assert found is not None, "it has just been looked for"
    if found.source != origin.source:
        raise ReportFileError(
            f"the reference {origin.name} has changed since the report was made",
            where=origin.file,
            why="another reference says nothing about what was seen",
            do="check the kernel anew",
        )
    return problem.replace(reference=reference)


def _reference(problem: Linear) -> Any:
    """From `zeroulp.problems`, or the problem's own file, else by the function's name. Raises UsageError."""
    origin = problem.origin
    assert origin is not None, "a report says where it stood"
    if origin.arguments:
        return Reference(origin.name, origin.arguments)
    if origin.problem:
        loaded = load_problem(origin.problem)
        if isinstance(loaded, Linear):
            return loaded.reference
        raise UsageError(f"{origin.problem} is no zeroulp.Linear any more")
    if "<" in origin.name or not origin.file:
        what = f"{origin.name or 'it'} cannot be found by its name"
        raise UsageError(what, why="it was a lambda, or a function within a function")
    found: Any = _imported(origin.file, "")
    for part in origin.name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UsageError(f"{origin.file} has no function {origin.name}")
    return found


def _imported(path: str, do: str) -> ModuleType:
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"no file {path}", where=f"looked in {Path.cwd()}", do=do)
    spec = importlib.util.spec_from_file_location("zeroulp_problem", file.resolve())
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file", do="name it problem.py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: its status is not a verdict
        raise _import_error(path, error) from error
    return module


def _import_error(path: str, error: BaseException) -> UsageError:
    """Why a problem file cannot be imported, and at which of its lines."""
    names = {path, str(Path(path).resolve())}
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in names]
    where = f"{path}:{error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else 1}"
    if isinstance(error, ZeroulpError):
        where = f"{where}, {error.where}" if error.where else where
        return UsageError(f"{path} cannot be imported: {error.what}", where=where, why=error.why, do=error.do)
    what = f"{path} cannot be imported: {type(error).__name__}: {error}"
    return UsageError(what, where=where, do="mend the file; python runs it as it stands")
