"""
Matrix units: groups of products that are aligned, cut and added as one.

The model and its numbers are those of Fasi et al. (2021) and of MMA-Sim (arXiv 2511.10909): within
a step every product and the accumulator are aligned to the largest exponent among them, cut to a
number of fraction bits, added exactly and normalised once. Subnormal operands count with the
exponent of the smallest normal number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from benchmarks.campaign.rounding import to_bits

_NO_TERM = -4000  # exponent of what does not count


@dataclass(frozen=True)
class Unit:
    """
    One kind of unit.

    Args:
        step: Products to a step.
        fraction_bits: Bits kept below the leading one of the largest term; 0: all (the step is exact).
        precision: Significant bits of the accumulator.
        mode: How it is rounded: ``zero`` or ``nearest``.
        floors: Whether cutting is toward minus infinity, not toward zero.
        halves: Whether even and odd products are cut and added apart first.
        apart: Whether the products are added before the accumulator joins them.
    """

    step: int = 16
    fraction_bits: int = 25
    precision: int = 24
    mode: str = "zero"
    floors: bool = False
    halves: bool = False
    apart: bool = False

    def __call__(self, a, b, emins, extra=()):
        """
        The sums of products, in float64 that holds them exactly.

        Args:
            a: (*batch, m, k) float64 numbers of up to 24 bits.
            b: (*batch, k, n), likewise.
            emins: Exponents of the smallest normal numbers of both.
            extra: Terms of shape (*batch, m, n) that the accumulator begins with.
        """
        left, right = np.moveaxis(a, -1, 0)[..., :, None], np.moveaxis(b, -2, 0)[..., None, :]
        terms = left * right
        exponents = exponent_of(left, emins[0]) + exponent_of(right, emins[1])
        exponents = np.where(terms == 0, _NO_TERM, exponents)
        total = np.zeros(terms.shape[1:])
        for term in extra:
            total = to_bits(total + term, self.precision, self.mode)
        for start in range(0, len(terms), self.step):
            part = slice(start, start + self.step)
            total = to_bits(self._step(terms[part], exponents[part], total), self.precision, self.mode)
        plain = terms.sum(axis=0) if not np.isfinite(terms).all() else np.zeros(())
        return np.where(np.isfinite(plain), total, plain)  # NaN and infinities as IEEE 754 has them

    def _step(self, terms, exponents, total):
        if not self.fraction_bits:
            return terms.sum(axis=0) + total
        own = exponent_of(total, -126)
        own = np.where(total == 0, _NO_TERM, own)
        if self.apart or self.halves:
            groups = [slice(None, None, 2), slice(1, None, 2)] if self.halves else [slice(None)]
            for group in groups:
                if len(terms[group]):
                    top = exponents[group].max(axis=0)
                    total_of_group = self._cut(terms[group], top, floor=False).sum(axis=0)
                    total, own = self._join(total_of_group, top, total, own)
            return total
        top = np.maximum(exponents.max(axis=0), own)
        return self._cut(terms, top).sum(axis=0) + self._cut(total, top)

    def _join(self, x, top_x, y, top_y):
        top = np.maximum(top_x, top_y)
        total = self._cut(x, top) + self._cut(y, top)
        return total, np.where(total == 0, _NO_TERM, np.maximum(top, exponent_of(total, -126)))

    def _cut(self, values, top, *, floor=None):
        shift = self.fraction_bits - np.maximum(top, -1000)
        cut = np.floor if (self.floors if floor is None else floor) else np.trunc
        return np.ldexp(cut(np.ldexp(values, shift)), -shift)


def exponent_of(values, emin):
    """Base-2 exponents, not below *emin*."""
    return np.maximum(np.frexp(values)[1] - 1, emin)


UNITS = {
    "Volta": Unit(4, 23),
    "Turing": Unit(8, 24),
    "Ampere": Unit(8, 24),
    "Hopper": Unit(16, 25),
    "Hopper, FP16 sums": Unit(16, 25, 11, "nearest"),
    "Hopper FP8": Unit(32, 13, 14),
    "Ada FP8": Unit(16, 13, 14),
    "Blackwell": Unit(32, 25),
    "CDNA1": Unit(4, 0, 24, "nearest"),
    "CDNA3": Unit(8, 24, 24, "nearest", floors=True, apart=True),
    "CDNA3 FP8": Unit(16, 24, 24, "nearest", floors=True, halves=True),
}
"""By name. CDNA2 and AMX are chains that flush: orders of `sums`."""
