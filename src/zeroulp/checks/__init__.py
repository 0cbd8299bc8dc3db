"""
A check: plan, trials, verdict.

``session`` loads the kernel, ``inputs`` draws a trial's operands, ``bench`` runs a trial with its
hygiene, ``naming`` finds out what a difference is called, ``check`` puts them together, ``shapes``
checks the shapes beside a given one, ``grid`` very many, ``jobs`` several of those at once,
``replay`` does one trial again, and ``linear_plan`` says what would be done.
"""

from zeroulp.checks.check import assert_correct, check
from zeroulp.checks.grid import check_grid
from zeroulp.checks.linear_plan import LinearPlan, make_linear_plan
from zeroulp.checks.replay import replay
from zeroulp.checks.session import Session
from zeroulp.checks.shapes import check_shapes

__all__ = [
    "LinearPlan",
    "Session",
    "assert_correct",
    "check",
    "check_grid",
    "check_shapes",
    "make_linear_plan",
    "replay",
]
