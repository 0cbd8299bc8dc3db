"""
Rounded results where b has a few dozen distinct columns: O(n^2) in all.

Columns that repeat one another with the same sign and power of two have the same results. They
are worked out and rounded once for each such group, and looked up for every column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zeroulp.encoding import Array
    from zeroulp.verify.fed import Exponents, Repeated


@dataclass(frozen=True)
class Groups:
    """
    Columns of a result that are one and the same.

    Args:
        member: (g,) for each group, the place in the pool of the column that it repeats.
        factor: (g,) sign and power of two with which it does.
        of: (n,) the group of each column; None: each column is a group of its own.
    """

    member: Array
    factor: Array
    of: Array | None


    @property
    def columns(self) -> tuple[Array, Array]:
        """(n,) for each column, the place in the pool of what it repeats, as int32; and the factor with which."""
        member, factor = (self.member, self.factor) if self.of is None else (self.member[self.of], self.factor[self.of])
        return member.astype(np.int32), factor


def groups_of(pool: Repeated, scales: Exponents | None, quantum: int) -> Groups:
    """
    The groups of a pool.

    Args:
        pool: Which columns repeat which.
        scales: Powers of two of the columns; None: none.
        quantum: Base-2 exponent of the quantum that results are counted in.
    """
    exponents = np.zeros(len(pool.of), np.int64) if scales is None else scales.columns.astype(np.int64)
    lowest = int(exponents.min())
    spread = int(exponents.max()) - lowest + 1
    count = 2 * spread * len(pool.members)
    if count > len(pool.of) // 2:
        return Groups(pool.of, np.ldexp(pool.signs.astype(np.float64), exponents + quantum), None)
    number = np.arange(count)
    signs = 1.0 - 2.0 * (number // spread % 2)
    of = (2 * pool.of + (pool.signs < 0)) * spread + exponents - lowest
    return Groups(number // (2 * spread), np.ldexp(signs, number % spread + lowest + quantum), of)


def table_of(distinct: Any, groups: Groups, rows: Any, arrays: Any, format_: Any) -> Any:
    """
    Encodings of the results of each group, from sums over the distinct columns.

    Args:
        distinct: (r, members) exact sums, in quanta.
        groups: The groups.
        rows: (r, 1) powers of two of the rows; None: none.
        arrays: The library.
        format_: Of the results.

    Returns:
        (r, groups) encodings. Zeros are positive.
    """
    dtype = str(distinct.dtype).rpartition(".")[2]
    table = distinct[:, arrays.table(groups.member)] * arrays.cast(arrays.table(groups.factor), dtype)
    if rows is not None:
        table = table * rows
    return arrays.encoded(table + 0.0, format_)
