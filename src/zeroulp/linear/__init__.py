"""
Problems that are given by a reference: what their kernels are fed, and what they must return.

``fitting`` has `zeroulp.sample` find out what to draw, ``drawing`` draws a trial, ``following`` tracks it through the
reference, ``living`` sees whether the outputs depend on it. PyTorch is imported when a drawing is followed.
"""

from zeroulp.linear.drawing import changed, draw, strategy_for
from zeroulp.linear.fitting import Fit, fit
from zeroulp.linear.following import Followed, follow, resolved, returned, values_of, worked_out

__all__ = [
    "Fit",
    "Followed",
    "changed",
    "draw",
    "fit",
    "follow",
    "resolved",
    "returned",
    "strategy_for",
    "values_of",
    "worked_out",
]
