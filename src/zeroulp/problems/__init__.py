"""
Shipped problems: one line each, with a reference in PyTorch that a report names and a replay finds again.

    >>> import zeroulp
    >>> zeroulp.problems.Conv((8, 64, 56, 56), (64, 64, 3, 3), padding=1).title
    'conv2d'
"""

from zeroulp.problems.convolution import Conv
from zeroulp.problems.indexed import EmbeddingBag, ScatterAdd
from zeroulp.problems.matmuls import Affine, Batched, Einsum, Grouped, Routed
from zeroulp.problems.neighbours import Pool, Stencil
from zeroulp.problems.packed import Dequantised, Hadamard, SparseMatmul
from zeroulp.problems.recurrences import LinearAttention, StateSpace
from zeroulp.problems.reference import Reference
from zeroulp.problems.scans import Reduce, Scan

__all__ = [
    "Affine",
    "Batched",
    "Conv",
    "Dequantised",
    "Einsum",
    "EmbeddingBag",
    "Grouped",
    "Hadamard",
    "LinearAttention",
    "Pool",
    "Reduce",
    "Reference",
    "Routed",
    "Scan",
    "ScatterAdd",
    "SparseMatmul",
    "StateSpace",
    "Stencil",
]
