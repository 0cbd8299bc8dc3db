"""
What is to be computed, and what a correct kernel promises about it.

``contract`` holds the promises, ``layout`` how operands lie in memory, ``matmul`` the problem; ``linear`` one that is
given by a reference, ``tensor`` an operand of that.
"""

from typing import Any, TypeAlias

from zeroulp.problem.contract import Contract
from zeroulp.problem.layout import LAYOUTS, Layout, layout_named
from zeroulp.problem.linear import Linear, Origin
from zeroulp.problem.matmul import Matmul, Operand
from zeroulp.problem.tensor import Tensor

Problem: TypeAlias = Matmul | Linear


def problem_from_dict(data: dict[str, Any]) -> Problem:
    """The problem that its ``to_dict`` described."""
    return Linear.from_dict(data) if data.get("operation") == "linear" else Matmul.from_dict(data)


__all__ = [
    "LAYOUTS",
    "Contract",
    "Layout",
    "Linear",
    "Matmul",
    "Operand",
    "Origin",
    "Problem",
    "Tensor",
    "layout_named",
    "problem_from_dict",
]
