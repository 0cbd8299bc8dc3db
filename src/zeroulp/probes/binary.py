"""
Zeros and ones: the protocol that came first, to the letter.

Sums are whole numbers, so they are exact in any order as long as they stay within the integers
that the output format holds without a gap (2048 in float16, 256 in bfloat16). Positions whose
expected value exceeds that limit are left out of the comparison, and their share is reported.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zeroulp.exactness import Lattice
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register

if TYPE_CHECKING:
    from zeroulp.draw import Seed
    from zeroulp.exactness import Family
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul


@register
class Binary:
    """0 with probability ``p_zero``, else 1, in both operands."""

    name = "binary"
    nonnegative = True
    purpose = "zeros and ones: wrong indices, tails and tiles"
    sees = ("layout", "k-tail", "m-n-tail", "size-threshold", "race", "uninitialised", "int-overflow")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """One: with the given ``p_zero``, or the smallest from 1/2 up that leaves no position out."""
        if options.p_zero is not None:
            return [{"p_zero": options.p_zero}]
        room = sizing.room_for_products(problem, declared=False, epilogue=1)
        return [{"p_zero": 1 - sizing.densest(problem, 1.0, 1, 0.5, room)}]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """0/1 on the integers; masked where the limit can be exceeded."""
        del settings
        room = sizing.room_for_products(problem, declared=False, epilogue=1)
        unit = Lattice(1, 0)
        return sizing.family(problem, unit, unit, problem.k, epilogue=1, masked=problem.k > room)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Independent zeros and ones."""
        del problem
        density, numbers = 1 - float(settings["p_zero"]), seed.field(name)
        return lambda part: part.arrays.cast(numbers.chosen(density, part), "int32")

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """min(p, 1 - p)^2, less the chance that the position is left out."""
        density = 1 - float(settings["p_zero"])
        room = sizing.room_for_products(problem, declared=False, epilogue=1)
        masked = 0.0
        if problem.k > room:
            masked = math.exp(sizing.log_upper_tail(problem.k * density**2, 1, room + 1))
        return max(0.0, min(density, 1 - density) ** 2 - masked)
