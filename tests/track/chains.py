"""Random chains of PyTorch operators on images, that return images of the same shape."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

SHAPE = (2, 4, 8, 8)
aten = torch.ops.aten


def _gradient(of):
    def run(x, w, i):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = of(x, w)
            return torch.autograd.grad(y, x, torch.ones_like(y))[0]

    return run


def _written(x, w, i):
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    out[:, 1:] = x[:, :-1]
    out[:, 0].copy_(x.amax(1))
    out[0] *= 2
    out.view(2, -1)[1, :5].zero_()
    return out


STEPS = {
    "conv": lambda x, w, i: F.conv2d(x, w, padding=1),
    "depthwise": lambda x, w, i: F.conv2d(x, w[:, :1], padding=2, dilation=2, groups=4),
    "strided": lambda x, w, i: F.conv_transpose2d(F.conv2d(x, w, stride=2, padding=1), w, stride=2, padding=1, output_padding=1),
    "gradient": _gradient(lambda x, w: torch.relu(F.conv2d(x, w, padding=1))),
    "pool_gradient": _gradient(lambda x, w: F.avg_pool2d(F.max_pool2d(x + w.sum() / 8, 2), 2)),
    "max_pool": lambda x, w, i: F.interpolate(F.max_pool2d(x, 2), scale_factor=2),
    "avg_pool": lambda x, w, i: F.interpolate(F.avg_pool2d(x, 2), scale_factor=2),
    "avg_pool3": lambda x, w, i: F.avg_pool2d(x * 9, 3, 1, 1),
    "cumsum": lambda x, w, i: x.cumsum(3),
    "reverse_scan": lambda x, w, i: x.flip(2).cumsum(2).flip(2),
    "channels": lambda x, w, i: torch.einsum("nchw,dc->ndhw", x, w[:, :, 1, 1]),
    "attention": lambda x, w, i: (x.flatten(1, 2) @ x.flatten(1, 2).transpose(1, 2) @ x.flatten(1, 2)).view(SHAPE),
    "scatter": lambda x, w, i: torch.zeros_like(x).index_add(3, i, x),
    "gather": lambda x, w, i: x[..., i],
    "route": lambda x, w, i: torch.where(x > x.roll(1, 3), x, -x),
    "sort": lambda x, w, i: x.sort(3)[0],
    "argmax": lambda x, w, i: x.gather(3, x.argmax(3, keepdim=True)).expand(SHAPE),
    "top": lambda x, w, i: x.topk(2, 3)[1].sum(3, keepdim=True) + x,
    "mean": lambda x, w, i: x - x.mean((2, 3), keepdim=True),
    "mean_7": lambda x, w, i: x[..., 1:].mean(3, keepdim=True) * 7 + x,
    "relu": lambda x, w, i: F.relu6(x),
    "leaky": lambda x, w, i: F.leaky_relu(x, 0.125),
    "slope": lambda x, w, i: F.leaky_relu(x, 0.01),
    "scale": lambda x, w, i: x * 3 - 0.5,
    "tenth": lambda x, w, i: x * 0.1,
    "square": lambda x, w, i: x**2,
    "cat": lambda x, w, i: torch.cat([x[:, :2] * 8, x[:, 2:] / 4], 1),
    "wide": lambda x, w, i: x.float().sum(1, keepdim=True).to(x.dtype) + x,
    "written": _written,
    "unfold": lambda x, w, i: F.fold(F.unfold(x, 3, padding=1), (8, 8), 3, padding=1),
}


def chain(seed, length):
    """Names of the steps, the reference and its operands."""
    rng = np.random.default_rng(seed)
    names = [str(name) for name in rng.choice(list(STEPS), length)]
    scale = 2.0 ** int(rng.integers(0, 4))
    x = rng.integers(-4, 5, SHAPE) * scale * (rng.random(SHAPE) < rng.choice([0.2, 1.0]))
    weights = rng.integers(-1, 2, (4, 4, 3, 3)) * (rng.random((4, 4, 3, 3)) < rng.choice([0.2, 1.0]))

    def reference(x, w, i):
        for name in names:
            x = STEPS[name](x, w, i)
        return x

    tensors = [torch.from_numpy(np.asarray(x, dtype=float)), torch.from_numpy(np.asarray(weights, dtype=float))]
    return names, reference, [*tensors, torch.from_numpy(rng.integers(0, 8, 8))]
