"""
A tiled NumPy matmul: correct.

Tiles run over m, n and k, the last of each as short as it has to be. Every tile product is added to a float32
accumulator (float64 for float64, int32 for int8), and one rounding, ties to even, makes the output: in the
format of a, except float32 for 8-bit and narrower floats and int32 for int8.

    zeroulp check examples/correct/numpy_tiled.py:matmul -m 64 -n 64 -k 257 --a float16
"""

from collections.abc import Iterator

import ml_dtypes  # noqa: F401  (makes bfloat16 and the 8-bit floats known to NumPy)
import numpy as np

TILE_M, TILE_N, TILE_K = 256, 256, 512


def tiles(length: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def dtypes(operand: np.dtype) -> tuple[np.dtype, np.dtype]:
    """The accumulator's format and the output's."""
    if operand == np.int8:
        return np.dtype(np.int32), np.dtype(np.int32)
    accumulator = np.dtype(np.float64 if operand == np.float64 else np.float32)
    return accumulator, (accumulator if operand.itemsize == 1 else operand)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of a: (m, k) and b: (k, n), both of one format."""
    (m, k), n = a.shape, b.shape[1]
    accumulator, out = dtypes(a.dtype)
    # int8 too: a tile's sum is at most 512 * 2**14 = 2**23, which float32 holds exactly
    multiplier = np.float64 if accumulator == np.float64 else np.float32

    c = np.empty((m, n), out)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities and NaN are results like any other
        for rows in tiles(m, TILE_M):
            for cols in tiles(n, TILE_N):
                total = np.zeros(c[rows, cols].shape, accumulator)
                for ks in tiles(k, TILE_K):
                    product = a[rows, ks].astype(multiplier) @ b[ks, cols].astype(multiplier)
                    total += product.astype(accumulator)
                c[rows, cols] = total.astype(out)
    return c
