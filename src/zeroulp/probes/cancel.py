"""
Large terms that cancel: small results from sums that fill the accumulator.

Every k has a partner: the two columns of a are equal, and the two rows of b are y and e - y with
y large and e small and mostly zero. The sum of moduli fills the budget, while the result, a e,
stays within the integers that the output holds exactly. So a narrow accumulator or partial sums
in the output format lose bits that the final rounding cannot hide, and a lone wrong product is
as large as y. Partners are drawn anew in every trial.
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
_MOST = 4096


@register
class Cancel:
    """±{1..s} in pairs of equal columns against y and e - y: see the module."""

    name = "cancel"
    purpose = "large terms that cancel far apart in k: narrow accumulators and partial sums, lone wrong products"
    sees = ("precision-acc", "precision-splitk", "k-tail", "layout", "pipeline")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """One; as large a y as the accumulator's budget allows."""
        room = sizing.room_for_products(problem, declared=options.declared, epilogue=_EPILOGUE)
        limits = sizing.integer_limit(problem.a_format), sizing.integer_limit(problem.b_format)
        alpha = max(1, abs(dyadic(problem.alpha)[0]))
        exact = (problem.out_format.exact_integer_limit - sizing.epilogue_size(problem, _EPILOGUE)) // alpha
        share = room // max(problem.k, 1)
        b = max(1, min(limits[1], share, _MOST))
        a = max(1, min(limits[0], share // b, exact // 4, 64))
        odd = problem.k % 2  # the k without a partner has small entries
        nonzero = max(0, min(problem.k // 2, exact // a - odd))
        reach = problem.k * a * b * alpha + sizing.epilogue_size(problem, _EPILOGUE)
        exponents = sizing.place(problem, (a, b), (1 - a.bit_length(), 1 - b.bit_length()), reach)
        return [
            {
                "a": a,
                "b": b,
                "nonzero": min(nonzero, 256),
                "a_exponent": exponents[0],
                "b_exponent": exponents[1],
            }
        ]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers up to the sizes, all products non-zero."""
        a = Lattice(int(settings["a"]), int(settings["a_exponent"]))
        b = Lattice(int(settings["b"]), int(settings["b_exponent"]))
        return sizing.family(problem, a, b, problem.k, epilogue=_EPILOGUE)

    def draw(
        self, problem: Matmul, settings: Settings, seed: Seed, shapes: Mapping[str, Shape]
    ) -> dict[str, Array]:
        """Both operands, k in pairs."""
        pairs = problem.k // 2
        order = seed.stream("partners").permutation(problem.k)
        first, second, lone = order[:pairs], order[pairs : 2 * pairs], order[2 * pairs :]
        a = seed.stream("a").signed(int(settings["a"]), shapes["a"])
        b = seed.stream("b").signed(max(1, int(settings["b"]) - 1), shapes["b"])
        b += np.sign(b) * np.int32(int(settings["b"]) > 1)  # no unit: y less a unit of its sign is not zero
        along_a = a if problem.transpose_a else np.swapaxes(a, -1, -2)
        along_b = np.swapaxes(b, -1, -2) if problem.transpose_b else b
        if along_a.shape[-2] == problem.k:
            along_a[..., second, :] = along_a[..., first, :]
        if along_b.shape[-2] == problem.k and pairs:
            along_b[..., second, :] = self._rest(problem, settings, seed, along_b[..., first, :])
            along_b[..., lone, :] = np.sign(along_b[..., lone, :])
        return {"a": a, "b": b} | sizing.draw_epilogue(problem, seed, shapes, magnitude=_EPILOGUE)

    @staticmethod
    def _rest(problem: Matmul, settings: Settings, seed: Seed, y: Array) -> Array:
        """E - y: e is ±1 in so many rows, with the sign of y so that b does not grow, and zero in the others."""
        del problem
        rows, nonzero = y.shape[-2], int(settings["nonzero"])
        chosen = seed.stream("rows of e").permutation(rows)[:nonzero]
        e = np.zeros_like(y)
        e[..., chosen, :] = np.sign(y[..., chosen, :])
        return e - y

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: a fault that treats partners alike can escape every trial."""
        del problem, settings
        return 0.0
