"""
The expected bits: exact integers, rounded once.

The product comes from whatever multiplies fast and is verified before it is believed; no kernel
is called here, and no certificate is questioned.
"""

from zeroulp.reference.expected import Expected, expected_result
from zeroulp.reference.fed import Fed
from zeroulp.reference.nonfinite import with_nonfinite
from zeroulp.reference.product import exact_product
from zeroulp.reference.verify import WORKSPACE, Verifier

__all__ = ["WORKSPACE", "Expected", "Fed", "Verifier", "exact_product", "expected_result", "with_nonfinite"]
