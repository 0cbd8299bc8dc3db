"""
Whether a result is right, without believing anybody's product.

Where nothing rounds the result itself is put to Freivalds' test: O(n^2). Where it rounds, the
exact product comes from a fast multiplication that is exact for this budget, is put to the test,
rounded once, and compared position by position. Only what the test finds wrong is looked at in
full. Everything is done in blocks, so that memory stays bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.judge import Differs, Outcome, Tally
from zeroulp.verify.exact import inexact_columns, inexact_rows
from zeroulp.verify.freivalds import MISS, size_for
from zeroulp.verify.matrix import Matrix
from zeroulp.verify.products import compare, other_than_pooled

if TYPE_CHECKING:
    from zeroulp.verify.fed import Fed

WORKSPACE = 2**28
"""Bytes that verification may use for its own arrays."""

_FAR = 900  # binary places from one within which float64 scales without rounding
_OFTEN = 0.25  # of the rows hold rounded results: then the test of the result itself tells little


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
                matrix = Matrix(self.fed, entry, codes[entry], self.workspace, self.miss)
                if not whole:
                    self._judge_matrix(matrix, tally)
                elif inexact_rows(matrix).size:
                    return None
        outcome = tally.outcome()
        return None if self.fed.family.beyond and isinstance(outcome, Differs) else outcome

    def _judge_matrix(self, matrix: Matrix, tally: Tally) -> None:
        """A result whose difference from the exact one is zero is right, whether or not others round."""
        rows, columns = np.arange(self.fed.problem.m), np.arange(self.fed.problem.n)
        rounds = self.fed.certificate.theorem == "round-once"
        if self.fed.problem.signed_zero == "strict":  # zeros of either sign are one value to the test
            pass
        elif rounds and self.fed.pool is not None:
            rows = other_than_pooled(matrix, self.fed.pool)
        elif not (rounds and self.fed.family.terms == 1):  # single products hardly ever are exact
            rows = inexact_rows(matrix)
            few = rounds and len(rows) <= matrix.arrays.few
            if not few and (not rounds or len(rows) < _OFTEN * self.fed.problem.m):
                columns = inexact_columns(matrix, rows) if rows.size else columns
        if rows.size:
            compare(matrix, tally, rows, columns)


def _other_than_ieee(fed: Fed) -> bool:
    """Whether the contract asks for other results than a plain conversion gives."""
    if fed.family.beyond == "subnormals":
        return fed.problem.subnormals == "flush"
    return fed.family.beyond == "overflow" and fed.problem.contract.on_overflow(fed.problem.out_format) == "saturate"
