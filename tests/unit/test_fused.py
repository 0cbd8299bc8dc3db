"""Fused operations give the bits of the plain ones, or are not used."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from zeroulp import Matmul
from zeroulp.arrays import Torch
from zeroulp.arrays.threads import spread

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

CPU = torch.device("cpu")

INTERPRETED = """
import torch
from zeroulp import Matmul
from zeroulp.arrays import Torch
from zeroulp.arrays.fused import Triton

fused = Triton(Torch(torch.device("cpu")), fewest=1)
assert fused._draws_the_same() and fused._hashes_the_same()
for name in ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"):
    assert fused._stores_the_same(getattr(torch, name)), name
    assert fused._sums_up_the_same(Matmul(1, 1, 1, a=name, out="float32").a_format), name
assert fused.integers(3, (0, 5), 8).tolist() == Torch(torch.device("cpu")).integers(3, (0, 5), 8).tolist()
kernels = fused._kernels
fused = Triton(Torch(torch.device("cpu")), fewest=1)
right, kernels.integers = kernels.integers, lambda out, *others: out.zero_()
assert fused.integers(3, (0, 5), 8) is None, "a kernel that draws zeros is believed"
"""


def test_every_kernel_gives_pytorchs_bits_and_a_wrong_one_is_not_believed():
    """In Triton's interpreter, in a process of its own: Triton reads the variable once."""
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_where_triton_cannot_run_pytorch_does_it(monkeypatch):
    """Triton has no compiler for this processor: whatever it raises, nothing of it is used."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    from zeroulp.arrays.fused import Triton

    arrays = Torch(CPU)
    assert arrays.fused is None
    fused = Triton(arrays, fewest=1)
    values = torch.ones(4, 4, dtype=torch.float16)
    assert fused.integers(1, (0, 8), 8) is None
    assert not fused.store(values, torch.ones(4, 4, dtype=torch.int32), 1.0, 1.0)
    format_ = Matmul(1, 1, 1, a="float16").a_format
    assert fused.sums(arrays.codes(values), format_, torch.ones(4, 1, dtype=torch.float64), (1.0, 1.0), None) is None
    assert fused.chunk_sums(torch.ones(1, 65536, dtype=torch.int32), torch.ones(65536, dtype=torch.int32)) is None


def test_work_is_spread_over_threads_and_comes_back_in_order(recwarn):
    with np.errstate(all="raise"):
        found = spread(lambda i: float((np.array([np.inf]) - np.array([np.inf]))[0]) if i == 3 else float(i), range(20))
    assert found[:3] == [0.0, 1.0, 2.0]
    assert np.isnan(found[3])
    assert found[4:] == [float(i) for i in range(4, 20)]
    assert not recwarn.list


def test_an_error_in_a_thread_is_an_error():
    with pytest.raises(ZeroDivisionError):
        spread(lambda i: 1 // (i - 5), range(10))
