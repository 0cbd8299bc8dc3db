"""Convolutions, tap by tap and as matrix products."""

from __future__ import annotations

import itertools

import numpy as np

from tests.problems.case import Case, after, before, put
from zeroulp.problems import Conv


def taps(w):
    return reversed(list(itertools.product(*(range(k) for k in w.shape[2:]))))


def window(tap, extents, stride, dilation):
    return (..., *(slice(d * i, d * i + s * (n - 1) + 1, s) for i, n, s, d in zip(tap, extents, stride, dilation)))


def padded(x, padding):
    return np.pad(np.asarray(x, np.float32), [(0, 0), (0, 0), *((p, p) for p in padding)])


def shape_of(x, w, stride, padding, dilation):
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(x.shape[2:], w.shape[2:], stride, padding, dilation)]


def sizes(axes, stride=1, padding=0, dilation=1, groups=1):
    each = lambda value: [value] * axes if isinstance(value, int) else list(value)
    return each(stride), each(padding), each(dilation), groups


def by_taps(axes, **options):
    """Scaled and shifted inputs, last tap first."""
    stride, padding, dilation, groups = sizes(axes, **options)

    def kernel(x, w, b=None):
        extents, wide = shape_of(x, w, stride, padding, dilation), padded(x, padding)
        out = np.zeros((len(x), len(w), *extents), np.float32)
        for g, (xs, ws) in enumerate(zip(np.split(wide, groups, 1), np.split(w.astype(np.float32), groups))):
            part = out[:, g * len(ws) : (g + 1) * len(ws)]
            for tap in taps(w):
                part += np.einsum("nc...,oc->no...", xs[window(tap, extents, stride, dilation)], ws[(..., *tap)])
        if b is not None:
            out += b.astype(np.float32).reshape(-1, *[1] * axes)
        return out.astype(x.dtype)

    return kernel


def im2col(axes, **options):
    """One matrix product for each group, of columns that are copied together."""
    stride, padding, dilation, groups = sizes(axes, **options)

    def kernel(x, w, b=None):
        extents, wide = shape_of(x, w, stride, padding, dilation), padded(x, padding)
        columns = np.stack([wide[window(tap, extents, stride, dilation)] for tap in itertools.product(*map(range, w.shape[2:]))], 2)
        columns = columns.reshape(len(x), groups, -1, int(np.prod(extents)))
        out = w.astype(np.float32).reshape(groups, len(w) // groups, -1) @ columns
        out = out.reshape(len(x), len(w), *extents)
        return (out if b is None else out + b.astype(np.float32).reshape(-1, *[1] * axes)).astype(x.dtype)

    return kernel


def scattered(shape, axes, **options):
    """The input gradient of a convolution, and the transposed convolution: every element adds to what it came from."""
    stride, padding, dilation, groups = sizes(axes, **options)

    def kernel(grad, w, b=None):
        wide = np.zeros((len(grad), shape[1], *(n + 2 * p for n, p in zip(shape[2:], padding))), np.float32)
        inner = shape[1] // groups
        for g, (gs, ws) in enumerate(zip(np.split(grad, groups, 1), np.split(w, groups))):
            part = wide[:, g * inner : (g + 1) * inner]
            for tap in taps(w):
                part[window(tap, grad.shape[2:], stride, dilation)] += np.einsum("no...,oc->nc...", gs, ws[(..., *tap)])
        out = wide[(..., *(slice(p, p + n) for p, n in zip(padding, shape[2:])))]
        return np.ascontiguousarray(out if b is None else out + b.reshape(-1, *[1] * axes))

    return kernel


def correlated(shape, axes, **options):
    """The weight gradient: one number after the other."""
    stride, padding, dilation, groups = sizes(axes, **options)

    def kernel(grad, x):
        wide, out = padded(x, padding), np.zeros(shape, np.float32)
        for g, (xs, gs) in enumerate(zip(np.split(wide, groups, 1), np.split(grad, groups, 1))):
            for tap in taps(out):
                seen = xs[window(tap, grad.shape[2:], stride, dilation)]
                product = gs[::-1].swapaxes(0, 1).reshape(gs.shape[1], -1) @ seen[::-1].swapaxes(0, 1).reshape(xs.shape[1], -1).T
                out[(slice(g * gs.shape[1], (g + 1) * gs.shape[1]), slice(None), *tap)] = product
        return out

    return kernel


def case(x, w, wrong, **options):
    extra = {key: options.pop(key) for key in ("bias", "format") if key in options}
    axes = len(w) - 2
    right = {"taps": by_taps(axes, **options), "im2col": im2col(axes, **options)}
    return Case(Conv(x, w, **options, **extra), right, wrong(right["taps"], right["im2col"]))


FIRST = lambda x: np.roll(x, 1, 1)

CASES = [
    case((2, 4, 9), (6, 4, 3), stride=2, padding=1, bias=True, wrong=lambda taps, cols: {
        "padding off by one": before(taps, x0=lambda x: np.roll(x, 1, 2)),
        "convolution instead of correlation": before(taps, x1=lambda w: w[..., ::-1]),
        "bias missing": before(cols, x2=lambda b: b * 0),
        "bias of another channel": before(cols, x2=lambda b: np.roll(b, 1)),
        "bias twice": before(cols, x2=lambda b: b * 2),
        "last channel left out": before(cols, x0=put(0, slice(None), -1)),
        "batch of one": after(taps, lambda out: out[[0, 0]]),
        "weight in bfloat16": before(taps, x1=lambda w: (w.view(np.int32) & -65536).view(np.float32)),
    }),
    case((2, 6, 8, 7), (4, 3, 3, 3), padding=2, dilation=2, groups=2, wrong=lambda taps, cols: {
        "dilation ignored": lambda x, w: by_taps(2, padding=1, groups=2)(x, w),
        "groups mixed": before(taps, x0=lambda x: x[:, [0, 2, 4, 1, 3, 5]]),
        "groups exchanged": before(taps, x0=lambda x: np.roll(x, 3, 1)),
        "last tap left out": before(cols, x1=put(0, ..., -1, -1)),
        "height and width exchanged": before(cols, x1=lambda w: np.ascontiguousarray(w.swapaxes(2, 3))),
        "last row of the tile left out": after(cols, put(0, ..., -1, slice(None))),
        "edge repeated instead of zeros": lambda x, w: by_taps(2, dilation=2, groups=2)(np.pad(x, [(0, 0)] * 2 + [(2, 2)] * 2, "edge"), w),
    }),
    case((1, 5, 7, 7), (5, 1, 3, 3), padding=1, groups=5, format="float16", wrong=lambda taps, cols: {
        "one weight for all channels": before(taps, x1=lambda w: w[[0] * 5]),
        "next channel": before(taps, x0=FIRST),
        "padding of one side only": before(cols, x0=put(0, ..., 0)),
        "rows and columns exchanged": before(cols, x1=lambda w: np.ascontiguousarray(w.swapaxes(2, 3))),
        "centre left out": before(cols, x1=put(0, ..., 1, 1)),
    }),
    case((2, 2, 5, 4, 5), (3, 2, 2, 3, 2), stride=(1, 2, 1), padding=(1, 1, 0), wrong=lambda taps, cols: {
        "depth reversed": before(taps, x0=lambda x: x[:, :, ::-1]),
        "stride begins one later": before(taps, x0=lambda x: np.roll(x, -1, 3)),
        "last tap left out": before(cols, x1=put(0, ..., -1)),
        "channels exchanged": before(cols, x1=FIRST),
        "last output channel left out": after(cols, put(0, slice(None), -1)),
    }),
]


def transposed(x, w, out, wrong, **options):
    axes = len(w) - 2
    plain = {key: value for key, value in options.items() if key != "output_padding"}
    kernel = scattered(out, axes, **plain)
    return Case(Conv(x, w, transposed=True, bias=True, **options), {"scattered": kernel}, wrong(kernel))


CASES += [
    transposed((2, 4, 5, 4), (4, 3, 3, 3), (2, 6, 10, 8), stride=2, padding=1, output_padding=1, groups=2, wrong=lambda kernel: {
        "not flipped": before(kernel, x1=lambda w: w[..., ::-1, ::-1]),
        "padding off by one": after(kernel, lambda out: np.roll(out, 1, 3)),
        "groups exchanged": before(kernel, x0=lambda x: np.roll(x, 2, 1)),
        "output padding left out": after(kernel, put(0, ..., -1)),
        "overlap overwritten": lambda x, w, b: scattered((2, 6, 10, 8), 2, stride=2, padding=1, groups=2)(x, put(0, ..., 2)(w.copy()), b),
        "bias missing": before(kernel, x2=lambda b: b * 0),
    }),
]

WIDE = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
X, W, GRAD = (2, 4, 7, 8), (6, 2, 3, 3), (2, 6, 4, 4)
TO_X, TO_W = scattered(X, 2, **WIDE), correlated(W, 2, **WIDE)
CASES += [
    Case(Conv(X, W, gradient="x", **WIDE), {"scattered": TO_X}, {
        "weight not transposed": before(TO_X, x1=lambda w: w.reshape(2, 6, 3, 3).swapaxes(0, 1).reshape(6, 2, 3, 3)),
        "weight not flipped": before(TO_X, x1=lambda w: w[..., ::-1, ::-1]),
        "groups exchanged": before(TO_X, x0=lambda g: np.roll(g, 3, 1)),
        "last tap left out": before(TO_X, x1=put(0, ..., 2, 2)),
        "rows that only the padding sees": after(TO_X, put(0, ..., 0, slice(None))),
        "overlaps divided by the count": after(TO_X, lambda out: out / 2),
    }),
    Case(Conv(X, W, gradient="w", **WIDE), {"correlated": TO_W}, {
        "one image of the batch left out": before(TO_W, x0=put(0, -1)),
        "flipped": after(TO_W, lambda out: np.ascontiguousarray(out[..., ::-1, ::-1])),
        "groups exchanged": before(TO_W, x1=lambda x: np.roll(x, 2, 1)),
        "mean over the batch": after(TO_W, lambda out: out / 2),
        "last column left out": before(TO_W, x0=put(0, ..., -1)),
        "padding off by one": before(TO_W, x1=lambda x: np.roll(x, 1, 3)),
    }),
]
