"""
From differences to a sentence: advice, on which no verdict depends.

``case`` holds a trial that went wrong, ``formulas`` finds another formula that gives the
kernel's bits, ``rounding`` another way of rounding that does.
"""

from zeroulp.diagnose.case import Case, whereabouts
from zeroulp.diagnose.formulas import explain, explain_clamp, explain_fractions
from zeroulp.diagnose.rounding import fitting_roundings, is_one_of_two_neighbours

__all__ = [
    "Case",
    "explain",
    "explain_clamp",
    "explain_fractions",
    "fitting_roundings",
    "is_one_of_two_neighbours",
    "whereabouts",
]
