"""
WRONG: multiplies the last k tile of a by the tile of b before it.

k is walked in tiles of 16. The buffer that holds the tile of b is filled one step ahead, and the last fill is
missing, so the last product meets the tile that is still there: a double buffer with one wait too few.

Accepted, on its own inputs at m = n = 64, k = 4096, by KernelBench's float16 rule: with entries from U(0, 1)
the wrong tile changes a sum near 1024 by about 1, and the tolerance there is 10.

    zeroulp check examples/wrong/stale_k_tile.py:matmul -m 64 -n 64 -k 257 --a float16
"""

import ml_dtypes  # noqa: F401  (makes bfloat16 and the 8-bit floats known to NumPy)
import numpy as np

TILE_K = 16


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of a: (m, k) and b: (k, n), right only up to one k tile."""
    out = np.float32 if a.itemsize == 1 else a.dtype
    a, b = a.astype(np.float32), b.astype(np.float32)
    k = a.shape[1]
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    b_tile = b[:TILE_K]
    for start in range(0, k, TILE_K):
        a_tile = a[:, start : start + TILE_K]
        total += a_tile @ b_tile[: a_tile.shape[1]]
        if start + 2 * TILE_K < k:  # should be start + TILE_K < k
            b_tile = b[start + TILE_K : start + 2 * TILE_K]
    return total.astype(out)
