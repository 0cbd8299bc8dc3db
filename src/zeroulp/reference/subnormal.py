"""
Subnormal operands and results: kept, or zero, as the contract's clause says.

Units differ in which they flush: operands, results, or neither, and a conversion may do it where
the sums do not. All of that turns a result into a zero. A wrong decoding gives something else.

References:
    IEEE 754-2019, clauses 3.4 and 7.5.
    M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, *Numerical behavior of NVIDIA tensor cores*,
    PeerJ CS 7:e330, 2021 (subnormals kept); AMD's CDNA2 and Intel's AMX flush them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.reference.product import exact_product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.encoding import Array
    from zeroulp.formats import Format
    from zeroulp.problem import Matmul
    from zeroulp.reference.expected import Expected


def with_subnormals(problem: Matmul, codes: Mapping[str, Array], expected: Expected) -> Expected:
    """
    The expected result where operands or results may be subnormal and no output has two non-zero products.

    Args:
        problem: The problem.
        codes: Encodings of a and b, in their full shapes.
        expected: The exact results, rounded once.
    """
    if problem.subnormals == "preserve":
        return expected
    out = problem.out_format
    zero = np.zeros((), expected.codes.dtype)
    zeros = (zero, zero | expected.codes.dtype.type(_sign_bit(out)))
    place = np.abs(encoding.ordinals(expected.codes, out))
    lowest = _place_of_smallest_normal(out)
    from_operand = _has_subnormal_factor(problem, codes)
    sums = problem.contract.sum_range(out)
    small_sum = np.abs(encoding.decode(expected.codes, out)) < sums.min_normal
    may = from_operand | (place <= lowest) | small_sum  # one that rounds up to the smallest normal number too
    must = (from_operand | (place < lowest)) & (problem.subnormals == "flush")
    kept = tuple(np.where(must, zero, codes) for codes in (expected.codes, *expected.also))
    also = tuple(np.where(may, other, kept[0]) for other in zeros)
    return replace(expected, codes=kept[0], also=kept[1:] + also)


def _has_subnormal_factor(problem: Matmul, codes: Mapping[str, Array]) -> Array:
    """Which outputs have a product other than zero with a subnormal factor."""
    kinds = [_kinds(codes[name], format_) for name, format_ in (("a", problem.a_format), ("b", problem.b_format))]
    a = [np.swapaxes(x, -1, -2) if problem.transpose_a else x for x in kinds[0]]
    b = [np.swapaxes(x, -1, -2) if problem.transpose_b else x for x in kinds[1]]
    count = exact_product(a[0], b[1], problem.k) + exact_product(a[1], b[0], problem.k)
    return np.asarray(count > 0)


def _kinds(codes: Array, format_: Format) -> tuple[Array, Array]:
    """Where the elements are subnormal, and where they are not zero, as integers."""
    place = np.abs(encoding.ordinals(codes, format_))
    lowest = _place_of_smallest_normal(format_)
    return ((place > 0) & (place < lowest)).astype(np.int32), (place > 0).astype(np.int32)


def _place_of_smallest_normal(format_: Format) -> int:
    """On the number line of the format (or of the one that it is stored in)."""
    return int(encoding.ordinals(encoding.round_values(np.array([format_.min_normal]), format_), format_)[0])


def _sign_bit(format_: Format) -> int:
    return 1 << (format_.bits - 1) if format_.has_negative_zero else 0
