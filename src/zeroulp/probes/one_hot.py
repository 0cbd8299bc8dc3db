"""
Single products: each output is one product of arbitrary numbers, all bits of both set at random.

One operand has a single non-zero element in each row (or column), anywhere along k; the other
is dense. There is no sum whose order could matter, so the operands may be any numbers whose
product the accumulator holds exactly: full significands, and powers of two over the whole range
of the formats. Operands cut to fewer bits or to a smaller range, wrong decodings of a format and
branches on values are seen here, at every magnitude.
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

    from zeroulp.draw import Seed
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape

_EPILOGUE = 1
_SPREAD = 40  # binary places


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
        """
        found = []
        for lone in ("a", "b"):
            for full in ("a", "b"):
                settings = self._settings(problem, lone, full, declared=options.declared)
                found.append(
                    widest(
                        problem,
                        settings,
                        lambda s: with_spreads(self.family(problem, s), s),
                        most=_SPREAD,
                        inner=True,
                    )
                )
        return [found[0], found[3], found[1], found[2]]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Integers with the leading bit set; one product to an output."""
        a = _lattice(int(settings["a_width"]), int(settings["a_exponent"]))
        b = _lattice(int(settings["b_width"]), int(settings["b_exponent"]))
        return sizing.family(problem, a, b, 1, epilogue=_EPILOGUE)

    def draw(
        self, problem: Matmul, settings: Settings, seed: Seed, shapes: Mapping[str, Shape]
    ) -> dict[str, Array]:
        """Both operands; which k is left in each row or column goes through a random order of all."""
        widths = {name: int(settings[f"{name}_width"]) for name in ("a", "b")}
        drawn: dict[str, Array] = {
            name: sizing.draw_significands(seed.stream(name), width, shapes[name]) for name, width in widths.items()
        }
        lone = str(settings["lone"])
        transposed = problem.transpose_a if lone == "a" else not problem.transpose_b
        along = np.swapaxes(drawn[lone], -1, -2) if transposed else drawn[lone]  # (..., rows, k)
        rows, k = along.shape[-2:]
        if k:
            order = seed.stream("order of k").permutation(problem.k)
            kept = order[np.arange(rows) % problem.k] % k
            along[...] = np.where(np.arange(k)[None, :] == kept[:, None], along, 0)
        return drawn | sizing.draw_epilogue(problem, seed, shapes, magnitude=_EPILOGUE)

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: most products of an output are zero."""
        del problem, settings
        return 0.0

    @staticmethod
    def _settings(problem: Matmul, lone: str, full: str, *, declared: bool) -> Settings:
        room = sizing.room_for_products(problem, declared=declared, epilogue=_EPILOGUE)
        bits = max(1, room.bit_length() - 1)
        formats = {"a": problem.a_format, "b": problem.b_format}
        other = "b" if full == "a" else "a"
        widths = {full: min(sizing.widest_significand(formats[full]), bits)}
        widths[other] = max(1, min(sizing.widest_significand(formats[other]), bits - widths[full]))
        alpha = max(1, abs(dyadic(problem.alpha)[0]))
        reach = 2 ** (widths["a"] + widths["b"]) * alpha + sizing.epilogue_size(problem, _EPILOGUE)
        sizes = 2 ** widths["a"] - 1, 2 ** widths["b"] - 1
        lone_product = problem.beta == 0 and problem.bias is None
        least = 2 ** (widths["a"] + widths["b"] - 2) if lone_product else 1
        a, b = sizing.place(problem, sizes, None, reach, least=least)
        return {"lone": lone, "a_width": widths["a"], "b_width": widths["b"], "a_exponent": a, "b_exponent": b}


def _lattice(width: int, exponent: int) -> Lattice:
    return Lattice(2**width - 1, exponent, least=2 ** (width - 1))
