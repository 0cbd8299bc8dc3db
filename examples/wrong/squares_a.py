"""
WRONG: computes (a * a) @ b.

The first operand is squared on the way in, say by an epilogue that was fused on the wrong side. On 0 and 1 a
square changes nothing, so no test on such inputs can notice.

Accepted by the 0/1 exact match at every shape. The tolerance rules reject it: their inputs are not 0 and 1.

    zeroulp check examples/wrong/squares_a.py:matmul -m 64 -n 64 -k 257 --a float16
"""

import ml_dtypes  # noqa: F401  (makes bfloat16 and the 8-bit floats known to NumPy)
import numpy as np


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of a * a: (m, k) and b: (k, n)."""
    out = np.float32 if a.itemsize == 1 else a.dtype
    a, b = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return ((a * a) @ b).astype(out)
