"""
NaN and infinities at a few places among small signed integers.

They must reach the outputs that they enter, and no others: a kernel that clamps, that multiplies
padding by what lies beside it, that skips a product or adds a foreign one, or that computes
0 * NaN where nothing should be computed, returns other bits. Which outputs they reach, and as
what, does not depend on the order of a sum. It does depend on the algorithm: compensated sums
and operands split into parts turn an infinity into NaN, so this probe is used on request only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.exactness import Lattice, dyadic
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.draw import Seed
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.formats import Format
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

    def draw(
        self, problem: Matmul, settings: Settings, seed: Seed, shapes: Mapping[str, Shape]
    ) -> dict[str, Array]:
        """±1 everywhere."""
        del settings
        drawn: dict[str, Array] = {name: seed.stream(name).signed(1, shapes[name]) for name in ("a", "b")}
        return drawn | sizing.draw_epilogue(problem, seed, shapes, magnitude=_EPILOGUE)

    def overlay(self, problem: Matmul, settings: Settings, seed: Seed, codes: dict[str, Array]) -> dict[str, Array]:
        """The same encodings with special ones at a few places of a and b, never in more than a third of the rows."""
        formats = {"a": problem.a_format, "b": problem.b_format}
        return codes | {
            name: _place(codes[name], formats[name], str(settings["kind"]), seed, name) for name in ("a", "b")
        }

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed."""
        del problem, settings
        return 0.0


def _place(codes: Array, format_: Format, kind: str, seed: Seed, name: str) -> Array:
    codes = codes.copy()
    rows = codes.shape[-2] if codes.ndim > 1 else 1
    count = min(_MOST, max(1, rows // 3), codes.size)
    places = seed.stream(f"special places of {name}").permutation(codes.size)[:count]
    values = {"nan": (np.nan,), "infinity": (np.inf, -np.inf)}[kind]
    special = encoding.round_values(np.array([values[i % len(values)] for i in range(count)]), format_)
    codes.reshape(-1)[places] = special
    return codes
