"""A Python function as a kernel."""

from __future__ import annotations

import inspect
import traceback
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.errors import KernelRaisedError, KernelResultError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroulp.encoding import Array
    from zeroulp.kernels.device import Device
    from zeroulp.kernels.frameworks import Framework
    from zeroulp.problem import Problem


_LONGEST_MESSAGE = 300  # characters


class PythonKernel:
    """
    A function ``f(a, b[, c][, bias]) -> out``, or ``f(a, b[, c][, bias], out)``.

    Args:
        function: The candidate.
        framework: Whose arrays it eats.
        problem: For alpha and beta, which it gets by keyword if it has parameters of these names.
        destination_passing: Whether it writes into its last argument.
        device: Where its arrays live: ``"cpu"``, or a device of the framework.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        framework: Framework,
        problem: Problem,
        *,
        destination_passing: bool,
        device: str = "cpu",
    ) -> None:
        self._function = function
        self._framework = framework
        self._destination_passing = destination_passing
        self._keywords = {name: value for name, value in problem.constants.items() if name in _parameters(function)}
        self._order = problem.order
        self.framework = framework.name
        self._device_name = device
        self._device: Device | None = None

    def for_problem(self, problem: Problem) -> PythonKernel:
        """The same function for another problem."""
        passing = self._destination_passing
        return PythonKernel(
            self._function, self._framework, problem, destination_passing=passing, device=self._device_name
        )

    def attach(self, block: Array) -> Device | None:
        """Get the device with a copy of *block*; see `zeroulp.kernels.spec.Kernel`."""
        if self._device_name != "cpu" and self._framework.attach is not None:
            self._device = self._framework.attach(self._device_name, block)
        return self._device

    def __call__(self, operands: Sequence[Any], out: Any) -> Any:
        """Call it; see `zeroulp.kernels.spec.Kernel`."""
        arguments = [*operands, out] if self._destination_passing and out is not None else list(operands)
        hint = f"a kernel of this problem is called with {len(arguments)} arrays, in the order {self._order}"
        if self._device is None:
            arguments = [self._framework.to(array) for array in arguments]
        active = self._device.active() if self._device else nullcontext()
        with np.errstate(all="ignore"), warnings.catch_warnings(), active:  # what it sets is undone
            warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning)  # of NumPy, in threads of its own
            result = call_guarded(self._function, *arguments, hint=hint, **self._keywords)
        if self._destination_passing and out is not None:
            return out
        received = self._device.accept(result) if self._device else self._framework.back(result)
        if received is None:
            raise KernelResultError(
                f"the kernel returned {_name(result)}, not an array of {self.framework}",
                do="return the output array; if the kernel writes into a last argument, say destination passing",
            )
        return received


def call_guarded(function: Callable[..., Any], *arguments: Any, hint: str = "", **keywords: Any) -> Any:
    """
    Call user code; whatever it raises becomes a KernelRaisedError with its traceback.

    Args:
        function: The user's code.
        arguments: What it gets.
        hint: What to say if it does not take these arguments.
        keywords: What else it gets.
    """
    try:
        return function(*arguments, **keywords)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        log = printable("".join(traceback.format_exception(type(error), error, error.__traceback__)))
        refused = isinstance(error, TypeError) and error.__traceback__ is not None and not error.__traceback__.tb_next
        what = f"the kernel raised {type(error).__name__}: {_message(error)}".removesuffix(": ")
        raise KernelRaisedError(what, log=log, why=hint if refused else "") from error


def printable(text: str) -> str:
    """A candidate's text without what could move a terminal's cursor or change its colours."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)


def _message(error: BaseException) -> str:
    """The first line of what an exception says; the log has all of it."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001  (it is the candidate's class)
        return "(its message cannot be shown)"
    return printable(lines[0][:_LONGEST_MESSAGE]) if lines else ""


def _parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def _name(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"
