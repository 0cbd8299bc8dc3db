"""What is said of an element, and of an operation."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Grade(enum.IntEnum):
    """How far the bits of one element are determined."""

    ALGEBRAIC = 0
    """Every correct kernel returns these bits: sums, products and selections, none of which can round."""

    ROUNDED_ONCE = 1
    """An exact value, rounded once: to the format that it is stored in, or after one product."""

    NOT_EXACT = 2
    """Correct kernels may differ."""


@dataclass(frozen=True)
class Ending:
    """
    Where exactness ended.

    Args:
        number: Which operation of the program, counted from 1; 0: before the first.
        operation: Its name, as PyTorch calls it.
        reason: Why correct kernels may differ there.
        elements: How many elements of its result had been exact till then.
        bits: log2 of the largest sum of |terms|, in quanta, where that is what was too much; else None.
    """

    number: int
    operation: str
    reason: str
    elements: int = 0
    bits: float | None = None

    def sentence(self) -> str:
        """All of it in one line."""
        where = f"operation {self.number}, {self.operation}" if self.number else self.operation
        return f"{where}: {self.reason}"


@dataclass(frozen=True)
class Operation:
    """
    One operation of a program, and the data it saw.

    Args:
        number: Its place in the program, counted from 1.
        name: As PyTorch calls it.
        shape: Of its result.
        exact: Share of the result's elements that are algebraic.
        bits: log2 of the largest sum of |terms| of an exact element, in quanta; what is left of the
            contract's bits can be filled by larger or denser inputs. None: it adds and multiplies nothing.
        constant: Whether all exact elements of the result are one number, so that it says little
            of what follows. None: not looked at.
        digest: Least and largest element and the sum of all, where asked for.
    """

    number: int
    name: str
    shape: tuple[int, ...]
    exact: float
    bits: float | None = None
    constant: bool | None = None
    digest: tuple[float, float, float] | None = None

    @property
    def trivial(self) -> bool:
        """Whether it saw no exact data that could show a fault."""
        return self.exact == 0.0 or bool(self.constant)
