"""
Random small programs, and strange but correct kernels for them.

A program is a tree of operations on square matrices. A kernel for it rearranges sums and products between selections,
adds in an order of its own, rounds sums in a direction of its own, and stores what it likes of the tensors that the
program names; what it returns it rounds once.
"""

from __future__ import annotations

import numpy as np
import torch

N = 4
SUMS, SELECTIONS = ("mm", "add", "sub", "mul", "scale", "shift", "rowsum", "cumsum", "mean"), ("relu", "max", "where", "clamp", "top")
MOVES = ("t", "roll", "pad")
NUMBERS = (2.0, 3.0, -0.5, 0.75, 0.1, 5.0)


def random_tree(rng, depth, leaves):
    if depth == 0 or rng.random() < 0.12:
        return ("leaf", int(rng.integers(leaves)))
    name = str(rng.choice(SUMS * 3 + SELECTIONS + MOVES))
    if name in ("mm", "add", "sub", "mul", "max"):
        return (name, random_tree(rng, depth - 1, leaves), random_tree(rng, depth - 1, leaves))
    if name == "where":
        return (name, *(random_tree(rng, depth - 1, leaves) for _ in range(3)))
    if name in ("scale", "shift"):
        return (name, float(rng.choice(NUMBERS)), random_tree(rng, depth - 1, leaves))
    return (name, random_tree(rng, depth - 1, leaves))


def random_leaf(rng):
    """Small integers, some of them large, some zero, times a power of two for each matrix."""
    values = rng.integers(-3, 4, (N, N)).astype(float) * 2.0 ** rng.integers(0, 1 + rng.integers(12), (N, N))
    values[rng.random((N, N)) < rng.choice([0, 0.3, 0.7])] = 0
    return torch.from_numpy(values * 2.0 ** float(rng.integers(-4, 3)))


def reference(tree):
    def evaluate(node, leaves):
        name, *parts = node
        if name == "leaf":
            return leaves[parts[0]]
        if name == "scale":
            return evaluate(parts[1], leaves) * parts[0]
        if name == "shift":
            return evaluate(parts[1], leaves) - parts[0]
        x, *rest = (evaluate(part, leaves) for part in parts)
        if name == "mm":
            return torch.mm(x, rest[0])
        if name in ("add", "sub", "mul"):
            return getattr(torch, name)(x, rest[0])
        return {
            "rowsum": lambda: x.sum(1, keepdim=True).expand(N, N),
            "cumsum": lambda: x.cumsum(1),
            "mean": lambda: x.mean(0, keepdim=True).expand(N, N),
            **moves(x, rest),
        }[name]()

    return lambda *leaves: evaluate(tree, leaves)


def moves(x, rest):
    """Operations that add and multiply nothing, the same in every kernel."""
    return {
        "relu": lambda: torch.relu(x),
        "max": lambda: torch.maximum(x, rest[0]),
        "where": lambda: torch.where(x > 0, rest[0], rest[1]),
        "clamp": lambda: x.clamp(-5.0, 40.0),
        "top": lambda: x.sort(1)[0],
        "t": lambda: x.t(),
        "roll": lambda: x.roll(1, 0),
        "pad": lambda: torch.nn.functional.pad(x, (1, 0))[:, :N],
    }


def rearranged(tree, rng):
    """The same polynomial between selections, written otherwise; new nodes start with an underscore."""
    name, *parts = tree
    parts = [rearranged(part, rng) if isinstance(part, tuple) else part for part in parts]
    bare = name.lstrip("_")
    if rng.random() < 0.4:
        return (name, *parts)

    def like(part, *names):
        return isinstance(part, tuple) and part[0].lstrip("_") in names

    if bare in ("mm", "mul") and like(parts[0], bare):
        a, b, c = parts[0][1], parts[0][2], parts[1]
        return ("_" + bare, a, ("_" + bare, b, c))
    if bare in ("mm", "mul") and like(parts[0], "add", "sub"):
        each, a, b = parts[0]
        return ("_" + each.lstrip("_"), ("_" + bare, a, parts[1]), ("_" + bare, b, parts[1]))
    if bare == "mm" and like(parts[1], "mul", "scale") and parts[1][0].lstrip("_") == "scale":
        return ("_scale", parts[1][1], ("_mm", parts[0], parts[1][2]))
    if bare == "scale" and like(parts[1], "mm", "mul"):
        inner, a, b = parts[1]
        return ("_" + inner.lstrip("_"), ("_scale", parts[0], a), b)
    if bare == "scale" and like(parts[1], "scale", "rowsum", "cumsum", "mean"):
        inner = parts[1]
        if inner[0].lstrip("_") == "scale":
            return ("_scale", inner[1], ("_scale", parts[0], inner[2]))
        return ("_" + inner[0].lstrip("_"), ("_scale", parts[0], inner[1]))
    if bare in ("rowsum", "mean", "cumsum") and like(parts[0], "add", "sub"):
        each, a, b = parts[0]
        return ("_" + each.lstrip("_"), ("_" + bare, a), ("_" + bare, b))
    if bare == "rowsum" and like(parts[0], "mm"):
        return ("_mm", parts[0][1], ("_rowsum", parts[0][2]))
    if bare == "add" and like(parts[0], "add"):
        return ("_add", parts[0][1], ("_add", parts[0][2], parts[1]))
    if bare == "shift" and like(parts[1], "shift"):
        return ("_shift", parts[1][1], ("_shift", parts[0], parts[1][2]))
    if bare == "shift" and like(parts[1], "add"):
        return ("_add", ("_shift", parts[0], parts[1][1]), parts[1][2])
    if bare == "scale" and like(parts[1], "add", "sub"):
        inner, a, b = parts[1]
        return ("_" + inner.lstrip("_"), ("_scale", parts[0], a), ("_scale", parts[0], b))
    if bare == "add":
        return ("_add", parts[1], parts[0])
    return (name, *parts)


class Kernel:
    """One way to compute a program."""

    def __init__(self, rng, storage, sums):
        self.rng, self.storage, self.sums = rng, storage, sums
        self.truncates = bool(rng.random() < 0.3) and sums is torch.float32
        self.stores = rng.random()

    def round(self, exact):
        """A float64 result in the format of sums, to nearest or towards zero."""
        near = self.nearest(exact)
        if not self.truncates:
            return near
        toward = torch.nextafter(near.float(), torch.zeros(())).double()
        return torch.where(near.abs() > exact.abs(), toward, near)

    def nearest(self, exact):
        return exact.to(self.sums).double()

    def add_up(self, terms):
        """A sum over the last axis, in a random tree."""
        parts = [terms[..., i] for i in self.rng.permutation(terms.shape[-1])]
        while len(parts) > 1:
            i = int(self.rng.integers(len(parts) - 1))
            parts[i : i + 2] = [self.round(parts[i] + parts[i + 1])]
        return parts[0]

    def run(self, tree, leaves, rearrange=True):
        leaves = [leaf.to(self.storage).double() for leaf in leaves]
        tree = rearranged(tree, self.rng) if rearrange else tree
        return self.evaluate(tree, leaves).to(self.storage).double()

    def evaluate(self, node, leaves):
        name, *parts = node
        if name == "leaf":
            return leaves[parts[0]]
        x = self.compute(name.lstrip("_"), parts, leaves)
        if not name.startswith("_") and self.rng.random() < self.stores:
            x = x.to(self.storage).double()
        return x

    def compute(self, name, parts, leaves):
        if name == "scale":
            number = float(torch.tensor(parts[0], dtype=torch.float32))
            return self.nearest(self.evaluate(parts[1], leaves) * number)
        if name == "shift":
            return self.round(self.evaluate(parts[1], leaves) - float(torch.tensor(parts[0], dtype=torch.float32)))
        x, *rest = (self.evaluate(part, leaves) for part in parts)
        if name == "mm":
            products = x[:, None, :] * rest[0].t()[None, :, :]
            fused = self.rng.random() < 0.5
            return self.add_up(products if fused else self.round(products))
        if name == "mul":
            return self.nearest(x * rest[0])
        if name in ("add", "sub"):
            return self.round(getattr(torch, name)(x, rest[0]))
        if name == "rowsum":
            return self.add_up(x)[:, None].expand(N, N)
        if name == "mean":
            if self.rng.random() < 0.5:
                return self.add_up(self.round(x.t() / N)).expand(N, N)
            return self.round(self.add_up(x.t()) / N).expand(N, N)
        if name == "cumsum":
            return torch.stack([self.add_up(x[:, : i + 1]) for i in range(N)], 1)
        return moves(x, rest)[name]()


def problem(seed, depth=4, leaves=3):
    rng = np.random.default_rng(seed)
    return random_tree(rng, depth, leaves), [random_leaf(rng) for _ in range(leaves)]
