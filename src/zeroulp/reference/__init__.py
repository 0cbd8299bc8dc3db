"""
The expected bits: exact integers, rounded once.

``product`` multiplies integers exactly and checks itself; ``expected`` adds the epilogue and
rounds; ``bounded`` gives two numbers between which every correct kernel lies, where its bits are
not determined. Nothing here knows of kernels, and nothing of how a certificate was reached.
"""

from zeroulp.reference.bounded import bounded_result
from zeroulp.reference.expected import Expected, expected_of_total, expected_result
from zeroulp.reference.nonfinite import rows_within_a_tile, with_nonfinite
from zeroulp.reference.product import exact_product, plain_product
from zeroulp.reference.subnormal import with_subnormals

__all__ = [
    "Expected",
    "bounded_result",
    "exact_product",
    "expected_of_total",
    "expected_result",
    "plain_product",
    "rows_within_a_tile",
    "with_nonfinite",
    "with_subnormals",
]
