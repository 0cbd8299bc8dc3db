"""
Zeros, repetitions and outliers, placed where shortcuts look.

Tiles with one non-zero anywhere but first, rows of zeros, rows that begin alike, one product that
outweighs all others.

A kernel that skips what it takes for zero, merges what it takes for equal, or leaves out what it
takes for negligible, by looking at a first element, a first row or a norm, is right on dense
inputs and wrong on these.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register
from zeroulp.probes.places import axis_of_k, looked_up, moved_to
from zeroulp.probes.pool import pool_of, pooled, with_pool

if TYPE_CHECKING:
    from zeroulp.draw import Part, Seed
    from zeroulp.exactness import Family
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

_EPILOGUE = 2
_MOST = 8
_VISIBLE = 4  # the sum of the small products is this many units in the last place, or more
_LARGEST = 2**30  # elements are drawn as int32
_OUTWEIGHS = 16  # a product that is fewer times the others does not stand out


@register
class Sparse:
    """Signed integers: few of them in one operand, rows (columns) that begin alike in the other; or one large k."""

    name = "sparse"
    purpose = "lone non-zeros, zero rows, rows that begin alike, one large product: shortcuts by a glance"
    sees = ("value-dependent", "reward-hack", "scheduler")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """Lone elements in a and columns of b that begin alike, then the other way round; then one large product."""
        limits = sizing.integer_limit(problem.a_format), sizing.integer_limit(problem.b_format)
        share = self._share(problem, options)
        a = max(1, min(_MOST, limits[0], share))
        b = max(1, min(_MOST, limits[1], share // a))
        found = [self._settings(problem, a, b, patterns) for patterns in (("lone", "alike"), ("alike", "lone"))]
        largest = share
        if not problem.out_format.is_integer:  # the small ones together must not vanish in the last rounding
            largest = min(share, 2**problem.out_format.precision * problem.k // _VISIBLE)
        a = max(1, min(limits[0], largest, _LARGEST))
        b = max(1, min(limits[1], largest // a, _LARGEST))
        if problem.k > 1 and a * b >= _OUTWEIGHS:
            found.append(self._settings(problem, a, b, ("outlier", "outlier")))
        return found

    @staticmethod
    def _share(problem: Matmul, options: Options) -> int:
        """The largest product that every k can have within the budget."""
        room = sizing.room_for_products(problem, declared=options.declared, epilogue=_EPILOGUE)
        return max(1, room // max(problem.k, 1))

    @staticmethod
    def _settings(problem: Matmul, a: int, b: int, patterns: tuple[str, str]) -> Settings:
        reach = problem.k * a * b * max(1, abs(dyadic(problem.alpha)[0])) + sizing.epilogue_size(problem, _EPILOGUE)
        exponents = sizing.place(problem, (a, b), (0, 0), reach)
        sizes: Settings = {"a": a, "b": b, "a_exponent": exponents[0], "b_exponent": exponents[1]}
        return with_pool(problem, {**sizes, "a_pattern": patterns[0], "b_pattern": patterns[1]})

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers up to the sizes."""
        a = Lattice(int(settings["a"]), int(settings["a_exponent"]))
        b = Lattice(int(settings["b"]), int(settings["b_exponent"]))
        return sizing.family(problem, a, b, problem.k, epilogue=_EPILOGUE)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """An operand after its pattern."""
        numbers, size = seed.field(name), int(settings[name])
        place = _PATTERNS[str(settings[f"{name}_pattern"])]
        placed = place(numbers.all_signed(size), problem, name, seed, size)
        return placed if name == "a" else pooled(problem, placed, pool_of(problem, settings, seed))

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: most products are zero, or repeated."""
        del problem, settings
        return 0.0


def _lone(elements: Elements, problem: Matmul, name: str, seed: Seed, size: int) -> Elements:
    """
    Zeros but for a few, none of them in the first row or column.

    Every fourth row has an eighth of its elements, which is more than a few, and the others hardly
    any, so that fewer than a tenth are not zero in all; of the others every fifth is zero.
    """
    del size
    along_k, extent = axis_of_k(problem, name), problem.m if name == "a" else problem.n
    own = -3 - along_k
    several = np.arange(extent) % 4 == 1
    empty = seed.stream("zero rows").chosen(1 / 5, (extent,)) & ~several
    empty[:1] = True
    at_end = seed.stream("ends").chosen(1 / 2, (extent,))
    turns = seed.stream("turns").below(max(1, problem.k), (extent,))
    order, places = seed.stream("several").permutation(problem.k), seed.field("places")

    def thinned(part: Part) -> Any:
        k, last = part.coordinate(along_k), part.shape[along_k] - 1
        turned = (looked_up(order, part, along_k) + looked_up(turns, part, own)) % (last + 1)
        few = looked_up(several, part, own)
        keep = (few & (turned < math.ceil((last + 1) / 8))) | (~few & places.chosen(1 / 64, part))
        if last > 0:
            keep = (keep & (k != 0)) | ((k == last) & looked_up(at_end, part, own))
        if part.shape[own] > 1:
            keep = keep & ~looked_up(empty, part, own)
        return elements(part) * keep

    return thinned


def _alike(elements: Elements, problem: Matmul, name: str, seed: Seed, size: int) -> Elements:
    """Every row the same as the first but for a few elements of its second half."""
    del size
    along_k, extent = axis_of_k(problem, name), problem.m if name == "a" else problem.n
    own = -3 - along_k
    places, at_end = seed.field("places"), seed.stream("ends").chosen(1 / 2, (extent,))
    first = np.zeros(extent, np.int64)

    def repeated(part: Part) -> Any:
        if min(part.shape[own], part.shape[along_k]) < 2:
            return elements(part)
        k, last = part.coordinate(along_k), part.shape[along_k] - 1
        differs = places.chosen(1 / 8, part) & (k >= (last + 1) // 2)
        differs = differs | ((k == last) & looked_up(at_end, part, own))
        return part.arrays.where(differs, elements(part), moved_to(first, part, own, elements))

    return repeated


def _outlier(elements: Elements, problem: Matmul, name: str, seed: Seed, size: int) -> Elements:
    """
    Units but for one large k, the same for all rows; all products of an output have one sign.

    Signs of rows are drawn apart for each operand, those along k for both together.
    """
    along_k, extent = axis_of_k(problem, name), problem.m if name == "a" else problem.n
    chosen = int(seed.stream("large k").below(max(1, problem.k), ())[()])
    along = 1 - 2 * seed.stream("signs of k").below(2, (problem.k,))
    across = 1 - 2 * seed.stream(f"signs of {name}").below(2, (extent,))

    def weighted(part: Part) -> Any:
        large = abs(elements(part))
        large = part.arrays.where(large < size // 2, size // 2, large)
        units = looked_up(along, part, along_k) * looked_up(across, part, -3 - along_k)
        here = part.coordinate(along_k) == chosen % part.shape[along_k]
        return units * part.arrays.where(here, large, 1)

    return weighted


_PATTERNS = {"lone": _lone, "alike": _alike, "outlier": _outlier}
