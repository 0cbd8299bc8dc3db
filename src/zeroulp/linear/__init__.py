"""
Problems that are given by a reference: what their kernels are fed, and what they must return.

``sampling`` draws the operands, ``following`` tracks a drawing through the reference, ``fitting`` finds out what to
draw so that much is exact and the outputs depend on it. PyTorch is imported when a drawing is followed.
"""

from zeroulp.linear.fitting import Fit, fit
from zeroulp.linear.following import Followed, follow, resolved
from zeroulp.linear.sampling import Recipe, changed, draw

__all__ = ["Fit", "Followed", "Recipe", "changed", "draw", "fit", "follow", "resolved"]
