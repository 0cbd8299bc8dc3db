"""Rows that are sent to places, or taken from there: scatter-add, embedding bags, and their gradients."""

from __future__ import annotations

from typing import Any

from zeroulp.errors import UnknownNameError, UsageError
from zeroulp.problem import Linear, Tensor
from zeroulp.problems.reference import problem, reference

_MODES = ("sum", "mean", "max")


def ScatterAdd(
    rows: int,
    places: int,
    columns: int,
    *,
    base: bool = False,
    distinct: bool = False,
    gradient: bool = False,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    Rows added where an index says.

    Args:
        rows: Of x.
        places: Rows of the output; some get no row, and some, unless *distinct*, several.
        columns: Of both.
        base: Whether there is an operand that the rows are added to; else they are added to zeros.
        distinct: Whether no place occurs twice.
        gradient: Whether it is the gradient of x: the kernel gets grad (places, columns) and the index.
        format: Of the operands but the index, and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: x (rows, columns), index (rows,) of int64, base (places, columns). Exact while what arrives at a
        place fits, in whatever order atomics add it; a gradient is exact always.

    Raises:
        UsageError: If distinct rows have no place.
    """
    index = Tensor("index", (rows,), role="index", below=places, distinct=distinct)
    if gradient:
        operands, name = [Tensor("grad", (places, columns), format), index], "the gradient of scatter_add"
        return problem(gather, {}, operands, name=name, format=format, contract=contract)
    operands = [Tensor("x", (rows, columns), format), index]
    operands += [Tensor("base", (places, columns), format)] if base else []
    return problem(scatter_add, {"places": places}, operands, name="scatter_add", format=format, contract=contract)


@reference
def scatter_add(torch: Any, x: Any, index: Any, base: Any = None, *, places: int) -> Any:
    """For `ScatterAdd`."""
    del torch
    start = x.new_zeros((places, x.shape[1])) if base is None else base
    return start.index_add(0, index, x)


@reference
def gather(torch: Any, grad: Any, index: Any) -> Any:
    """The gradient of `ScatterAdd`."""
    del torch
    return grad.index_select(0, index)


def EmbeddingBag(
    bags: tuple[int, ...],
    vocabulary: int,
    width: int,
    *,
    mode: str = "sum",
    weighted: bool = False,
    gradient: bool = False,
    format: str = "float32",  # noqa: A002
    **contract: Any,
) -> Linear:
    """
    Rows of a table, added in bags.

    Args:
        bags: How many rows go into each; none is allowed.
        vocabulary: Rows of the table.
        width: Its columns.
        mode: ``"sum"``, ``"mean"`` or ``"max"`` over the rows of a bag.
        weighted: Whether each row has a factor, an operand weight; in a sum.
        gradient: Whether it is the gradient of the table: the kernel gets grad (bags, width) and the index; of a sum
            or a mean.
        format: Of the operands but the index, and of the output.
        contract: Further arguments of `zeroulp.Linear`.

    Returns:
        The problem: table (vocabulary, width), index (sum of bags,) of int64, bag after bag, weight (sum of bags,).
        Exact while sums fit; a mean over 2^j rows too. Another one leans on its division, see `Reduce`. An empty bag
        is 0.

    Raises:
        UsageError: If that mode has no weights, or no gradient here, or a bag has fewer rows than none.
    """
    if mode not in _MODES:
        raise UnknownNameError("mode", mode, _MODES)
    if (weighted and mode != "sum") or (gradient and mode == "max"):
        raise UsageError(f"mode={mode!r} with weights, or its gradient", do='mode="sum"')
    if min(bags, default=0) < 0:
        raise UsageError(f"bags of {bags} rows", do="whole numbers, none negative")
    count = sum(bags)
    index = Tensor("index", (count,), role="index", below=vocabulary)
    weights = [Tensor("weight", (count,), format)] if weighted else []
    arguments: dict[str, Any] = {"bags": list(bags), "mode": mode}
    if gradient:
        arguments["vocabulary"] = vocabulary
        operands, name = [Tensor("grad", (len(bags), width), format), index, *weights], "the gradient of embedding_bag"
        return problem(embedding_bag_gradient, arguments, operands, name=name, format=format, contract=contract)
    operands = [Tensor("table", (vocabulary, width), format, "weight"), index, *weights]
    return problem(embedding_bag, arguments, operands, name="embedding_bag", format=format, contract=contract)


@reference
def embedding_bag(torch: Any, table: Any, index: Any, weight: Any = None, *, bags: list[int], mode: str) -> Any:
    """For `EmbeddingBag`."""
    starts = torch.tensor([sum(bags[:i]) for i in range(len(bags))], device=index.device)
    return torch.nn.functional.embedding_bag(index, table, starts, mode=mode, per_sample_weights=weight)


@reference
def embedding_bag_gradient(
    torch: Any, grad: Any, index: Any, weight: Any = None, *, bags: list[int], mode: str, vocabulary: int
) -> Any:
    """Of the table: every row of grad goes to all rows of its bag."""
    if mode == "mean":
        halves = all(count & (count - 1) == 0 for count in bags)  # then the reciprocal is exact, and nothing is divided
        factors = torch.tensor([1 / max(count, 1) if halves else max(count, 1) for count in bags], device=grad.device)
        factors = factors.to(grad.dtype)[:, None]
        grad = grad * factors if halves else grad / factors
    counts = torch.tensor(bags, device=index.device)
    rows = grad.repeat_interleave(counts, 0)
    rows = rows if weight is None else rows * weight[:, None]
    return grad.new_zeros((vocabulary, grad.shape[1])).index_add(0, index, rows)
