"""
The expected bits: exact integers, rounded once.

``product`` multiplies integers exactly and checks itself; ``expected`` adds the epilogue and
rounds. Nothing here knows of kernels, and nothing of how a certificate was reached.
"""

from zeroulp.reference.expected import Expected, expected_result
from zeroulp.reference.nonfinite import with_nonfinite
from zeroulp.reference.product import exact_product
from zeroulp.reference.subnormal import with_subnormals

__all__ = ["Expected", "exact_product", "expected_result", "with_nonfinite", "with_subnormals"]
