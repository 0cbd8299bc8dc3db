"""
What is to be computed, and what a correct kernel promises about it.

``contract`` holds the promises, ``layout`` how operands lie in memory, ``matmul`` the problem;
``tensor`` is an operand of a kernel that is given by a reference.
"""

from zeroulp.problem.contract import Contract
from zeroulp.problem.layout import LAYOUTS, Layout, layout_named
from zeroulp.problem.matmul import Matmul, Operand
from zeroulp.problem.tensor import Tensor

__all__ = ["LAYOUTS", "Contract", "Layout", "Matmul", "Operand", "Tensor", "layout_named"]
