"""
Whether a result is right, in O(n^2), where it lies.

``fed`` reads operands and output back as integers, ``freivalds`` is the test in exact float64,
``verifier`` puts results to it and looks in full only at what is not exact; ``specials`` looks at
where NaN and infinities arrive.
"""

from zeroulp.verify.fed import Fed
from zeroulp.verify.freivalds import MISS
from zeroulp.verify.specials import reaches_as_it_should
from zeroulp.verify.verifier import WORKSPACE, Verifier

__all__ = ["MISS", "WORKSPACE", "Fed", "Verifier", "reaches_as_it_should"]
