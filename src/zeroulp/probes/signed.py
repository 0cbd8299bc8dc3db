"""
Small signed integers without zero: every product counts.

A single missing, doubled or foreign product changes the sum with certainty, and what agrees
with a * b on 0/1 (squares, absolute values, minima, clamps) does not agree here. Sized so that
results stay within the integers of the output format: no final rounding hides a difference.
Where k exceeds the budget, one block of k at a time is non-zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register
from zeroulp.probes.scaling import widest, with_spreads

if TYPE_CHECKING:
    from zeroulp.draw import Seed
    from zeroulp.exactness import Family
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

_EPILOGUE = 2
_MOST = 1024
_SCALED = 3  # scaled trials to a plain one
_SPREAD = 6  # binary places


@register
class Signed:
    """Uniform on {±1, ..., ±s}, with an s for each operand."""

    name = "signed"
    purpose = "small signed integers without zero: sign, squares, minima, and any lone wrong product"
    sees = ("layout", "k-tail", "m-n-tail", "scale-epilogue", "saturation", "pipeline", "scheduler", "race")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """The sizes that see most; one variant per block of k."""
        if options.bits is not None:
            return self._small(problem, options.bits)
        candidates = [self._within(problem, declared=False)]
        if options.declared:
            candidates += self._unrounded_as_a_rule(problem)
        best = max(candidates, key=lambda settings: self.detection(problem, settings))
        plain = _by_block(problem, best)
        if options.plain:
            return plain
        scaled = _by_block(problem, self._scaled(problem, best))
        if len(plain) == 1:
            return [*plain, *scaled * _SCALED]
        return [plain[0], *scaled[1:], *scaled]  # each block as often as any other: the bound counts on it

    def _scaled(self, problem: Matmul, settings: Settings) -> Settings:
        """The same sizes in the middle of the output's range, with powers of two along rows and columns."""
        a, b, terms = int(settings["a"]), int(settings["b"]), int(settings["terms"])
        centred = self._settings(problem, a, b, terms, centred=True)
        family = lambda settings: with_spreads(self.family(problem, settings), settings)  # noqa: E731
        return widest(problem, {**centred, "block": 0}, family, most=_SPREAD, inner=False)

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers up to the sizes; ``terms`` of the products are non-zero."""
        a = Lattice(int(settings["a"]), int(settings["a_exponent"]))
        b = Lattice(int(settings["b"]), int(settings["b_exponent"]))
        return sizing.family(problem, a, b, int(settings["terms"]), epilogue=_EPILOGUE)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Independent signed integers; b is zero outside the block."""
        numbers = seed.field(name)
        size = int(settings[name])
        if name == "a":
            return numbers.all_signed(size)
        block, terms = int(settings["block"]), int(settings["terms"])
        return sizing.keep_block(problem, numbers.all_signed(size), seed, block, terms)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """
        (1 - 1/2s)(1 - 1/2s'), less the chance that the result rounds; per cycle through the blocks.

        A bilinear form that is not zero vanishes with probability at most the largest atom of
        each of its two variables; an exact result that differs then differs in its bits. (Of
        two neighbours the one beyond the largest exact integer may be rounded to it: a result of
        that size counts as one that rounds, unless all products are 2 quanta apart.)
        """
        a, b, terms = int(settings["a"]), int(settings["b"]), int(settings["terms"])
        limit = problem.out_format.exact_integer_limit - sizing.epilogue_size(problem, _EPILOGUE)
        largest = a * b * max(1, abs(dyadic(problem.alpha)[0]))
        terms_in_all = min(terms, problem.k)
        if terms_in_all * largest > limit:
            rounded = math.exp(sizing.log_two_sided_tail(terms_in_all, largest, limit - 1))
        else:
            rounded = 2.0 ** (1 - terms_in_all) if terms_in_all * largest == limit and largest == 1 else 0.0
        seen = (1 - 1 / (2 * a)) * (1 - 1 / (2 * b))
        return max(0.0, seen - rounded) / sizing.blocks_of(problem.k, terms)

    def _small(self, problem: Matmul, bits: int) -> list[Settings]:
        """Sums of at most so many bits: units in large blocks of k, and larger integers in small ones, in turn."""
        room = sizing.room_for_products(problem, declared=False, epilogue=_EPILOGUE)
        room = min(room, max(1, 2**bits - sizing.epilogue_size(problem, _EPILOGUE)))
        found: list[list[Settings]] = []
        for size in (1, 4):
            fits = size**2 <= room and size <= min(
                sizing.integer_limit(problem.a_format), sizing.integer_limit(problem.b_format)
            )
            if fits:
                settings = self._settings(problem, size, size, min(problem.k, room // size**2))
                found.append(_by_block(problem, settings))
        if not found:  # not even one product: the certificate will say so
            return [{**self._settings(problem, 1, 1, 1), "block": 0}]
        rounds = max(len(blocks) for blocks in found)
        return [blocks[i % len(blocks)] for i in range(rounds) for blocks in found]

    def _within(self, problem: Matmul, *, declared: bool) -> Settings:
        """Sizes for which no partial sum leaves the budget."""
        room = sizing.room_for_products(problem, declared=declared, epilogue=_EPILOGUE)
        share = room // max(problem.k, 1)
        a = max(1, min(math.isqrt(share), sizing.integer_limit(problem.a_format), _MOST))
        b = max(1, min(share // a, sizing.integer_limit(problem.b_format), _MOST))
        terms = problem.k if share else max(1, room)
        return self._settings(problem, a, b, terms)

    def _unrounded_as_a_rule(self, problem: Matmul) -> list[Settings]:
        """
        Sizes within the accumulator's budget.

        Sums of random signs grow like the root of k, so that results rarely leave the integers
        of the output format although the sum of |terms| may.
        """
        room = sizing.room_for_products(problem, declared=True, epilogue=_EPILOGUE)
        found = [self._within(problem, declared=True)]
        for a in (2**e for e in range(11)):
            for b in (a, 2 * a):
                fits = a <= sizing.integer_limit(problem.a_format) and b <= sizing.integer_limit(problem.b_format)
                if fits and problem.k * a * b <= room:
                    found.append(self._settings(problem, a, b, problem.k))
        return found

    @staticmethod
    def _settings(problem: Matmul, a: int, b: int, terms: int, *, centred: bool = False) -> Settings:
        reach = terms * a * b * max(1, abs(dyadic(problem.alpha)[0])) + sizing.epilogue_size(problem, _EPILOGUE)
        exponents = sizing.place(problem, (a, b), None if centred else (0, 0), reach)
        return {"a": a, "b": b, "a_exponent": exponents[0], "b_exponent": exponents[1], "terms": terms}


def _by_block(problem: Matmul, settings: Settings) -> list[Settings]:
    """The same settings for each block of k in turn."""
    count = sizing.blocks_of(problem.k, int(settings["terms"]))
    return [{**settings, "block": block} for block in range(count)]
