"""
Two numbers between which every correct kernel lies, for inputs that determine no bits.

The exact result C is worked out to within a few units of float64, from integer products that are
exact; so is S, the sum of the moduli of the terms. The bound is that of the certificate, with
the final rounding, what may be flushed to zero, and the reference's own error added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.reference.expected import Expected
from zeroulp.reference.product import exact_product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from zeroulp.encoding import Array
    from zeroulp.exactness import Certificate, Family
    from zeroulp.formats import Format
    from zeroulp.problem import Matmul

_UNIT = 2.0**-52  # twice the unit roundoff of float64
_LEADING = 17
_STEPS = 16  # more roundings than the epilogue and the bound itself have


def bounded_result(
    problem: Matmul, family: Family, certificate: Certificate, integers: Mapping[str, Array]
) -> Expected:
    """
    The range of correct results of *problem* on operands given in quanta of *family*.

    Args:
        problem: Sizes, epilogue, output format and contract.
        family: The lattices that *integers* count in.
        certificate: One that holds, of the theorem ``"bounded"``.
        integers: Elements of a, b, and c and bias where there are any, as the kernel gets them.

    Returns:
        ``codes``: the exact result rounded once; ``low`` and ``high``: with B = ``relative_error`` S,
        u the unit roundoff of the output and h what flushing may take,
        C -/+ (B + u (|C| + B) + h), rounded outwards.

    Exactness:
        C and S differ from the exact ones by at most (products + `_STEPS`) 2^-52 S, which is added.
    """
    magnitudes = family.a.magnitude, family.b.magnitude
    a, b = integers["a"], integers["b"]
    a = np.swapaxes(a, -1, -2) if problem.transpose_a else a
    b = np.swapaxes(b, -1, -2) if problem.transpose_b else b
    product, pieces = _product(a, b, magnitudes)
    exact = _with_epilogue(problem, family, integers, product, moduli=False)
    moduli = _with_epilogue(problem, family, integers, _product_of_moduli(a, b, magnitudes), moduli=True)
    own = (pieces + _STEPS) * _UNIT
    moduli = moduli * (1 + own)
    format_ = problem.out_format
    bound = moduli * certificate.relative_error + problem.k * problem.contract.sum_range(problem.out_format).min_normal
    flushed = 2.0**format_.quantum_exponent_min if problem.subnormals == "preserve" else format_.min_normal
    radius = bound + 2.0**-format_.precision * (np.abs(exact) + bound) + flushed
    radius = (radius + own * moduli) * (1 + _STEPS * _UNIT)
    codes = encoding.round_values(exact, format_, saturate=True)
    low, high = (_outward(exact + sign * radius, sign, format_) for sign in (-1, 1))
    return Expected(codes, (), None, None, rounded=True, low=low, high=high)


def _outward(values: NDArray[np.float64], sign: int, format_: Format) -> Array:
    """Encodings of *values* rounded to nearest; of the number beyond, where that lies inside of the value."""
    codes = encoding.round_values(values, format_, saturate=True)
    inside = sign * (values - encoding.decode(codes, format_)) > 0
    step = np.where(inside, sign * 2.0 ** (1 - format_.precision) * np.abs(values) + sign * format_.min_normal, 0.0)
    return encoding.round_values(values + step, format_, saturate=True)


def _with_epilogue(
    problem: Matmul, family: Family, integers: Mapping[str, Array], product: NDArray[np.float64], *, moduli: bool
) -> NDArray[np.float64]:
    """``alpha a b + beta c + bias`` (or the sum of |terms|) in float64."""
    size = np.abs if moduli else np.asarray
    alpha, beta = size(problem.alpha), size(problem.beta)
    total = np.asarray(alpha * np.ldexp(product, family.a.exponent + family.b.exponent))
    if family.c is not None:
        total = total + beta * np.ldexp(size(integers["c"]).astype(np.float64), family.c.exponent)
    if family.bias is not None:
        total = total + np.ldexp(size(integers["bias"]).astype(np.float64), family.bias.exponent)
    return total


def _product_of_moduli(a: Array, b: Array, magnitudes: tuple[int, int]) -> NDArray[np.float64]:
    """The sum of |a||b|, or a little more: of their leading `_LEADING` bits, rounded up."""
    shifts = [max(0, magnitude.bit_length() - _LEADING) for magnitude in magnitudes]
    leading = [
        (np.abs(x.astype(np.int64)) + ((1 << shift) - 1)) >> shift for x, shift in zip((a, b), shifts, strict=True)
    ]
    exact = exact_product(leading[0], leading[1], a.shape[-1] << 2 * (_LEADING + 1))
    return np.ldexp(exact.astype(np.float64), sum(shifts))


def _product(a: Array, b: Array, magnitudes: tuple[int, int]) -> tuple[NDArray[np.float64], int]:
    """
    The product of integers as float64, from the exact products of their digits, and how many those are.

    Exactness:
        Digits have so few bits that their products are exact; they are added largest last, each
        sum rounded once, the moduli of all of them adding up to the sum of |terms|.
    """
    k = a.shape[-1]
    width = (53 - max(1, k).bit_length()) // 2
    digits = [_digits(x, magnitude, width) for x, magnitude in zip((a, b), magnitudes, strict=True)]
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    for level in range(len(digits[0]) + len(digits[1]) - 1):
        for i, left in enumerate(digits[0]):
            if 0 <= level - i < len(digits[1]):
                exact = exact_product(left, digits[1][level - i], k << 2 * width)
                total = total + np.ldexp(exact.astype(np.float64), level * width)
    return total, len(digits[0]) * len(digits[1])


def _digits(integers: Array, magnitude: int, width: int) -> list[Array]:
    """Signed digits in base 2**width, lowest first."""
    sign, rest = np.sign(integers).astype(np.int64), np.abs(integers.astype(np.int64))
    count = max(1, -(-magnitude.bit_length() // width))
    return [sign * ((rest >> (i * width)) & ((1 << width) - 1)) for i in range(count)]
