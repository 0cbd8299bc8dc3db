"""
From differences to a sentence: advice, on which no verdict depends.

``case`` holds a trial that went wrong, ``formulas`` finds another formula that gives the
kernel's bits, ``rounding`` another way of rounding that does.
"""

from zeroulp.diagnose.case import Case, whereabouts
from zeroulp.diagnose.formulas import explain
from zeroulp.diagnose.rounding import explain_rounding, is_one_of_two_neighbours

__all__ = ["Case", "explain", "explain_rounding", "is_one_of_two_neighbours", "whereabouts"]
