"""Programs for the comparison of bits: the problems of KernelBench at reduced shapes, and those of zeroulp.problems."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelbench_problems import load

from zeroulp import problems as shipped

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp import Linear
    from zeroulp.problem import Tensor

FIVE = {(0, 0): -4.0, (0, 1): 1.0, (1, 0): 1.0, (0, -1): 1.0, (-1, 0): 1.0}

SHIPPED: dict[str, Callable[[str], Linear]] = {
    "conv1d": lambda f: shipped.Conv((2, 6, 40), (8, 6, 3), padding=1, bias=True, format=f),
    "conv2d": lambda f: shipped.Conv((2, 16, 14, 14), (16, 16, 3, 3), padding=1, format=f),
    "conv2d, strided": lambda f: shipped.Conv((2, 6, 15, 14), (8, 6, 3, 3), stride=2, dilation=2, format=f),
    "conv2d, depthwise": lambda f: shipped.Conv((2, 8, 12, 12), (8, 1, 3, 3), groups=8, padding=1, format=f),
    "conv3d": lambda f: shipped.Conv((2, 4, 6, 7, 8), (6, 4, 3, 3, 3), padding=1, format=f),
    "conv_transpose2d": lambda f: shipped.Conv((2, 6, 7, 7), (6, 5, 3, 3), stride=2, transposed=True, format=f),
    "conv_transpose3d": lambda f: shipped.Conv((1, 4, 4, 5, 6), (4, 5, 3, 3, 3), stride=2, transposed=True, format=f),
    "conv2d, x gradient": lambda f: shipped.Conv((2, 16, 14, 14), (16, 16, 3, 3), padding=1, gradient="x", format=f),
    "conv2d, w gradient": lambda f: shipped.Conv((2, 6, 14, 14), (8, 6, 3, 3), padding=1, gradient="w", format=f),
    "batched": lambda f: shipped.Batched(17, 24, 64, batch=(3, 2), format=f),
    "batched, transposed": lambda f: shipped.Batched(16, 24, 33, batch=3, transpose_a=True, transpose_b=True, format=f),
    "grouped": lambda f: shipped.Grouped((6, 0, 7, 1, 16), 12, 40, format=f),
    "routed": lambda f: shipped.Routed(40, 4, 12, 24, top=2, format=f),
    "affine": lambda f: shipped.Affine(16, 48, 24, residual=True, alpha=0.5, beta=4.0, format=f),
    "einsum, attention": lambda f: shipped.Einsum("bqhd,bkhd->bhqk", (2, 9, 3, 16), (2, 10, 3, 16), format=f),
    "einsum, chain": lambda f: shipped.Einsum("ij,jk,kl->il", (8, 9), (9, 12), (12, 7), format=f),
    **{
        f"reduce, {kind}": lambda f, kind=kind: shipped.Reduce((9, 32), kind=kind, format=f)
        for kind in ("sum", "mean", "sum of squares", "prod", "amax", "argmax")
    },
    "reduce, all": lambda f: shipped.Reduce((33, 12, 20), (0, 1, 2), format=f),
    "scan": lambda f: shipped.Scan((6, 60), format=f),
    "scan, reverse, segmented": lambda f: shipped.Scan((4, 60), reverse=True, segmented=True, format=f),
    "scatter": lambda f: shipped.ScatterAdd(60, 7, 5, format=f),
    "scatter, distinct": lambda f: shipped.ScatterAdd(9, 12, 4, base=True, distinct=True, format=f),
    "scatter, gradient": lambda f: shipped.ScatterAdd(60, 7, 5, gradient=True, format=f),
    "bags": lambda f: shipped.EmbeddingBag((5, 0, 16, 3), 12, 8, format=f),
    "bags, weighted": lambda f: shipped.EmbeddingBag((5, 0, 16, 3), 12, 8, weighted=True, format=f),
    "bags, mean": lambda f: shipped.EmbeddingBag((4, 8, 16), 12, 8, mode="mean", format=f),
    "bags, max": lambda f: shipped.EmbeddingBag((5, 2, 16), 12, 8, mode="max", format=f),
    "bags, gradient": lambda f: shipped.EmbeddingBag((5, 2, 16), 12, 8, gradient=True, format=f),
    "pool, max": lambda f: shipped.Pool((2, 3, 9, 8), (3, 2), stride=(2, 2), padding=(1, 0), format=f),
    "pool, average": lambda f: shipped.Pool((2, 3, 8, 8), (2, 2), kind="average", format=f),
    "pool, max, gradient": lambda f: shipped.Pool((2, 3, 11), (3,), stride=(2,), padding=(1,), gradient=True, format=f),
    "pool, average, gradient": lambda f: shipped.Pool((2, 3, 6, 7), (2, 2), kind="average", gradient=True, format=f),
    "stencil": lambda f: shipped.Stencil((16, 17), FIVE, steps=2, format=f),
    "2:4 sparse": lambda f: shipped.SparseMatmul(16, 24, 64, format=f),
    "block-sparse": lambda f: shipped.SparseMatmul(16, 24, 64, block=(8, 16), format=f),
    "hadamard": lambda f: shipped.Hadamard(8, 64, scale=0.25, format=f),
    "dequantised, int8": lambda f: shipped.Dequantised(8, 12, 64, group=16, format=f),
    "dequantised, int4": lambda f: shipped.Dequantised(8, 12, 64, bits=4, group=16, format=f),
    "linear attention": lambda f: shipped.LinearAttention(2, 12, 4, 5, decays=(0, 1), format=f),
    "state space": lambda f: shipped.StateSpace(2, 12, 6, format=f),
}
"""By name: the problem in a format."""


@dataclass(frozen=True)
class Case:
    """
    A program, as plain data.

    Args:
        name: In the tables.
        storage: Format of its operands and intermediates.
        path: Of a problem of KernelBench; empty: it is one of `SHIPPED`.
        level: Of KernelBench; 0 of a shipped problem.
    """

    name: str
    storage: str
    path: str = ""
    level: int = 0

    def program(self, how: str = "") -> Program:
        """What is run, of the shapes that `Program.how` told of before. Raises whatever the problem raises."""
        if self.path:
            found = load(Path(self.path), self.storage, how)
            return Program(found.reference, found.native, found.operands, found.how)
        problem = SHIPPED[self.name](self.storage)
        assert problem.reference is not None
        return Program(problem.reference, problem.reference, problem.tensors)


@dataclass(frozen=True)
class Program:
    """
    Functions and what they take.

    Args:
        reference: Of float64 tensors on the CPU.
        native: Of tensors in the formats of the operands, wherever they are.
        operands: In order.
        how: Its shapes were chosen.
    """

    reference: Callable[..., Any]
    native: Callable[..., Any]
    operands: tuple[Tensor, ...]
    how: str = ""
