"""The expected result: product and epilogue in integers, one rounding to the output's format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.exactness import Certificate, Family, dyadic
from zeroulp.reference.product import exact_product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zeroulp.encoding import Array
    from zeroulp.problem import Matmul


@dataclass(frozen=True)
class Expected:
    """
    What every correct kernel must return.

    Args:
        codes: (*batch, m, n) encodings.
        also: Further encodings allowed at each position, as arrays that broadcast to *codes*: the
            neighbours of a tie under ``"ties-either"``, what a clause on special values allows.
        compared: Which positions are compared, or None for all.
        zero_sign: Where the sign of a zero is determined, or None for nowhere.
        rounded: Whether some compared result was rounded.
        low: Encodings of the least result that is correct, where bits are not determined; else None.
        high: Encodings of the greatest one, likewise (both are allowed themselves).
    """

    codes: Array
    also: tuple[Array, ...]
    compared: NDArray[np.bool_] | None
    zero_sign: NDArray[np.bool_] | None
    rounded: bool
    low: Array | None = None
    high: Array | None = None

    @property
    def share_compared(self) -> float:
        """Share of positions that are compared."""
        if self.compared is None or self.compared.size == 0:
            return 1.0
        return float(np.count_nonzero(self.compared)) / self.compared.size


def expected_result(
    problem: Matmul,
    family: Family,
    certificate: Certificate,
    integers: Mapping[str, Array],
    exponent: int | Array | None = None,
) -> Expected:
    """
    The result of *problem* on operands given in quanta of *family*.

    Args:
        problem: Sizes, epilogue and output format.
        family: The lattices that *integers* count in.
        certificate: One that holds.
        integers: Elements of a, b, and c and bias where there are any, as the kernel gets them.
        exponent: Of the quantum at each output, where the inputs are scaled; default: the
            certificate's.

    Exactness:
        All arithmetic is on integers below 2^63; `encoding.round_integers` rounds once.
    """
    total = total_in_quanta(problem, family, certificate, integers)
    moduli = None
    if family.masked or problem.signed_zero == "strict":
        moduli = total_in_quanta(problem, family, certificate, integers, moduli=True)
    exponent = certificate.quantum_exponent if exponent is None else exponent
    return expected_of_total(problem, family, certificate, total, exponent, moduli=moduli)


def expected_of_total(
    problem: Matmul,
    family: Family,
    certificate: Certificate,
    total: NDArray[np.int64],
    exponent: int | Array,
    *,
    moduli: NDArray[np.int64] | None,
) -> Expected:
    """
    Exact results as encodings, rounded once.

    Args:
        problem: Epilogue, contract and output format.
        family: What the inputs are.
        certificate: One that holds.
        total: The exact results, in quanta.
        exponent: Of the quantum: one for all, or one for each.
        moduli: Sums of |terms|, in quanta; needed where the family is masked or the sign of zero counts.
    """
    format_ = problem.out_format
    on_overflow = problem.contract.on_overflow(format_)
    compared = None
    if certificate.masked and moduli is not None:
        compared = moduli <= certificate.budget
        total = np.where(compared, total, 0)  # the others may have no encoding
    codes = encoding.round_integers(total, exponent, format_, saturate=on_overflow == "saturate")
    rounded = certificate.theorem == "round-once"
    also: tuple[Array, ...] = ()
    if family.beyond == "overflow" and on_overflow == "either":
        also = (encoding.round_integers(total, exponent, format_, saturate=True),)
    if family.beyond == "overflow" and problem.nonfinite != "ieee" and format_.has_nan:
        infinite = np.isinf(encoding.decode(codes, format_))  # which compensated sums turn into NaN
        also += (np.where(infinite, codes.dtype.type(encoding.nan_code(format_)), codes),)
    if rounded and problem.rounding == "ties-either":
        also += _neighbours(total, exponent, codes, problem)
    sign = None
    if problem.signed_zero == "strict" and moduli is not None:
        sign = moduli > 0
        if problem.alpha < 0:  # +0 times alpha is -0, but the sum of products that alpha was applied to is +0
            sign &= total != 0
    return Expected(codes, also, compared, sign, rounded)


def total_in_quanta(
    problem: Matmul,
    family: Family,
    certificate: Certificate,
    integers: Mapping[str, Array],
    *,
    moduli: bool = False,
) -> NDArray[np.int64]:
    """The exact ``alpha a b + beta c + bias`` in quanta of the certificate (or the sum of |terms|)."""
    size = np.abs if moduli else np.asarray
    a, b = size(integers["a"]), size(integers["b"])
    a = np.swapaxes(a, -1, -2) if problem.transpose_a else a
    b = np.swapaxes(b, -1, -2) if problem.transpose_b else b
    bound = min(family.terms, problem.k) * family.largest_product
    quantum = certificate.quantum_exponent
    j, i = dyadic(problem.alpha)
    own = family.a.exponent + family.b.exponent + i
    total = exact_product(a, b, bound) * _scale(j, own - quantum, moduli=moduli)
    if family.c is not None:
        j, i = dyadic(problem.beta)
        scale = _scale(j, family.c.exponent + i - quantum, moduli=moduli)
        total = total + size(integers["c"]).astype(np.int64) * scale
    if family.bias is not None:
        scale = _scale(1, family.bias.exponent - quantum, moduli=moduli)
        total = total + size(integers["bias"]).astype(np.int64) * scale
    return total


def _scale(j: int, shift: int, *, moduli: bool) -> int:
    return (abs(j) if moduli else j) << max(shift, 0)


def _neighbours(
    total: NDArray[np.int64], exponent: int | Array, codes: Array, problem: Matmul
) -> tuple[Array, Array]:
    """
    The encodings just below and above a tie; elsewhere the rounded result itself.

    A quarter of a quantum up or down breaks a tie and moves nothing else: ties are multiples of
    the quantum, so any other result is at least one quantum away from them.
    """
    format_ = problem.out_format
    exact = encoding.decode(codes, format_) == np.ldexp(total.astype(np.float64), exponent)
    saturate = problem.contract.on_overflow(format_) == "saturate"
    nudged = (
        encoding.round_integers(4 * total + nudge, exponent - 2, format_, saturate=saturate)
        for nudge in (-1, 1)
    )
    low, high = (np.where(exact, codes, other) for other in nudged)
    return low, high
