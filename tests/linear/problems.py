"""Problems with kernels of other structure, and faults of their own kind."""

from __future__ import annotations

import numpy as np
import torch

from zeroulp import Linear, Tensor

F = torch.nn.functional


def conv2d(x, w, b):
    return F.conv2d(x, w, b, stride=2, padding=1)


def matmuls(x, u, v):
    return torch.relu(x @ u) + x @ v


def scan(x):
    return torch.cumsum(x, 1)


def scatter(x, i):
    return torch.zeros(7, 5).index_add(0, i, x)


def masked(x, m, s):
    return (torch.where(m, x, 0) * s).sum(0)


def mean(x):
    return (x * 3).sum(1) / 6


def total(x, y):
    return (x * y).sum()


def largest(x):
    return x.argmax(1)


CONV = Linear(conv2d, [Tensor("x", (2, 3, 9, 8)), Tensor("w", (4, 3, 3, 3), role="weight"), Tensor("b", (4,), role="weight")])
HALF_CONV = Linear(conv2d, [Tensor(t.name, t.shape, "float16", t.role) for t in CONV.tensors])
MATMULS = Linear(matmuls, [Tensor("x", (6, 10), "bf16"), Tensor("u", (10, 7), "bf16"), Tensor("v", (10, 7), "bf16")])
SCAN = Linear(scan, [Tensor("x", (3, 50))])
SCATTER = Linear(scatter, [Tensor("x", (20, 5)), Tensor("i", (20,), role="index", below=7)])
MASKED = Linear(masked, [Tensor("x", (6, 9)), Tensor("m", (6, 9), role="mask"), Tensor("s", (), role="scalar")])
MEAN = Linear(mean, [Tensor("x", (5, 12))])
TOTAL = Linear(total, [Tensor("x", (30,)), Tensor("y", (30,))])
LARGEST = Linear(largest, [Tensor("x", (8, 16))])


def im2col(x, w, b):
    columns = F.unfold(x.float(), 3, stride=2, padding=1)
    out = w.reshape(4, -1).float().flip(1) @ columns.flip(1)
    return (out.reshape(2, 4, 5, 4) + b.float()[:, None, None]).to(x.dtype)


def loops(x, w, b):
    """Tap by tap, in NumPy."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((2, 4, 5, 4), np.float32) + b[:, None, None]
    for i in (2, 0, 1):
        for j in range(3):
            window = padded[:, :, i : i + 9 : 2, j : j + 8 : 2]
            out += np.einsum("nchw,oc->nohw", window, w[:, :, i, j], optimize=False)
    return out.astype(np.float32)


def split_matmuls(x, u, v):
    first = sum(x[:, k : k + 1].double() @ u[k : k + 1].double() for k in reversed(range(10))).float()
    return (torch.relu(first).bfloat16() + (x.float() @ v.float()).bfloat16())


def scan_in_blocks(x):
    out, carry = np.empty_like(x), np.zeros((3, 1), np.float32)
    for start in range(0, 50, 16):
        block = x[:, start : start + 16]
        out[:, start : start + 16] = np.cumsum(block, 1) + carry
        carry = carry + block.sum(1, keepdims=True)
    return out


def scatter_backwards(x, i):
    out = np.zeros((7, 5), np.float32)
    np.add.at(out, i[::-1], x[::-1])
    return out


def scatter_by_matmul(x, i):
    return F.one_hot(i, 7).float().T @ x


def masked_by_products(x, m, s):
    return (x * m.float()).sum(0) * s


def mean_of_quotients(x):
    return (x / 6).sum(1) * 3


def mean_at_the_end(x):
    return x.flip(1).sum(1) * 3 / 6


def dot(x, y):
    return np.dot(x[::-1], y[::-1])


def largest_by_sorting(x):
    return torch.sort(x, 1, descending=True)[1][:, 0]


RIGHT = [
    (CONV, im2col), (CONV, loops), (CONV, conv2d), (HALF_CONV, im2col), (MATMULS, split_matmuls), (SCAN, scan_in_blocks),
    (SCATTER, scatter_backwards), (SCATTER, scatter_by_matmul), (MASKED, masked_by_products), (TOTAL, dot), (LARGEST, largest_by_sorting),
]


def no_bias(x, w, b):
    return im2col(x, w, b * 0)


def no_padding_on_the_right(x, w, b):
    out = im2col(x, w, b)
    x = x.clone()
    x[..., -1] = 0
    out[..., -1] = im2col(x, w, b)[..., -1]
    return out


def flipped_weights(x, w, b):
    return im2col(x, w.flip(2, 3), b)


def last_channel_lost(x, w, b):
    w = w.clone()
    w[:, -1] = 0
    return im2col(x, w, b)


def one_tap_lost(x, w, b):
    w = w.clone()
    w[2, 1, 1, 2] = 0
    return im2col(x, w, b)


def in_bfloat16(x, w, b):
    return im2col(x.bfloat16().float(), w, b)


def in_tf32(x, w, b):
    return im2col(x, (w.view(torch.int32) & -8192).view(torch.float32), b)


def batch_of_one(x, w, b):
    out = im2col(x, w, b)
    out[1] = out[0]
    return out


def sums_in_float16(x, w, b):
    out = torch.zeros(2, 4, 5, 4, dtype=torch.float16)
    columns = F.unfold(x, 3, stride=2, padding=1)
    flat = w.reshape(4, -1)
    for k in range(27):
        out += (flat[:, k : k + 1] * columns[:, k : k + 1, :]).reshape(2, 4, 5, 4)
    return out + b[:, None, None]


def no_relu(x, u, v):
    return (x.float() @ u.float()).bfloat16() + (x.float() @ v.float()).bfloat16()


def relu_of_both(x, u, v):
    return torch.relu(split_matmuls(x, u, v))


def carry_lost(x):
    return np.concatenate([np.cumsum(x[:, :32], 1), np.cumsum(x[:, 32:], 1)], 1)


def exclusive_scan(x):
    return np.cumsum(x, 1) - x


def duplicates_lost(x, i):
    out = np.zeros((7, 5), np.float32)
    out[i] += x
    return out


def last_row_lost(x, i):
    return scatter_backwards(*np.broadcast_arrays(x[:-1]), i[:-1])


def mask_turned(x, m, s):
    return masked_by_products(x, ~m, s)


def scalar_ignored(x, m, s):
    return masked_by_products(x, m, torch.ones(()))


def first_half(x, y):
    return np.dot(x[:29], y[:29])


def smallest(x):
    return x.argmin(1)


WRONG = [
    *((CONV, kernel) for kernel in (no_bias, no_padding_on_the_right, flipped_weights, last_channel_lost, one_tap_lost, in_bfloat16, in_tf32, batch_of_one)),
    (HALF_CONV, sums_in_float16), (MATMULS, no_relu), (MATMULS, relu_of_both), (SCAN, carry_lost), (SCAN, exclusive_scan),
    (SCATTER, duplicates_lost), (SCATTER, last_row_lost), (MASKED, mask_turned), (MASKED, scalar_ignored), (TOTAL, first_half), (LARGEST, smallest),
]
