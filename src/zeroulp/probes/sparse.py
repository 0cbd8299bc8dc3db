"""
Zeros and repetitions, placed where shortcuts look.

Tiles with one non-zero anywhere but first, rows of zeros, rows that begin alike.

A kernel that skips what it takes for zero, or merges what it takes for equal, by looking at a
first element, a first row or a norm, is right on dense inputs and wrong on these.
"""

from __future__ import annotations

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

    def draw(
        self, problem: Matmul, settings: Settings, seed: Seed, shapes: Mapping[str, Shape]
    ) -> dict[str, Array]:
        """Both operands, one of them thinned, the other repeated."""
        drawn: dict[str, Array] = {
            name: seed.stream(name).signed(int(settings[name]), shapes[name]) for name in ("a", "b")
        }
        for side, transposed in (("a", problem.transpose_a), ("b", not problem.transpose_b)):
            along = np.swapaxes(drawn[side], -1, -2) if transposed else drawn[side]  # (..., rows, k)
            place = _lone if settings[f"{side}_pattern"] == "lone" else _alike
            place(along, seed)
        return drawn | sizing.draw_epilogue(problem, seed, shapes, magnitude=_EPILOGUE)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: most products are zero, or repeated."""
        del problem, settings
        return 0.0


def _lone(rows: Array, seed: Seed) -> None:
    """Zeros but for one element in twelve, none of them in the first row or column; every fifth row zero."""
    keep = seed.stream("places").chosen(1 / 12, rows.shape)
    if rows.shape[-1] > 1:
        keep[..., 0] = False
        keep[..., -1] |= seed.stream("ends").chosen(1 / 2, rows.shape[:-1])
    if rows.shape[-2] > 1:
        keep[..., 0, :] = False
        keep[..., seed.stream("zero rows").chosen(1 / 5, rows.shape[-2:-1]), :] = False
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
