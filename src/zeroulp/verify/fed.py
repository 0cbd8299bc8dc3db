"""What lies in memory, read back as integers: operands and output in quanta."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zeroulp.arrays import HOST
from zeroulp.exactness import dyadic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.arrays import Arrays
    from zeroulp.encoding import Array
    from zeroulp.exactness import Certificate, Family
    from zeroulp.formats import Format
    from zeroulp.problem import Matmul

_FEW = 16  # vectors: more are a product
_FLOAT32 = 2**24  # integers that it holds
_HALF_EMIN = -15  # of float16 and the formats of 8 bits with its exponents; bfloat16 reaches as far as float32
_SIGNIFICAND, _FAR = 24, 120  # of float32: bits, and binary places from one


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


class Repeated(Protocol):
    """Columns that are the same but for sign and scale; see `zeroulp.probes.pool`."""

    @property
    def members(self) -> Array:
        """Numbers of the distinct columns."""
        ...

    @property
    def of(self) -> Array:
        """(n,) places in *members*."""
        ...

    @property
    def signs(self) -> Array:
        """(n,) 1 or -1."""
        ...


@dataclass(frozen=True)
class Fed:
    """
    The operands of a trial as they lie in memory, and how to read them.

    Args:
        problem: Sizes, formats and epilogue.
        family: The lattices that elements are counted in.
        certificate: One that holds.
        arrays: The library of the operands.
        codes: Encodings of each operand, in its full shape as it is stored.
        scales: Powers of two along m, n and k; None: none.
        pool: Which columns of b are the same but for sign and scale; None: nothing is known of that.
        without: Rows and columns of the result that are left out, as masks; None: none.
    """

    problem: Matmul
    family: Family
    certificate: Certificate
    arrays: Arrays
    codes: Mapping[str, Any]
    scales: Exponents | None = None
    pool: Repeated | None = None
    without: tuple[Array, Array] | None = None
    known: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

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
        return min(self.family.terms, self.problem.k) * self.family.largest_product

    def exponent_of(self, rows: Any, columns: Any) -> int | Array:
        """Of the quantum that results are counted in, at these rows and columns."""
        quantum = self.certificate.quantum_exponent
        if self.scales is None:
            return quantum
        return np.asarray(quantum + self.scales.rows[rows][:, None] + self.scales.columns[columns][None, :])

    def quanta(self, name: str, codes: Any, first: Any, last: Any, dtype: str = "float64") -> Any:
        """
        Part of an operand (or of ``"out"``) in quanta.

        Args:
            name: Which one.
            codes: Encodings of the part, as (first axis, last axis) of `matrix`.
            first: Where it lies along the first axis (rows of a, k of b; the only one of a bias).
            last: Where it lies along the last one.
            dtype: ``"float64"``, or ``"float32"`` where that holds all elements.

        Exactness:
            Elements are integers times powers of two; dividing by those is exact. An output that
            is anything else gives anything else.
        """
        exponent, format_ = self._lattice(name)
        if dtype != "float64" and abs(exponent) + self.family.spreads()[name] + _SIGNIFICAND >= _FAR:
            return self.arrays.cast(self.quanta(name, codes, first, last), dtype)
        values = self._left(name, self.arrays.values(codes, format_, dtype), first, last)
        rows, columns = self._exponents(name)
        if columns is None:
            return values * 2.0**-exponent if exponent else values
        if name == "bias":
            return values * self._powers(name, -1, -(columns + exponent))[first]
        values = values * self.arrays.cast(self._powers(name, -1, -(columns + exponent))[last], dtype)
        if rows is None:
            return values
        return values * self.arrays.cast(self._powers(name, -2, -rows)[first], dtype)[:, None]

    def singles(self, name: str, codes: Any, first: Any, last: Any) -> Any:
        """Single elements of a matrix in quanta, as float64: *codes* stands at *first* and *last*, and so on."""
        exponent, format_ = self._lattice(name)
        values = self.arrays.values(codes, format_)
        rows, columns = self._exponents(name)
        if columns is None:
            return values * 2.0**-exponent
        values = values * self._powers(name, -1, -(columns + exponent))[last]
        return values if rows is None else values * self._powers(name, -2, -rows)[first]

    def stored_product(self, a: Any, b: Any, rows: Any, columns: Any) -> Any:
        """
        The product of some rows of a and columns of b, in quanta, by the library's fastest way; None: it cannot.

        Args:
            a: (r, k) encodings.
            b: (k, c) encodings.
            rows: Which rows these are.
            columns: Which columns.

        Exactness:
            None is promised, but that all of it are whole numbers of moduli up to `largest_product`, or NaN: sums
            of those times the vectors of a test do not round.
        """
        product = self.arrays.stored_product(a, b, self._lattice("a")[1])
        if product is None:
            return None
        exponent, dtype = self._lattice("a")[0], "float32" if self.is_near_one else "float64"
        across: Any = 2.0 ** -(exponent + self._lattice("b")[0])
        if self.scales is not None:
            down = self.arrays.cast(self._powers("a", -2, -self.scales.rows)[rows], dtype)
            powers = self._powers("b", -1, -(self.scales.columns + self._lattice("b")[0]))[columns]
            product, across = product * down[:, None], self.arrays.cast(powers * 2.0**-exponent, dtype)
        return (product * across).round().clip(-self.largest_product, self.largest_product)

    @property
    def may_be_multiplied(self) -> bool:
        """Whether `stored_product` is worth trying."""
        formats = {operand.format.name for operand in self.problem.operands if operand.name in ("a", "b")}
        small = self.without is None and self.largest_product <= _FLOAT32
        return small and len(formats) == 1 and formats <= self.arrays.multiplied

    def sums(
        self,
        name: str,
        codes: Any,
        vectors: Any,
        *,
        rows: Any = None,
        columns: Any = None,
        flipped: bool = False,
        limit: int | None = None,
        most: int = 2**62,
    ) -> tuple[Any, Any]:
        """
        A matrix in quanta times some vectors, in float64.

        Args:
            name: Which one: ``"a"``, ``"b"``, ``"c"`` or ``"out"``.
            codes: (r, c) encodings of it, as `matrix` gives them.
            vectors: (c, v) float64; (r, v) if flipped.
            rows: Which rows of it these are, where nothing is left out; None: all.
            columns: Which columns; likewise.
            flipped: Whether it is the transposed matrix that is multiplied.
            limit: None, or the largest modulus that an element may have.
            most: Elements that may be worked on at a time.

        Returns:
            (r, v) sums, or (c, v); and, for each of them, whether an element of that row (or column) is
            no whole number of quanta, or more than *limit* of them, or no number at all; None without a limit.

        Exactness:
            Where sums of moduli stay below 2^53 quanta and nothing is off. Powers of two multiply
            elements or vectors and sums, whichever is less work: either way nothing rounds.
        """
        exponent, format_ = self._lattice(name)
        along_rows, along_columns = self._exponents(name)
        down: Any = 1.0
        across: Any = 2.0**-exponent
        if along_rows is not None:
            down = self._powers(name, -2, -along_rows)
            down = down if rows is None else down[rows]
        if along_columns is not None:
            across = self._powers(name, -1, -(along_columns + exponent))
            across = across if columns is None else across[columns]
        if flipped:
            codes, down, across = codes.swapaxes(0, 1), across, down
        in_blocks = self.without is not None and self.arrays is HOST  # where nothing is copied to leave rows out
        fused = None if in_blocks else self.arrays.fused
        if fused is not None and fused.sums_up and vectors.shape[-1] <= _FEW:
            codes = codes if self.without is None else self._cleared(name, codes)
            found = fused.sums(codes, format_, vectors, (down, across), limit)
            if found is not None:
                return found[0], found[1]
        return self._sums_of_blocks(name, codes, vectors, (down, across), flipped=flipped, limit=limit, most=most)

    def _sums_of_blocks(
        self,
        name: str,
        codes: Any,
        vectors: Any,
        factors: tuple[Any, Any],
        *,
        flipped: bool,
        limit: int | None,
        most: int,
    ) -> tuple[Any, Any]:
        arrays, (down, across), scan = self.arrays, factors, limit is not None
        format_ = self._lattice(name)[1]
        dtype = "float32" if scan and self._holds_scaled(format_) else "float64"
        own_of, last_of = (x if isinstance(x, float) else arrays.cast(x, dtype) for x in (down, across))
        largest = _float32_below(limit) if limit is not None and dtype == "float32" else limit
        count, width = codes.shape
        weights = vectors if scan else vectors * (across if isinstance(across, float) else across[:, None])

        def sums_of(low: int) -> tuple[Any, Any]:
            some = slice(low, min(low + step, count))
            first, last = (slice(None), some) if flipped else (some, slice(None))
            values = self._left(name, arrays.values(codes[some], format_, dtype), first, last, flipped=flipped)
            own = own_of if isinstance(own_of, float) else own_of[some][:, None]
            if not scan:
                return _times(arrays.matmul(values, weights), own), None
            values = _times(_times(values, last_of), own)
            off = ~((values == values.round()) & (abs(values) <= largest)).all(-1)
            return arrays.matmul(arrays.cast(values, "float64"), weights), off

        step = max(1, min(most, arrays.block_elements) // max(1, width))
        if step >= count:
            return sums_of(0)
        summed = arrays.zeros((count, vectors.shape[-1]))
        is_off = arrays.zeros((count,)) if scan else None

        def put(low: int) -> None:
            summed[low : low + step], off = sums_of(low)
            if is_off is not None:
                is_off[low : low + step] = off

        arrays.spread(put, range(0, count, step))
        return summed, None if is_off is None else is_off != 0

    def _holds_scaled(self, format_: Format) -> bool:
        """Whether float32 scales whatever a result may hold without rounding, so that it can be looked at in that."""
        return self.is_near_one and not format_.is_integer and format_.bits <= 16 and format_.emin >= _HALF_EMIN

    @property
    def is_near_one(self) -> bool:
        """Whether float32 holds all results that have at most 24 bits, and scales them without rounding."""
        spread = self.family.spreads()["out"]
        return abs(self.certificate.quantum_exponent) + 2 * spread + _SIGNIFICAND < _FAR

    def powers(self, first: Any, last: Any, dtype: str) -> tuple[Any, Any]:
        """What results in quanta are multiplied by: factors of the rows (a column; None: 1) and of the columns."""
        quantum = self.certificate.quantum_exponent
        if self.scales is None:
            return None, 2.0**quantum
        rows = self._powers("result", -2, self.scales.rows)
        columns = self._powers("result", -1, self.scales.columns + quantum)
        return self.arrays.cast(rows, dtype)[first][:, None], self.arrays.cast(columns, dtype)[last]

    def _powers(self, name: str, axis: int, exponents: Array) -> Any:
        """2**exponents of elements of *name* along an *axis*, or of their reciprocals."""
        if (name, axis) not in self.known:
            self.known[name, axis] = self.arrays.from_host(np.ldexp(1.0, exponents))
        return self.known[name, axis]

    def lone(self, name: str, codes: Any) -> Any:
        """(rows,) where the only element of each row that is not zero stands; None if some row has more of them."""
        shifted = codes if self._lattice(name)[1].is_integer else codes << 1  # without the sign of a zero
        there = shifted != 0
        return None if int(there.sum(-1).max()) > 1 else self.arrays.cast(there, "uint8").argmax(-1)

    def _left(self, name: str, values: Any, first: Any, last: Any, *, flipped: bool = False) -> Any:
        """The same with zeros in the rows and columns that are left out; *flipped*: of the transposed matrix."""
        if self.without is None or name == "bias":
            return values
        rows, columns = (self.arrays.table(mask) for mask in self.without)
        if flipped:
            return self._left(name, values.swapaxes(0, 1), first, last).swapaxes(0, 1)
        if name in ("a", "out", "c"):
            values = self.arrays.where(rows[first][:, None], 0.0, values)
        return self.arrays.where(columns[last], 0.0, values) if name in ("b", "out", "c") else values

    def _cleared(self, name: str, codes: Any) -> Any:
        """A copy of a whole matrix with zeros in the rows and columns that are left out, which are few."""
        assert self.without is not None, "something is left out"
        cleared = self.arrays.copy(codes)
        rows, columns = (self.arrays.from_host(np.flatnonzero(mask)) for mask in self.without)
        if name != "b":
            cleared[rows] = 0
        if name != "a":
            cleared[:, columns] = 0
        return cleared

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


def _float32_below(limit: int) -> float:
    """The largest number of float32 that is not above *limit*."""
    nearest = np.float32(limit)
    return float(nearest if int(nearest) <= limit else np.nextafter(nearest, np.float32(0)))


def _times(values: Any, factors: Any) -> Any:
    """The same where there is nothing to multiply by."""
    return values if isinstance(factors, float) and factors == 1 else values * factors
