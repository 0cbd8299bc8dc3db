"""
WRONG: never writes the last n % 16 columns of the output.

The caller passes the output array. Columns are written 16 at a time and the remainder is forgotten, so it
keeps whatever was there: zeros if the caller cleared the array, the right answer if an earlier run left it.

Accepted, on its own inputs at m = 64, n = 241, k = 257 with a cleared output, by SOL-ExecBench's rule: one
column of 241 is 0.4 % of the elements, and 1 % may be wrong. At n = 2049 DeepGEMM's similarity accepts it too
(3e-4 < 1e-3). Every rule does if the output still holds an earlier right result.

    zeroulp check examples/wrong/unwritten_tail.py:matmul -m 64 -n 65 -k 257 --a float16 --destination-passing
"""

import ml_dtypes  # noqa: F401  (makes bfloat16 and the 8-bit floats known to NumPy)
import numpy as np

VECTOR_N = 16


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Write the product of a: (m, k) and b: (k, n) to out: (m, n), up to a multiple of 16 columns."""
    written = b.shape[1] // VECTOR_N * VECTOR_N
    product = a.astype(np.float32) @ b[:, :written].astype(np.float32)
    out[:, :written] = product.astype(out.dtype)
