"""
Results that round: the exact product by a fast way, verified, rounded once, compared position by position.

Nobody's product is believed: it is put to Freivalds' test before it counts, and one that fails is
multiplied out in integers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.judge import Tally, differing
from zeroulp.reference import expected_of_total, plain_product
from zeroulp.reference.product import exact_product
from zeroulp.verify.freivalds import draw_vectors
from zeroulp.verify.pooled import Groups, groups_of, table_of

if TYPE_CHECKING:
    from zeroulp.verify.fed import Repeated
    from zeroulp.verify.matrix import Matrix, Share


_FLOAT32 = 2**24  # integers that it holds
_FEW = 2**20  # products that are simply multiplied out


class Factor:
    """
    Some columns of b, and what it takes to verify products with them.

    Args:
        matrix: The operands.
        columns: Which of them.
    """

    def __init__(self, matrix: Matrix, columns: Share) -> None:
        self._matrix, self._arrays, self._columns = matrix, matrix.arrays, columns
        largest = matrix.fed.largest_product
        self._single = matrix.fed.family.terms == 1 and largest <= _FLOAT32  # nothing is summed up
        self._dtype = "float32" if self._single else self._arrays.fast_dtype(largest)
        size = matrix.size_for(len(columns.numbers))
        assert size is not None, "it is less than for all columns"
        self._vectors = draw_vectors(self._arrays, len(columns.numbers), size)
        self._codes = matrix.part("b", None, columns.index)
        self._image = matrix.sums("b", self._vectors, columns=columns.index, codes=self._codes)[0]

    def times(self, rows: Share) -> Any:
        """The product with some rows of a, in quanta, in a dtype that holds it; it is right."""
        product = self.proposed(rows)
        return product if self.confirms(product, rows) else self.surely(rows)

    def proposed(self, rows: Share) -> Any:
        """The same by the fastest way, which has yet to be confirmed: a device need not be waited for in between."""
        if self._single and len(self._columns.numbers) > self._arrays.few:
            found = self._of_lone_elements(rows)
            return self._sums(rows) if found is None else found
        matrix, columns, found = self._matrix, self._columns.index, None
        if matrix.fed.may_be_multiplied:
            found = matrix.fed.stored_product(matrix.part("a", rows.index, None), self._codes, rows.index, columns)
        return self._product(rows) if found is None else found

    def surely(self, rows: Share) -> Any:
        """The same by a way that is exact for this budget, or by arithmetic that cannot be wrong."""
        product = self._product(rows)
        return product if self.confirms(product, rows) else self.plainly(rows)

    def confirms(self, product: Any, rows: Share) -> bool:
        """Whether it is the product, by Freivalds' test."""
        exact = self._matrix.sums("a", self._image, rows.index)[0]
        return self._arrays.equal(self._arrays.times(product, self._vectors), exact)

    def plainly(self, rows: Share) -> Any:
        """The same by integer arithmetic on the host."""
        factors = (self._arrays.to_host(factor).astype(np.int64) for factor in (self._a(rows), self._b))
        return self._arrays.from_host(plain_product(*factors).astype(np.float64))

    def moduli(self, rows: Share) -> Any:
        """Sums of the moduli of products."""
        return self._arrays.matmul(abs(self._a(rows)), abs(self._b))

    def _product(self, rows: Share) -> Any:
        return self._sums(rows) if self._dtype == "float64" else self._arrays.matmul(self._a(rows), self._b)

    def _sums(self, rows: Share) -> Any:
        return self._matrix.sums("a", self._arrays.cast(self._b, "float64"), rows.index)[0]

    def _of_lone_elements(self, rows: Share) -> Any:
        """The product where each row of a, or each column of b, has one element that is not zero; None if neither."""
        matrix, arrays, fed = self._matrix, self._arrays, self._matrix.fed
        a, b = matrix.part("a", rows.index, None), self._codes
        k = fed.lone("a", a)
        if k is not None:
            lone = fed.singles("a", a[arrays.arange(0, len(k)), k], rows.index, k)
            return arrays.cast(lone, "float32")[:, None] * fed.quanta("b", b[k], k, self._columns.index, "float32")
        k = fed.lone("b", b.swapaxes(0, 1))
        if k is None:
            return None
        lone = fed.singles("b", b[k, arrays.arange(0, len(k))], k, self._columns.index)
        return fed.quanta("a", arrays.columns(a, k), rows.index, k, "float32") * arrays.cast(lone, "float32")

    @functools.cached_property
    def _b(self) -> Any:
        return self._matrix.elements("b", None, self._columns.index, self._dtype)

    def _a(self, rows: Share) -> Any:
        return self._matrix.elements("a", rows.index, None, self._dtype)


def compare(matrix: Matrix, tally: Tally, rows: Any, columns: Any) -> None:
    """Work out the exact result at these rows and columns, and compare every position."""
    if len(rows) * len(columns) * matrix.problem.k <= _FEW and matrix.problem.signed_zero != "strict":
        _compare_few(matrix, tally, matrix.share(rows), matrix.share(columns))
        return
    for across in matrix.shares(columns, min(len(rows), matrix.side)):
        factor = Factor(matrix, across)
        for down in matrix.shares(rows, len(across.numbers)):
            if matrix.fed.family.beyond and tally.is_wrong:
                return  # enough is known: the whole reference will say
            product = factor.times(down)
            wrong = _other_rows(matrix, product, down, across)
            if len(wrong):
                here = matrix.share(down.numbers[wrong])
                chosen = product[matrix.share(wrong).index]
                moduli = factor.moduli(here) if matrix.problem.signed_zero == "strict" else None
                _tell(matrix, tally, (chosen, moduli), here, across)


def _compare_few(matrix: Matrix, tally: Tally, down: Share, across: Share) -> None:
    """The same on the host."""
    a, b = matrix.elements("a", down.index), matrix.elements("b", None, across.index)
    left, right = (np.ascontiguousarray(matrix.arrays.to_host(factor)).astype(np.int64) for factor in (a, b))
    exact = exact_product(left, right, matrix.fed.largest_product)
    _tell(matrix, tally, (matrix.arrays.from_host(exact.astype(np.float64)), None), down, across)


def other_than_pooled(matrix: Matrix, pool: Repeated) -> Any:
    """Numbers of the rows whose bits are not those that follow from the distinct columns of b."""
    m, n, fed = matrix.problem.m, matrix.problem.n, matrix.fed
    if not matrix.converts or matrix.has_epilogue:
        return np.arange(m)
    if "groups" not in fed.known:
        fed.known["groups"] = groups_of(pool, fed.scales, fed.certificate.quantum_exponent)
    groups = fed.known["groups"]
    factor = Factor(matrix, matrix.share(pool.members))
    found = []
    size = max(1, matrix.most // (2 * matrix.problem.k + 2 * n + len(groups.member)))
    for low in range(0, m, size):
        down = matrix.share(np.arange(low, min(low + size, m)))
        product = factor.proposed(down)
        wrong = _other_groups(matrix, groups, product, down)
        if not factor.confirms(product, down):
            wrong = _other_groups(matrix, groups, factor.surely(down), down)
        found.append(low + wrong)
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _other_groups(matrix: Matrix, groups: Groups, product: Any, down: Share) -> Any:
    """Which of the rows have other bits than follow from the product with the distinct columns."""
    everything, total = matrix.share(np.arange(matrix.problem.n)), _scalable(matrix, product)

    def table(part: Share, some: slice) -> Any:
        powers, _ = matrix.fed.powers(part.index, everything.index, _dtype(total))
        return table_of(total[some], groups, powers, matrix.arrays, matrix.problem.out_format)

    def expected(part: Share, some: slice) -> Any:
        codes = table(part, some)
        return codes if groups.of is None else matrix.arrays.columns(codes, matrix.arrays.table(groups.of))

    if _is_rounded(matrix, groups, product, down):
        return np.empty(0, np.int64)
    return _differing(matrix, expected, down, everything)


def _is_rounded(matrix: Matrix, groups: Groups, product: Any, down: Share) -> bool:
    """Whether all of the rows follow from that product, where a device can say so in one pass."""
    arrays, fed = matrix.arrays, matrix.fed
    if arrays.fused is None:
        return False
    if "columns" not in fed.known:
        fed.known["columns"] = groups.columns
    columns, across = (arrays.table(each) for each in fed.known["columns"])
    rows = fed.powers(down.index, slice(0, 1), "float64")[0]
    factors = 1.0 if rows is None else rows.reshape(-1), across
    codes = matrix.codes["out"][down.index]
    return bool(arrays.fused.is_rounded(codes, matrix.problem.out_format, product, columns, factors))


def _other_rows(matrix: Matrix, product: Any, down: Share, across: Share) -> Any:
    """Which of the rows have other bits than the library's conversion of the exact result gives."""
    if not matrix.converts:
        return np.arange(len(down.numbers))

    def expected(part: Share, some: slice) -> Any:
        total = _scalable(matrix, matrix.total(product[some], part, across))
        row, column = matrix.fed.powers(part.index, across.index, _dtype(total))
        total = total * column if row is None else total * column * row
        total = total + 0.0 if matrix.fed.family.terms == 1 else total  # zeros are positive
        return matrix.arrays.encoded(total, matrix.problem.out_format)

    return _differing(matrix, expected, down, across)


def _differing(matrix: Matrix, expected: Any, down: Share, across: Share) -> Any:
    """Places within *down* of the rows whose encodings are not the expected ones, nor zeros where those are zeros."""
    arrays, format_, count = matrix.arrays, matrix.problem.out_format, len(down.numbers)
    out = matrix.codes["out"]

    def wrong(low: int) -> Any:
        high = min(low + step, count)
        part = matrix.within(down, low, high)
        wanted, actual = expected(part, slice(low, high)), out[part.index][:, across.index]
        if arrays.equal(wanted, actual):
            return np.empty(0, np.int64)
        values = (arrays.values(codes, format_) for codes in (wanted, actual))
        return low + np.flatnonzero(arrays.to_host(next(values) != next(values)).any(-1))

    step = arrays.block_rows(len(across.numbers))
    return np.concatenate([np.empty(0, np.int64), *arrays.spread(wrong, range(0, count, step))])


def _tell(matrix: Matrix, tally: Tally, sums: tuple[Any, Any], down: Share, across: Share) -> None:
    """Compare with the reference's own rounding, and say what differs."""
    problem, fed, arrays, (product, moduli) = matrix.problem, matrix.fed, matrix.arrays, sums
    exact = arrays.to_host(matrix.total(product, down, across)).astype(np.int64)
    if moduli is not None:
        moduli = arrays.to_host(matrix.total(moduli, down, across, moduli=True)).astype(np.int64)
    exponents = fed.exponent_of(down.numbers, across.numbers)
    wanted = expected_of_total(problem, fed.family, fed.certificate, exact, exponents, moduli=moduli)
    codes = arrays.to_host(matrix.codes["out"][down.index][:, across.index]).view(wanted.codes.dtype)
    wrong = differing(codes, wanted, problem.out_format)
    if wrong.any():
        i, j = np.nonzero(wrong)
        lead = tuple(np.full(len(i), axis) for axis in matrix.entry)
        tally.add((*lead, down.numbers[i], across.numbers[j]), codes[i, j], wanted.codes[i, j])


def _scalable(matrix: Matrix, total: Any) -> Any:
    """In a dtype that can be multiplied by the powers of two of the results."""
    return total if matrix.fed.is_near_one else matrix.arrays.cast(total, "float64")


def _dtype(array: Any) -> str:
    return str(array.dtype).rpartition(".")[2]
