"""
Large terms that cancel: small results from sums that fill the accumulator.

Every k has a partner in the other half of k: the two columns of a are equal, and the two rows
of b are y and e - y, with y large and e small and mostly zero. All products of the first half
have the sign of their output, so that the sum of moduli fills the budget and half of it is
reached on the way, while the result, a e, stays within the integers that the output holds
exactly. So a narrow accumulator or partial sums in the output format lose bits that the final
rounding cannot hide, and a lone wrong product is as large as y. Where y has room beyond its
significant bits, it is moved up; partners without e are then exact negatives of each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register
from zeroulp.probes.places import axis_of_k, looked_up, moved_to

if TYPE_CHECKING:
    from zeroulp.draw import Field, Part, Seed
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

_EPILOGUE = 2
_MOST = 4096
_LARGEST = 2**30  # elements are drawn as int32


@register
class Cancel:
    """Pairs of equal columns against y and e - y, y at the top of its range: see the module."""

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
        pairs = problem.k // 2
        nonzero = max(0, min(pairs, exact // a - odd))
        found = []
        if pairs > 1 and nonzero and not problem.b_format.is_integer:
            few = max(1, min(nonzero, pairs // 4))
            shift = 0
            while share // (a << shift) > limits[1]:
                shift += 1
            large = max(1, min(share // (a << shift), limits[1], _LARGEST >> shift))
            if large > b or (shift and large >= b // 2):
                found.append(self._settings(problem, (a, large), few, shift))
        return [*found, self._settings(problem, (a, b), nonzero, 0)]

    @staticmethod
    def _settings(problem: Matmul, sizes: tuple[int, int], nonzero: int, shift: int) -> Settings:
        a, b = sizes
        alpha = max(1, abs(dyadic(problem.alpha)[0]))
        reach = problem.k * a * (b << shift) * alpha + sizing.epilogue_size(problem, _EPILOGUE)
        preferred = (1 - a.bit_length(), 1 - b.bit_length() - shift)
        exponents = sizing.place(problem, (a, b << shift), preferred, reach)
        return {
            "a": a,
            "b": b,
            "shift": shift,
            "nonzero": min(nonzero, 256),
            "a_exponent": exponents[0],
            "b_exponent": exponents[1],
        }

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers up to the sizes, all products non-zero."""
        a = Lattice(int(settings["a"]), int(settings["a_exponent"]))
        size, shift = int(settings["b"]), int(settings["shift"])
        bits = max(1, (size - 1).bit_length())  # of size itself too: if it is a power of two, it has one
        b = Lattice(size << shift, int(settings["b_exponent"]), bits=bits if shift else None)
        return sizing.family(problem, a, b, problem.k, epilogue=_EPILOGUE)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Both operands, k in pairs: one in the first half, its partner in the second."""
        size, shift, least = int(settings[name]), int(settings["shift"]), 1 if name == "a" else 2
        along_k, pairs = axis_of_k(problem, name), problem.k // 2
        lone = int(seed.stream("lone").below(problem.k, ())[()]) if problem.k % 2 else -1
        order = np.delete(np.arange(problem.k), [lone] if lone >= 0 else [])
        turn = int(seed.stream("partners").below(max(pairs, 1), ())[()])
        first, second = order[:pairs], np.roll(order[pairs:], turn)
        partner = np.arange(problem.k)
        partner[second] = first
        across = problem.m if name == "a" else problem.n
        signs = _signs(seed, "k", problem.k), _signs(seed, "rows" if name == "a" else "columns", across)
        numbers = seed.field(name)

        def y(part: Part) -> Any:
            sign = looked_up(signs[0], part, along_k) * looked_up(signs[1], part, -3 - along_k)
            return _upper(numbers, size, least, part) * sign

        def paired(part: Part) -> Any:
            return moved_to(partner, part, along_k, y) if part.shape[along_k] == problem.k else y(part)

        if name == "a":
            return paired
        chosen = seed.stream("rows of e").permutation(pairs) < int(settings["nonzero"])
        with_e, is_second, is_lone = np.zeros((3, problem.k), bool)
        with_e[first] = with_e[second] = chosen
        is_second[second] = True
        is_lone[lone:][:1] = lone >= 0

        def drawn(part: Part) -> Any:
            found = paired(part)
            if part.shape[along_k] != problem.k:
                return found
            unit, e = (found >> 31) | 1, looked_up(with_e, part, along_k)  # the sign bit everywhere, and a one: +-1
            large = part.arrays.where(e, found, found << shift)
            rest = unit * e - large  # e has the sign of y, so that e - y is no larger than y
            found = part.arrays.where(looked_up(is_second, part, along_k), rest, large)
            return part.arrays.where(looked_up(is_lone, part, along_k), unit, found)

        return drawn

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: a fault that treats partners alike can escape every trial."""
        del problem, settings
        return 0.0


def _upper(numbers: Field, most: int, least: int, part: Part) -> Any:
    """Integers from the last eighth up to *most*, none below *least* unless *most* is."""
    low = max(min(least, most), most - max(1, most // 8))
    return low + numbers.below(most - low + 1, part)


def _signs(seed: Seed, label: str, count: int) -> Array:
    return (1 - 2 * seed.stream(f"signs of {label}").below(2, (count,))).astype(np.int32)
