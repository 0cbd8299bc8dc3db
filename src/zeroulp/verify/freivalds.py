"""
Freivalds' test in exact arithmetic: whether a product is right, in O(n^2).

For a matrix V of random integers, C V = A (B V) if C = A B; and if some row of C is wrong, that
row of the difference times a random vector is zero with probability at most 1 / (2 rho), the
largest atom of its entries. All of it is float64 arithmetic on integers, in which nothing rounds:
no sum of moduli exceeds n rho S <= 2^53, with S the certificate's bound on the sum of |terms| of
an output.

References:
    R. Freivalds, *Probabilistic machines can use less running time*, IFIP 1977.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.arrays import HOST
from zeroulp.draw import fresh_seed
from zeroulp.exactness import VERIFICATION_MISS

if TYPE_CHECKING:
    from zeroulp.arrays import Arrays

MISS = VERIFICATION_MISS / 2
"""Of one test: a wrong output is missed by that of its row or, once its row is found, by that of its column."""
_EXACT = 2**53
_MOST_VECTORS = 16
_FEW = 1 << 12


@dataclass(frozen=True)
class Size:
    """
    Of the random vectors.

    Args:
        rho: Entries are integers from {±1, ..., ±rho}.
        vectors: How many there are.
    """

    rho: int
    vectors: int

    @property
    def miss(self) -> float:
        """Probability with which a wrong product is missed, at most."""
        return (2.0 * self.rho) ** -self.vectors


def size_for(columns: int, largest_sum: int, miss: float = MISS) -> Size | None:
    """
    The vectors for a product with so many *columns* and sums of moduli up to *largest_sum*.

    Args:
        columns: n, the number of columns of the product.
        largest_sum: S, in quanta.
        miss: Largest probability of a miss.

    Returns:
        The size; None if there is no room for it below 2^53.

    Exactness:
        columns * rho * largest_sum <= 2^53.
    """
    room = _EXACT // max(1, columns * largest_sum)
    if room < 1:
        return None
    rho = min(1 << (room.bit_length() - 1), 2**30)
    vectors = math.ceil(-math.log2(miss) / math.log2(2 * rho))
    assert columns * rho * largest_sum <= _EXACT or not largest_sum
    return Size(rho, vectors) if vectors <= _MOST_VECTORS else None


def draw_vectors(arrays: Arrays, columns: int, size: Size) -> Any:
    """(columns, vectors) random integers as float64, from a seed that nobody could know."""
    count = columns * size.vectors
    if count < _FEW:  # one copy to a device takes less time than many operations there
        few = HOST.integers(fresh_seed(), (0, count), 2 * size.rho, signed=True)
        return arrays.from_host(few.astype(np.float64).reshape(columns, size.vectors))
    drawn = arrays.integers(fresh_seed(), (0, count), 2 * size.rho, signed=True)
    return arrays.cast(drawn, "float64").reshape(columns, size.vectors)
