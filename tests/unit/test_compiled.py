"""Numba's operations give numpy's bits, or are not used."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from zeroulp import Matmul
from zeroulp.arrays import HOST
from zeroulp.arrays.compiled import Compiled
from zeroulp.encoding import bits_of, storage_dtype

WITHOUT = """
import numpy as np, sys
from zeroulp import Matmul, check
from zeroulp.arrays import HOST
from zeroulp.arrays.host_fused import HostFused
assert type(HOST.fused) is HostFused and HOST.block_elements == 1 << 16
report = check(lambda a, b: (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype), Matmul(512, 512, 64, a="float16"))
assert report.verdict.value == "CORRECT"
assert "numba" not in sys.modules
"""


@pytest.fixture
def compiled():
    pytest.importorskip("numba")
    return Compiled(HOST, fewest=1)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2"])
def test_its_own_trials_pass(compiled, name):
    """Else numpy would do everything, unseen."""
    format_ = Matmul(1, 1, 1, a=name, out="float32").a_format
    assert compiled._trials.draw() and compiled._trials.hash()
    assert compiled._trials.sum_up(format_)
    if not name.startswith("float8"):
        assert compiled._trials.store(storage_dtype(format_))
        assert compiled._trials.round(format_)


@pytest.mark.parametrize("operation", ["words", "below", "store", "sums", "is_rounded", "chunk_sums"])
def test_a_wrong_operation_is_not_believed(compiled, operation, monkeypatch):
    answers = {"words": np.zeros(9, np.uint32), "below": np.zeros(9, np.int32), "store": True, "is_rounded": True}
    answers |= {"sums": (np.zeros((4, 1)), None), "chunk_sums": np.zeros(1, np.uint64)}
    monkeypatch.setattr(type(compiled._operations), operation, lambda *_, **__: answers[operation])
    values = np.ones((4, 4), np.float16)
    called = {
        "words": lambda: compiled.words(3, 0, 9),
        "below": lambda: compiled.below(np.ones(9, np.uint32), 8),
        "store": lambda: compiled._is_trusted("store", "float16", values.dtype) or None,
        "sums": lambda: compiled.sums(bits_of(values), Matmul(1, 1, 1, a="float16").a_format, np.ones((4, 1)), (1.0, 1.0), None),
        "is_rounded": lambda: compiled.is_rounded(
            bits_of(values), Matmul(1, 1, 1, a="float16").a_format, np.ones((4, 1)), np.zeros(4, np.int32), (1.0, np.ones(4))
        ),
        "chunk_sums": lambda: compiled.chunk_sums(np.ones((1, 8), np.uint32), np.ones(8, np.uint32)),
    }
    assert called[operation]() is None


def test_strides_that_are_not_for_it_are_left_to_numpy(compiled):
    values = np.arange(1.0, 25).reshape(4, 6).astype(np.float16)
    format_ = Matmul(1, 1, 1, a="float16").a_format
    for view in (values[:, ::2], values[::-1], values[:, ::-1], values[:0]):
        assert compiled.sums(bits_of(view), format_, np.ones((view.shape[1], 2)), (1.0, 1.0), None) is None
    for view in (values, values.T, values[::2], values.T[1:, :3], values[1:2], values[:, 1:2]):
        found, off = compiled.sums(bits_of(view), format_, np.ones((view.shape[1], 2)), (1.0, 1.0), 100)
        assert np.array_equal(found, view.astype(float) @ np.ones((view.shape[1], 2)))
        assert not off.any()


def test_a_processor_that_takes_subnormal_numbers_for_zero_is_left_to_numpy(compiled, monkeypatch):
    from zeroulp.arrays import numba_kernels

    format_, codes = Matmul(1, 1, 1, a="float16").a_format, bits_of(np.ones((4, 4), np.float16))
    assert compiled.sums(codes, format_, np.ones((4, 1)), (1.0, 1.0), None) is not None
    monkeypatch.setattr(numba_kernels, "keeps_subnormals", lambda _: False)
    assert compiled.sums(codes, format_, np.ones((4, 1)), (1.0, 1.0), None) is None


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="Numba is not installed")
def test_large_problems_use_it_and_small_ones_do_not_import_it():
    code = """
import sys, numpy as np
from zeroulp import Matmul, check
from zeroulp.arrays import HOST
kernel = lambda a, b: (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
assert check(kernel, Matmul(64, 64, 64, a="float16")).verdict.value == "CORRECT"
assert "numba" not in sys.modules
assert check(kernel, Matmul(512, 8, 512, a="float16"), probes=["signed"], trials=1).verdict.value == "CORRECT"
assert HOST.fused._trusted["draw", ""] and HOST.fused._trusted["sum_up", "float16"]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_told_not_to_compile_numpy_does_it():
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", WITHOUT], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
