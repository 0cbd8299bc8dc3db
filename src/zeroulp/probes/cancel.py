"""
Large terms that cancel: small results from sums that fill the accumulator.

Every k has a partner: the two columns of a are equal, and the two rows of b are y and e - y with
y large and e small and mostly zero. The sum of moduli fills the budget, while the result, a e,
stays within the integers that the output holds exactly. So a narrow accumulator or partial sums
in the output format lose bits that the final rounding cannot hide, and a lone wrong product is
as large as y. Partners are drawn anew in every trial.
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
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

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

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Both operands, k in pairs."""
        size, numbers = int(settings[name]), seed.field(name)
        pairs, along_k = problem.k // 2, axis_of_k(problem, name)
        order = seed.stream("partners").permutation(problem.k)
        first, second, lone = order[:pairs], order[pairs : 2 * pairs], order[2 * pairs :]
        partner = np.arange(problem.k)
        partner[second] = first
        if name == "a":
            return _unless_repeated(lambda part: numbers.signed(size, part), partner, along_k)
        rest = np.zeros((2, problem.k), bool)  # e - y, with e not zero; e - y at all
        rest[0, second[seed.stream("rows of e").permutation(pairs)[: int(settings["nonzero"])]]] = True
        rest[1, second] = True
        alone = np.isin(np.arange(problem.k), lone)

        def y(part: Part) -> Any:
            drawn = numbers.signed(max(1, size - 1), part)
            return drawn + _sign(drawn) * int(size > 1)  # no unit: y less a unit of its sign is not zero

        paired = _unless_repeated(y, partner, along_k)

        def drawn(part: Part) -> Any:
            found = paired(part)
            if part.shape[along_k] != problem.k:
                return found
            unit = _sign(found)
            with_unit, negative, single = (looked_up(table, part, along_k) for table in (*rest, alone))
            found = part.arrays.where(negative, with_unit * unit - found, found)
            return part.arrays.where(single, unit, found)

        return drawn

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: a fault that treats partners alike can escape every trial."""
        del problem, settings
        return 0.0


def _unless_repeated(elements: Elements, partner: Array, along_k: int) -> Elements:
    """Elements of partners are the same, unless all k are one and the same anyway."""

    def drawn(part: Part) -> Any:
        return moved_to(partner, part, along_k, elements) if part.shape[along_k] == len(partner) else elements(part)

    return drawn


def _sign(drawn: Any) -> Any:
    """±1 for int32 other than zero: the sign bit everywhere, and a one."""
    return (drawn >> 31) | 1
