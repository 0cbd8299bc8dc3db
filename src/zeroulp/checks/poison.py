"""
What stands in the output before a call.

It varies from call to call: NaN, another NaN, a plausible number, and, where a trial changes a
few elements of one before, the result that the kernel returned for that one. A kernel that does
not read its output cannot tell; one that writes only over NaN, or adds to numbers, is seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding, memory
from zeroulp.arrays import arrays_of
from zeroulp.formats import PLAIN

if TYPE_CHECKING:
    from zeroulp.formats import Format
    from zeroulp.plan import Trial
    from zeroulp.problem import Matmul

_KINDS = 3
_FOREIGN = 12  # binary places above one


def poison_of(problem: Matmul, trial: Trial, call: int, *, only: str = "") -> int:
    """
    The encoding for call number *call* (from 0) of a trial: each of three kinds in turn.

    Args:
        problem: Its output's format.
        trial: Trials start at different kinds, so that first calls meet all of them.
        call: Number of the call within the trial.
        only: ``"nan"`` or ``"number"``: this kind, whatever the call.
    """
    turn = {"nan": 0, "number": 2}.get(only, (trial.index + call) % _KINDS)
    if turn == 2:
        return plausible_number(problem, trial)
    return memory.poison_code(problem.out_format, second=turn == 1)


def plausible_number(problem: Matmul, trial: Trial) -> int:
    """A number about as large as the trial's results: not lost when it is added to them."""
    certificate, format_ = trial.certificate, problem.out_format
    wished = certificate.quantum_exponent + certificate.largest_sum.bit_length() // 2
    for integer, exponent in ((3, wished - 1), (1, 0)):
        codes = encoding.round_integers(np.array([integer]), exponent, format_, saturate=True)
        value = float(encoding.decode(codes, format_)[0])
        if value and np.isfinite(value):
            return int(codes[0])
    return memory.poison_code(format_)


def guard_code(format_: Format) -> int:
    """What lies beside an input: NaN; beside indices and truth values 0, with which a stray read breaks nothing."""
    return 0 if format_ in PLAIN else memory.poison_code(format_)


def foreign_number(format_: Format) -> int:
    """
    What stands between the rows of an operand, where a unit may read it along and multiply it by zero.

    A number larger than any element near one: a kernel that takes it for an element is wrong.
    """
    exponent = max(0, min(_FOREIGN, format_.emax - 2))
    return int(encoding.round_integers(np.array([3]), exponent, format_, saturate=True)[0])


def differs_by_poison(first: list[Any], second: list[Any]) -> bool:
    """Whether results, or their fingerprints, agree under one poison, agree under another, and yet are not the same."""
    steady = all(are_equal(group[0], bits) for group in (first, second) for bits in group)
    return steady and not are_equal(first[0], second[0])


def are_equal(one: Any, other: Any) -> bool:
    """Whether two results, or two fingerprints, are the same."""
    return one == other if isinstance(one, str) else arrays_of(one).equal(one, other)
