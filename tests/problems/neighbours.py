"""Pooling and stencils, element by element and as sums of shifted inputs."""

from __future__ import annotations

import itertools

import numpy as np

from tests.problems.case import Case, after, before, put
from zeroulp.problems import Pool, Stencil

F4 = np.float32


def windows(x, window, stride, padding, fill):
    """All windows, as (batch, channels, extents, taps), the last tap first."""
    wide = np.pad(np.asarray(x, F4), [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=fill)
    extents = [(n - k) // s + 1 for n, k, s in zip(wide.shape[2:], window, stride)]
    taps = list(itertools.product(*map(range, window)))[::-1]
    return np.stack([wide[(..., *(slice(i, i + s * (n - 1) + 1, s) for i, n, s in zip(tap, extents, stride)))] for tap in taps], -1)


def largest(window, stride, padding):
    return lambda x: windows(x, window, stride, padding, -np.inf).max(-1).astype(x.dtype)


def average(window, stride, padding, count=None):
    def kernel(x):
        seen = windows(x, window, stride, padding, 0)
        total = np.zeros(seen.shape[:-1], F4)
        for tap in range(seen.shape[-1]):
            total += seen[..., tap]
        return (total * F4(1 / (count or seen.shape[-1]))).astype(x.dtype)

    return kernel


def places(x, window, stride, padding):
    """For every window the number of its largest element in the padded input, flat."""
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=-np.inf)
    numbers = np.arange(wide[0, 0].size, dtype=F4).reshape(1, 1, *wide.shape[2:])
    none = [0] * len(window)
    at = windows(np.broadcast_to(numbers, wide.shape), window, stride, none, 0).astype(int)
    return np.take_along_axis(at, windows(wide, window, stride, none, 0).argmax(-1)[..., None], -1)[..., 0], wide.shape


def back(window, stride, padding, lost=False):
    def kernel(grad, x):
        at, shape = places(x, window, stride, padding)
        out = np.zeros((*shape[:2], int(np.prod(shape[2:]))), F4)
        for n, c in itertools.product(*map(range, shape[:2])):
            if lost:
                out[n, c, at[n, c].ravel()] += grad[n, c].ravel()
            else:
                np.add.at(out[n, c], at[n, c].ravel()[::-1], grad[n, c].ravel()[::-1])
        inside = tuple(slice(p, n - p) for p, n in zip(padding, shape[2:]))
        return np.ascontiguousarray(out.reshape(shape)[(..., *inside)])

    return kernel


def spread(shape, window, stride, padding):
    """The gradient of an average."""

    def kernel(grad):
        wide = np.zeros((*shape[:2], *(n + 2 * p for n, p in zip(shape[2:], padding))), F4)
        for tap in itertools.product(*map(range, window)):
            wide[(..., *(slice(i, i + s * (n - 1) + 1, s) for i, n, s in zip(tap, grad.shape[2:], stride)))] += grad / F4(np.prod(window))
        return np.ascontiguousarray(wide[(..., *(slice(p, p + n) for p, n in zip(padding, shape[2:])))])

    return kernel


FIVE = {(0, 0): -4, (0, 1): 1, (0, -1): 1, (1, 0): 1, (-1, 0): 1}
SKEW = {(0,): 0.5, (1,): 2, (-2,): -1}


def rolled(taps, steps=1):
    def kernel(x):
        for _ in range(steps):
            x = sum(F4(factor) * np.roll(x, [-o for o in offset], range(x.ndim)) for offset, factor in reversed(taps.items()))
        return x.astype(F4)

    return kernel


def loops(taps, steps=1, periodic=False):
    def kernel(x):
        for _ in range(steps):
            out = np.zeros(x.shape, F4)
            for place in np.ndindex(x.shape):
                for offset, factor in taps.items():
                    at = tuple(p + o for p, o in zip(place, offset))
                    if periodic or all(0 <= i < n for i, n in zip(at, x.shape)):
                        out[place] += F4(factor) * x[tuple(i % n for i, n in zip(at, x.shape))]
            x = out
        return x

    return kernel


def matrix(taps):
    """As one product with a matrix that has the taps."""

    def kernel(x):
        columns = loops(taps)
        m = np.stack([columns(unit.reshape(x.shape)).ravel() for unit in np.eye(x.size, dtype=F4)], 1)
        return (m @ x.ravel()).reshape(x.shape)

    return kernel


MAX, TWO = largest((3, 2), (2, 2), (1, 0)), average((2, 2), (2, 2), (0, 0))
BACK, TO = back((3,), (2,), (1,)), spread((2, 3, 6, 7), (2, 2), (1, 2), (1, 0))
FLAT, ROUND = loops(FIVE), rolled(SKEW, 2)
CASES = [
    Case(Pool((2, 3, 9, 8), (3, 2), stride=(2, 2), padding=(1, 0)), {"windows": MAX, "twice": lambda x: largest((1, 2), (1, 2), (0, 0))(largest((3, 1), (2, 1), (1, 0))(x))}, {
        "padding with zeros": lambda x: windows(x, (3, 2), (2, 2), (1, 0), 0).max(-1),
        "padding off by one": before(MAX, x0=lambda x: np.roll(x, 1, 2)),
        "window too small": lambda x: windows(x, (3, 2), (2, 2), (1, 0), -np.inf)[..., 1:].max(-1),
        "starts at zero": after(MAX, lambda out: np.maximum(out, 0)),
        "average": lambda x: average((3, 2), (2, 2), (1, 0))(x),
        "last row left out": after(MAX, put(0, ..., -1, slice(None))),
        "channels exchanged": before(MAX, x0=lambda x: np.roll(x, 1, 1)),
    }),
    Case(Pool((2, 3, 6, 8), (2, 2), kind="average", format="float16"), {"taps": TWO, "twice": lambda x: (x.astype(F4).reshape(2, 3, 3, 2, 4, 2).mean((5, 3))).astype(x.dtype)}, {
        "sum": after(TWO, lambda out: out * np.float16(4)),
        "rows and columns exchanged": lambda x: TWO(np.ascontiguousarray(x.reshape(2, 3, 8, 6).swapaxes(2, 3))),
        "count off by one": average((2, 2), (2, 2), (0, 0), 3),
        "max": largest((2, 2), (2, 2), (0, 0)),
        "last column left out": before(TWO, x0=put(0, ..., -1)),
        "stride of one": lambda x: average((2, 2), (1, 1), (0, 0))(x)[..., :3, :4].copy(),
    }),
    Case(Pool((1, 2, 4, 5, 6), (2, 2, 1), kind="average", stride=(1, 2, 2), padding=(1, 0, 0)), {"taps": average((2, 2, 1), (1, 2, 2), (1, 0, 0))}, {
        "padding not counted": after(average((2, 2, 1), (1, 2, 2), (1, 0, 0)), lambda out: out * np.array([2, 1, 1, 1, 2], F4)[:, None, None]),
        "depth off by one": lambda x: average((2, 2, 1), (1, 2, 2), (1, 0, 0))(np.roll(x, 1, 2)),
        "last row left out": lambda x: average((2, 2, 1), (1, 2, 2), (1, 0, 0))(put(0, ..., 3, slice(None))(x.copy())),
        "sum": lambda x: average((2, 2, 1), (1, 2, 2), (1, 0, 0), 1)(x),
        "stride off by one": lambda x: average((2, 2, 1), (1, 2, 2), (1, 0, 0))(np.roll(x, -1, 4)),
    }),
    Case(Pool((2, 3, 11), (3,), stride=(2,), padding=(1,), gradient=True), {"added": BACK}, {
        "updates lost": back((3,), (2,), (1,), lost=True),
        "to every element of the window": lambda g, x: spread((2, 3, 11), (3,), (2,), (1,))(g * 3),
        "place off by one": after(BACK, lambda out: np.roll(out, 1, 2)),
        "smallest": lambda g, x: BACK(g, -x),
        "last window left out": before(BACK, x0=put(0, ..., -1)),
        "x of the next channel": before(BACK, x1=lambda x: np.roll(x, 1, 1)),
    }),
    Case(Pool((2, 3, 6, 7), (2, 2), kind="average", stride=(1, 2), padding=(1, 0), gradient=True), {"spread": TO}, {
        "not divided": after(TO, lambda out: out * 4),
        "overlap overwritten": lambda g: spread((2, 3, 6, 7), (1, 2), (1, 2), (0, 0))(g[:, :, :6]) / 2,
        "padding off by one": after(TO, lambda out: np.roll(out, 1, 2)),
        "last window left out": before(TO, x0=put(0, ..., -1, slice(None))),
        "channels exchanged": before(TO, x0=lambda g: np.roll(g, 1, 1)),
    }),
    Case(Stencil((6, 7), FIVE), {"loops": FLAT, "matrix": matrix(FIVE)}, {
        "periodic": rolled(FIVE),
        "edge left as it is": lambda x: np.pad(FLAT(x)[1:-1, 1:-1], 1) + x * np.pad(np.zeros((4, 5), F4), 1, constant_values=1),
        "centre missing": loops({**FIVE, (0, 0): 0}),
        "diagonal neighbour": loops({k if k != (1, 0) else (1, 1): v for k, v in FIVE.items()}),
        "sign of the centre": loops({**FIVE, (0, 0): 4}),
        "in place": lambda x: in_place(x.copy()),
        "last row left out": after(FLAT, put(0, -1)),
    }),
    Case(Stencil((13,), SKEW, steps=2, periodic=True), {"rolled": ROUND, "loops": loops(SKEW, 2, True)}, {
        "one step": rolled(SKEW),
        "three steps": rolled(SKEW, 3),
        "mirrored": rolled({(-o,): f for (o,), f in SKEW.items()}, 2),
        "zeros beyond the edge": loops(SKEW, 2),
        "halo of one": lambda x: loops(SKEW, 2)(np.pad(x, 1, "wrap"))[1:-1].copy(),
        "factor left out": rolled({**SKEW, (1,): 1}, 2),
    }),
]


def in_place(x):
    for i, j in np.ndindex(x.shape):
        x[i, j] = sum(f * x[i + a, j + b] for (a, b), f in FIVE.items() if 0 <= i + a < 6 and 0 <= j + b < 7)
    return x
