"""
A convolution as a problem: `zeroulp check examples/conv2d.py:conv2d --problem examples/conv2d_problem.py`.

The reference is plain PyTorch. Half precision in, half precision out, sums in float32.
"""

import torch

from zeroulp import Linear, Tensor


def reference(x, weight, bias):
    return torch.nn.functional.conv2d(x, weight, bias, stride=2, padding=1)


problem = Linear(
    reference,
    [
        Tensor("x", (2, 8, 15, 15), "float16"),
        Tensor("weight", (16, 8, 3, 3), "float16", role="weight"),
        Tensor("bias", (16,), "float16", role="weight"),
    ],
    name="conv2d",
)

in_float32 = Linear(
    reference,
    [
        Tensor("x", (2, 8, 15, 15)),
        Tensor("weight", (16, 8, 3, 3), role="weight"),
        Tensor("bias", (16,), role="weight"),
    ],
    name="conv2d",
)
