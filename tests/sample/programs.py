"""Programs that can be exact from end to end: (name, reference, operands)."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from zeroulp.problem import Tensor as T


def weights(*shapes):
    return [T(f"w{i}", shape, role="weight") for i, shape in enumerate(shapes)]


def perceptron(x, w, b, v, c):
    return F.linear(torch.relu(F.linear(x, w, b)), v, c)


def deep(x, *layers):
    for w in layers:
        x = torch.relu(x @ w.T)
    return x


def plain_chain(x, *layers):
    for w in layers:
        x = x @ w.T
    return x


def network(x, w, b, v):
    x = F.max_pool2d(torch.relu(F.conv2d(x, w, b, padding=1)), 2)
    return F.conv2d(x, v, padding=1).mean((2, 3))


def linear_attention(q, k, v):
    return (q @ k.transpose(-1, -2)).tril() @ v


def masked_sum(x, keep):
    return torch.where(keep, x, torch.zeros_like(x)).cumsum(1)


PROGRAMS = [
    ("matmul", torch.matmul, [T("a", (12, 40)), T("b", (40, 9))]),
    ("long matmul", torch.matmul, [T("a", (3, 40_000)), T("b", (40_000, 2))]),
    ("conv", lambda x, w, b: F.conv2d(x, w, b, stride=2), [T("x", (2, 6, 9, 9)), *weights((8, 6, 3, 3), (8,))]),
    ("transposed conv", lambda x, w: F.conv_transpose1d(x, w, stride=2), [T("x", (2, 6, 15)), *weights((6, 4, 3))]),
    ("perceptron", perceptron, [T("x", (8, 24)), *weights((32, 24), (32,), (10, 32), (10,))]),
    ("eight layers and relu", deep, [T("x", (8, 64)), *weights(*[(64, 64)] * 8)]),
    ("eight layers", plain_chain, [T("x", (8, 64)), *weights(*[(64, 64)] * 8)]),
    ("network", network, [T("x", (2, 3, 14, 14)), *weights((8, 3, 3, 3), (8,), (6, 8, 3, 3))]),
    ("max pool", lambda x: F.max_pool2d(x, 3), [T("x", (2, 3, 12, 12))]),
    ("average pool 3 x 3", lambda x: F.avg_pool2d(x, 3), [T("x", (2, 3, 12, 12))]),
    ("average pool 11 x 11", lambda x: F.avg_pool2d(x, 11), [T("x", (2, 3, 33, 33))]),
    ("mean over 100", lambda x: x.mean(1), [T("x", (6, 100))]),
    ("cumsum", lambda x: x.cumsum(1), [T("x", (4, 500))]),
    ("cumprod", lambda x: x.cumprod(1), [T("x", (4, 500))]),
    ("argmax", lambda x: x.argmax(1), [T("x", (4, 200, 3))]),
    ("sort", lambda x: x.sort(1), [T("x", (4, 200))]),
    ("top 5", lambda x: x.topk(5, 1), [T("x", (4, 200))]),
    ("masked sum", masked_sum, [T("x", (4, 50)), T("keep", (4, 50), role="mask")]),
    ("scaled", lambda x, s: x * s + 1, [T("x", (4, 50)), T("s", (), role="scalar")]),
    (
        "scatter-add",
        lambda x, i: torch.zeros(20, 6, dtype=x.dtype).index_add(0, i, x),
        [T("x", (50, 6)), T("i", (50,), role="index", below=20)],
    ),
    (
        "scatter without duplicates",
        lambda x, i: torch.zeros(20, 6, dtype=x.dtype).scatter(0, i, x),
        [T("x", (15, 6)), T("i", (15, 6), role="index", below=20)],
    ),
    ("embedding", lambda i, w: w[i], [T("i", (30,), role="index", below=20), *weights((20, 6))]),
    ("linear attention", linear_attention, [T(n, (2, 16, 8)) for n in "qkv"]),
    ("leaky relu", lambda x: F.leaky_relu(x, 0.01), [T("x", (4, 50))]),
    ("leaky relu and matmul", lambda x, w, v: F.leaky_relu(x @ w, 0.2) @ v,
     [T("x", (8, 24)), *weights((24, 24), (24, 5))]),
]
