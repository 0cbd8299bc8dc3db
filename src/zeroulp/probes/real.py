"""
Ordinary numbers: full significands, mixed exponents near one, both signs.

No two orders of summation need agree on them, so no bits are foretold. But every correct kernel
lies within a proved bound of the exact result (`zeroulp.exactness`, theorem ``"bounded"``), and
one that is right on the inputs of the exact probes only, on integers or on powers of two, does
not. The bound is far above what kernels err: it is there to accuse nobody, and to let no one get
away with knowing the test.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zeroulp.exactness import Family, Lattice
from zeroulp.formats import format_named
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register

if TYPE_CHECKING:
    from zeroulp.draw import Part, Seed
    from zeroulp.formats import Format
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul

_BOTTOM, _TOP = -3, 2  # exponents of leading bits, where the formats have them
_INT32 = 31  # bits of a drawn integer
_HEADROOM = 3  # binary places between the largest sum of moduli and the end of the range


@register
class Real:
    """Random significands of all bits with exponents from -3 to 2."""

    name = "real"
    draws_epilogue = True
    purpose = "ordinary numbers within a proved bound: kernels that are right on the inputs of tests only"
    sees = ("reward-hack", "value-dependent", "precision-input", "precision-acc")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """One; none for integers."""
        del options
        formats = {operand.name: operand.format for operand in problem.operands}
        if problem.out_format.is_integer or any(format_.is_integer for format_ in formats.values()):
            return []
        settings: Settings = {}
        for name, format_ in formats.items():
            for key, value in zip(("width", "exponent", "spread"), _near_one(format_), strict=True):
                settings[f"{name}_{key}"] = value
        excess = self._excess(problem, settings)
        for name in ("b", "a"):  # smaller numbers where sums could leave the range
            low = formats[name].emin - int(settings[f"{name}_width"]) + 1
            down = max(0, min(excess, int(settings[f"{name}_exponent"]) - low))
            settings[f"{name}_exponent"] = int(settings[f"{name}_exponent"]) - down
            excess -= down
        return [settings]

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Numbers of all significant bits, all products non-zero."""
        lattices = {operand.name: _lattice(settings, operand.name) for operand in problem.operands}
        c, bias = lattices.get("c"), lattices.get("bias")
        return Family(lattices["a"], lattices["b"], problem.k, c, bias, bounded=True)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Significands, shifted by random exponents; of c and bias too."""
        del problem
        labels = (name, f"high bits of {name}", f"signs of {name}", f"exponents of {name}")
        numbers, high, signs, exponents = map(seed.field, labels)
        width, spread = int(settings[f"{name}_width"]), int(settings[f"{name}_spread"])

        def shifted(part: Part) -> Any:
            drawn = sizing.significands(numbers, high, 2**width - 1, part) * (1 - 2 * signs.below(2, part))
            drawn = drawn if width + spread <= _INT32 else part.arrays.cast(drawn, "int64")
            return drawn << exponents.below(spread, part)

        return shifted

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed: what is smaller than the bound is not seen."""
        del problem, settings
        return 0.0

    def _excess(self, problem: Matmul, settings: Settings) -> int:
        """By how many binary places sums could exceed the range of the output or of a narrow accumulator."""
        family = self.family(problem, settings)
        size = math.log2(max(1, problem.k)) + math.log2(family.a.magnitude) + math.log2(family.b.magnitude)
        size += family.a.exponent + family.b.exponent + max(0.0, math.log2(abs(problem.alpha) or 1.0))
        ceiling = problem.out_format.max_finite
        if problem.accumulate == "float16":
            ceiling = min(ceiling, format_named("float16").max_finite)
        return max(0, math.ceil(size + _HEADROOM - math.log2(ceiling)))


def _near_one(format_: Format) -> tuple[int, int, int]:
    """Significant bits, exponent of the quantum, and how many exponents, for numbers near one."""
    width = sizing.widest_significand(format_)
    largest = math.floor(math.log2(format_.max_finite / (2**width - 1))) + width - 1
    bottom, top = max(_BOTTOM, format_.emin), min(_TOP, largest)
    return width, bottom - (width - 1), max(1, top - bottom + 1)


def _lattice(settings: Settings, name: str) -> Lattice:
    width, spread = int(settings[f"{name}_width"]), int(settings[f"{name}_spread"])
    largest = (2**width - 1) << (spread - 1)
    return Lattice(largest, int(settings[f"{name}_exponent"]), least=2 ** (width - 1), bits=width)
