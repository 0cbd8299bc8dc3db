"""Products of matrices: many of one size, groups of rows, rows sent to experts, a linear layer, and einsum."""

from __future__ import annotations

from typing import Any

from zeroulp.errors import UsageError
from zeroulp.problem import Linear, Tensor
from zeroulp.problems.reference import problem, reference


def Batched(
    m: int,
    n: int,
    k: int,
    *,
    batch: int | tuple[int, ...],
    batch_b: int | tuple[int, ...] | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    Products of a batch of matrices.

    Args:
        m: Rows of each output.
        n: Its columns.
        k: Terms of each sum.
        batch: Leading extents of a.
        batch_b: Those of b, broadcast against a's, such as () for one b; default: as *batch*.
        transpose_a: Whether a is stored as (k, m).
        transpose_b: Whether b is stored as (n, k).
        format: Of all operands and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: a (batch, m, k), b (batch_b, k, n), out (batch, m, n). Exact as a matmul with so many terms.
    """
    first = _extents(batch)
    second = first if batch_b is None else _extents(batch_b)
    a = Tensor("a", (*first, *((k, m) if transpose_a else (m, k))), format)
    b = Tensor("b", (*second, *((n, k) if transpose_b else (k, n))), format)
    arguments = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return problem(batched_matmul, arguments, [a, b], name="batched_matmul", format=format, contract=contract)


def _extents(batch: int | tuple[int, ...]) -> tuple[int, ...]:
    return (batch,) if isinstance(batch, int) else tuple(batch)


@reference
def batched_matmul(torch: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """For `Batched`."""
    return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


def Grouped(
    rows: tuple[int, ...],
    n: int,
    k: int,
    *,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    Groups of rows, each times a matrix of its own.

    Args:
        rows: How many each group has; none is allowed.
        n: Columns of the output.
        k: Terms of each sum.
        format: Of all operands and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: a (sum of rows, k), b (groups, k, n), out (sum of rows, n). Exact as a matmul with so many terms.
        The matrix of an empty group never matters.

    Raises:
        UsageError: If a group has fewer rows than none.
    """
    if min(rows, default=0) < 0:
        raise UsageError(f"groups of {rows} rows", do="whole numbers, none negative")
    operands = [Tensor("a", (sum(rows), k), format), Tensor("b", (len(rows), k, n), format, "weight")]
    arguments = {"rows": list(rows)}
    return problem(grouped_matmul, arguments, operands, name="grouped_matmul", format=format, contract=contract)


@reference
def grouped_matmul(torch: Any, a: Any, b: Any, *, rows: list[int]) -> Any:
    """For `Grouped`."""
    return torch.cat([part @ one for part, one in zip(a.split(rows), b, strict=True)])


def Routed(
    tokens: int,
    experts: int,
    n: int,
    k: int,
    *,
    top: int = 1,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    A mixture of experts: every token is multiplied by the matrices of those it is sent to, and the products are added.

    Args:
        tokens: How many.
        experts: How many; some get no token, others many.
        n: Columns of the output.
        k: Terms of each sum.
        top: To how many experts each token is sent; one may be chosen twice.
        format: Of the operands but the index, and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: x (tokens, k), w (experts, k, n), expert (tokens, top) of int64, gate (tokens, top),
        out (tokens, n) = sum over j of gate[j] x @ w[expert[j]]. Sums of top k products of three; exact wherever these
        fit, and the reference stores nothing in between.
    """
    operands = [
        Tensor("x", (tokens, k), format),
        Tensor("w", (experts, k, n), format, "weight"),
        Tensor("expert", (tokens, top), role="index", below=experts),
        Tensor("gate", (tokens, top), format),
    ]
    return problem(routed_matmul, {}, operands, name="routed_matmul", format=format, contract=contract)


@reference
def routed_matmul(torch: Any, x: Any, w: Any, expert: Any, gate: Any) -> Any:
    """For `Routed`: each expert multiplies all tokens, by a gate that is 0 for those of others."""
    total = x.new_zeros(len(x), w.shape[-1]).float()
    for number, matrix in enumerate(w):
        share = torch.where(expert == number, gate.float(), 0).sum(1, keepdim=True)
        total = total + share * (x.float() @ matrix.float())
    return total.to(x.dtype)


def Affine(
    rows: int,
    inputs: int,
    outputs: int,
    *,
    bias: bool = True,
    residual: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    A linear layer: alpha * x @ w.T + bias + beta * residual, all in float32, stored once.

    Args:
        rows: Of x, and of the output.
        inputs: Columns of x: terms of each sum.
        outputs: Columns of the output.
        bias: Whether there is an operand b, one number for each column.
        residual: Whether there is an operand r, of the output's shape.
        alpha: Factor of the product.
        beta: Factor of r.
        format: Of all operands and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: x (rows, inputs), w (outputs, inputs), b (outputs,), r (rows, outputs). Exact where alpha times the
        sums fits, which costs a power of two little. A kernel that stores the product in a format of fewer bits before
        it adds rounds twice where sums are large.
    """
    operands = [Tensor("x", (rows, inputs), format), Tensor("w", (outputs, inputs), format, "weight")]
    operands += [Tensor("b", (outputs,), format, "weight")] if bias else []
    operands += [Tensor("r", (rows, outputs), format)] if residual else []
    arguments = {"bias": bias, "residual": residual, "alpha": alpha, "beta": beta}
    return problem(affine, arguments, operands, name="affine", format=format, contract=contract)


@reference
def affine(torch: Any, x: Any, w: Any, *rest: Any, bias: bool, residual: bool, alpha: float, beta: float) -> Any:
    """For `Affine`."""
    del torch
    others = [operand.float() for operand in rest]
    out = alpha * (x.float() @ w.float().mT) if alpha != 1 else x.float() @ w.float().mT
    if bias:
        out = out + others.pop(0)
    if residual:
        out = out + (beta * others[0] if beta != 1 else others[0])
    return out.to(x.dtype)


def Einsum(
    equation: str,
    *shapes: tuple[int, ...],
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    Einstein's summation.

    Args:
        equation: As `torch.einsum` takes it, with an arrow.
        shapes: Of the operands, which are called a, b, c, ...
        format: Of all operands and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem. Sums of products of as many factors as there are operands; exact wherever these fit, in whatever
        order pairs are contracted. What is contracted first is stored in *format*; beyond its bits it is not compared.

    Raises:
        UsageError: If the equation does not go with the shapes.
    """
    sides = equation.replace(" ", "").split("->")
    terms = sides[0].split(",")
    if len(sides) != 2 or len(terms) != len(shapes) or not 1 <= len(shapes) <= 20:
        raise UsageError(f"{len(shapes)} shapes for {equation!r}", do="one for each term, and an arrow")
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        fits = "." in term or len(term) == len(shape)
        if not fits or any(extents.setdefault(i, n) != n for i, n in zip(term, shape, strict=False) if "." not in term):
            raise UsageError(f"{term!r} of {equation!r} for an operand of shape {shape}", do="correct one of them")
    operands = [Tensor("abcdefghijklmnopqrst"[i], shape, format) for i, shape in enumerate(shapes)]
    return problem(einsum, {"equation": equation}, operands, name="einsum", format=format, contract=contract)


@reference
def einsum(torch: Any, *operands: Any, equation: str) -> Any:
    """For `Einsum`."""
    return torch.einsum(equation, *operands)
