"""How a recipe's setting follows from what a tracked run used of the bits: fewer terms, or larger numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zeroulp.sample.drawing import Kind
from zeroulp.sample.recipe import TERMS, Recipe, Setting, row_length

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zeroulp.problem import Tensor
    from zeroulp.sample.coverage import Coverage

_AHEAD = 4.0
_RAREST = 1 << 20
_QUOTIENT = "the quotient"
_LEAST_BITS = 2  # of an operand that is wide
_SPREAD = 2  # log2 of the standard deviations that sums of signed terms hardly ever leave
_SPREAD = 2  # log2 of the standard deviations that sums of signed terms hardly ever leave
_WIDEST = 3  # how often an operand may be a factor of one term


class Tuning:
    """How the next setting follows from the last run."""

    def __init__(self, recipe: Recipe, operands: Sequence[Tensor], contract: dict[str, Any]) -> None:
        self.recipe = recipe
        self.rows = [row_length(t) for t in operands if row_length(t) > 1]
        self.precision = {"float32": 24, "float16": 11, "bfloat16": 8}.get(str(contract["storage"]), 24)
        self.base: tuple[Setting, float] | None = None

    def next(self, setting: Setting, coverage: Coverage) -> Setting | None:
        """Another setting, or None if there is nothing to gain."""
        limit = min(self.precision, coverage.budget)
        over = coverage.over
        if coverage.ended is not None and coverage.share < 1:
            over = max(over, coverage.bits - limit)
        if self.base is not None:
            return self._between(setting, coverage, over)
        if over <= 0 and self._lone(setting, coverage):
            rarer = 16 if self.recipe.inputs is Kind.POWERS else 4
            return replace(setting, every=rarer * setting.every) if setting.every < _RAREST else None
        if over > 0:
            return self._thinner(setting, over, coverage)
        slack = limit - coverage.bits
        if slack >= 1 and coverage.share == 1 and self.recipe.fills:
            self.base = setting, coverage.bits
            return replace(setting, magnitude=setting.magnitude * 2 ** int(slack))
        return None

    def _lone(self, setting: Setting, coverage: Coverage) -> bool:
        """Whether fewer elements other than 0 (or than 1) may be what is missing: in a quotient, or a long product."""
        if coverage.share == 1 or coverage.ended is None or self.recipe.inputs is Kind.DISTINCT:
            return False
        return (setting.step > 1 and _QUOTIENT in coverage.ended.reason) or (
            self.recipe.inputs is Kind.POWERS and not self.rows
        )

    def _between(self, setting: Setting, coverage: Coverage, over: float) -> Setting | None:
        """A magnitude between that of the base, which left bits, and one that was too large."""
        if coverage.share == 1:
            return None
        base, bits = self.base or (setting, 0.0)
        raised = math.log2(setting.magnitude / base.magnitude)
        limit = min(self.precision, coverage.budget)
        reached = max(limit + over, limit + 1)
        degree = max(1.0, (reached - bits) / raised) if raised else 1.0
        shift = min(int((limit - bits) / degree), int(raised) - 1)
        return replace(setting, magnitude=base.magnitude * 2**shift) if shift >= 1 else None

    def _thinner(self, setting: Setting, over: float, coverage: Coverage) -> Setting | None:
        """
        Fewer terms, so that some bits are saved; first in the rows of weights, then in inputs.

        Weights behind the place where bits ran out save nothing there, and need as much again.
        """
        if self.recipe.inputs is Kind.DISTINCT and setting.magnitude == 1:
            return replace(setting, magnitude=64)
        reached = coverage.ended.number if coverage.ended is not None else 1
        needed = over * max(1.0, min(_AHEAD, len(coverage.operations) / max(1, reached)))
        for terms in range(setting.terms + 1, len(TERMS)):
            if self.rows and self._bits(setting.terms) - self._bits(terms) >= min(over, 1):
                saved = self._bits(setting.terms) - self._bits(terms)
                if saved >= needed or terms == len(TERMS) - 1 or TERMS[terms] <= 1:
                    return replace(setting, terms=terms)
        every = setting.every * 2 ** max(1, math.ceil(over))
        return replace(setting, every=every) if every <= 1 << 24 and self.recipe.inputs is not Kind.DISTINCT else None

    def _bits(self, terms: int) -> float:
        """Bits that sums over rows of all weights cost."""
        wanted = TERMS[terms]
        return sum(math.log2(max(1.0, min(row * 2 / 3, wanted) if wanted else row * 2 / 3)) for row in self.rows)


@dataclass(frozen=True)
class Units:
    """
    What sums of units leave.

    Args:
        bits: log2 of how many terms the longest has.
        budget: Bits that sums keep.
        room: log2 of the largest number of the output.
        weighted: Whether the terms of sums follow from the rows of weights.
    """

    bits: float
    budget: int
    room: float
    weighted: bool


def widened(base: Setting, tensor: Tensor, units: Units) -> Iterator[Setting]:
    """
    Settings that give one operand the bits that sums of units leave, those that give it most first.

    Where sums of full numbers would leave the range of the output they have fewer terms instead.

    Args:
        base: Of the units.
        tensor: The operand.
        units: What they leave.
    """
    format_ = tensor.number_format
    assert format_ is not None, "it has numbers"
    left, wide = units.budget - math.ceil(units.bits), replace(base, operand=tensor.name)
    bits = min(format_.precision, left)
    few = 2 * (units.room - _SPREAD - bits)  # log2 of how many terms hardly ever leave the range
    if bits >= _LEAST_BITS and units.bits > few >= 0:
        terms = next(i for i, count in enumerate(TERMS) if count and math.log2(count) <= few)
        every = base.every * 2 ** math.ceil((units.bits - few) / 2)
        thinner = {"terms": max(terms, base.terms)} if units.weighted else {"every": every}
        yield replace(wide, magnitude=2**bits - 1, **thinner)
    for factors in range(1 if units.bits <= few else 2, _WIDEST + 1):
        fewer = min(format_.precision, left // factors)
        if fewer >= _LEAST_BITS:
            yield replace(wide, magnitude=2**fewer - 1)
