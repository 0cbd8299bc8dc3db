"""Matmuls whose weight is stored otherwise than as a matrix: sparse, quantised, or a Hadamard matrix not at all."""

from __future__ import annotations

from typing import Any

from zeroulp.errors import UsageError
from zeroulp.problem import Linear, Tensor
from zeroulp.problems.reference import problem, reference

PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
"""Which two of four neighbours are kept, by the number that stands for it."""
SCALES = 4
"""Exponents of scales are below that: 1, 1/2, 1/4, 1/8."""


def SparseMatmul(
    m: int,
    n: int,
    k: int,
    *,
    block: tuple[int, int] | None = None,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    The product x @ w.T with a w of which only a part is there: two of every four neighbours, or whole blocks.

    Args:
        m: Rows of x, and of the output.
        n: Rows of w, and columns of the output.
        k: Columns of x and of w.
        block: Rows and columns of a block of w; default: 2:4 sparsity.
        format: Of the operands but the pattern, and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem. 2:4: x (m, k), values (n, k / 2), pattern (n, k / 4) of int64: which pair of `PAIRS` is kept of
        each four. Blocks: x (m, k), w (n, k), kept (n / rows, k / columns), a mask. Exact as a matmul of so many terms.

    Raises:
        UsageError: If k is no multiple of 4, or blocks do not fit.
    """
    rows, columns = block or (1, 4)
    if rows < 1 or columns < 1 or n % rows or k % columns:
        raise UsageError(f"w of {n} by {k} in blocks of {rows} by {columns}", do="multiples of those")
    x = Tensor("x", (m, k), format)
    if block is not None:
        operands = [x, Tensor("w", (n, k), format, "weight"), Tensor("kept", (n // rows, k // columns), role="mask")]
        arguments = {"block": list(block)}
        return problem(block_sparse, arguments, operands, name="block_sparse", format=format, contract=contract)
    values = Tensor("values", (n, k // 2), format, "weight")
    operands = [x, values, Tensor("pattern", (n, k // 4), role="index", below=len(PAIRS))]
    return problem(sparse_2_4, {}, operands, name="sparse_2_4", format=format, contract=contract)


@reference
def sparse_2_4(torch: Any, x: Any, values: Any, pattern: Any) -> Any:
    """For `SparseMatmul`: w is filled in."""
    pairs = torch.tensor(PAIRS, device=pattern.device)[pattern]
    fours = values.new_zeros((*pattern.shape, 4)).scatter(2, pairs, values.reshape(pairs.shape))
    return x @ fours.flatten(1).mT


@reference
def block_sparse(torch: Any, x: Any, w: Any, kept: Any, *, block: list[int]) -> Any:
    """For `SparseMatmul`: blocks that are not kept are 0."""
    everywhere = kept.repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return x @ torch.where(everywhere, w, 0).mT


def Hadamard(
    rows: int,
    n: int,
    *,
    scale: float = 1.0,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    The Walsh-Hadamard transform of every row, in the natural order (Sylvester's matrix).

    Args:
        rows: How many.
        n: Elements of each, a power of two.
        scale: Factor of the result.
        format: Of x and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: x (rows, n). Sums of n terms with signs, in float32, stored once; exact while they fit, with a
        scale that is a power of two.

    Raises:
        UsageError: If n is no power of two.
    """
    if n < 1 or n & (n - 1):
        raise UsageError(f"a Hadamard transform of {n} elements", do="a power of two")
    arguments, operands = {"scale": scale}, [Tensor("x", (rows, n), format)]
    return problem(hadamard, arguments, operands, name="hadamard", format=format, contract=contract)


@reference
def hadamard(torch: Any, x: Any, *, scale: float) -> Any:
    """For `Hadamard`: sums and differences of halves, ever smaller ones."""
    found = x.float()[:, None, :]
    while found.shape[-1] > 1:
        low, high = found.chunk(2, -1)
        found = torch.stack([low + high, low - high], 2).flatten(1, 2)
    return (scale * found.squeeze(-1)).to(x.dtype)


def Dequantised(
    m: int,
    n: int,
    k: int,
    *,
    bits: int = 8,
    group: int | None = None,
    format: str = "float16",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    The product x @ w.T with a w of integers and scales.

    Args:
        m: Rows of x, and of the output.
        n: Rows of w, and columns of the output.
        k: Columns of x and of w.
        bits: 8: w is an operand q of int8. 4: eight numbers are packed in an int32, the first in the lowest bits, and
            each is 8 less than what stands there; the uppermost bit is 0.
        group: Columns of w that share a scale; default: all.
        format: Of x and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: x (m, k), q (n, k) or packed (n, k / 8), exponent (n, k / group) of int64; the scale of a group is
        2**-exponent: 1, 1/2, 1/4 or 1/8. Multiplied and added in float32, stored once. Exact while sums of products fit
        in eighths.

    Raises:
        UsageError: If k is no multiple of 8 (4 bits) or of the group.
    """
    width = k if group is None else group
    if bits not in (4, 8) or width < 1 or k % width or (bits == 4 and k % 8):
        raise UsageError(f"w of {k} columns in {bits} bits and groups of {width}", do="4 or 8 bits, and whole groups")
    weight = Tensor("q", (n, k), "int8", "weight")
    if bits == 4:
        weight = Tensor("packed", (n, k // 8), "int32", "index", below=2**31)
    exponent = Tensor("exponent", (n, k // width), role="index", below=SCALES)
    arguments, operands = {"bits": bits, "group": width}, [Tensor("x", (m, k), format), weight, exponent]
    name = f"dequantised_int{bits}"
    return problem(dequantised, arguments, operands, name=name, format=format, contract=contract)


@reference
def dequantised(torch: Any, x: Any, q: Any, exponent: Any, *, bits: int, group: int) -> Any:
    """For `Dequantised`."""
    if bits == 4:
        q = torch.stack([(q >> shift) & 15 for shift in range(0, 32, 4)], -1).flatten(1) - 8
    scales = torch.tensor([2.0**-e for e in range(SCALES)], device=x.device)[exponent]
    return (x.float() @ (q.float() * scales.repeat_interleave(group, 1)).mT).to(x.dtype)
