"""References of shipped problems: functions found by their names, called with arguments that are plain data."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.errors import UsageError
from zeroulp.problem import Linear, Origin, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TABLE: dict[str, Callable[..., Any]] = {}
"""By name; each takes PyTorch, then the operands, then its arguments by keyword."""


def reference(function: Callable[..., Any]) -> Callable[..., Any]:
    """Put a function into the table."""
    TABLE[function.__name__] = function
    return function


@dataclass(frozen=True)
class Reference:
    """
    A function of the table with its arguments, as `zeroulp.Linear` wants it. PyTorch is imported when it is called.

    Args:
        name: In the table.
        arguments: By keyword, as JSON.

    Raises:
        UsageError: If there is none of that name, or the arguments are no JSON.
    """

    name: str
    arguments: str = "{}"

    def __post_init__(self) -> None:
        try:
            known = self.name in TABLE and isinstance(json.loads(self.arguments), dict)
        except ValueError:
            known = False
        if not known:
            raise UsageError(f"no reference of zeroulp.problems is described by {self.name!r}, {self.arguments!r}")

    @property
    def origin(self) -> Origin:
        """How it is found again."""
        return Origin(name=self.name, arguments=self.arguments)

    def __call__(self, *tensors: Any) -> Any:
        """What is to be computed from these operands."""
        return TABLE[self.name](importlib.import_module("torch"), *tensors, **json.loads(self.arguments))


def problem(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    tensors: Sequence[Tensor],
    *,
    name: str,
    format: str,  # noqa: A002  (as in zeroulp.Tensor)
    contract: dict[str, Any],
) -> Linear:
    """A problem with a reference of the table; what the contract does not say is stored in *format*."""
    found = Reference(function.__name__, json.dumps(arguments))
    return Linear(found, tuple(tensors), **{"name": name, "storage": format, **contract})
