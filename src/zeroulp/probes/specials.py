"""
NaN and infinities at a few places among small signed integers.

They must reach the outputs that they enter, and no others: a kernel that clamps, that multiplies
padding by what lies beside it, that skips a product or adds a foreign one, or that computes
0 * NaN where nothing should be computed, returns other bits. Which outputs they reach, and as
what, does not depend on the order of a sum. It does depend on the algorithm: compensated sums
and operands split into parts turn an infinity into NaN, so this probe is used on request only.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register

if TYPE_CHECKING:
    from zeroulp.draw import Seed
    from zeroulp.exactness import Family
    from zeroulp.formats import Format
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape

_EPILOGUE = 1
_MOST = 3  # special elements in each operand


@register
class Specials:
    """Signed integers without zero, and up to three elements of each operand replaced: NaN, then infinities."""

    name = "specials"
    purpose = "NaN and infinities: propagation, clamping, padding that is multiplied"
    sees = ("nan-inf", "saturation")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """NaN, then infinities, where both operands and the output have them."""
        if problem.nonfinite == "ignore" or problem.alpha == 0:
            return []
        formats = (problem.a_format, problem.b_format, problem.out_format)
        kinds = ["nan"] if all(f.has_nan for f in formats) else []
        kinds += ["infinity"] if all(f.has_infinity for f in formats) else []
        room = sizing.room_for_products(problem, declared=options.declared, epilogue=_EPILOGUE)
        terms = min(problem.k, max(1, room))
        reach = terms * max(1, abs(dyadic(problem.alpha)[0])) + sizing.epilogue_size(problem, _EPILOGUE)
        exponents = sizing.place(problem, (1, 1), (0, 0), reach)
        settings: Settings = {"a_exponent": exponents[0], "b_exponent": exponents[1]}
        return [{**settings, "kind": kind} for kind in kinds]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Units, dense; what is special is settled apart."""
        a, b = Lattice(1, int(settings["a_exponent"])), Lattice(1, int(settings["b_exponent"]))
        return sizing.family(problem, a, b, problem.k, epilogue=_EPILOGUE)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """±1 everywhere."""
        del problem, settings
        numbers = seed.field(name)
        return lambda part: numbers.signed(1, part)

    def overlay(
        self, problem: Matmul, settings: Settings, seed: Seed, name: str, shape: Shape
    ) -> list[tuple[tuple[int, ...], int]]:
        """Special elements at a few places, never in more than a third of the rows."""
        format_ = problem.a_format if name == "a" else problem.b_format
        return _places(shape, format_, str(settings["kind"]), seed, name)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed."""
        del problem, settings
        return 0.0


def _places(shape: Shape, format_: Format, kind: str, seed: Seed, name: str) -> list[tuple[tuple[int, ...], int]]:
    """Where special elements stand, and their encodings as the bits of integers with sign."""
    rows = shape[-2] if len(shape) > 1 else 1
    count = min(_MOST, max(1, rows // 3), math.prod(shape))
    places = seed.stream(f"special places of {name}").below(max(1, math.prod(shape)), (count,))
    values = {"nan": (np.nan,), "infinity": (np.inf, -np.inf)}[kind]
    codes = encoding.round_values(np.array([values[i % len(values)] for i in range(count)]), format_)
    found = zip(places, codes, strict=True)
    return [(tuple(int(i) for i in np.unravel_index(int(place), shape)), int(code)) for place, code in found]
