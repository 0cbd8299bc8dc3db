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
    from collections.abc import Mapping

    from zeroulp.draw import Seed
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape


@register
class Binary:
    """0 with probability ``p_zero``, else 1, in both operands."""

    name = "binary"
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

    def draw(
        self, problem: Matmul, settings: Settings, seed: Seed, shapes: Mapping[str, Shape]
    ) -> dict[str, Array]:
        """Independent zeros and ones."""
        density = 1 - float(settings["p_zero"])
        drawn: dict[str, Array] = {
            name: seed.stream(name).chosen(density, shapes[name]).astype("int32") for name in ("a", "b")
        }
        return drawn | sizing.draw_epilogue(problem, seed, shapes, magnitude=1, nonnegative=True)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """min(p, 1 - p)^2, less the chance that the position is left out."""
        density = 1 - float(settings["p_zero"])
        room = sizing.room_for_products(problem, declared=False, epilogue=1)
        masked = 0.0
        if problem.k >= room:  # a sum of just as much as that counts too: one more may be rounded to it
            masked = math.exp(sizing.log_upper_tail(problem.k * density**2, 1, room))
        return max(0.0, min(density, 1 - density) ** 2 - masked)
