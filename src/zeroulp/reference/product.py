"""
Exact integer products from a fast matrix multiplication that need not be believed.

Below 2^24 a float32 product of integers is exact in any order, below 2^53 a float64 one; so the
machine's BLAS gives the exact product, if it works. Whether it did is checked by Freivalds'
test in integers modulo 2^64, which uses no BLAS; if not, the integers are multiplied plainly.

References:
    R. Freivalds, *Probabilistic machines can use less running time*, IFIP 1977.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp.draw import Stream, fresh_seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.encoding import Array


def exact_product(a: Array, b: Array, bound: int) -> NDArray[np.int64]:
    """
    The matrix product of integers, exactly.

    Args:
        a: (..., m, k) integers.
        b: (..., k, n) integers.
        bound: At least the largest sum of |terms| of any output; below 2^63.

    Returns:
        (..., m, n) int64.

    Exactness:
        Every partial sum is an integer of modulus at most *bound*, hence representable in
        float32 (up to 2^24) or float64 (up to 2^53); beyond, int64 arithmetic is exact as it is.
    """
    if bound > 2**53 or a.shape[-1] == 0:
        return plain_product(a, b)
    work = np.float32 if bound <= 2**24 else np.float64
    fast = np.matmul(a.astype(work), b.astype(work))
    if not (np.abs(fast) <= bound).all():  # NaN too
        return plain_product(a, b)
    product = fast.astype(np.int64)
    return product if is_product(product, a, b) else plain_product(a, b)


def is_product(product: NDArray[np.int64], a: Array, b: Array) -> bool:
    """
    Whether ``product == a @ b`` modulo 2^64, by Freivalds' test with two random vectors.

    A product that differs by less than 2^t in some entry escapes with probability at most
    2^-(64 - t) per vector: 2^-76 in all for entries below 2^26.
    """
    stream = Stream(fresh_seed())
    columns = product.shape[-1]
    words = stream.words(4 * columns).astype(np.uint64).reshape(2, columns, 2)
    vectors = ((words[0] << np.uint64(32)) | words[1]).view(np.int64)
    with np.errstate(over="ignore"):
        left = np.matmul(product, vectors)
        right = np.matmul(a.astype(np.int64), np.matmul(b.astype(np.int64), vectors))
    return bool(np.array_equal(left, right))


def plain_product(a: Array, b: Array) -> NDArray[np.int64]:
    """The product in int64, which numpy multiplies without BLAS."""
    result: NDArray[np.int64] = np.matmul(a.astype(np.int64), b.astype(np.int64))
    return result
