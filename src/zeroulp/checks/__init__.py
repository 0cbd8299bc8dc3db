"""
A check: plan, trials, verdict.

``inputs`` draws a trial's operands, ``bench`` runs a trial with its hygiene, ``naming`` finds
out what a difference is called, ``check`` puts them together and ``replay`` does one again.
"""

from zeroulp.checks.check import assert_correct, check
from zeroulp.checks.replay import replay

__all__ = ["assert_correct", "check", "replay"]
