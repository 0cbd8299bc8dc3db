"""What lies in memory, read back as integers: operands and output in quanta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zeroulp.exactness import dyadic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.arrays import Arrays
    from zeroulp.encoding import Array
    from zeroulp.exactness import Certificate, Family
    from zeroulp.formats import Format
    from zeroulp.problem import Matmul


class Exponents(Protocol):
    """Powers of two along m, n and k."""

    @property
    def rows(self) -> Array:
        """(m,) base-2 exponents."""
        ...

    @property
    def columns(self) -> Array:
        """(n,) base-2 exponents."""
        ...

    @property
    def inner(self) -> Array:
        """(k,) base-2 exponents."""
        ...


@dataclass(frozen=True)
class Fed:
    """
    The operands of a trial as they lie in memory, and how to read them.

    Args:
        problem: Sizes, formats and epilogue.
        family: The lattices that elements are counted in.
        certificate: One that holds.
        scales: Powers of two along m, n and k; None: none.
        arrays: The library of the operands.
        codes: Encodings of each operand, in its full shape as it is stored.
    """

    problem: Matmul
    family: Family
    certificate: Certificate
    scales: Exponents | None
    arrays: Arrays
    codes: Mapping[str, Any]

    def matrix(self, name: str, entry: tuple[int, ...]) -> Any:
        """Encodings of one matrix of the batch: a as (m, k), b as (k, n), c as (m, n); the bias as it is."""
        if name == "bias":
            return self.codes[name]
        codes = self.codes[name][entry]
        transposed = (name == "a" and self.problem.transpose_a) or (name == "b" and self.problem.transpose_b)
        return codes.swapaxes(0, 1) if transposed else codes

    def multiples(self) -> tuple[int, int, int]:
        """Quanta of the result for each quantum of a product, of c, and of the bias; with sign."""
        problem, family, quantum = self.problem, self.family, self.certificate.quantum_exponent
        j, i = dyadic(problem.alpha)
        product = j << max(0, family.a.exponent + family.b.exponent + i - quantum)
        j, i = dyadic(problem.beta)
        c = j << max(0, family.c.exponent + i - quantum) if family.c is not None else 0
        return product, c, 1 << max(0, family.bias.exponent - quantum) if family.bias is not None else 0

    @property
    def largest_product(self) -> int:
        """At least the largest sum of moduli of products of one output, in their own quanta."""
        return min(self.family.terms, self.problem.k) * self.family.a.magnitude * self.family.b.magnitude

    def exponent_of(self, rows: Any, columns: Any) -> int | Array:
        """Of the quantum that results are counted in, at these rows and columns."""
        quantum = self.certificate.quantum_exponent
        if self.scales is None:
            return quantum
        return np.asarray(quantum + self.scales.rows[rows][:, None] + self.scales.columns[columns][None, :])

    def quanta(self, name: str, codes: Any, first: Any, last: Any) -> Any:
        """
        Part of an operand (or of ``"out"``) in quanta, as float64.

        Args:
            name: Which one.
            codes: Encodings of the part, as (first axis, last axis) of `matrix`.
            first: Where it lies along the first axis (rows of a, k of b; the only one of a bias).
            last: Where it lies along the last one.

        Exactness:
            Elements are integers times powers of two; dividing by those is exact. An output that
            is anything else gives anything else.
        """
        exponent, format_ = self._lattice(name)
        values = self.arrays.values(codes, format_)
        rows, columns = self._exponents(name)
        if columns is None:
            return values * 2.0**-exponent if exponent else values
        if name == "bias":
            return values * self._powers(-(columns + exponent))[first]
        values = values * self._powers(-(columns + exponent))[last]
        return values if rows is None else values * self._powers(-rows)[first][:, None]

    def powers(self, first: Any, last: Any) -> tuple[Any, Any]:
        """What results in quanta are multiplied by: one factor for each row (a column), one for each column."""
        quantum = self.certificate.quantum_exponent
        if self.scales is None:
            return 1.0, 2.0**quantum
        return self._powers(self.scales.rows)[first][:, None], self._powers(self.scales.columns + quantum)[last]

    def _powers(self, exponents: Array) -> Any:
        return self.arrays.from_host(np.ldexp(1.0, exponents))

    def _lattice(self, name: str) -> tuple[int, Format]:
        if name == "out":
            return self.certificate.quantum_exponent, self.problem.out_format
        format_ = next(operand.format for operand in self.problem.operands if operand.name == name)
        return self.family.lattices()[name].exponent, format_

    def _exponents(self, name: str) -> tuple[Array | None, Array | None]:
        scales = self.scales
        if scales is None:
            return None, None
        if name == "a":
            return scales.rows, scales.inner
        if name == "b":
            return -scales.inner, scales.columns
        return (None if name == "bias" else scales.rows), scales.columns
