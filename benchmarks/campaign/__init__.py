"""
Correct matmul kernels of every kind, drawn at random, to see that none is accused.

`families` says which kernels there are and what they may be asked, `cases` draws one with its
problem and options, `kernels` runs it: its sums are in `sums` and `units`, its roundings in `rounding`.
None of its arithmetic comes from the library.
"""

from benchmarks.campaign.cases import Case, Chooser, Dice, draw_case
from benchmarks.campaign.families import FAMILIES
from benchmarks.campaign.kernels import FAULTS, Kernel
from benchmarks.campaign.rounding import Arithmetic
from benchmarks.campaign.sums import Sum
from benchmarks.campaign.units import UNITS, Unit

__all__ = [
    "FAMILIES",
    "FAULTS",
    "UNITS",
    "Arithmetic",
    "Case",
    "Chooser",
    "Dice",
    "Kernel",
    "Sum",
    "Unit",
    "draw_case",
]
