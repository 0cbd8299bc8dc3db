"""
A few dozen columns, each used many times: what a pool spares the reference.

Every column of b is plus or minus one of the pool's (and has its own power of two, where the
probe has those), so the exact product has a few dozen distinct columns and costs O(n^2).
The row and the column of any one output are drawn as before, and so no bound on a fault of one
output changes. What a pool can hide is a fault that exchanges outputs of two equal columns, which
two given columns are with probability 1 / (2 `POOL`); so the trials of other probes (``signed`` above all) have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.probes.places import axis_of_k, looked_up

if TYPE_CHECKING:
    from zeroulp.draw import Part, Seed
    from zeroulp.encoding import Array
    from zeroulp.probes.base import Elements, Settings
    from zeroulp.problem import Matmul

POOL = 64
"""Distinct columns."""

_FROM = 8 * POOL  # columns; with fewer, a pool spares too little


@dataclass(frozen=True)
class Pool:
    """
    Which column is which.

    Args:
        members: (POOL,) numbers of the columns that are themselves.
        of: (n,) for each column, the place in *members* of the one that it repeats.
        signs: (n,) 1 or -1: with which sign.
    """

    members: Array
    of: Array
    signs: Array


def pool_for(problem: Matmul) -> int:
    """How many distinct columns a trial may have: 0 if all are to be drawn."""
    return POOL if problem.n >= _FROM and not problem.batch else 0


def with_pool(problem: Matmul, settings: Settings) -> Settings:
    """The same settings with a pool of columns, where that spares much."""
    size = pool_for(problem)
    return {**settings, "pool": size} if size else settings


def pool_of(problem: Matmul, settings: Settings, seed: Seed) -> Pool | None:
    """The pool of a trial with these *settings*; None if it has none."""
    size = int(settings.get("pool", 0))
    if not size:
        return None
    members = np.sort(seed.stream("pool").permutation(problem.n)[:size])
    of = seed.stream("columns of the pool").below(size, (problem.n,)).astype(np.int64)
    signs = 1 - 2 * seed.stream("signs of the pool").below(2, (problem.n,))
    of[members], signs[members] = np.arange(size), 1
    return Pool(members, of, signs.astype(np.int32))


def pooled(problem: Matmul, elements: Elements, pool: Pool | None) -> Elements:
    """Elements of b with the columns of the pool alone."""
    if pool is None:
        return elements
    own = -3 - axis_of_k(problem, "b")

    def repeated(part: Part) -> Any:
        arrays = part.arrays
        members, of = arrays.table(pool.members), arrays.table(pool.of)
        signs = looked_up(pool.signs, part, own)
        if own == -1 and part.columns is not None and len(part.columns) < len(members):
            return elements(part.at(columns=members[of[part.columns]])) * signs
        if own == -1:
            chosen = of if part.columns is None else of[part.columns]
            return arrays.columns(elements(part.at(columns=members)), chosen) * signs
        return elements(part.at(members))[of[part.numbers()]] * signs

    return repeated
