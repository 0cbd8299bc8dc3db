"""Triton's kernels on the device: the bits of PyTorch's own operations, at shapes that end within a block."""

from __future__ import annotations

import pytest

from zeroulp import Matmul

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def fused():
    pytest.importorskip("triton")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    from zeroulp.arrays import Torch

    found = Torch(torch.device("cuda", 0)).fused
    assert found is not None
    return found


def test_numbers_and_fingerprints(fused):
    assert fused._draws_the_same()
    assert fused._hashes_the_same()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_rounding(fused, name):
    assert fused._rounds_the_same(Matmul(1, 1, 1, a=name, out="float32").a_format)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"])
def test_stores_and_sums(fused, name):
    assert fused._stores_the_same(getattr(torch, name))
    assert fused._sums_up_the_same(Matmul(1, 1, 1, a=name, out="float32").a_format)


@pytest.mark.parametrize("shape", [(4097, 1031), (3, 70001), (70001, 3)])
def test_sums_of_any_shape(fused, shape):
    arrays, format_ = fused._arrays, Matmul(1, 1, 1, a="float16").a_format
    values = arrays.integers_plainly(1, (0, shape[0] * shape[1]), 2048, signed=True).reshape(shape).to(torch.float16)
    vectors = arrays.integers_plainly(2, (0, shape[1] * 3), 1 << 20, signed=True).reshape(-1, 3).to(torch.float64)
    wanted = values.to(torch.float64) @ vectors
    found, off = fused.sums(arrays.codes(values), format_, vectors, (1.0, 1.0), 1024)
    assert torch.equal(found, wanted)
    assert not off.any()
    values[-1, -1] = 0.5
    assert fused.sums(arrays.codes(values), format_, vectors, (1.0, 1.0), 1024)[1].tolist()[-1]
