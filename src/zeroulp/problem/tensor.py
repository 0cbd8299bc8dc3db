"""What a kernel that is given by a reference takes: tensors, each with a role."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeroulp.errors import UsageError
from zeroulp.formats import Format, format_named

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLES = ("input", "weight", "index", "mask", "scalar")
"""What changes from call to call, what a layer holds, whole numbers that select, truth values, and single numbers."""


@dataclass(frozen=True)
class Tensor:
    """
    One operand of a kernel.

    Args:
        name: What it is called, in reports and as an argument.
        shape: Its shape; () for a scalar.
        format: Name of its number format; ``"int64"`` or ``"int32"`` for an index, ``"bool"`` for a mask.
        role: One of `ROLES`.
        below: An index is less than that, and not negative.
        distinct: Whether no index may occur twice.

    Raises:
        UsageError: If the description contradicts itself.
    """

    name: str
    shape: tuple[int, ...]
    format: str = "float32"
    role: str = "input"
    below: int | None = None
    distinct: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _checked_shape(self.name, self.shape))
        if self.role not in ROLES:
            raise UsageError(f"operand {self.name} has the role {self.role!r}", do=f"choose one of {', '.join(ROLES)}")
        if self.role == "index":
            self._check_index()
        elif self.below is not None or self.distinct:
            what = f"operand {self.name} is no index, and below and distinct say something about indices"
            raise UsageError(what, do="role='index', or leave them out")
        elif self.role == "mask":
            object.__setattr__(self, "format", "bool")
        else:
            object.__setattr__(self, "format", format_named(self.format).name)
        if self.role == "scalar" and self.shape:
            raise UsageError(f"operand {self.name} is a scalar of shape {self.shape}", do="shape=()")

    def _check_index(self) -> None:
        if self.format not in ("int32", "int64"):
            object.__setattr__(self, "format", "int64")
        if self.below is None or self.below < 1:
            raise UsageError(f"operand {self.name} is an index without a bound", do="below=N: it is from 0 to N - 1")
        if self.distinct and self.size > self.below:
            what = f"operand {self.name} has {self.size} indices below {self.below}"
            raise UsageError(what, why="so some occur twice", do="distinct=False, or a larger bound")

    @property
    def size(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def number_format(self) -> Format | None:
        """The format of its numbers; None of an index or a mask."""
        return None if self.role in {"index", "mask"} else format_named(self.format)


def _checked_shape(name: str, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        found = tuple(int(extent) for extent in shape)
    except (TypeError, ValueError):
        found = (-1,)
    if any(extent < 0 for extent in found) or found != tuple(shape):
        raise UsageError(f"operand {name} has the shape {shape!r}", do="pass a tuple of whole numbers")
    return found
