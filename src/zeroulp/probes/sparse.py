"""
Zeros and repetitions, placed where shortcuts look.

Tiles with one non-zero anywhere but first, rows of zeros, rows that begin alike.

A kernel that skips what it takes for zero, or merges what it takes for equal, by looking at a
first element, a first row or a norm, is right on dense inputs and wrong on these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register
from zeroulp.probes.places import axis_of_k, looked_up, moved_to

if TYPE_CHECKING:
    from zeroulp.draw import Part, Seed
    from zeroulp.exactness import Family
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

_EPILOGUE = 2
_MOST = 8


@register
class Sparse:
    """Signed integers: few of them in one operand, rows (columns) that begin alike in the other."""

    name = "sparse"
    purpose = "tiles with a lone non-zero, zero rows, rows that begin alike: skipping and merging by a glance"
    sees = ("value-dependent", "reward-hack", "scheduler")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """Lone elements in a and columns of b that begin alike, then the other way round."""
        room = sizing.room_for_products(problem, declared=options.declared, epilogue=_EPILOGUE)
        limits = sizing.integer_limit(problem.a_format), sizing.integer_limit(problem.b_format)
        share = max(1, room // max(problem.k, 1))
        a = max(1, min(_MOST, limits[0], share))
        b = max(1, min(_MOST, limits[1], share // a))
        reach = problem.k * a * b * max(1, abs(dyadic(problem.alpha)[0])) + sizing.epilogue_size(problem, _EPILOGUE)
        exponents = sizing.place(problem, (a, b), (0, 0), reach)
        sizes: Settings = {"a": a, "b": b, "a_exponent": exponents[0], "b_exponent": exponents[1]}
        patterns = ("lone", "alike")
        return [{**sizes, "a_pattern": a, "b_pattern": b} for a, b in (patterns, patterns[::-1])]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers up to the sizes."""
        a = Lattice(int(settings["a"]), int(settings["a_exponent"]))
        b = Lattice(int(settings["b"]), int(settings["b_exponent"]))
        return sizing.family(problem, a, b, problem.k, epilogue=_EPILOGUE)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """One of the operands thinned, rows (columns) of the other repeated."""
        numbers, size = seed.field(name), int(settings[name])
        along_k = axis_of_k(problem, name)
        place = _lone if settings[f"{name}_pattern"] == "lone" else _alike
        return place(lambda part: numbers.signed(size, part), seed, along_k, problem, name)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: most products are zero, or repeated."""
        del problem, settings
        return 0.0


def _lone(elements: Elements, seed: Seed, along_k: int, problem: Matmul, name: str) -> Elements:
    """Zeros but for one element in twelve, none of them in the first row or column; every fifth row zero."""
    own = -3 - along_k
    extent = problem.m if name == "a" else problem.n
    places = seed.field("places")
    at_end, zero = seed.stream("ends").chosen(1 / 2, (extent,)), seed.stream("zero rows").chosen(1 / 5, (extent,))
    zero[:1] = True

    def thinned(part: Part) -> Any:
        keep, k = places.chosen(1 / 12, part), part.coordinate(along_k)
        if part.shape[along_k] > 1:
            keep = (keep & (k != 0)) | ((k == part.shape[along_k] - 1) & looked_up(at_end, part, own))
        if part.shape[own] > 1:
            keep = keep & ~looked_up(zero, part, own)
        return elements(part) * keep

    return thinned


def _alike(elements: Elements, seed: Seed, along_k: int, problem: Matmul, name: str) -> Elements:
    """Every row the same as the first but for a few elements of its second half."""
    own = -3 - along_k
    extent = problem.m if name == "a" else problem.n
    places, at_end = seed.field("places"), seed.stream("ends").chosen(1 / 2, (extent,))
    first = np.zeros(extent, np.int64)

    def repeated(part: Part) -> Any:
        if min(part.shape[own], part.shape[along_k]) < 2:
            return elements(part)
        last = part.shape[along_k] - 1
        k = part.coordinate(along_k)
        differs = places.chosen(1 / 8, part) & (k >= (last + 1) // 2)
        differs = differs | ((k == last) & looked_up(at_end, part, own))
        return part.arrays.where(differs, elements(part), moved_to(first, part, own, elements))

    return repeated
