"""
A check: plan, trials, verdict.

``inputs`` draws a trial's operands, ``bench`` runs a trial with its hygiene, ``naming`` finds
out what a difference is called, ``check`` puts them together, ``shapes`` checks
many of them and ``replay`` does one trial again.
"""

from zeroulp.checks.check import assert_correct, check
from zeroulp.checks.replay import replay
from zeroulp.checks.shapes import check_shapes

__all__ = ["assert_correct", "check", "check_shapes", "replay"]
