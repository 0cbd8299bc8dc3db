"""
Zeros, halves and ones: the binary protocol off the integers.

Products are multiples of 1/4, so the limit is a quarter of the binary one: 512 in float16. The
values are exact all the same, and a kernel that works on integers only is seen.
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

_MEAN = 2.25  # of one product at density 1, in quarters: (1.5 halves)^2
_LARGEST = 4  # quarters


@register
class Fractional:
    """0 with probability ``p_zero``, else 1/2 or 1 with equal probability, in both operands."""

    name = "fractional"
    nonnegative = True
    purpose = "zeros, halves and ones: the same faults off the integers, integer conversions"
    sees = ("layout", "k-tail", "m-n-tail", "size-threshold", "race", "uninitialised", "dtype-confusion")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """One: with the given ``p_zero``, or the smallest from 1/3 up that leaves no position out."""
        if options.p_zero is not None:
            return [{"p_zero": options.p_zero}]
        return [{"p_zero": 1 - sizing.densest(problem, _MEAN, _LARGEST, 2 / 3, self._room(problem))}]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Halves, at most two of them; masked where the limit can be exceeded."""
        del settings
        half = Lattice(2, -1)
        masked = problem.k * _LARGEST > self._room(problem)
        return sizing.family(problem, half, half, problem.k, epilogue=1, masked=masked)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Independent elements of {0, 1, 2} halves."""
        del problem
        density, present, doubled = 1 - float(settings["p_zero"]), seed.field(name), seed.field(f"{name} is 1")
        return lambda part: present.chosen(density, part) * (1 + doubled.below(2, part))

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """(1 - largest atom)^2, less the chance that the position is left out."""
        density = 1 - float(settings["p_zero"])
        room, masked = self._room(problem), 0.0
        if problem.k * _LARGEST > room:
            masked = math.exp(sizing.log_upper_tail(problem.k * _MEAN * density**2, _LARGEST, room + 1))
        return max(0.0, (1 - max(1 - density, density / 2)) ** 2 - masked)

    @staticmethod
    def _room(problem: Matmul) -> int:
        return sizing.room_for_products(problem, declared=False, epilogue=1)
