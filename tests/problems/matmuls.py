"""Products of matrices: sums split, reversed, one at a time."""

from __future__ import annotations

import numpy as np

from tests.problems.case import Case, after, before, put
from zeroulp.problems import Affine, Batched, Einsum, Grouped, Routed

F4 = np.float32


def split(a, b):
    """Two halves of k, the second first, each in order."""
    a, b, half = a.astype(F4), b.astype(F4), b.shape[-2] // 2
    return a[..., half:] @ b[..., half:, :] + a[..., :half] @ b[..., :half, :]


def batched(a, b):
    return split(a, b).astype(a.dtype)


def one_by_one(a, b):
    out = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), F4)
    for k in reversed(range(b.shape[-2])):
        out += a[..., k, None].astype(F4) * b[..., k, None, :].astype(F4)
    return out.astype(a.dtype)


def swapped(x):
    return np.ascontiguousarray(x.swapaxes(-1, -2))


def as_one_matmul(a, b):
    return np.ascontiguousarray((a.reshape(-1, a.shape[-1]) @ b).reshape(*a.shape[:-1], -1))


ROWS = (5, 0, 1, 7, 3)
ENDS = np.cumsum((0, *ROWS))


def grouped(a, b, ends=ENDS, weight=lambda g: g):
    out = np.zeros((len(a), b.shape[2]), F4)
    for g in reversed(range(len(b))):
        part = slice(ends[g], ends[g + 1])
        out[part] = split(a[part], b[weight(g)])
    return out


def gathered(a, b):
    """A matrix for every row."""
    return np.einsum("tk,tkn->tn", a, b[np.repeat(np.arange(len(ROWS)), ROWS)])


def routed(x, w, expert, gate, capacity=99, add=True):
    """Tokens sorted by expert, multiplied in groups, added back."""
    out = np.zeros((len(x), w.shape[2]), F4)
    tokens, slots = np.divmod(np.argsort(expert.reshape(-1), kind="stable"), expert.shape[1])
    for e in range(len(w)):
        mine = [(t, j) for t, j in zip(tokens, slots) if expert[t, j] == e][:capacity]
        for t, j in mine:
            product = gate[t, j] * split(x[t : t + 1], w[e])[0]
            out[t] = out[t] + product if add else product
    return out


def routed_gathered(x, w, expert, gate):
    return np.einsum("tj,tk,tjkn->tn", gate, x, w[expert])


def affine(x, w, b, r=None, alpha=1, beta=1):
    out = b.astype(F4) + (0 if r is None else F4(beta) * r.astype(F4))
    for k in range(w.shape[1]):
        out = out + F4(alpha) * x[:, k, None].astype(F4) * w[:, k].astype(F4)
    return out.astype(x.dtype)


def affine_blas(x, w, b):
    return (x @ w.T + b).astype(x.dtype)


def scaled(x, w, b, r):
    return affine(x, w, b, r, 0.5, 4)


def scaled_bits(x, w, b, r):
    return ((split(x, swapped(w)) / 2 + F4(4) * r.astype(F4)) + b.astype(F4)).astype(x.dtype)


def attention(q, k):
    """Heads one by one."""
    return np.stack([q[:, :, h] @ swapped(k[:, :, h]) for h in range(q.shape[2])], 1)


def attention_loops(q, k):
    out = np.zeros((2, 3, 5, 6), F4)
    for d in reversed(range(q.shape[3])):
        out += q[..., d].transpose(0, 2, 1)[..., None] * k[..., d].transpose(0, 2, 1)[:, :, None]
    return out


def chain_right_first(a, b, c):
    return a @ (b @ c)


def trilinear(a, b, c):
    return np.einsum("ij,jk,kl->il", a, b, c, optimize=False)


CASES = [
    Case(Batched(7, 5, 19, batch=(3, 2)), {"split": batched, "one by one": one_by_one}, {
        "first matrix for all": before(batched, x1=lambda b: b[[0] * 3]),
        "batch axes exchanged": before(batched, x1=lambda b: b.reshape(2, 3, 19, 5).swapaxes(0, 1)),
        "last matrix left out": after(batched, put(0, -1, -1)),
        "tail of k left out": before(batched, x0=put(0, ..., slice(16, None))),
        "last row left out": after(batched, put(0, ..., -1, slice(None))),
        "last element of k twice": lambda a, b: batched(a, b) + a[..., -1:] @ b[..., -1:, :],
        "a in bfloat16": before(batched, x0=lambda a: (a.view(np.int32) & -65536).view(F4)),
    }),
    Case(Batched(6, 6, 12, batch=3, transpose_a=True, transpose_b=True, format="bfloat16"), {"split": lambda a, b: batched(swapped(a), swapped(b))}, {
        "a not transposed": lambda a, b: batched(a.reshape(3, 6, 12), swapped(b)),
        "b not transposed": lambda a, b: batched(swapped(a), b.reshape(3, 12, 6)),
        "result transposed": lambda a, b: swapped(batched(swapped(a), swapped(b))),
        "batch shifted": lambda a, b: batched(swapped(a), swapped(np.roll(b, 1, 0))),
        "sums in bfloat16": lambda a, b: sum((swapped(a)[..., k, None] * swapped(b)[..., k, None, :] for k in range(12)), np.zeros((3, 6, 6), a.dtype)),
    }),
    Case(Batched(4, 5, 9, batch=(2, 3), batch_b=()), {"as one matmul": as_one_matmul, "one by one": one_by_one}, {
        "batch axes exchanged": lambda a, b: as_one_matmul(a.reshape(3, 2, 4, 9).swapaxes(0, 1), b),
        "rows and batch mixed": lambda a, b: as_one_matmul(np.ascontiguousarray(a.reshape(2, 4, 3, 9).swapaxes(1, 2)), b),
        "first matrix for all": lambda a, b: as_one_matmul(a[:1, :1].repeat(2, 0).repeat(3, 1), b),
        "last column left out": after(as_one_matmul, put(0, ..., -1)),
        "tail of k left out": before(as_one_matmul, x1=put(0, -1)),
    }),
    Case(Grouped(ROWS, 4, 11), {"groups": grouped, "gathered": gathered}, {
        "boundary off by one": lambda a, b: grouped(a, b, [0, 6, 6, 6, 13, 16]),
        "empty group not skipped": lambda a, b: grouped(a, b, weight=lambda g: min(g, 2) if g < 2 else g - 1),
        "last group left out": after(grouped, put(0, slice(13, None))),
        "matrix of the next group": lambda a, b: grouped(a, np.roll(b, -1, 0)),
        "tile reaches over the boundary": lambda a, b: np.concatenate([grouped(a, b)[:5], split(a[5:8], b[3]), grouped(a, b)[8:]]),
        "weight transposed": lambda a, b: grouped(a, b.reshape(5, 4, 11).swapaxes(1, 2)),
        "groups of equal size": lambda a, b: grouped(a, b, [0, 4, 7, 10, 13, 16]),
    }),
    Case(Routed(9, 4, 5, 6, top=2), {"sorted": routed, "gathered": routed_gathered}, {
        "gate missing": before(routed, x3=np.ones_like),
        "gates exchanged": before(routed, x3=lambda g: g[:, ::-1]),
        "second choice left out": before(routed, x3=put(0, slice(None), 1)),
        "tokens beyond a capacity dropped": lambda *operands: routed(*operands, capacity=3),
        "overwritten instead of added": lambda *operands: routed(*operands, add=False),
        "expert of the next token": before(routed, x2=lambda e: np.roll(e, 1, 0)),
        "last expert left out": before(routed, x1=put(0, -1)),
    }),
    Case(Affine(6, 13, 5), {"bias first": affine, "blas": affine_blas}, {
        "bias missing": before(affine, x2=lambda b: b * 0),
        "bias of another column": before(affine, x2=lambda b: np.roll(b, 1)),
        "bias once for each half of k": lambda x, w, b: affine(x, w, b) + b,
        "weight transposed": lambda x, w, b: affine(x, swapped(w.reshape(13, 5)), b),
        "tail of inputs left out": before(affine, x0=put(0, slice(None), -1)),
        "tail of outputs left out": after(affine, put(0, slice(None), -1)),
        "relu": after(affine, lambda out: np.maximum(out, 0)),
    }),
    Case(Affine(6, 8, 4, residual=True, alpha=0.5, beta=4, format="float16"), {"terms scaled": scaled, "product scaled": scaled_bits}, {
        "alpha missing": lambda x, w, b, r: affine(x, w, b, r, 1, 4),
        "beta missing": lambda x, w, b, r: affine(x, w, b, r, 0.5, 1),
        "alpha of the bias too": lambda x, w, b, r: affine(x, w, b / 2, r, 0.5, 4),
        "alpha and beta exchanged": lambda x, w, b, r: affine(x, w, b, r, 4, 0.5),
        "residual missing": before(scaled, x3=lambda r: r * 0),
        "residual transposed": before(scaled, x3=lambda r: np.ascontiguousarray(r.reshape(4, 6).T)),
        "beta of the result": lambda x, w, b, r: affine(x, w, b, r, 0.5, 1) * x.dtype.type(4),
    }),
    Case(Einsum("bqhd,bkhd->bhqk", (2, 5, 3, 8), (2, 6, 3, 8)), {"by heads": attention, "loops": attention_loops}, {
        "heads exchanged": before(attention, x1=lambda k: np.roll(k, 1, 2)),
        "heads and positions mixed": before(attention, x0=lambda q: q.reshape(2, 3, 5, 8).swapaxes(1, 2)),
        "batch of one": before(attention, x1=lambda k: k[[0, 0]]),
        "tail of d left out": before(attention, x0=put(0, ..., -1)),
        "last key left out": after(attention, put(0, ..., -1)),
    }),
    Case(Einsum("ij,jk,kl->il", (4, 5), (5, 6), (6, 3)), {"right first": chain_right_first, "at once": trilinear}, {
        "middle transposed": before(trilinear, x1=lambda b: swapped(b.reshape(6, 5))),
        "middle left out": lambda a, b, c: trilinear(a, np.ones_like(b), c),
        "last k left out": before(trilinear, x2=put(0, -1)),
        "last j left out": before(trilinear, x0=put(0, slice(None), -1)),
        "sign lost": after(trilinear, abs),
    }),
]
