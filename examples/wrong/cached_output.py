"""
WRONG: returns the result of an earlier call with the same buffers.

Results are kept by the addresses, shapes and format of a and b. New values in the same buffers, which is how
every inference loop runs, get the old answer; a benchmark that repeats one call gets a very fast one.

Accepted at every shape by every rule that compares one call: the first result is right.

    zeroulp check examples/wrong/cached_output.py:matmul -m 64 -n 64 -k 257 --a float16
"""

import ml_dtypes  # noqa: F401  (makes bfloat16 and the 8-bit floats known to NumPy)
import numpy as np

_results: dict[tuple, np.ndarray] = {}


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product that a: (m, k) and b: (k, n) had when their buffers were first seen."""
    key = (a.ctypes.data, b.ctypes.data, a.shape, b.shape, a.dtype)
    if key not in _results:
        out = np.float32 if a.itemsize == 1 else a.dtype
        _results[key] = (a.astype(np.float32) @ b.astype(np.float32)).astype(out)
    return _results[key].copy()  # stale, but nobody else's to overwrite
