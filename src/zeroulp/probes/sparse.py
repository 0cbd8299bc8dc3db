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
from typing import TYPE_CHECKING

import numpy as np

from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.draw import Seed
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape

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
        return {**sizes, "a_pattern": patterns[0], "b_pattern": patterns[1]}

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers up to the sizes."""
        a = Lattice(int(settings["a"]), int(settings["a_exponent"]))
        b = Lattice(int(settings["b"]), int(settings["b_exponent"]))
        return sizing.family(problem, a, b, problem.k, epilogue=_EPILOGUE)

    def draw(self, problem: Matmul, settings: Settings, seed: Seed, shapes: Mapping[str, Shape]) -> dict[str, Array]:
        """Both operands, each after its pattern."""
        drawn: dict[str, Array] = {
            name: seed.stream(name).signed(int(settings[name]), shapes[name]) for name in ("a", "b")
        }
        for side, transposed in (("a", problem.transpose_a), ("b", not problem.transpose_b)):
            along = np.swapaxes(drawn[side], -1, -2) if transposed else drawn[side]  # (..., rows, k)
            _PATTERNS[str(settings[f"{side}_pattern"])](along, seed)
        return drawn | sizing.draw_epilogue(problem, seed, shapes, magnitude=_EPILOGUE)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: most products are zero, or repeated."""
        del problem, settings
        return 0.0


def _lone(rows: Array, seed: Seed) -> None:
    """
    Zeros but for a few, none of them in the first row or column.

    Every fourth row has an eighth of its elements, which is more than a few, and the others hardly
    any, so that fewer than a tenth are not zero in all; of the others every fifth is zero.
    """
    several = np.arange(rows.shape[-2])[:, None] % 4 == 1
    order = np.argsort(seed.stream("several").below(2**31, rows.shape), axis=-1, kind="stable")
    keep = np.where(several, order < math.ceil(rows.shape[-1] / 8), seed.stream("places").chosen(1 / 64, rows.shape))
    if rows.shape[-1] > 1:
        keep[..., 0] = False
        keep[..., -1] |= seed.stream("ends").chosen(1 / 2, rows.shape[:-1])
    if rows.shape[-2] > 1:
        keep[..., 0, :] = False
        empty = seed.stream("zero rows").chosen(1 / 5, rows.shape[-2:-1])
        keep[..., empty & ~several[:, 0], :] = False
    rows[...] = np.where(keep, rows, 0)


def _alike(rows: Array, seed: Seed) -> None:
    """Every row the same as the first but for a few elements of its second half."""
    if rows.shape[-2] < 2 or rows.shape[-1] < 2:
        return
    half = rows.shape[-1] // 2
    own = seed.stream("places").chosen(1 / 8, rows.shape)
    own[..., :half] = False
    own[..., -1] |= seed.stream("ends").chosen(1 / 2, rows.shape[:-1])
    rows[...] = np.where(own, rows, rows[..., :1, :])


def _outlier(rows: Array, seed: Seed) -> None:
    """
    Units but for one large k, the same for all rows; all products of an output have one sign.

    Signs of rows are drawn apart for each operand, those along k for both together.
    """
    signs = 1 - 2 * seed.stream("signs of k").below(2, rows.shape[-1:])
    large = np.abs(rows)
    large = np.maximum(large, large.max(initial=1) // 2)
    chosen = int(seed.stream("large k").below(rows.shape[-1], ())[()])
    rows[...] = np.sign(rows[..., :1]) * signs
    rows[..., chosen] *= large[..., chosen]


_PATTERNS = {"lone": _lone, "alike": _alike, "outlier": _outlier}
