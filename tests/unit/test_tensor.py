"""Operands of kernels that are given by a reference."""

from __future__ import annotations

import pytest

from zeroulp.errors import UsageError
from zeroulp.problem.tensor import Tensor


def test_what_is_left_out_is_plain():
    tensor = Tensor("x", [2, 3])
    assert (tensor.shape, tensor.size, tensor.format, tensor.role) == ((2, 3), 6, "float32", "input")
    assert Tensor("x", (1,), "bf16").format == "bfloat16"
    assert Tensor("mask", (4,), role="mask").format == "bool"
    assert Tensor("i", (4,), role="index", below=9).format == "int64"
    assert Tensor("i", (4,), "int32", role="index", below=9).number_format is None
    assert Tensor("s", (), "float16", role="scalar").number_format.bits == 16


@pytest.mark.parametrize("arguments", [
    {"shape": (2, -1)}, {"shape": (2.5,)}, {"shape": 3}, {"shape": (2,), "role": "output"}, {"shape": (2,), "format": "float17"},
    {"shape": (2,), "role": "index"}, {"shape": (2,), "role": "index", "below": 0}, {"shape": (2,), "below": 3},
    {"shape": (4,), "role": "index", "below": 3, "distinct": True}, {"shape": (2,), "role": "scalar"}, {"shape": (2,), "distinct": True},
])
def test_a_contradiction_is_one_clear_error(arguments):
    with pytest.raises(UsageError):
        Tensor("x", **arguments)
