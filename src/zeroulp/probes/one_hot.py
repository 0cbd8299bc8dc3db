"""
Single products: each output is one product of arbitrary numbers, all bits of both set at random.

One operand has a single non-zero element in each row (or column), anywhere along k; the other
is dense. There is no sum whose order could matter, so the operands may be any numbers whose
product the accumulator holds exactly: full significands, and powers of two over the whole range
of the formats. Operands cut to fewer bits or to a smaller range, wrong decodings of a format and
branches on values are seen here, at every magnitude.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.exactness import Lattice, certify, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register
from zeroulp.probes.places import axis_of_k, looked_up
from zeroulp.probes.pool import pool_of, pooled, with_pool
from zeroulp.probes.scaling import widest, with_spreads

if TYPE_CHECKING:
    from zeroulp.draw import Part, Seed
    from zeroulp.exactness import Family
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

_EPILOGUE = 1
_SPREAD = 40  # binary places
_WIDEST = 80  # binary places along k alone
_SPLIT_BITS = 12  # operands of so many bits or more may be multiplied in parts, rounded to nearest
_TOP = 60  # an exponent beyond any but the widest formats


@register
class OneHot:
    """One non-zero in each row of a against a dense b, then one in each column of b against a dense a."""

    name = "one_hot"
    purpose = "single products of full significands at all magnitudes: cut operands, ranges, decodings, branches"
    sees = ("precision-input", "dtype-confusion", "saturation", "layout", "value-dependent")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """
        The lone operand is a, then b; each time one of the two has its full significand.

        Its partner has as many bits as the budget leaves, or none but the leading one: a power of two.
        In every other variant powers of two are along k only, as large as the ranges allow: products near
        one, of numbers that are not. The third lies in the last octave of the output's range. With
        ``options.width``, one operand has so many bits, near one, and the other is a power of two.
        """
        if options.width is not None:
            return [self._settings(problem, lone, full, options) for full, lone in ("ab", "ba")]
        found = [self._settings(problem, lone, full, options) for lone in "ab" for full in "ab"]
        if not options.plain:
            ways = (self._scaled, self._scaled, self._scaled_along_k, self._scaled_along_k)
            found = [way(problem, settings) for way, settings in zip(ways, found, strict=True)]
        top = [] if problem.out_format.is_integer or options.plain else [self._at_the_top(problem, options)]
        found[:2] = [with_pool(problem, settings) for settings in found[:2]]  # where b is lone, columns differ in k
        return [found[0], found[3], *top, found[1], found[2]]

    def _scaled_along_k(self, problem: Matmul, settings: Settings) -> Settings:
        """With powers of two along k, mostly near the ends of what the ranges allow."""
        low, high = 0, _WIDEST
        while low < high:
            middle = (low + high + 1) // 2
            family = with_spreads(self.family(problem, settings), {"inner": middle})
            low, high = (middle, high) if certify(problem, family, declared=True).holds else (low, middle - 1)
        return {**settings, "inner": low, "ends": True} if low else settings

    def _scaled(self, problem: Matmul, settings: Settings) -> Settings:
        """With powers of two along rows, columns and k, as far as the ranges allow."""
        return widest(problem, settings, lambda s: with_spreads(self.family(problem, s), s), most=_SPREAD, inner=True)

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers with the leading bit set; one product to an output."""
        a, b = (_lattice(_most(settings, name), int(settings[f"{name}_exponent"])) for name in "ab")
        return sizing.family(problem, a, b, 1, epilogue=_EPILOGUE)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Full significands; which k is left in each row or column goes through a random order of all."""
        most = _most(settings, name)
        numbers, high, signs = (seed.field(label) for label in (name, f"high bits of {name}", f"signs of {name}"))

        def dense(part: Part) -> Any:
            return sizing.significands(numbers, high, most, part) * (1 - 2 * signs.below(2, part))

        if settings["lone"] != name or not problem.k:
            return dense if name == "a" else pooled(problem, dense, pool_of(problem, settings, seed))
        along_k = axis_of_k(problem, name)
        order = seed.stream("order of k").permutation(problem.k)
        own = order[np.arange(problem.m if name == "a" else problem.n) % problem.k]

        def lone(part: Part) -> Any:
            kept = looked_up(own, part, -3 - along_k) % part.shape[along_k]
            return dense(part) * (part.coordinate(along_k) == kept)

        return lone

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: most products of an output are zero."""
        del problem, settings
        return 0.0

    @staticmethod
    def _settings(problem: Matmul, lone: str, full: str, options: Options) -> Settings:
        room = sizing.room_for_products(problem, declared=options.declared, epilogue=_EPILOGUE)
        bits = max(1, room.bit_length() - 1)
        formats = {"a": problem.a_format, "b": problem.b_format}
        other = "b" if full == "a" else "a"
        widths = {full: min(sizing.widest_significand(formats[full]), bits, options.width or bits)}
        widths[other] = 1
        if options.width is None:
            widths[other] = max(1, min(sizing.widest_significand(formats[other]), bits - widths[full]))
        alpha = max(1, abs(dyadic(problem.alpha)[0]))
        reach = 2 ** (widths["a"] + widths["b"]) * alpha + sizing.epilogue_size(problem, _EPILOGUE)
        sizes = 2 ** widths["a"] - 1, 2 ** widths["b"] - 1
        lone_product = problem.beta == 0 and problem.bias is None
        least = 2 ** (widths["a"] + widths["b"] - 2) if lone_product else 1
        near_one = (1 - widths["a"], 1 - widths["b"]) if options.plain or options.width is not None else None
        a, b = sizing.place(problem, sizes, near_one, reach, least=least)
        return {"lone": lone, "a_width": widths["a"], "b_width": widths["b"], "a_exponent": a, "b_exponent": b}

    @staticmethod
    def _at_the_top(problem: Matmul, options: Options) -> Settings:
        """
        Significands of a against powers of two: products in the last octave of the output's range.

        One octave lower for operands that are wide enough to be split: the leading part of a number
        can be larger than the number, and its product must not overflow.
        """
        out = problem.out_format
        room = sizing.room_for_products(problem, declared=options.declared, epilogue=_EPILOGUE)
        width = max(1, min(sizing.widest_significand(problem.a_format), out.precision, room.bit_length() - 1))
        most = min(2**width - 1, out.max_significand >> (out.precision - width))
        alpha = max(1, abs(dyadic(problem.alpha)[0]))
        octaves = 2 if problem.a_format.precision >= _SPLIT_BITS else 1  # a part may be larger than the whole
        reach = octaves * most * alpha + sizing.epilogue_size(problem, _EPILOGUE)
        least = 2 ** (width - 1) if problem.beta == 0 and problem.bias is None else 1
        a, b = sizing.place(problem, (most, 1), (_TOP, _TOP), reach, least=least)
        return {"lone": "b", "a_width": width, "b_width": 1, "a_exponent": a, "b_exponent": b, "a_most": most}


def _most(settings: Settings, name: str) -> int:
    """The largest significand of an operand, as an integer."""
    return int(settings.get(f"{name}_most", 2 ** int(settings[f"{name}_width"]) - 1))


def _lattice(most: int, exponent: int) -> Lattice:
    return Lattice(most, exponent, least=1 << (most.bit_length() - 1))
