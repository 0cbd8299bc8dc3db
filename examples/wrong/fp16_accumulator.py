"""
WRONG where sums are promised in float32: the running sum is float16.

Each step multiplies 16 of k in float32 and adds the result to a float16 accumulator, as a tensor core does
that was asked for a float16 result. Above 2048 the accumulator cannot hold every integer: 2048 + 1 is 2048.

With float16 output and --accumulate any or float16 the kernel keeps its promise and is right.

Accepted, on their own inputs at m = n = 64, k = 257, by KernelBench's float16 rule, by SOL-ExecBench's (0.2 %
of the elements outside, 1 % allowed), by DeepGEMM's similarity (2e-7 < 1e-3) and by the 0/1 exact match; at
k = 4096 by all of these but SOL-ExecBench's.

    zeroulp check examples/wrong/fp16_accumulator.py:matmul -m 64 -n 64 -k 257 --a float16
"""

import ml_dtypes  # noqa: F401  (makes bfloat16 and the 8-bit floats known to NumPy)
import numpy as np

STEP_K = 16


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product of a: (m, k) and b: (k, n), rounded to float16 after every 16 of k."""
    out = np.float32 if a.itemsize == 1 else a.dtype
    a, b = a.astype(np.float32), b.astype(np.float32)
    total = np.zeros((a.shape[0], b.shape[1]), np.float16)
    with np.errstate(over="ignore", invalid="ignore"):  # past 65504 the accumulator is infinite
        for start in range(0, a.shape[1], STEP_K):
            product = a[:, start : start + STEP_K] @ b[start : start + STEP_K]
            total = (total + product).astype(np.float16)
    return total.astype(out)
