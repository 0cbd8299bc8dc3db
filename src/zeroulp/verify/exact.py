"""
Which rows and columns of a result are not the exact one, by Freivalds' test of the result itself.

A result that is off the grid, too large or no number is found by looking at it; what is left are
integers whose sums float64 holds, and the test is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.verify.freivalds import draw_vectors

if TYPE_CHECKING:
    from zeroulp.verify.matrix import Matrix

_FEW = 2**22  # products of an output that are simply multiplied out, whatever the test says of columns


def inexact_rows(matrix: Matrix) -> Any:
    """Numbers of the rows that are not the exact result, on the host."""
    fed, n = matrix.fed, matrix.problem.n
    largest = fed.certificate.largest_sum
    limit = min(largest, fed.certificate.budget) if fed.family.masked else largest
    size = matrix.size_for(n)
    assert size is not None, "Verifier.can was asked"
    vectors = draw_vectors(matrix.arrays, n, size)
    exact = matrix.sums("a", matrix.sums("b", vectors)[0])[0] * matrix.scale
    if "bias" in matrix.codes:
        exact = exact + matrix.bias(slice(0, n))[None, :] @ vectors
    if "c" in matrix.codes:
        exact = exact + matrix.sums("c", vectors)[0] * matrix.scale_c
    found, off = matrix.sums("out", vectors, limit=limit)
    return np.flatnonzero(matrix.arrays.to_host(off | (found != exact).any(-1)))


def inexact_columns(matrix: Matrix, rows: Any) -> Any:
    """Numbers of the columns in which these rows are not exact, by a test from the left."""
    n, k = matrix.problem.n, matrix.problem.k
    size = matrix.size_for(len(rows))
    if len(rows) * n * k <= _FEW or size is None:
        return np.arange(n)
    some = matrix.share(rows).index
    left = draw_vectors(matrix.arrays, len(rows), size)
    exact = matrix.sums("b", matrix.sums("a", left, some, flipped=True)[0], flipped=True)[0] * matrix.scale
    if "c" in matrix.codes:
        exact = exact + matrix.sums("c", left, some, flipped=True)[0] * matrix.scale_c
    if "bias" in matrix.codes:
        exact = exact + matrix.bias(slice(0, n))[:, None] * left.sum(0)[None, :]
    limit = matrix.fed.certificate.largest_sum
    found, off = matrix.sums("out", left, some, flipped=True, limit=limit)
    return np.flatnonzero(matrix.arrays.to_host(off | (found != exact).any(-1)))
