"""
From differences to a sentence: advice, on which no verdict depends.

``case`` holds a trial that went wrong, ``formulas`` finds another formula that gives the
kernel's bits, ``rounding`` another way of rounding that does, and ``special_values`` says what
became of NaN, infinities, overflow and subnormal numbers.
"""

from zeroulp.diagnose.case import Case, whereabouts
from zeroulp.diagnose.formulas import explain, explain_clamp, explain_fractions
from zeroulp.diagnose.rounding import fitting_roundings, is_one_of_two_neighbours
from zeroulp.diagnose.special_values import SpecialCase, explain_special, what_is_seen

__all__ = [
    "Case",
    "SpecialCase",
    "explain",
    "explain_clamp",
    "explain_fractions",
    "explain_special",
    "fitting_roundings",
    "is_one_of_two_neighbours",
    "what_is_seen",
    "whereabouts",
]
