"""Rows sent to places: in any order, sorted, as a product with a matrix of zeros and ones."""

from __future__ import annotations

import numpy as np

from tests.problems.case import Case, after, before, put
from zeroulp.problems import EmbeddingBag, ScatterAdd

F4 = np.float32


def one_hot(index, places):
    return (index[None, :] == np.arange(places)[:, None]).astype(F4)


def added(places, order=None):
    """As atomics would, in an order that the contents decide."""

    def kernel(x, index, base=None):
        out = np.zeros((places, x.shape[1]), F4) if base is None else base.astype(F4)
        rows = np.argsort(x[:, 0], kind="stable") if order is None else order
        np.add.at(out, index[rows], x[rows].astype(F4))
        return out.astype(x.dtype)

    return kernel


def multiplied(places):
    return lambda x, index, base=None: ((0 if base is None else base.astype(F4)) + one_hot(index, places) @ x.astype(F4)).astype(x.dtype)


def assigned(places):
    """Each read before all are written: an update is lost where a place occurs twice."""

    def kernel(x, index, base=None):
        out = np.zeros((places, x.shape[1]), F4) if base is None else base.copy()
        out[index] += x
        return out

    return kernel


def sorted_runs(places, limit=99):
    def kernel(x, index):
        out, order = np.zeros((places, x.shape[1]), F4), np.argsort(index, kind="stable")
        for place in np.unique(index):
            out[place] = x[order[index[order] == place][:limit]].sum(0)
        return out

    return kernel


BAGS = (3, 0, 5, 1, 4)
OF = np.repeat(np.arange(5), BAGS)


def bags(table, index, weight=None, of=OF):
    out = np.zeros((5, table.shape[1]), F4)
    factor = 1 if weight is None else weight[:, None].astype(F4)
    np.add.at(out, of[::-1], (table[index].astype(F4) * factor)[::-1])
    return out.astype(table.dtype)


def counted(table, index, weight=None):
    counts = np.zeros((5, len(table)), F4)
    np.add.at(counts, (OF, index), 1 if weight is None else weight.astype(F4))
    return (counts @ table.astype(F4)).astype(table.dtype)


FOURS = np.repeat(np.arange(3), 4)


def means(table, index):
    return np.stack([table[index[i : i + 4]][::-1].sum(0, dtype=F4) / F4(4) for i in (0, 4, 8)])


def largest(table, index):
    return np.stack([np.sort(table[index[OF == bag]], 0)[-1] if (OF == bag).any() else np.zeros(table.shape[1], F4) for bag in range(5)])


def to_table(grad, index, weight=None, of=OF):
    out, factor = np.zeros((7, grad.shape[1]), F4), 1 if weight is None else weight[::-1, None]
    np.add.at(out, index[::-1], grad[of[::-1]] * factor)
    return out


def to_table_by_matrix(grad, index, weight=None):
    counts = np.zeros((7, 5), F4)
    np.add.at(counts, (index, OF), 1 if weight is None else weight)
    return counts @ grad


def to_means(grad, index, counts=(4, 1, 2, 8), sizes=(4, 0, 2, 8)):
    of = np.repeat(np.arange(4), sizes)
    return one_hot(index, 9) @ (grad / np.array(counts, F4)[:, None])[of]


SCATTER, GATHER = added(7), lambda grad, index: grad[index]
CASES = [
    Case(ScatterAdd(20, 7, 5), {"atomics": SCATTER, "multiplied": multiplied(7), "sorted": sorted_runs(7)}, {
        "updates lost": assigned(7),
        "last row left out": added(7, np.arange(19)),
        "a row twice": lambda x, i: SCATTER(np.concatenate([x, x[-1:]]), np.concatenate([i, i[-1:]])),
        "two of a run at most": sorted_runs(7, 2),
        "overwritten": lambda x, i: np.stack([x[i == p][-1] if (i == p).any() else x[0] * 0 for p in range(7)]),
        "place of the next row": before(SCATTER, x1=lambda i: np.roll(i, 1)),
        "place off by one": before(SCATTER, x1=lambda i: (i + 1) % 7),
        "last column left out": after(SCATTER, put(0, ..., -1)),
    }),
    Case(ScatterAdd(9, 12, 4, base=True, distinct=True, format="bfloat16"), {"atomics": added(12), "multiplied": multiplied(12)}, {
        "base left out": lambda x, i, b: added(12)(x, i),
        "base overwritten": lambda x, i, b: put(x, i)(b.copy()),
        "base only where rows arrive": lambda x, i, b: added(12)(x, i, np.where(np.isin(np.arange(12), i)[:, None], b, b * 0)),
        "base for each row": lambda x, i, b: added(12)(x, i, b + b),
        "index ignored": lambda x, i, b: added(12)(x, np.arange(9), b),
        "index of the next": lambda x, i, b: added(12)(x, np.roll(i, 1), b),
    }),
    Case(ScatterAdd(20, 7, 5, gradient=True), {"gathered": GATHER, "multiplied": lambda g, i: one_hot(i, 7).T @ g}, {
        "divided by the count": lambda g, i: g[i] / np.bincount(i, minlength=7)[i][:, None].astype(F4),
        "duplicates once": lambda g, i: g[i] * (np.unique(i, return_index=True)[1][:, None] == np.arange(20)).any(0)[:, None],
        "index of the next": lambda g, i: g[np.roll(i, 1)],
        "last row left out": after(GATHER, put(0, -1)),
        "scattered": lambda g, i: np.resize(added(7)(g, i[:7]), (20, 5)),
    }),
    Case(EmbeddingBag(BAGS, 7, 4), {"backwards": bags, "counted": counted}, {
        "offset off by one": lambda t, i: bags(t, i, of=np.repeat(np.arange(5), (4, 0, 4, 1, 4))),
        "empty bag not skipped": lambda t, i: bags(t, i, of=np.repeat([0, 1, 2, 3], (3, 5, 1, 4))),
        "last row of each bag left out": lambda t, i: bags(np.concatenate([t, t[:1] * 0]), np.where(np.append(OF[1:] != OF[:-1], True), 7, i)),
        "duplicates once": lambda t, i: np.stack([t[np.unique(i[OF == b])].sum(0) for b in range(5)]),
        "mean": lambda t, i: bags(t, i) / np.maximum(np.array(BAGS, F4), 1)[:, None],
        "empty bag unwritten": after(bags, put(1, 1)),
        "padding index skipped": lambda t, i: bags(put(0, 0)(t.copy()), i),
    }),
    Case(EmbeddingBag(BAGS, 7, 4, weighted=True, format="float16"), {"backwards": bags, "counted": counted}, {
        "weights missing": lambda t, i, w: bags(t, i),
        "weight of the bag's first": lambda t, i, w: bags(t, i, w[np.searchsorted(OF, OF)]),
        "weight of the next": lambda t, i, w: bags(t, i, np.roll(w, 1)),
        "last row left out": before(bags, x2=put(0, -1)),
        "bags of the next": lambda t, i, w: bags(t, i, w, of=np.minimum(OF + 1, 4)),
    }),
    Case(EmbeddingBag((4, 4, 4), 9, 3, mode="mean"), {"backwards": means, "quarters": lambda t, i: (t[i] * F4(0.25)).reshape(3, 4, 3).sum(1)}, {
        "sum": lambda t, i: means(t, i) * 4,
        "count off by one": lambda t, i: means(t, i) * F4(4) / F4(3),
        "mean of different rows": lambda t, i: np.stack([t[np.unique(i[b : b + 4])].mean(0, dtype=F4) for b in (0, 4, 8)]),
        "bags interleaved": lambda t, i: means(t, i.reshape(4, 3).T.ravel()),
        "max": lambda t, i: t[i].reshape(3, 4, 3).max(1),
    }),
    Case(EmbeddingBag(BAGS, 7, 4, mode="max"), {"sorted": largest}, {
        "starts at zero": lambda t, i: np.maximum(largest(t, i), 0),
        "sum": bags,
        "empty bag not skipped": after(largest, lambda out: out[[0, 2, 3, 4, 4]]),
        "smallest": lambda t, i: -largest(-t, i),
        "last row of the bag left out": lambda t, i: largest(t, np.where(np.append(OF[1:] != OF[:-1], True), np.roll(i, 1), i)),
    }),
    Case(EmbeddingBag(BAGS, 7, 4, weighted=True, gradient=True), {"backwards": to_table, "multiplied": to_table_by_matrix}, {
        "updates lost": lambda g, i, w: assigned(7)(g[OF] * w[:, None], i),
        "weights missing": lambda g, i, w: to_table(g, i),
        "bag of the next": lambda g, i, w: to_table(g, i, w, of=np.roll(OF, 1)),
        "empty bag not skipped": lambda g, i, w: to_table(g, i, w, of=np.repeat([0, 1, 2, 3], (3, 5, 1, 4))),
        "padding index skipped": after(to_table, put(0, 0)),
        "last row left out": before(to_table, x2=put(0, -1)),
    }),
    Case(EmbeddingBag((4, 0, 2, 8), 9, 3, mode="mean", gradient=True), {"backwards": to_means}, {
        "not divided": lambda g, i: to_means(g, i, (1, 1, 1, 1)),
        "count of the next bag": lambda g, i: to_means(g, i, (1, 2, 8, 4)),
        "updates lost": lambda g, i: assigned(9)(np.repeat(g / np.array([[4], [1], [2], [8]], F4), (4, 0, 2, 8), 0), i),
        "bags of equal size": lambda g, i: to_means(g, i, sizes=(4, 4, 4, 2)),
        "last row left out": after(to_means, put(0, -1)),
    }),
]
