"""
Powers of two along m, n and k: the same sums, elsewhere on the number line.

Row i of a is multiplied by 2**r_i, column j of b by 2**c_j, and the k-th products trade 2**t_k
between their factors. The result at (i, j) is multiplied by 2**(r_i + c_j), exactly: every
theorem about the sums holds as it stands, quantum by quantum. Any probe can be scaled; inputs
then look like floating-point data, and a kernel that handles exponents wrongly, or that knows a
test by its small integers, is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from zeroulp.exactness import Family, certify
from zeroulp.probes.base import probe_named

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.draw import Seed, Stream
    from zeroulp.encoding import Array
    from zeroulp.probes.base import Settings
    from zeroulp.problem import Matmul

_AXES = ("rows", "columns", "inner")


@dataclass(frozen=True)
class Scales:
    """
    Base-2 exponents along m, n and k.

    Args:
        rows: (m,) exponents r_i.
        columns: (n,) exponents c_j.
        inner: (k,) exponents t_k.
    """

    rows: Array
    columns: Array
    inner: Array

    def of(self, name: str, problem: Matmul) -> Array:
        """Exponents of the elements of an operand (or of ``"out"``), broadcastable to its shape."""
        if name == "a":
            exponents = self.rows[:, None] + self.inner[None, :]
            return exponents.T if problem.transpose_a else exponents
        if name == "b":
            exponents = self.columns[None, :] - self.inner[:, None]
            return exponents.T if problem.transpose_b else exponents
        if name == "bias":
            return self.columns
        return np.asarray(self.rows[:, None] + self.columns[None, :])

    def along(self, name: str, problem: Matmul) -> tuple[Array | None, Array]:
        """Exponents along the last two axes of an operand (or of ``"out"``) as it is stored, which add up."""
        if name == "a":
            return (self.inner, self.rows) if problem.transpose_a else (self.rows, self.inner)
        if name == "b":
            return (self.columns, -self.inner) if problem.transpose_b else (-self.inner, self.columns)
        return (None if name == "bias" else self.rows), self.columns


def draw_scales(problem: Matmul, settings: Settings, seed: Seed) -> Scales | None:
    """The exponents of a trial with these *settings*; None if it is not scaled."""
    spreads = {axis: int(settings.get(axis, 0)) for axis in _AXES}
    if not any(spreads.values()):
        return None
    lengths = {"rows": problem.m, "columns": problem.n, "inner": problem.k}
    drawn = {
        axis: _draw(seed.stream(f"exponents of {axis}"), spread, lengths[axis], extremes="extremes" in settings)
        for axis, spread in spreads.items()
    }
    if settings.get("ends"):
        drawn["inner"] = _near_the_ends(seed, spreads["inner"], problem.k)
    return Scales(**drawn)


def _near_the_ends(seed: Seed, spread: int, length: int) -> Array:
    """Exponents from -spread to spread of which six in ten lie in the outer quarters."""
    share = seed.stream("exponents of inner").below(2**15, (length,)).astype(np.int64)
    sign = 1 - 2 * seed.stream("signs of inner").below(2, (length,)).astype(np.int64)
    return np.asarray(sign * (spread - (spread * share**3 >> 45)))
def _draw(stream: Stream, spread: int, length: int, *, extremes: bool) -> Array:
    """Exponents from -spread to spread; or these two alone, each for half of them in a random order."""
    if extremes:
        return np.where(stream.permutation(length) < (length + 1) // 2, spread, -spread)
    return stream.below(2 * spread + 1, (length,)) - spread


def family_of(problem: Matmul, probe: str, settings: Settings) -> Family:
    """What inputs of a probe with these settings are, scaled as the settings say."""
    return with_spreads(probe_named(probe).family(problem, settings), settings)


def with_spreads(family: Family, settings: Settings) -> Family:
    """The family scaled as the settings say."""
    rows, columns, inner = (int(settings.get(axis, 0)) for axis in _AXES)
    return replace(family, rows=rows, columns=columns, inner=inner) if rows or columns or inner else family


def widest(
    problem: Matmul, settings: Settings, family_of: Callable[[Settings], Family], *, most: int, inner: bool
) -> Settings:
    """
    The same settings with the largest spreads, up to *most*, that still certify.

    Args:
        problem: The problem.
        settings: Settings without spreads.
        family_of: The family that belongs to settings.
        most: Largest spread along each axis.
        inner: Whether to spread along k too.
    """

    def spread_by(spread: int, along_k: int) -> Settings | None:
        rows = 0 if problem.bias is not None else spread  # a bias cannot follow the rows
        candidate: Settings = {**settings, "rows": rows, "columns": spread, "inner": along_k}
        return candidate if certify(problem, family_of(candidate), declared=True).holds else None

    low, high = 0, most  # what certifies at a spread does so at any smaller one
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if spread_by(middle, 0) else (low, middle - 1)
    if low == 0:
        return settings
    wished = (low, low // 2, 0) if inner else (0,)
    return next(found for along_k in wished if (found := spread_by(low, along_k)))
