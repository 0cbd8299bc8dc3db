"""Along an axis: in blocks, backwards, by trees."""

from __future__ import annotations

import numpy as np

from tests.problems.case import Case, after, before, put
from zeroulp.problems import Reduce, Scan

F4 = np.float32


def tree(x):
    """The sum over the last axis, by halves."""
    x = x.astype(F4)
    while x.shape[-1] > 1:
        half = (x.shape[-1] + 1) // 2
        rest = x[..., half:]
        x = np.concatenate([x[..., : rest.shape[-1]] + rest, x[..., rest.shape[-1] : half]], -1)
    return x[..., 0]


def backwards(x):
    out = np.zeros(x.shape[:-1], F4)
    for i in reversed(range(x.shape[-1])):
        out += x[..., i].astype(F4)
    return out


def columns(x):
    """The sum over the two outer axes of three."""
    return np.stack([tree(x[:, j].reshape(1, -1))[0] for j in range(x.shape[1])])


def rounded(kernel):
    return lambda x: kernel(x).astype(x.dtype)


def in_blocks(x, size=8, carry=True):
    out, total = np.zeros(x.shape, F4), np.zeros(x.shape[:-1], F4)
    for start in range(0, x.shape[-1], size):
        part = x[..., start : start + size].astype(F4)
        out[..., start : start + size] = np.cumsum(part, -1, dtype=F4) + total[..., None]
        total = total + backwards(part) if carry else total
    return out.astype(x.dtype)


def step_by_step(x, first=None, exclusive=False, reverse=False):
    """One element after the other, with or without segments."""
    out, total = np.zeros(x.shape, F4), np.zeros(x.shape[:-1], F4)
    order = range(x.shape[-1])
    for i in reversed(order) if reverse else order:
        if first is not None:
            total = np.where(first[..., i], F4(0), total)
        if exclusive:
            out[..., i] = total
        total = total + x[..., i].astype(F4)
        if not exclusive:
            out[..., i] = total
    return out.astype(x.dtype)


def by_matrix(x, first, exclusive=False, reverse=False):
    """Each sum by itself, as a product with a matrix of zeros and ones."""
    if reverse:
        x, first = x[..., ::-1], first[..., ::-1]
    n, segment = x.shape[-1], np.cumsum(first, -1)
    same = (segment[..., :, None] == segment[..., None, :]) & np.tri(n, k=-exclusive, dtype=bool)
    out = (same.astype(F4) @ x.astype(F4)[..., None])[..., 0]
    return np.ascontiguousarray(out[..., ::-1] if reverse else out).astype(x.dtype)


def along_rows(kernel, **options):
    return lambda x: np.ascontiguousarray(kernel(np.ascontiguousarray(x.T), **options).T)


def from_the_end(x):
    return np.ascontiguousarray(in_blocks(x[..., ::-1])[..., ::-1])


def product_tree(x):
    while x.shape[-1] > 1:
        x = np.concatenate([x[..., 0:-1:2] * x[..., 1::2], x[..., x.shape[-1] // 2 * 2 :]], -1)
    return np.ascontiguousarray(x[..., 0])


def by_sorting(x):
    return np.argsort(x, -1, kind="stable")[..., -1]


LAST_OUT = put(0, ..., -1)
CASES = [
    Case(Reduce((5, 37)), {"tree": tree, "backwards": backwards}, {
        "tail left out": before(tree, x0=put(0, ..., slice(32, None))),
        "last element twice": lambda x: tree(x) + x[:, -1],
        "row of the next": after(tree, lambda out: np.roll(out, 1)),
        "in bfloat16": before(tree, x0=lambda x: (x.view(np.int32) & -65536).view(F4)),
        "moduli": before(tree, x0=abs),
        "last row left out": after(tree, LAST_OUT),
        "partial results overwritten": lambda x: tree(x[:, :16]) + tree(x[:, 32:]),
    }),
    Case(Reduce((3, 4, 6), (0, 2)), {"columns": columns, "numpy": lambda x: x.sum((2, 0))}, {
        "wrong axes": lambda x: np.resize(x.sum((1, 2)), 4),
        "first plane only": before(columns, x0=put(0, 0)),
        "columns mixed": before(columns, x0=lambda x: x.reshape(4, 3, 6).swapaxes(0, 1)),
        "tail left out": before(columns, x0=LAST_OUT),
        "neighbour": after(columns, lambda out: np.roll(out, 1)),
    }),
    Case(Reduce((6, 16), kind="mean", format="bfloat16"), {"tree": rounded(lambda x: tree(x) / 16), "scaled": rounded(lambda x: tree(x.astype(F4) * F4(1 / 16)))}, {
        "sum": rounded(tree),
        "count off by one": rounded(lambda x: tree(x) / 15),
        "tail left out": rounded(before(lambda x: tree(x) / 16, x0=LAST_OUT)),
        "mean of a half": rounded(lambda x: tree(x[:, :8]) / 8),
        "other rows": rounded(lambda x: tree(x[::-1]) / 16),
    }),
    Case(Reduce((6, 20), kind="sum of squares"), {"tree": lambda x: tree(x * x), "dot": lambda x: np.einsum("ij,ij->i", x, x)}, {
        "sum": tree,
        "square of the sum": lambda x: tree(x) ** 2,
        "moduli": lambda x: tree(abs(x)),
        "tail left out": before(lambda x: tree(x * x), x0=LAST_OUT),
        "root": lambda x: np.sqrt(tree(x * x)),
    }),
    Case(Reduce((6, 10), kind="prod"), {"tree": product_tree, "numpy": lambda x: np.prod(x[:, ::-1], -1)}, {
        "sign lost": after(product_tree, abs),
        "tail left out": before(product_tree, x0=put(1, ..., -1)),
        "sum": tree,
        "first left out": before(product_tree, x0=put(1, ..., 0)),
        "last twice": lambda x: product_tree(x) * x[:, -1],
    }),
    Case(Reduce((9, 23), kind="amax", format="float16"), {"backwards": lambda x: x[:, ::-1].max(-1), "sorted": lambda x: np.sort(x, -1)[:, -1]}, {
        "starts at zero": lambda x: np.maximum(x.max(-1), 0) if (x.max(-1) < 0).any() else np.maximum(x[:, :16].max(-1), 0),
        "tail left out": lambda x: x[:, :16].max(-1),
        "smallest": lambda x: x.min(-1),
        "largest modulus": lambda x: abs(x).max(-1),
        "of the next row": lambda x: np.roll(x.max(-1), 1),
    }),
    Case(Reduce((9, 23), kind="argmax"), {"sorted": by_sorting, "backwards": lambda x: 22 - np.argmax(x[:, ::-1], -1)}, {
        "off by one": lambda x: np.argmax(x, -1) + 1,
        "place in the tile": lambda x: np.argmax(x, -1) % 16,
        "tail left out": lambda x: np.argmax(x[:, :16], -1),
        "smallest": lambda x: np.argmin(x, -1),
        "largest modulus": lambda x: np.argmax(abs(x), -1),
    }),
    Case(Scan((3, 29)), {"blocks": in_blocks, "steps": step_by_step}, {
        "carry lost": lambda x: in_blocks(x, carry=False),
        "exclusive": lambda x: step_by_step(x, exclusive=True),
        "carry of the block before left out": lambda x: in_blocks(x) - (np.arange(29) >= 16) * x[:, 8:16].sum(-1, keepdims=True),
        "reverse": lambda x: step_by_step(x, reverse=True),
        "tail left out": after(in_blocks, put(0, ..., slice(24, None))),
        "carry from row to row": lambda x: np.cumsum(x.ravel(), dtype=F4).reshape(x.shape),
        "last element of a block twice": lambda x: in_blocks(x) + (np.arange(29) >= 8) * x[:, 7:8],
    }),
    Case(Scan((17, 4), 0, exclusive=True, format="float16"), {"steps": along_rows(step_by_step, exclusive=True), "blocks": along_rows(lambda x: in_blocks(np.pad(x, ((0, 0), (1, 0)))[:, :-1]))}, {
        "inclusive": along_rows(step_by_step),
        "other axis": lambda x: step_by_step(x, exclusive=True),
        "starts with the first": after(along_rows(step_by_step, exclusive=True), lambda out: out + out[1]),
        "shifted twice": along_rows(lambda x: step_by_step(np.pad(x, ((0, 0), (1, 0)))[:, :-1], exclusive=True)),
        "last row left out": after(along_rows(step_by_step, exclusive=True), put(0, -1)),
    }),
    Case(Scan((2, 3, 20), reverse=True), {"flipped": from_the_end, "steps": lambda x: step_by_step(x, reverse=True)}, {
        "forward": in_blocks,
        "not flipped back": after(from_the_end, lambda out: np.ascontiguousarray(out[..., ::-1])),
        "exclusive": lambda x: step_by_step(x, reverse=True, exclusive=True),
        "first left out": after(from_the_end, put(0, ..., 0)),
        "carry lost": lambda x: np.ascontiguousarray(in_blocks(x[..., ::-1], carry=False)[..., ::-1]),
    }),
    Case(Scan((4, 18), segmented=True), {"steps": step_by_step, "matrix": by_matrix}, {
        "boundaries ignored": lambda x, f: step_by_step(x),
        "boundary one later": lambda x, f: step_by_step(x, np.roll(f, 1, -1)),
        "exclusive": lambda x, f: step_by_step(x, f, exclusive=True),
        "flags of the first row": lambda x, f: step_by_step(x, f[[0] * 4]),
        "boundary at the edge of a block ignored": before(step_by_step, x1=put(False, ..., slice(None, None, 8))),
        "values cleared at a boundary": lambda x, f: step_by_step(np.where(f, F4(0), x), f),
    }),
    Case(Scan((4, 18), segmented=True, reverse=True, exclusive=True), {"steps": lambda x, f: step_by_step(x, f, True, True), "matrix": lambda x, f: by_matrix(x, f, True, True)}, {
        "inclusive": lambda x, f: step_by_step(x, f, False, True),
        "forward": lambda x, f: step_by_step(x, f, True),
        "boundaries ignored": lambda x, f: step_by_step(x, None, True, True),
        "boundary one later": lambda x, f: step_by_step(x, np.roll(f, 1, -1), True, True),
        "flags turned": lambda x, f: step_by_step(x, ~f, True, True),
    }),
]
