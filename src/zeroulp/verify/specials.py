"""
NaN and infinities in O(n^2): the rows and columns that they reach, and the rest without them.

Whether an output is NaN or an infinity depends on the special elements of its row and column and
on the signs of what they meet: on a few k. The other outputs have nothing to do with them, and are
put to Freivalds' test with those rows and columns left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.judge import differing
from zeroulp.reference import Expected, with_nonfinite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroulp.encoding import Array
    from zeroulp.verify.fed import Fed


def reaches_as_it_should(fed: Fed, places: Mapping[str, Sequence[tuple[int, int]]], codes: Any) -> bool:
    """
    Whether the rows and columns with special elements hold what the contract allows.

    Args:
        fed: The operands, of a problem without a batch.
        places: Of the special elements: (i, k) of a, (k, j) of b.
        codes: (m, n) encodings of the result.

    Returns:
        False also where an output of theirs is a number after all, so that more has to be known.
    """
    ks = np.unique([k for _, k in places["a"]] + [k for k, _ in places["b"]]).astype(np.int64)
    rows = np.unique([i for i, _ in places["a"]]).astype(np.int64)
    columns = np.unique([j for _, j in places["b"]]).astype(np.int64)
    everywhere = (np.arange(fed.problem.m), np.arange(fed.problem.n))
    return all(
        _is_allowed(fed, ks, which[0], which[1], codes)
        for which in ((rows, everywhere[1]), (everywhere[0], columns))
        if len(which[0]) and len(which[1])
    )


def _is_allowed(fed: Fed, ks: Array, rows: Array, columns: Array, codes: Any) -> bool:
    problem = fed.problem.replace(
        m=len(rows), n=len(columns), k=len(ks), transpose_a=False, transpose_b=False, beta=0, bias=None
    )
    a = _picked(fed, fed.matrix("a", ()), rows, ks, problem.a_format)
    b = _picked(fed, fed.matrix("b", ()), ks, columns, problem.b_format)
    format_ = problem.out_format
    number = np.zeros((len(rows), len(columns)), encoding.code_dtype(format_))
    expected = with_nonfinite(problem, {"a": a, "b": b}, Expected(number, (), None, None, rounded=False))
    reached = ~np.isfinite(encoding.decode(expected.codes, format_))
    actual = _picked(fed, codes, rows, columns, format_)
    return bool(reached.all()) and not differing(actual, expected, format_).any()


def _picked(fed: Fed, matrix: Any, rows: Array, columns: Array, format_: Any) -> Array:
    """Some rows and columns of a matrix of encodings, on the host."""
    if len(rows) < matrix.shape[0]:
        matrix = matrix[fed.arrays.from_host(rows)]
    if len(columns) < matrix.shape[1]:
        matrix = matrix[:, fed.arrays.from_host(columns)]
    return fed.arrays.to_host(matrix).view(encoding.code_dtype(format_))
