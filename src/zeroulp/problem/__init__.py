"""
What is to be computed, and what a correct kernel promises about it.

``contract`` holds the promises, ``layout`` how operands lie in memory, ``matmul`` the problem.
"""

from zeroulp.problem.contract import Contract
from zeroulp.problem.layout import LAYOUTS, Layout, layout_named
from zeroulp.problem.matmul import Matmul, Operand

__all__ = ["LAYOUTS", "Contract", "Layout", "Matmul", "Operand", "layout_named"]
