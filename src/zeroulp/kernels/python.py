"""A Python function as a kernel."""

from __future__ import annotations

import inspect
import traceback
from typing import TYPE_CHECKING, Any

from zeroulp.errors import KernelRaisedError, KernelResultError, ZeroulpError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroulp.encoding import Array
    from zeroulp.kernels.frameworks import Framework
    from zeroulp.problem import Matmul


class PythonKernel:
    """
    A function ``f(a, b[, c][, bias]) -> out``, or ``f(a, b[, c][, bias], out)``.

    Args:
        function: The candidate.
        framework: Whose arrays it eats.
        problem: For alpha and beta, which it gets by keyword if it has parameters of these names.
        destination_passing: Whether it writes into its last argument.
    """

    def __init__(
        self, function: Callable[..., Any], framework: Framework, problem: Matmul, *, destination_passing: bool
    ) -> None:
        self._function = function
        self._framework = framework
        self._destination_passing = destination_passing
        self._keywords = {name: getattr(problem, name) for name in ("alpha", "beta") if name in _parameters(function)}
        self.framework = framework.name

    def __call__(self, operands: Sequence[Array], out: Array | None) -> Array:
        """Call it; see `zeroulp.kernels.spec.Kernel`."""
        arguments = [self._framework.to(array) for array in operands]
        if self._destination_passing and out is not None:
            arguments.append(self._framework.to(out))
        result = call_guarded(self._function, *arguments, **self._keywords)
        if self._destination_passing and out is not None:
            return out
        host = self._framework.back(result)
        if host is None:
            raise KernelResultError(
                f"the kernel returned {_name(result)}, not an array of {self.framework}",
                do="return the output array; if the kernel writes into a last argument, say destination passing",
            )
        return host


def call_guarded(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call user code; whatever it raises becomes a KernelRaisedError with its traceback."""
    try:
        return function(*arguments, **keywords)
    except (KeyboardInterrupt, ZeroulpError):
        raise
    except BaseException as error:
        frames = traceback.format_exception(type(error), error, error.__traceback__)
        hint = ""
        if isinstance(error, TypeError) and "argument" in str(error):
            hint = f"a kernel of this problem is called with {len(arguments)} arrays, in the order a, b, c, bias, out"
        raise KernelRaisedError(
            f"the kernel raised {type(error).__name__}: {error}", log="".join(frames), why=hint
        ) from error


def _parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


def _name(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"
