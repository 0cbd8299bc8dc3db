"""
Large terms that cancel: small results from sums that fill the accumulator.

The k are paired at random, anew in every trial. A pair (p, q) has a direction (v, u), coprime
whole numbers drawn from a list of r; a is v x and u x there, b is u y and -v y, so that the two
products cancel. One or two k stay alone, with b = ±1: what they give is the result. The sum of
moduli fills the budget, while the result stays within the integers that the output holds
exactly. So a narrow accumulator or partial sums in the output format lose bits that the final
rounding cannot hide, and a wrong product is as large as the budget lets it be.

**Every other bilinear form is seen**, with the probability of `Cancel.detection`. Let the kernel
compute the form W of the row and column of an output, and D = W - 1 (the identity), not zero.

- D has an entry (k, l) off the diagonal. With probability at least 1 - 3/K (k and l are not
  partners, and l is not alone) k lies in one pair (p, q) or alone, and l in another, (p', q').
  The coefficient of x y', the numbers of the two pairs, is ::

      v u' D[p, p'] + u u' D[q, p'] - v v' D[p, q'] - u v' D[q, q']

  a bilinear form in (v, u) and (u', -v') that is not zero. A linear form in a direction vanishes
  for at most one of the r; so the coefficient is not zero with probability at least (1 - 1/r)^2.
- D is diagonal with entries that are not all the same. Take a set of at most K/2 places that have
  one value. That no pair has one place inside and one outside has probability at most 2/K; in a
  pair with one of each the coefficient of x y is v u (D[p, p] - D[q, q]), not zero.
- D is d times the identity. Then the difference is d times the result, which is not zero but
  where the two k that are alone cancel: with probability at most 1/2s.

In the first two cases the difference is a polynomial, linear in x and in y, in which x y has a
coefficient other than zero: x in {±1, ..., ±s} and y in {±1, ..., ±s'} make it zero with
probability at most 1 - (1 - 1/2s)(1 - 1/2s'). A whole-number difference from a result below the
largest exact integer changes its bits.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import gcd
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
_NUMBERS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 48)  # candidates for the largest v and u
_REACHES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 36, 48)  # for the largest |v u|
_SIZES = (*range(1, 17), 18, 20, 22, 24, 28, 32, 40, 48, 64)  # for s


@register
class Cancel:
    """Pairs v x, u x against u y, -v y, and a result from what is left alone: see the module."""

    name = "cancel"
    purpose = "large terms that cancel far apart in k: narrow accumulators and partial sums, any wrong product"
    sees = ("precision-acc", "precision-splitk", "k-tail", "layout", "pipeline")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """One: the sizes, within the accumulator's budget, that see most."""
        room = sizing.room_for_products(problem, declared=options.declared, epilogue=_EPILOGUE)
        limits = sizing.integer_limit(problem.a_format), sizing.integer_limit(problem.b_format)
        alpha = max(1, abs(dyadic(problem.alpha)[0]))
        # one less than the largest exact integer: its neighbour outwards may be rounded to it
        exact = problem.out_format.exact_integer_limit - 1 - sizing.epilogue_size(problem, _EPILOGUE)
        a, b, reach = _best_sizes(room // max(problem.k, 1), *limits, exact // alpha // 2)
        total = problem.k * a * b * reach * alpha + sizing.epilogue_size(problem, _EPILOGUE)
        sizes = a * reach, b * reach
        exponents = sizing.place(problem, sizes, (1 - a.bit_length(), 1 - b.bit_length()), total)
        return [{"a": a, "b": b, "reach": reach, "a_exponent": exponents[0], "b_exponent": exponents[1]}]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers up to the sizes times the directions, all products non-zero."""
        a, b, reach = int(settings["a"]), int(settings["b"]), int(settings["reach"])
        directions = _directions_of(problem, settings)
        along = [max(abs(int(number)) for number in numbers) for numbers in directions.T]
        family = sizing.family(
            problem,
            Lattice(a * max(along), int(settings["a_exponent"])),
            Lattice(b * max(along), int(settings["b_exponent"])),
            problem.k,
            epilogue=_EPILOGUE,
        )
        return sizing.with_product(family, a * b * reach)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Elements of the first of each pair, and what follows from them for the second."""
        numbers, size, along_k = seed.field(name), int(settings[name]), axis_of_k(problem, name)
        pairs = max(0, problem.k - 1) // 2
        order = seed.stream("partners").permutation(problem.k)
        first, second = order[:pairs], order[pairs : 2 * pairs]
        directions = _directions_of(problem, settings)
        v, u = directions[seed.stream("directions").below(len(directions), (pairs,))].T
        partner, factor, alone = np.arange(problem.k), np.ones(problem.k, np.int32), np.ones(problem.k, bool)
        partner[second] = first
        factor[first], factor[second] = (v, u) if name == "a" else (u, -v)
        alone[first] = alone[second] = False

        def paired(part: Part) -> Any:
            if part.shape[along_k] != problem.k:  # all rows along k are one and the same
                return numbers.signed(size, part)
            found = moved_to(partner, part, along_k, lambda other: numbers.signed(size, other))
            if name == "b":  # what is alone is a unit
                found = part.arrays.where(looked_up(alone, part, along_k), (found >> 31) | 1, found)
            return found * looked_up(factor, part, along_k)

        return paired

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """(1 - 3/K)(1 - 1/r)^2 (1 - 1/2s)(1 - 1/2s'): the proof stands at the head of the module."""
        if problem.k < 4 or problem.alpha == 0:
            return 0.0
        a, b = int(settings["a"]), int(settings["b"])
        if 2 * a * max(1, abs(dyadic(problem.alpha)[0])) + sizing.epilogue_size(problem, _EPILOGUE) >= (
            problem.out_format.exact_integer_limit
        ):
            return 0.0
        return (1 - 3 / problem.k) * _seen(a, b, len(_directions_of(problem, settings)))


def _seen(a: int, b: int, directions: int) -> float:
    return float((1 - 1 / directions) ** 2 * (1 - 1 / (2 * a)) * (1 - 1 / (2 * b)))


def _directions_of(problem: Matmul, settings: Settings) -> Array:
    most_a = sizing.integer_limit(problem.a_format) // int(settings["a"])
    most_b = sizing.integer_limit(problem.b_format) // int(settings["b"])
    return _directions(int(settings["reach"]), min(most_a, most_b))


@lru_cache(maxsize=1024)
def _directions(reach: int, most: int) -> Array:
    """Coprime (v, u) with v > 0, |v u| <= *reach* and neither beyond *most*: (r, 2), no two parallel."""
    found = [
        (v, sign * u)
        for v in range(1, min(reach, most) + 1)
        for u in range(1, min(reach // v, most) + 1)
        if gcd(v, u) == 1
        for sign in (1, -1)
    ]
    directions = np.array(found or [(1, 1), (1, -1)], np.int32)
    directions.flags.writeable = False
    return directions


@lru_cache(maxsize=256)
def _best_sizes(share: int, limit_a: int, limit_b: int, most_a: int) -> tuple[int, int, int]:
    """
    The s, s' and reach that see most.

    Args:
        share: Largest product, in quanta.
        limit_a: Largest element of a.
        limit_b: Largest element of b.
        most_a: Largest s, for the sake of the result.
    """
    best, chosen = 0.0, (1, 1, 1)
    for most, reach, a in product(_NUMBERS, _REACHES, _SIZES):  # most: the largest v and u
        b = min(share // (reach * a), limit_b // most, _SIZES[-1])
        if reach > most**2 or a * most > limit_a or a > most_a or b < 1:
            continue
        seen = _seen(a, b, len(_directions(reach, min(limit_a // a, limit_b // b))))
        if seen > best:
            best, chosen = seen, (a, b, reach)
    return chosen
