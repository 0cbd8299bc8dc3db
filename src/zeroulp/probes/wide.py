"""
Full significands against small integers: the accumulator's budget, filled.

One operand holds odd integers with all the significant bits of its format, the other small
signed integers sized so that the sums of moduli fill the budget of the declared accumulator;
then the roles are exchanged. A narrower accumulator, partial sums stored in the output format,
operands cut to fewer bits and a wrong final rounding all lose bits that are there to be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register
from zeroulp.probes.places import axis_of_k
from zeroulp.probes.pool import pool_of, pooled, with_pool
from zeroulp.probes.scaling import widest, with_spreads

if TYPE_CHECKING:
    from zeroulp.draw import Field, Part, Seed
    from zeroulp.exactness import Family
    from zeroulp.formats import Format
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

_EPILOGUE = 2
_NARROWEST = 3  # significant bits below which an odd integer is no longer wide
_SPREAD = 6  # binary places
_TOP = 60  # an exponent beyond any but the widest formats
_SMALL_INTEGER_BITS = 16
_MOST = 2**30  # span of the small integers: they are drawn as int32


@register
class Wide:
    """
    Odd integers of ``width`` bits on one ``side`` against {±1, ..., ±span}.

    ``alike``: no signs, and sums near the budget. ``lowest``: integers of one sign down to the
    smallest of their format, -128 in 8 bits, so that sums come near the largest possible one.
    """

    name = "wide"
    purpose = "full significands that fill the accumulator: narrow accumulators, cut operands, rounding"
    sees = ("precision-acc", "precision-splitk", "precision-input", "rounding", "layout", "k-tail")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """
        The wide operand is a, then b, then a with all signs alike, so that sums grow to the budget.

        Where k terms leave no room for the full significand, two more have it, with as many
        non-zero products as the budget allows.
        """
        if options.terms is not None:
            return [self._settings(problem, side, options, full=True) for side in ("a", "b")]
        if options.width is not None:
            return [self._settings(problem, "a", options, full=False, alike=True)]
        plain = [self._settings(problem, side, options, full=False) for side in ("a", "b")]
        found = [with_pool(problem, self._scaled(problem, settings, options)) for settings in plain]
        alike = self._settings(problem, "a", options, full=False, alike=True)
        if "lowest" not in alike:  # its integers have no negatives, and the columns of a pool have signs
            alike = with_pool(problem, alike)
        full = [
            with_pool(problem, self._scaled(problem, self._settings(problem, side, options, full=True), options))
            for side, format_, own in zip("ab", (problem.a_format, problem.b_format), found, strict=True)
            if int(own["width"]) < _full_width(format_)
        ]
        return [*found, alike, *full]

    def _scaled(self, problem: Matmul, settings: Settings, options: Options) -> Settings:
        """With powers of two along rows, columns and k, as far as the ranges allow."""
        if options.plain:
            return settings
        return widest(problem, settings, lambda s: with_spreads(self.family(problem, s), s), most=_SPREAD, inner=True)

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Lattices of the wide and the narrow operand."""
        if settings.get("lowest"):
            lowest = [Lattice(f.max_significand + 1, to_lowest=True) for f in (problem.a_format, problem.b_format)]
            return sizing.family(problem, lowest[0], lowest[1], int(settings["terms"]), epilogue=_EPILOGUE)
        wide = Lattice(2 ** int(settings["width"]) - 1, int(settings["wide_exponent"]))
        narrow = Lattice(int(settings["span"]), int(settings["span_exponent"]))
        a, b = (wide, narrow) if settings["side"] == "a" else (narrow, wide)
        return sizing.family(problem, a, b, int(settings["terms"]), epilogue=_EPILOGUE)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Odd integers with the leading bit set and a random sign; small integers without zero."""
        numbers = seed.field(name)
        lowest = settings.get("lowest")
        elements = self._lowest(problem, numbers, name) if lowest else _of_a_side(numbers, settings, name)
        if name == "a":
            return elements
        terms = int(settings["terms"])
        block = int(seed.stream("block of k").below(sizing.blocks_of(problem.k, terms), ())[()])
        distinct = pooled(problem, elements, pool_of(problem, settings, seed))
        return sizing.keep_block(problem, distinct, seed, block, terms)

    @staticmethod
    def _lowest(problem: Matmul, numbers: Field, name: str) -> Elements:
        """Minus integers up to the largest: of rows in turn from its last sixteenth and from its upper half."""
        most = (problem.a_format if name == "a" else problem.b_format).max_significand + 1
        own = -3 - axis_of_k(problem, name)
        low = np.array([most - most // 16, most - most // 2], np.int32)

        def drawn(part: Part) -> Any:
            lowest = part.arrays.table(low)[part.coordinate(own) % 2]
            return -(lowest + ((most + 1 - lowest) * numbers.below(2**15, part) >> 15))

        return drawn

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """As for ``signed`` where no result can round; otherwise no bound is claimed."""
        if settings.get("lowest"):
            return 0.0
        width, span, terms = int(settings["width"]), int(settings["span"]), int(settings["terms"])
        one = (2**width - 1) * span * max(1, abs(dyadic(problem.alpha)[0]))
        room = problem.out_format.exact_integer_limit - sizing.epilogue_size(problem, _EPILOGUE)
        if terms * one > room or (terms * one == room and one == 1):
            return 0.0
        if settings["alike"]:
            wide, narrow = 1 / 2.0 ** (width - 1), 1 / (span // 2 + 1)
        else:
            wide, narrow = 1 / 2.0 ** (width - 1), 1 / (2 * span)
        return max(0.0, (1 - wide) * (1 - narrow)) / sizing.blocks_of(problem.k, terms)

    @staticmethod
    def _settings(problem: Matmul, side: str, options: Options, *, full: bool, alike: bool = False) -> Settings:
        formats = (problem.a_format, problem.b_format)
        wide, narrow = formats if side == "a" else formats[::-1]
        room = sizing.room_for_products(problem, declared=options.declared, epilogue=_EPILOGUE)
        if options.bits is not None:
            room = min(room, max(1, 2**options.bits - sizing.epilogue_size(problem, _EPILOGUE)))
        k = max(problem.k, 1)
        width = min(_full_width(wide), options.width or 31)
        while not full and width > _NARROWEST and k * (2**width - 1) > room:
            width -= 1
        terms = min(problem.k, max(1, room // (2**width - 1)), options.terms or problem.k)
        span = max(1, min(room // (max(terms, 1) * (2**width - 1)), sizing.integer_limit(narrow), _MOST))
        if options.terms is not None:
            span = 1
        if options.width is not None:
            span = min(span, 2**options.width - 1)
        alpha = max(1, abs(dyadic(problem.alpha)[0]))
        reach = terms * (2**width - 1) * span * alpha + sizing.epilogue_size(problem, _EPILOGUE)
        sizes = (2**width - 1, span) if side == "a" else (span, 2**width - 1)
        near_one = tuple(1 - size.bit_length() for size in sizes)
        at_the_top = alike and options.width is None and not options.plain  # of the output's range
        preferred = (_TOP, _TOP) if at_the_top else (near_one[0], near_one[1])
        a, b = sizing.place(problem, sizes, preferred, reach)
        wide_exponent, span_exponent = (a, b) if side == "a" else (b, a)
        lowest = alike and options.width is None and options.bits is None and _has_room_for_lowest(problem, terms, room)
        return {
            "side": side,
            "alike": alike,
            **({"lowest": True} if lowest else {}),
            "width": width,
            "span": span,
            "terms": terms,
            "wide_exponent": wide_exponent,
            "span_exponent": span_exponent,
        }


def _has_room_for_lowest(problem: Matmul, terms: int, room: int) -> bool:
    """Whether all k products of the smallest integers of both formats fit the budget."""
    a, b = problem.a_format, problem.b_format
    if not (a.is_integer and b.is_integer and max(a.bits, b.bits) <= _SMALL_INTEGER_BITS):
        return False
    return terms == problem.k and terms * (a.max_significand + 1) * (b.max_significand + 1) <= room


def _full_width(format_: Format) -> int:
    """Significant bits of the widest odd integers of a format (31 at most: they are drawn as int32)."""
    width = min(format_.precision, 31)
    return width if 2**width - 1 <= format_.exact_integer_limit else width - 1


def _of_a_side(numbers: Field, settings: Settings, name: str) -> Elements:
    """The wide operand, or the narrow one."""
    width, span = int(settings["width"]), int(settings["span"])
    is_wide = name == settings["side"]
    if settings["alike"]:
        return lambda part: _upper_half(numbers, 2**width - 1 if is_wide else span, part)
    return (lambda part: _odd(numbers, width, part)) if is_wide else (lambda part: numbers.signed(span, part))


def _odd(numbers: Field, width: int, part: Part) -> Any:
    """Odd integers in ±[2**(width-1), 2**width)."""
    half = 1 << (width - 2)
    drawn = numbers.below(2 * half, part) - half  # -half .. half - 1, each of them 2x + 1 away from zero
    return 2 * drawn + 1 + 2 * half * ((drawn >> 31) | 1)


def _upper_half(numbers: Field, most: int, part: Part) -> Any:
    """Integers from the upper half of 1 to *most*: sums of them exceed half the budget that they are sized for."""
    low = most - most // 2
    return low + numbers.below(most - low + 1, part)
