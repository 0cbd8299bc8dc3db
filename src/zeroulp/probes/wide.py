"""
Full significands against small integers: the accumulator's budget, filled.

One operand holds odd integers with all the significant bits of its format, the other small
signed integers sized so that the sums of moduli fill the budget of the declared accumulator;
then the roles are exchanged. A narrower accumulator, partial sums stored in the output format,
operands cut to fewer bits and a wrong final rounding all lose bits that are there to be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register
from zeroulp.probes.scaling import widest, with_spreads

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.draw import Seed, Stream
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.formats import Format
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape

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
        found = [self._scaled(problem, settings, options) for settings in plain]
        alike = self._settings(problem, "a", options, full=False, alike=True)
        full = [
            self._scaled(problem, self._settings(problem, side, options, full=True), options)
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

    def draw(self, problem: Matmul, settings: Settings, seed: Seed, shapes: Mapping[str, Shape]) -> dict[str, Array]:
        """Odd integers with the leading bit set and a random sign; small integers without zero."""
        width, span, alike = int(settings["width"]), int(settings["span"]), bool(settings["alike"])
        drawn: dict[str, Array] = {}
        for name in ("a", "b"):
            stream = seed.stream(name)
            is_wide = name == settings["side"]
            if settings.get("lowest"):
                format_ = problem.a_format if name == "a" else problem.b_format
                along_k = problem.transpose_a if name == "a" else not problem.transpose_b  # the first of two axes is k
                drawn[name] = -_from_the_top(stream, format_.max_significand + 1, shapes[name], -1 if along_k else -2)
            elif alike:
                drawn[name] = _upper_half(stream, 2**width - 1 if is_wide else span, shapes[name])
            else:
                drawn[name] = _odd(stream, width, shapes[name]) if is_wide else stream.signed(span, shapes[name])
        terms = int(settings["terms"])
        block = int(seed.stream("block of k").below(sizing.blocks_of(problem.k, terms), ())[()])
        drawn["b"] = sizing.keep_block(problem, drawn["b"], seed, block, terms)
        return drawn | sizing.draw_epilogue(problem, seed, shapes, magnitude=_EPILOGUE)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """As for ``signed`` where no result can round; otherwise no bound is claimed."""
        if settings.get("lowest"):
            return 0.0
        width, span, terms = int(settings["width"]), int(settings["span"]), int(settings["terms"])
        size = terms * (2**width - 1) * span * max(1, abs(dyadic(problem.alpha)[0]))
        if size + sizing.epilogue_size(problem, _EPILOGUE) > problem.out_format.exact_integer_limit:
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


def _odd(stream: Stream, width: int, shape: Shape) -> Array:
    """Odd integers in ±[2**(width-1), 2**width)."""
    half = 1 << (width - 2)
    drawn = stream.signed(half, shape)  # ±1 .. ±half
    magnitude = 2 * abs(drawn) - 1 + 2 * half
    return np.where(drawn < 0, -magnitude, magnitude)


def _upper_half(stream: Stream, most: int, shape: Shape) -> Array:
    """Integers from the upper half of 1 to *most*: sums of them exceed half the budget that they are sized for."""
    low = most - most // 2
    return low + stream.below(most - low + 1, shape)


def _from_the_top(stream: Stream, most: int, shape: Shape, axis: int) -> Array:
    """Integers up to *most*: along *axis* in turn from its last sixteenth and from its upper half."""
    low = np.where(np.arange(shape[axis]) % 2 == 0, most - most // 16, most - most // 2)
    low = low[:, None] if axis == -2 else low
    drawn = low + ((most + 1 - low) * stream.below(2**16, shape).astype(np.int64) >> 16)
    return np.asarray(drawn.astype(np.int32))
