"""A trial that went wrong, with everything that is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.exactness import dyadic
from zeroulp.judge import same
from zeroulp.reference import exact_product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.encoding import Array
    from zeroulp.exactness import Certificate, Family
    from zeroulp.judge import Differs
    from zeroulp.problem import Matmul


@dataclass(frozen=True)
class Case:
    """
    A trial that went wrong.

    Args:
        problem: The problem.
        family: The lattices that *integers* count in.
        certificate: Of the trial.
        integers: All operands, in quanta, as the kernel got them.
        total: The exact result in quanta.
        actual: Encodings that the kernel returned.
        wrong: Where they differ from the expected ones.
        exponents: Of the quantum at each output, where the inputs are scaled; None: the certificate's.
        is_part: Whether there are more outputs than these, in which the same is to be seen.
    """

    problem: Matmul
    family: Family
    certificate: Certificate
    integers: Mapping[str, Array]
    total: Array
    actual: Array
    wrong: Array
    exponents: Array | None = None
    is_part: bool = False

    def oriented(self) -> tuple[Array, Array]:
        """A as (*batch, m, k) and b as (*batch, n, k): k is the last axis of both."""
        a, b = self.integers["a"], self.integers["b"]
        a = np.swapaxes(a, -1, -2) if self.problem.transpose_a else a
        b = b if self.problem.transpose_b else np.swapaxes(b, -1, -2)
        return a.astype(np.int64), b.astype(np.int64)

    @property
    def scale(self) -> int:
        """Quanta of the result per quantum of a product."""
        j, i = dyadic(self.problem.alpha)
        return j << max(0, self.family.a.exponent + self.family.b.exponent + i - self.certificate.quantum_exponent)

    @property
    def exponent(self) -> int | Array:
        """Of the quantum that results are counted in: one for all outputs, or one for each."""
        if self.exponents is None:
            return self.certificate.quantum_exponent
        return np.broadcast_to(self.exponents, self.total.shape)

    def rest(self) -> Array:
        """What beta c and the bias contribute to the result, in quanta."""
        a, b = self.oriented()
        bound = self.problem.k * self.family.a.magnitude * self.family.b.magnitude
        return self.total - self.scale * exact_product(a, np.swapaxes(b, -1, -2), bound)

    @property
    def exact(self) -> Array:
        """The exact result as float64; meaningful below 2^53 quanta."""
        return np.asarray(np.ldexp(self.total.astype(np.float64), self.exponent))

    def agrees(self, total: Array, finer: int, actual: Array, exponent: int | Array | None = None) -> Array:
        """Where a result in quanta, times 2**-finer, rounded as the reference rounds, has the kernel's bits."""
        own = self.exponent if exponent is None else exponent
        codes = encoding.round_integers(total, own - finer, self.problem.out_format, saturate=True)
        return same(actual, codes, self.problem.out_format)


def whereabouts(outcome: Differs, shape: tuple[int, ...], *, sampled: bool = False) -> str:
    """
    Where the wrong outputs are, in a clause.

    Args:
        outcome: Of the whole result.
        shape: The result's shape.
        sampled: Whether the outputs that were not compared may be wrong too.
    """
    if sampled:
        return f"in {outcome.differing:,} of {outcome.compared:,} outputs that were looked at"
    if outcome.differing == outcome.elements:
        return "in every output"
    if outcome.differing == 1:
        return f"in out[{', '.join(map(str, outcome.first))}] only"
    if len(shape) < 2:
        return f"in {outcome.differing:,} of {outcome.elements:,} outputs"
    (m, n), (top, left), (bottom, right) = shape[-2:], outcome.low[-2:], outcome.high[-2:]
    if top == bottom and m > 1:
        return f"in row {top} only"
    if left == right and n > 1:
        return f"in column {left} only"
    if left > 0 and right == n - 1 and bottom - top + 1 == m:
        return f"in the last {n - left} columns only"
    if top > 0 and bottom == m - 1 and right - left + 1 == n:
        return f"in the last {m - top} rows only"
    return f"in {outcome.differing:,} of {outcome.elements:,} outputs"
