"""
A convolution with stride 2 and padding 1 as one matrix product, and two ways to get it wrong.

The problem that they are to solve stands in conv2d_problem.py.
"""

import torch


def columns(x):
    """The 3 x 3 windows of x, one column each."""
    return torch.nn.functional.unfold(x.float(), 3, stride=2, padding=1)


def conv2d(x, weight, bias):
    """Right: the products of each window in another order than PyTorch's."""
    out = weight.float().reshape(16, -1).flip(1) @ columns(x).flip(1)
    return (out.reshape(2, 16, 8, 8) + bias.float()[:, None, None]).half()


def corner_lost(x, weight, bias):
    """Wrong: the last window of the last image reads zeros in place of its first pixel."""
    x = x.clone()
    x[-1, :, -2, -2] = 0
    return conv2d(x, weight, bias)


def rounded_twice(x, weight, bias):
    """Wrong: the sum is rounded to float16 before the bias is added."""
    out = weight.float().reshape(16, -1) @ columns(x)
    return out.half().reshape(2, 16, 8, 8) + bias[:, None, None]
