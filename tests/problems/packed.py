"""Weights that are stored otherwise: unpacked, multiplied group by group, gathered."""

from __future__ import annotations

import numpy as np

from tests.problems.case import Case, after, before, put
from zeroulp.problems import Dequantised, Hadamard, SparseMatmul
from zeroulp.problems.packed import PAIRS

F4 = np.float32
TABLE = np.array(PAIRS)


def gathered(x, values, pattern, pairs=TABLE):
    """Only what is there is multiplied: x is gathered for every row of w."""
    at = (4 * np.arange(pattern.shape[1])[:, None] + pairs[pattern]).reshape(len(pattern), -1)
    out = np.zeros((len(x), len(values)), F4)
    for j in reversed(range(values.shape[1])):
        out += x[:, at[:, j]].astype(F4) * values[:, j].astype(F4)
    return out.astype(x.dtype)


def filled(x, values, pattern):
    w = np.zeros((*pattern.shape, 4), F4)
    np.put_along_axis(w, TABLE[pattern], values.reshape(*pattern.shape, 2).astype(F4), 2)
    return (x.astype(F4) @ w.reshape(len(values), -1).T).astype(x.dtype)


BLOCK = (2, 4)


def blocks(x, w, kept, block=BLOCK):
    """Block by block, those that are there."""
    out = np.zeros((len(x), len(w)), F4)
    for i, j in np.argwhere(kept)[::-1]:
        rows, columns = slice(i * block[0], (i + 1) * block[0]), slice(j * block[1], (j + 1) * block[1])
        out[:, rows] += x[:, columns] @ w[rows, columns].T
    return out


def masked(x, w, kept):
    return x @ (w * np.kron(kept, np.ones(BLOCK, F4))).T


def sylvester(n):
    return np.ones((1, 1), F4) if n == 1 else np.kron(np.array([[1, 1], [1, -1]], F4), sylvester(n // 2))


def product(x, scale=0.25, h=sylvester(16)):
    return (scale * (x.astype(F4)[:, ::-1] @ h[::-1])).astype(x.dtype)


def butterflies(x, scale=0.25, stages=4, last=lambda a, b: a - b):
    out = x.astype(F4)
    for stage in range(stages):
        pairs = out.reshape(len(x), -1, 2, 1 << stage)
        difference = last(pairs[:, :, 0], pairs[:, :, 1]) if stage == 3 else pairs[:, :, 0] - pairs[:, :, 1]
        out = np.stack([pairs[:, :, 0] + pairs[:, :, 1], difference], 2).reshape(len(x), 16)
    return (F4(scale) * out).astype(x.dtype)


def by_groups(x, q, exponent, group=4, shift=0, low=-128):
    """The sum of each group of columns, scaled afterwards."""
    out = np.zeros((len(x), len(q)), F4)
    for g in reversed(range(exponent.shape[1])):
        part, at = slice(g * group, (g + 1) * group), (g + shift) % exponent.shape[1]
        out += x[:, part].astype(F4) @ np.maximum(q[:, part], low).astype(F4).T * np.ldexp(F4(1), -exponent[:, at].astype(np.int32))
    return out.astype(x.dtype)


def at_once(x, q, exponent):
    w = np.ldexp(q.astype(F4), -np.repeat(exponent, q.shape[1] // exponent.shape[1], 1).astype(np.int32))
    return (x.astype(F4) @ w.T).astype(x.dtype)


def nibbles(packed, zero=8, shifts=range(0, 32, 4)):
    return np.stack([(packed >> shift) & 15 for shift in shifts], -1).reshape(len(packed), -1) - zero


def int4(x, packed, exponent, **options):
    return by_groups(x, nibbles(packed, **options), exponent, 8)


CASES = [
    Case(SparseMatmul(5, 6, 16), {"gathered": gathered, "filled": filled}, {
        "pattern of the next row": before(gathered, x2=lambda p: np.roll(p, 1, 0)),
        "pattern ignored": before(gathered, x2=lambda p: p * 0),
        "two of a pair exchanged": lambda x, v, p: gathered(x, v, p, TABLE[:, ::-1]),
        "two patterns taken for one": before(gathered, x2=lambda p: np.where(p == 3, 2, p)),
        "place in the group off by one": lambda x, v, p: gathered(x, v, p, (TABLE + 1) % 4),
        "last group left out": before(gathered, x1=put(0, ..., slice(-2, None))),
        "last row left out": after(gathered, put(0, ..., -1)),
    }),
    Case(SparseMatmul(5, 6, 12, block=BLOCK), {"blocks": blocks, "masked": masked}, {
        "mask ignored": lambda x, w, kept: x @ w.T,
        "mask turned": before(blocks, x2=np.logical_not),
        "mask transposed": lambda x, w, kept: blocks(x, w, np.ascontiguousarray(kept.T)),
        "block transposed": lambda x, w, kept: blocks(x, w.reshape(3, 2, 3, 4).swapaxes(0, 2).reshape(6, 12), kept),
        "last block left out": before(blocks, x2=put(False, -1, -1)),
        "mask of the next column": before(blocks, x2=lambda kept: np.roll(kept, 1, 1)),
    }),
    Case(Hadamard(5, 16, scale=0.25, format="bfloat16"), {"product": product, "butterflies": butterflies}, {
        "scale missing": lambda x: product(x, 1),
        "last stage left out": lambda x: butterflies(x, stages=3),
        "sign of the last stage": lambda x: butterflies(x, last=lambda a, b: b - a),
        "other order": lambda x: product(x)[:, [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15]].copy(),
        "two halves apart": lambda x: np.concatenate([butterflies(x, stages=3)[:, :8], product(x)[:, 8:]], 1),
        "last row left out": after(product, put(0, -1)),
    }),
    Case(Dequantised(5, 6, 16, group=4), {"by groups": by_groups, "at once": at_once}, {
        "scale of the next group": lambda *operands: by_groups(*operands, shift=1),
        "scale of the next row": before(by_groups, x2=lambda e: np.roll(e, 1, 0)),
        "one scale for all groups": before(by_groups, x2=lambda e: e[:, [0, 0, 0, 0]]),
        "scale missing": before(by_groups, x2=lambda e: e * 0),
        "last scale not applied": before(by_groups, x2=put(0, ..., -1)),
        "scale of twice the columns": lambda x, q, e: by_groups(x, q, e[:, [0, 0, 2, 2]]),
        "unsigned": lambda x, q, e: by_groups(x, q.view(np.uint8).astype(F4), e),
        "weight transposed": lambda x, q, e: by_groups(x, q.reshape(16, 6).T, e),
        "clipped to -64": lambda *operands: by_groups(*operands, low=-64),
    }),
    Case(Dequantised(4, 5, 24, bits=4, group=8, format="bfloat16"), {"by groups": int4, "at once": lambda x, p, e: at_once(x, nibbles(p), e)}, {
        "zero point missing": lambda *operands: int4(*operands, zero=0),
        "zero point off by one": lambda *operands: int4(*operands, zero=7),
        "nibbles in the other order": lambda *operands: int4(*operands, shifts=range(28, -1, -4)),
        "nibbles of a byte exchanged": lambda *operands: int4(*operands, shifts=(4, 0, 12, 8, 20, 16, 28, 24)),
        "scale of the next group": lambda x, p, e: by_groups(x, nibbles(p), e, 8, 1),
        "last word left out": before(int4, x0=put(0, ..., slice(16, None))),
        "sign extended instead": lambda x, p, e: by_groups(x, (nibbles(p, 0) ^ 8) - 8, e, 8),
    }),
]
