"""What becomes of exactness in an operator: a table, one line for each, and the kinds of rules it is made of."""

from zeroulp.track.rules.base import Rule
from zeroulp.track.rules.decomposition import decomposed
from zeroulp.track.rules.multilinear import multilinear
from zeroulp.track.rules.selection import pointwise
from zeroulp.track.rules.structural import structural
from zeroulp.track.rules.table import TABLE, register

__all__ = ["TABLE", "Rule", "decomposed", "multilinear", "pointwise", "register", "structural"]
