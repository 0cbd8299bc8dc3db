"""
NaN and infinities among the inputs: which outputs they must reach, and as what.

A NaN makes every output of its row (or column) NaN. An infinity times a number other than zero
is an infinity; infinities of both signs in one sum make NaN, of one sign that infinity; and an
infinity times zero is NaN. None of this depends on the order of the sum. All of it is counting.

References:
    IEEE 754-2019, clauses 6.1, 6.2 and 7.2.
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
    from zeroulp.problem import Matmul
    from zeroulp.reference.expected import Expected

_TILE = 32  # elements of k: rows of matrix units are read in multiples of as many, or of a divisor


def with_nonfinite(problem: Matmul, codes: Mapping[str, Array], expected: Expected) -> Expected:
    """
    The expected result where some elements of a and b are not finite.

    Args:
        problem: The problem.
        codes: Encodings of a and b, in their full shapes.
        expected: The result with any number in place of those elements.
    """
    a = encoding.decode(codes["a"], problem.a_format)
    b = encoding.decode(codes["b"], problem.b_format)
    a = np.swapaxes(a, -1, -2) if problem.transpose_a else a
    b = np.swapaxes(b, -1, -2) if problem.transpose_b else b
    if np.isfinite(a).all() and np.isfinite(b).all():
        return expected
    nan_rows, nan_columns = np.asarray(np.isnan(a).any(axis=-1)), np.asarray(np.isnan(b).any(axis=-2))
    nan = nan_rows[..., :, None] | nan_columns[..., None, :]
    nan = nan | (_count(np.isinf(a), b == 0) > 0) | (_count(a == 0, np.isinf(b)) > 0)
    sign = np.sign(problem.alpha)
    positive, negative = _infinities(np.nan_to_num(a * sign, nan=0.0), np.nan_to_num(b, nan=0.0))
    values = np.where(positive > 0, np.inf, np.where(negative > 0, -np.inf, 0.0))
    values = np.where(nan | ((positive > 0) & (negative > 0)), np.nan, values)
    special = encoding.round_values(values, problem.out_format)
    result = np.where(values != 0, special, expected.codes)
    infinite = np.isinf(values)
    also = expected.also
    if problem.nonfinite == "propagate" and problem.out_format.has_nan:
        also += (np.where(infinite, special.dtype.type(encoding.nan_code(problem.out_format)), result),)
    if problem.nonfinite == "propagate" and problem.out_format.has_nan:
        near = _in_front_of(~np.isfinite(a))[..., :, None] & np.full(b.shape[-1:], not problem.transpose_a)
        if problem.transpose_b:
            near = near | _in_front_of(~np.isfinite(np.swapaxes(b, -1, -2)))[..., None, :]
        also += (np.where(near, result.dtype.type(encoding.nan_code(problem.out_format)), result),)
    if problem.contract.on_overflow(problem.out_format) != "infinity":  # a conversion may clamp infinities too
        largest = encoding.round_values(values, problem.out_format, saturate=True)
        also += (np.where(infinite, largest, result),)
    return replace(expected, codes=result, also=also)


def _in_front_of(special: Array) -> Array:
    """
    Rows (along the last axis but one) whose last tile along k reaches as far as a special element, in memory.

    Units that read whole tiles read it along with the row's last elements, and multiply it by zero.
    """
    k = special.shape[-1]
    beyond = -k % _TILE  # elements that the last tile reads beyond the row
    reached = np.zeros(special.shape[:-1], bool)
    for away in range(1, min(special.shape[-2], rows_within_a_tile(k) + 1)):
        left = beyond - (away - 1) * k  # of the row `away` further on
        reached[..., :-away] |= special[..., away:, :left].any(axis=-1)
    return reached


def rows_within_a_tile(k: int) -> int:
    """How many of the rows behind one may be read along with its last tile."""
    return -(-(-k % _TILE) // k) if k else 0


def _infinities(a: Array, b: Array) -> tuple[Array, Array]:
    """How many products of each output are +infinity, and -infinity."""
    big = np.finfo(np.float64).max  # what nan_to_num makes of an infinity
    infinite_a, infinite_b = np.abs(a) == big, np.abs(b) == big
    signs_a, signs_b = np.sign(a), np.sign(b)
    counted = np.zeros((), np.int64)
    summed = np.zeros((), np.int64)
    for left, right in ((infinite_a, ~infinite_b), (~infinite_a, infinite_b), (infinite_a, infinite_b)):
        counted = counted + _count(left & (a != 0), right & (b != 0))
        summed = summed + _count(left * signs_a, right * signs_b)
    return (counted + summed) // 2, (counted - summed) // 2


def _count(left: Array, right: Array) -> Array:
    return exact_product(left.astype(np.int32), right.astype(np.int32), left.shape[-1])
