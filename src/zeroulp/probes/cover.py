"""
Every k in its turn, where the budget does not hold all of them.

The k are divided at random into blocks that the budget holds. In each trial one operand is
dense and the other is zero outside one block; after a cycle through the blocks the roles are
exchanged, with another division. Each product (i, j, k) is touched exactly once in a cycle, so
one cycle sees any lone wrong product with certainty.

**Every other bilinear form is seen**, with a probability that follows from counting. Let D be
the difference of the two forms, not zero, with c non-zero columns and r non-zero rows, elements
of the dense operand in {±1, ..., ±s} and of the other in {±1, ..., ±s'}. In a cycle over b a
block that holds one non-zero column adds to the result a number of b times a linear form in a:
zero with probability at most 1/2s, and never if r = 1. A block that holds more of them adds a
bilinear form: zero with probability at most 1 - (1 - 1/2s)(1 - 1/2s'), or 1/2s' if r = 1. Trials
are independent given the division, so the chance that all are blind is the mean, over divisions,
of the product of these. It is worst for few columns; `missed_by_a_cycle` works it out for every
number of columns. A cycle over a is the same with rows and columns exchanged, and independent.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.draw import Seed
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

_EPILOGUE = 2
_SIZES = ((1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 8), (16, 16))  # of the dense operand, and of the other
_COUNTED = 40  # non-zero columns up to which the mean over divisions is worked out one by one


@register
class Cover:
    """±{1..s} dense against ±{1..s'} in one block of k, for each block; then the other way round."""

    name = "cover"
    purpose = "blocks of k in turn, each product touched in every cycle: lone wrong products beyond the budget"
    sees = ("k-tail", "layout", "pipeline", "scheduler")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """One for each block of either operand, with the sizes that see most in as many calls."""
        del options
        room = sizing.room_for_products(problem, declared=False, epilogue=_EPILOGUE)
        candidates = [self._settings(problem, dense, other, max(1, room // (dense * other))) for dense, other in _SIZES]
        candidates.append(self._settings(problem, 1, 1, max(1, room - 1)))  # short of the largest exact integer
        limit = min(sizing.integer_limit(problem.a_format), sizing.integer_limit(problem.b_format))
        fitting = [s for s in candidates if int(s["dense"]) * int(s["other"]) <= room and int(s["dense"]) <= limit]
        best = min(fitting or candidates[:1], key=lambda settings: self._logarithm_per_call(problem, settings))
        blocks = sizing.blocks_of(problem.k, int(best["terms"]))
        return [{**best, "zeroed": side, "block": block} for side in ("b", "a") for block in range(blocks)]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers up to the sizes; ``terms`` of the products are non-zero."""
        sizes = {name: int(settings["other" if settings["zeroed"] == name else "dense"]) for name in ("a", "b")}
        a, b = (Lattice(sizes[name], int(settings[f"{name}_exponent"])) for name in ("a", "b"))
        return sizing.family(problem, a, b, int(settings["terms"]), epilogue=_EPILOGUE)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Independent signed integers; one operand is zero outside the block."""
        numbers, zeroed = seed.field(name), settings["zeroed"] == name
        size = int(settings["other" if zeroed else "dense"])
        if not zeroed:
            return numbers.all_signed(size)
        block, terms = int(settings["block"]), int(settings["terms"])
        return sizing.keep_block(problem, numbers.all_signed(size), seed, block, terms, side=name)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed for one trial: what counts are whole cycles (`missed`)."""
        del problem, settings
        return 0.0

    def missed(self, problem: Matmul, trials: Sequence[Settings]) -> float:
        """
        Bound on the chance that a bilinear fault of one output passes all these *trials*.

        Args:
            problem: The problem.
            trials: Settings of the probe's own trials; cycles that are not whole count for nothing.
        """
        if not trials or problem.alpha == 0:
            return 1.0
        dense, other, terms = (int(trials[0][name]) for name in ("dense", "other", "terms"))
        blocks = sizing.blocks_of(problem.k, terms)
        counted = Counter((settings["zeroed"], settings["block"]) for settings in trials)
        cycles = {side: min(counted[side, block] for block in range(blocks)) for side in ("b", "a")}
        missed = missed_by_cycles(problem.k, min(terms, problem.k), (dense, other), (cycles["b"], cycles["a"]))
        return min(1.0, missed + len(trials) * self._edge(problem, trials[0]))

    def _logarithm_per_call(self, problem: Matmul, settings: Settings) -> float:
        dense, other, terms = (int(settings[name]) for name in ("dense", "other", "terms"))
        blocks = sizing.blocks_of(problem.k, terms)
        missed = missed_by_cycles(problem.k, min(terms, problem.k), (dense, other), (1, 1))
        missed = min(1.0, missed + 2 * blocks * self._edge(problem, settings))
        return (math.log(missed) if missed > 0 else -math.inf) / (2 * blocks)

    @staticmethod
    def _edge(problem: Matmul, settings: Settings) -> float:
        """Chance that a result is the largest exact integer and one quantum more is rounded back to it."""
        size, terms = int(settings["dense"]) * int(settings["other"]), min(int(settings["terms"]), problem.k)
        size *= max(1, abs(dyadic(problem.alpha)[0]))
        reach = terms * size + sizing.epilogue_size(problem, _EPILOGUE)
        return 2.0 ** (1 - terms) if size == 1 and reach >= problem.out_format.exact_integer_limit else 0.0

    @staticmethod
    def _settings(problem: Matmul, dense: int, other: int, terms: int) -> Settings:
        alpha = max(1, abs(dyadic(problem.alpha)[0]))
        terms = max(1, min(terms, problem.k))
        reach = terms * dense * other * alpha + sizing.epilogue_size(problem, _EPILOGUE)
        exponents = sizing.place(problem, (dense, dense), (0, 0), reach)
        return {
            "dense": dense,
            "other": other,
            "terms": terms,
            "zeroed": "b",
            "block": 0,
            "a_exponent": exponents[0],
            "b_exponent": exponents[1],
        }


@lru_cache(maxsize=256)
def missed_by_cycles(k: int, terms: int, sizes: tuple[int, int], cycles: tuple[int, int]) -> float:
    """
    Bound on the chance that no trial of so many cycles sees a bilinear fault of one output.

    Args:
        k: Length of the sums.
        terms: Size of a block.
        sizes: Largest element of the dense operand, and of the other one.
        cycles: How many in which b is zero outside a block, all with one division of k, and how
            many in which a is, with another division.
    """
    (dense, other), (over_b, over_a) = sizes, cycles
    if k < 2:
        return 0.0 if over_a + over_b else 1.0  # the difference is a whole number times the only product
    one, more = 1 / (2 * dense), 1 - (1 - 1 / (2 * dense)) * (1 - 1 / (2 * other))
    lone_one, lone_more = 0.0, 1 / (2 * other)  # where the other side of the fault is a single row or column

    def cycle(count: int, *, single: bool, alone: bool) -> float:
        """*single*: one non-zero column, else any larger number; *alone*: one non-zero row, else more."""
        if count == 0:
            return 1.0
        factors = (lone_one**count, lone_more**count) if alone else (one**count, more**count)
        return factors[0] if single else _missed_by_several(k, terms, *factors)

    cases = [
        cycle(over_b, single=columns == 1, alone=rows == 1) * cycle(over_a, single=rows == 1, alone=columns == 1)
        for columns in (1, 2)
        for rows in (1, 2)
    ]
    return min(1.0, max(cases))


def _missed_by_several(k: int, terms: int, one: float, more: float) -> float:
    """
    The largest mean, over divisions of k, of one^(blocks with one of c places) more^(blocks with several), c >= 2.

    Exactness:
        For c up to `_COUNTED` by generating functions; beyond, the mean is at most that of
        more^(blocks with any), which falls with c.
    """
    most = min(k, _COUNTED)
    if most < 2:
        return 1.0  # no such fault; the other cases decide
    exact, coarse = np.eye(1, most + 1)[0], np.eye(1, most + 1)[0]
    for size, count in ((terms, k // terms), (k % terms, 1)):
        ways = np.array([float(math.comb(size, j)) for j in range(most + 1)])
        several = np.where(np.arange(most + 1) == 0, 1.0, more) * ways
        own = several.copy()
        own[1] = one * ways[1]
        exact, coarse = _times(exact, _power(own, count)), _times(coarse, _power(several, count))
    means = [float(exact[c]) / math.comb(k, c) for c in range(2, most + 1)]
    if k > most:
        means.append(float(coarse[most]) / math.comb(k, most))
    return min(1.0, max(means) * (1 + 1e-9))


def _power(polynomial: Array, exponent: int) -> Array:
    """A polynomial to a whole power, up to its own degree."""
    result: Array = np.eye(1, len(polynomial))[0]
    while exponent:
        if exponent % 2:
            result = _times(result, polynomial)
        polynomial, exponent = _times(polynomial, polynomial), exponent // 2
    return result


def _times(left: Array, right: Array) -> Array:
    """The product of two polynomials, up to their common degree."""
    product: Array = np.convolve(left, right)[: len(left)]
    return product
