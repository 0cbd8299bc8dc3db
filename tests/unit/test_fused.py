"""Fused operations give the bits of the plain ones, or are not used."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

if not all(importlib.util.find_spec(name) for name in ("torch", "triton")):
    pytest.skip("PyTorch or Triton is not installed", allow_module_level=True)

INTERPRETED = """
import torch
from zeroulp import Matmul
from zeroulp.arrays import Torch
from zeroulp.arrays.fused import Triton

fused = Triton(Torch(torch.device("cpu")), fewest=1)
assert fused._draws_the_same() and fused._hashes_the_same()
for name in ("float16", "float32"):  # to bfloat16 the interpreter does not round to nearest
    assert fused._rounds_the_same(Matmul(1, 1, 1, a=name, out="float32").a_format), name
for name in ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"):
    assert fused._stores_the_same(getattr(torch, name)), name
    assert fused._sums_up_the_same(Matmul(1, 1, 1, a=name, out="float32").a_format), name
assert fused.integers(3, (0, 5), 8).tolist() == Torch(torch.device("cpu")).integers(3, (0, 5), 8).tolist()
kernels = fused._kernels
fused = Triton(Torch(torch.device("cpu")), fewest=1)
right, kernels.integers = kernels.integers, lambda out, *others: out.zero_()
assert fused.integers(3, (0, 5), 8) is None, "a kernel that draws zeros is believed"
"""


WITHOUT = """
import torch
from zeroulp import Matmul
from zeroulp.arrays import Torch
from zeroulp.arrays.fused import Triton

arrays = Torch(torch.device("cpu"))
assert arrays.fused is None
fused = Triton(arrays, fewest=1)
values = torch.ones(4, 4, dtype=torch.float16)
assert fused.integers(1, (0, 8), 8) is None
assert not fused.store(values, torch.ones(4, 4, dtype=torch.int32), 1.0, 1.0)
format_ = Matmul(1, 1, 1, a="float16").a_format
assert fused.sums(arrays.codes(values), format_, torch.ones(4, 1, dtype=torch.float64), (1.0, 1.0), None) is None
codes = torch.ones(4, 4, dtype=torch.int16)
assert fused.is_rounded(codes, format_, values.float(), torch.arange(4), (1.0, torch.ones(4).double())) is None
assert fused.chunk_sums(torch.ones(1, 65536, dtype=torch.int32), torch.ones(65536, dtype=torch.int32)) is None
"""


@pytest.mark.parametrize(("code", "interpreted"), [
    pytest.param(INTERPRETED, "1", id="pytorchs-bits-and-a-wrong-kernel-is-not-believed"),
    pytest.param(WITHOUT, "0", id="where-triton-cannot-run-pytorch-does-it"),
])
def test_fused_operations(code, interpreted):
    """In a process of its own: Triton reads the variable once. Without its interpreter it raises on this processor."""
    environment = os.environ | {"TRITON_INTERPRET": interpreted}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
