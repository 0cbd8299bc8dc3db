"""
WRONG: loses the last product of each sum when k is not a multiple of 8.

k is cut into vectors of 8 and a remainder. The loop over the remainder ends one step early, an ordinary slip
between "last index" and "one past it".

Accepted, on their own inputs at m = n = 64, k = 1025, by KernelBench's float16 rule (the lost product is at
most 1, the tolerance 1e-2 of a sum near 256) and by DeepGEMM's similarity (4e-4 < 1e-3).

    zeroulp check examples/wrong/last_k_dropped.py:matmul -m 64 -n 64 -k 257 --a float16
"""

import ml_dtypes  # noqa: F401  (makes bfloat16 and the 8-bit floats known to NumPy)
import numpy as np

VECTOR = 8


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of a: (m, k) and b: (k, n), less a[:, k - 1] * b[k - 1, :] when k is ragged."""
    out = np.float32 if a.itemsize == 1 else a.dtype
    a, b = a.astype(np.float32), b.astype(np.float32)
    k = a.shape[1]
    whole = k - k % VECTOR
    total = a[:, :whole] @ b[:whole]
    for p in range(whole, k - 1):  # should end at k
        total += np.outer(a[:, p], b[p])
    return total.astype(out)
