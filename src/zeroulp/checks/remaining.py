"""How long the shapes that are left will take, from those that are done."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zeroulp.encoding import Array


class Remaining:
    """
    Fits ``seconds = c0 + c1 m n k + c2 (m n + m k + k n)`` with c0, c1, c2 >= 0 to the times seen.

    Errors are relative, so that shapes of a millisecond and of an hour count alike.

    Args:
        shapes: All that are not done, as (m, n, k).
        batch: How many matrices each has.
    """

    def __init__(self, shapes: Iterable[Sequence[int]], batch: int = 1) -> None:
        self._batch = batch
        self._left: Array = sum((self._work(shape) for shape in shapes), np.zeros(3))
        self._rows: Array = np.zeros((3, 3))
        self._sums: Array = np.zeros(3)
        self._fitted: Array | None = None
        self._seen = 0

    def saw(self, shape: Sequence[int], seconds: float) -> None:
        """Learn from a shape that took *seconds*."""
        work = self._work(shape) / max(seconds, 1e-6)
        self._rows += np.outer(work, work)
        self._sums += work
        self._seen += 1
        self._fitted = None

    def done(self, shape: Sequence[int]) -> None:
        """Take a shape from those that are left."""
        self._left = self._left - self._work(shape)

    def seconds(self) -> float | None:
        """Time for the shapes that are left; None while nothing is known."""
        if not self._seen:
            return None
        if self._fitted is None:
            self._fitted = self._fit()
        return max(0.0, float(self._fitted @ self._left))

    def _work(self, shape: Sequence[int]) -> Array:
        m, n, k = shape
        return np.array([1.0, self._batch * float(m) * n * k, self._batch * float(m * n + m * k + k * n)])

    def _fit(self) -> Array:
        """The best coefficients of which none is negative: the best of the fits with some of them 0."""
        scale = np.sqrt(np.diag(self._rows))
        scale[scale == 0] = 1.0
        rows, sums = self._rows / np.outer(scale, scale), self._sums / scale
        best, least = np.zeros(3), math.inf
        for count in (1, 2, 3):
            for chosen in map(list, itertools.combinations(range(3), count)):
                part = rows[np.ix_(chosen, chosen)]
                solution = np.linalg.lstsq(part, sums[chosen], rcond=1e-9)[0]
                error = float(solution @ part @ solution - 2 * sums[chosen] @ solution)
                if (solution >= 0).all() and error < least - 1e-9:
                    best, least = np.zeros(3), error
                    best[chosen] = solution
        fitted: Array = best / scale
        return fitted
