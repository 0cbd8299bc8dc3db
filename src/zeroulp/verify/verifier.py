"""
Whether a result is right, without believing anybody's product.

Where nothing rounds the result itself is put to Freivalds' test: O(n^2). Where it rounds, the
exact product comes from a fast multiplication that is exact for this budget, is put to the test,
rounded once, and compared position by position. Only what the test finds wrong is looked at in
full. Everything is done in blocks, so that memory stays bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.judge import Differs, Outcome, Tally, differing
from zeroulp.reference import expected_of_total, plain_product
from zeroulp.verify.freivalds import MISS, draw_vectors, size_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroulp.verify.fed import Fed, Repeated

WORKSPACE = 2**28
"""Bytes that verification may use for its own arrays."""

_ELEMENT = 8  # bytes
_FAR = 900  # binary places from one within which float64 scales without rounding
_OFTEN = 0.25  # of the rows hold rounded results: then the test of the result itself tells little
_FEW = 2**22  # products of an output that are simply multiplied out, whatever the test says of columns


class Verifier:
    """
    Verifies results of one trial.

    Args:
        fed: The operands.
        workspace: Bytes that it may use.
        miss: Largest probability that a wrong product is believed.
    """

    def __init__(self, fed: Fed, workspace: int = WORKSPACE, miss: float = MISS) -> None:
        self.fed, self.workspace, self.miss = fed, workspace, miss

    @staticmethod
    def can(fed: Fed) -> bool:
        """Whether sums are small enough for a test in float64; if masked, whether they are the sums of |terms| too."""
        signs = fed.family.masked and min(fed.problem.alpha, fed.problem.beta) < 0
        if signs or fed.family.bounded or _other_than_ieee(fed) or (fed.without and fed.problem.bias is not None):
            return False
        lattices = fed.family.lattices().values()
        reach = max(abs(fed.certificate.quantum_exponent), *(abs(lattice.exponent) for lattice in lattices))
        return reach < _FAR and size_for(fed.problem.n, fed.certificate.largest_sum) is not None

    def judge(self, codes: Any) -> Outcome | None:
        """
        The outcome for a result.

        Args:
            codes: (*batch, m, n) encodings, in the library of the operands.

        Returns:
            The outcome; None where a result is not right throughout, and what counts or is allowed
            besides is for the whole reference to say: if the family is masked, or goes beyond a range,
            or rows are left out.
        """
        problem = self.fed.problem
        tally = Tally(problem.out_format, problem.output.shape)
        whole = self.fed.family.masked or self.fed.without is not None
        with np.errstate(invalid="ignore", over="ignore"):  # a wrong result may hold anything
            for entry in np.ndindex(*problem.batch):
                matrix = _Matrix(self, entry, codes[entry])
                if not whole:
                    self._judge_matrix(matrix, tally)
                elif matrix.inexact_rows(give_up=0.0).size:
                    return None
        outcome = tally.outcome()
        return None if self.fed.family.beyond and isinstance(outcome, Differs) else outcome

    def _judge_matrix(self, matrix: _Matrix, tally: Tally) -> None:
        """A result whose difference from the exact one is zero is right, whether or not others round."""
        rounds = self.fed.certificate.theorem == "round-once"
        strict = self.fed.problem.signed_zero == "strict"  # zeros of either sign are one value to the test
        rows = np.arange(self.fed.problem.m) if strict else matrix.inexact_rows(give_up=_OFTEN if rounds else 1.0)
        if rows.size:
            columns = np.arange(self.fed.problem.n) if rounds or strict else matrix.inexact_columns(rows)
            matrix.compare(tally, rows, columns)


def _other_than_ieee(fed: Fed) -> bool:
    """Whether the contract asks for other results than a plain conversion gives."""
    if fed.family.beyond == "subnormals":
        return fed.problem.subnormals == "flush"
    return fed.family.beyond == "overflow" and fed.problem.contract.on_overflow(fed.problem.out_format) == "saturate"


@dataclass(frozen=True)
class _Share:
    """Rows or columns: a slice where they are consecutive, else their numbers."""

    numbers: Any
    index: Any


class _Matrix:
    """One matrix of the batch: its operands, its result."""

    def __init__(self, verifier: Verifier, entry: tuple[int, ...], out: Any) -> None:
        self.fed, self.entry = verifier.fed, entry
        self.arrays, self.problem = self.fed.arrays, self.fed.problem
        self.codes = {name: self.fed.matrix(name, entry) for name in self.fed.codes} | {"out": out}
        self._most = max(1, verifier.workspace // _ELEMENT)
        self._block = min(self.arrays.block_elements, max(1, self._most // 4))
        self._miss = verifier.miss
        self._scale, self._scale_c, self._scale_bias = self.fed.multiples()

    def inexact_rows(self, give_up: float) -> Any:
        """
        Numbers of the rows that are not the exact result, on the host.

        Args:
            give_up: Once a larger share of some rows than this is inexact, all rows are taken to be.
        """
        m, n, largest = self.problem.m, self.problem.n, self.fed.certificate.largest_sum
        limit = min(largest, self.fed.certificate.budget) if self.fed.family.masked else largest
        size = size_for(n, largest, self._miss)
        assert size is not None, "Verifier.can was asked"
        vectors = draw_vectors(self.arrays, n, size)
        image = self._times_b(vectors)
        bias = self._quanta("bias", slice(0, n))[None, :] @ vectors * self._scale_bias if "bias" in self.codes else 0
        found = []
        step = max(1, self._block // max(1, n, self.problem.k))
        for low in range(0, m, step):
            rows = slice(low, min(low + step, m))
            exact = self.arrays.matmul(self._quanta("a", rows), image) * self._scale + bias
            if "c" in self.codes:
                exact = exact + self.arrays.matmul(self._quanta("c", rows), vectors) * self._scale_c
            out = self._quanta("out", rows)
            off = (abs(out) > limit) | (out != out.round())  # too large, off the grid, or no number
            wrong = off.any(-1) | (self.arrays.matmul(out, vectors) != exact).any(-1)
            if bool(wrong.any()):
                found.append(low + np.flatnonzero(self.arrays.to_host(wrong)))
                if len(found[-1]) > give_up * (rows.stop - low):
                    return np.arange(m)
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def inexact_columns(self, rows: Any) -> Any:
        """Numbers of the columns in which these rows are not exact, by a test from the left."""
        n, k = self.problem.n, self.problem.k
        size = size_for(len(rows), self.fed.certificate.largest_sum, self._miss)
        if len(rows) * n * k <= _FEW or size is None or len(rows) == 1:
            return np.arange(n)
        left = draw_vectors(self.arrays, len(rows), size).T
        image: Any = 0
        found: Any = 0
        exact: Any = 0
        step = max(1, self._block // max(1, n, k))
        for low in range(0, len(rows), step):
            part, weights = self._share(rows[low : low + step]), left[:, low : low + step]
            image = image + self.arrays.matmul(weights, self._quanta("a", part.index))
            found = found + self.arrays.matmul(weights, self._quanta("out", part.index))
            if "c" in self.codes:
                exact = exact + self.arrays.matmul(weights, self._quanta("c", part.index)) * self._scale_c
        if "bias" in self.codes:
            exact = exact + left.sum(-1)[:, None] * self._quanta("bias", slice(0, n))[None, :] * self._scale_bias
        step = max(1, self._block // max(1, n))
        for low in range(0, k, step):
            inner = slice(low, min(low + step, k))
            exact = exact + self.arrays.matmul(image[:, inner], self._quanta("b", inner)) * self._scale
        return np.flatnonzero(self.arrays.to_host((found != exact).any(0)))

    def compare(self, tally: Tally, rows: Any, columns: Any) -> None:
        """Work out the exact result at these rows and columns, and compare every position."""
        pool = self.fed.pool
        if pool is not None and len(columns) > len(pool.members):
            self._compare_pooled(tally, rows, columns, pool)
            return
        for across in self._shares(columns):
            b = self._quanta("b", slice(None), across.index)
            size = size_for(len(across.numbers), max(1, self.fed.certificate.largest_sum), self._miss)
            assert size is not None, "it is less than for all columns"
            vectors = draw_vectors(self.arrays, len(across.numbers), size)
            image = self.arrays.matmul(b, vectors)
            for down in self._shares(rows):
                a = self._quanta("a", down.index)
                product = self._verified(a, b, vectors, image)
                self._compare_tile(tally, down, across, self._with_epilogue(product, down, across), a)

    def _compare_pooled(self, tally: Tally, rows: Any, columns: Any, pool: Repeated) -> None:
        """The same with a product of the distinct columns alone."""
        members = self._share(pool.members)
        b = self._quanta("b", slice(None), members.index)
        size = size_for(len(pool.members), max(1, self.fed.certificate.largest_sum), self._miss)
        assert size is not None, "it is less than for all columns"
        vectors = draw_vectors(self.arrays, len(pool.members), size)
        image = self.arrays.matmul(b, vectors)
        for down in self._shares(rows):
            a = self._quanta("a", down.index)
            distinct = self._verified(a, b, vectors, image)
            for across in self._shares(columns):
                signs = self.arrays.from_host(pool.signs[across.numbers].astype(np.float32))
                product = distinct[:, self.arrays.from_host(pool.of[across.numbers])] * signs
                self._compare_tile(tally, down, across, self._with_epilogue(product, down, across), a)

    def _verified(self, a: Any, b: Any, vectors: Any, image: Any) -> Any:
        """The product, in a dtype that holds it; multiplied plainly where the fast one fails the test."""
        product = self._product(a, b)
        wide = self.arrays.cast(product, "float64")
        if self.arrays.equal(self.arrays.matmul(wide, vectors), self.arrays.matmul(a, image)):
            return product
        plain = plain_product(*(self.arrays.to_host(factor).astype(np.int64) for factor in (a, b)))
        return self.arrays.from_host(plain.astype(np.float64))

    def _compare_tile(self, tally: Tally, down: _Share, across: _Share, total: Any, a: Any) -> None:
        actual = self.codes["out"][down.index]
        actual = actual[:, across.index]
        expected = self._rounded(total, down, across)
        if expected is not None and self._agree(expected, actual):
            return
        if self.fed.family.beyond and tally.is_wrong:
            return  # enough is known: the whole reference will say
        exact = self.arrays.to_host(total).astype(np.int64)
        moduli = None
        if self.problem.signed_zero == "strict":
            b = self._quanta("b", slice(None), across.index)
            product = self._product(abs(a), abs(b))
            moduli = self.arrays.to_host(self._with_epilogue(product, down, across, moduli=True)).astype(np.int64)
        exponents = self.fed.exponent_of(down.numbers, across.numbers)
        wanted = expected_of_total(self.problem, self.fed.family, self.fed.certificate, exact, exponents, moduli=moduli)
        codes = self.arrays.to_host(actual).view(wanted.codes.dtype)
        wrong = differing(codes, wanted, self.problem.out_format)
        if wrong.any():
            i, j = np.nonzero(wrong)
            lead = tuple(np.full(len(i), axis) for axis in self.entry)
            tally.add((*lead, down.numbers[i], across.numbers[j]), codes[i, j], wanted.codes[i, j])

    def _agree(self, expected: Any, actual: Any) -> bool:
        """Whether two results have the same bits, or at least the same values: zeros of either sign."""
        if self.arrays.equal(expected, actual):
            return True
        one, other = (self.arrays.values(codes, self.problem.out_format) for codes in (expected, actual))
        return self.arrays.equal(one, other)

    def _rounded(self, total: Any, down: _Share, across: _Share) -> Any:
        """Encodings of exact results, rounded by the library's own conversion; None where that is not enough."""
        problem = self.problem
        simple = problem.rounding == "ties-to-even" or self.fed.certificate.theorem == "any-order"
        if not simple or problem.signed_zero == "strict" or problem.subnormals == "preserve":
            return None
        if not self.fed.is_near_one:
            total = self.arrays.cast(total, "float64")
        row, column = self.fed.powers(down.index, across.index, str(total.dtype).rpartition(".")[2])
        return self.arrays.encoded(total * column if row is None else total * column * row, problem.out_format)

    def _product(self, a: Any, b: Any) -> Any:
        """The product of integers by a fast way, which has yet to be verified."""
        if self.fed.family.terms == 1:
            for rows, lone in ((True, a), (False, b)):
                if int((lone != 0).sum(-1 if rows else 0).max()) <= 1:
                    return self._lone_products(a, b, rows=rows)
        fast = self.arrays.fast_dtype(self.fed.largest_product)
        return self.arrays.matmul(self.arrays.cast(a, fast), self.arrays.cast(b, fast))

    @staticmethod
    def _lone_products(a: Any, b: Any, *, rows: bool) -> Any:
        """The product where each row of a (or column of b) has one element that is not zero."""
        if rows:
            k = abs(a).argmax(-1)
            return a.sum(-1)[:, None] * b[k]
        k = abs(b).argmax(0)
        return a[:, k] * b.sum(0)[None, :]

    def _with_epilogue(self, product: Any, down: _Share, across: _Share, *, moduli: bool = False) -> Any:
        size = abs if moduli else (lambda x: x)
        if self._scale == 1 and "c" not in self.codes and "bias" not in self.codes:
            return product
        total = self.arrays.cast(product, "float64") * size(self._scale)
        if "c" in self.codes:
            c = self._quanta("c", down.index, across.index)
            total = total + size(c) * size(self._scale_c)
        if "bias" in self.codes:
            total = total + size(self._quanta("bias", across.index))[None, :] * size(self._scale_bias)
        return total

    def _times_b(self, vectors: Any) -> Any:
        """B times the vectors."""
        k, n = self.problem.k, self.problem.n
        step = max(1, self._block // max(1, n))
        if k <= step:
            return self.arrays.matmul(self._quanta("b", slice(0, k)), vectors)
        image = self.arrays.zeros((k, vectors.shape[-1]))
        for low in range(0, k, step):
            inner = slice(low, min(low + step, k))
            image[inner] = self.arrays.matmul(self._quanta("b", inner), vectors)
        return image

    def _quanta(self, name: str, first: Any, last: Any = slice(None)) -> Any:
        codes = self.codes[name][first]
        if name != "bias":
            codes = codes[:, last]
        return self.fed.quanta(name, codes, first, last)

    def _shares(self, numbers: Any) -> Iterator[_Share]:
        """So many at a time that the operands, and what becomes of their product, fit into the workspace."""
        k = self.problem.k
        side = max(1, int((math.sqrt(k * k + 6 * self._most) - k) / 6))  # 2 side k + 6 side^2 elements
        for low in range(0, len(numbers), side):
            yield self._share(numbers[low : low + side])

    def _share(self, numbers: Any) -> _Share:
        if len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1:
            return _Share(numbers, slice(int(numbers[0]), int(numbers[-1]) + 1))
        return _Share(numbers, self.arrays.from_host(numbers))
