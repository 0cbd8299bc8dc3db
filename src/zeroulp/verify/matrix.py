"""One matrix of a batch: its operands and its result, in quanta, in blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.verify.freivalds import Size, size_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroulp.verify.fed import Fed

_ELEMENT = 8  # bytes


@dataclass(frozen=True)
class Share:
    """Rows or columns: their numbers, on the host; and a slice where they are consecutive, else an array there."""

    numbers: Any
    index: Any


class Matrix:
    """
    What a result and its operands are, part by part.

    Args:
        fed: The operands of the batch.
        entry: Which of its matrices.
        out: (m, n) encodings of the result.
        workspace: Bytes that may be used.
        miss: Largest probability that a wrong product is believed.
    """

    def __init__(self, fed: Fed, entry: tuple[int, ...], out: Any, workspace: int, miss: float) -> None:
        self.fed, self.entry, self.arrays, self.problem = fed, entry, fed.arrays, fed.problem
        self.codes = {name: fed.matrix(name, entry) for name in fed.codes} | {"out": out}
        self.most = max(1, workspace // _ELEMENT)
        self.scale, self.scale_c, self.scale_bias = fed.multiples()
        self._block, self._miss = max(1, self.most // 4), miss

    @property
    def largest(self) -> int:
        """Of the sums of moduli."""
        return max(1, self.fed.certificate.largest_sum)

    @property
    def has_epilogue(self) -> bool:
        """Whether a result is anything else than the product."""
        return self.scale != 1 or "c" in self.codes or "bias" in self.codes

    @property
    def converts(self) -> bool:
        """Whether the library's own conversion of an exact sum gives the one result that is right."""
        problem = self.problem
        simple = problem.rounding == "ties-to-even" or self.fed.certificate.theorem == "any-order"
        return simple and problem.signed_zero != "strict" and problem.subnormals != "preserve"

    def size_for(self, columns: int) -> Size | None:
        """Vectors for the test of a product with so many columns."""
        return size_for(columns, self.largest, self._miss)

    def sums(
        self,
        name: str,
        vectors: Any,
        rows: Any = None,
        columns: Any = None,
        *,
        codes: Any = None,
        flipped: bool = False,
        limit: int | None = None,
    ) -> tuple[Any, Any]:
        """Some rows and columns of an operand (*codes*, if they are at hand), or of the result, times vectors."""
        codes = self.part(name, rows, columns) if codes is None else codes
        return self.fed.sums(
            name, codes, vectors, rows=rows, columns=columns, flipped=flipped, limit=limit, most=self._block
        )

    def elements(self, name: str, rows: Any = None, columns: Any = None, dtype: str = "float64") -> Any:
        """Some rows and columns of an operand in quanta, in a *dtype* that holds them."""
        arrays, codes = self.arrays, self.part(name, rows, columns)
        count, width = codes.shape
        last = slice(None) if columns is None else columns

        def some(low: int) -> Any:
            part = codes[low : low + step]
            return arrays.cast(self.fed.quanta(name, part, within(rows, low, low + len(part)), last, dtype), dtype)

        step = arrays.block_rows(width)
        if step >= count:
            return some(0)
        found = arrays.zeros((count, width), dtype)

        def put(low: int) -> None:
            found[low : low + step] = some(low)

        arrays.spread(put, range(0, count, step))
        return found

    def part(self, name: str, rows: Any, columns: Any) -> Any:
        """Encodings of some rows and columns of a matrix; None: all."""
        codes = self.codes[name] if rows is None else self.codes[name][rows]
        return codes if columns is None else codes[:, columns]

    def bias(self, columns: Any) -> Any:
        """Elements of the bias in quanta of the result."""
        return self.fed.quanta("bias", self.codes["bias"][columns], columns, None) * self.scale_bias

    def total(self, product: Any, rows: Share, columns: Share, *, moduli: bool = False) -> Any:
        """Results in quanta, from products; or the sums of moduli behind them."""
        if not self.has_epilogue:
            return product
        size = abs if moduli else (lambda x: x)
        total = self.arrays.cast(product, "float64") * size(self.scale)
        if "c" in self.codes:
            total = total + size(self.elements("c", rows.index, columns.index)) * size(self.scale_c)
        return total + size(self.bias(columns.index))[None, :] if "bias" in self.codes else total

    @property
    def side(self) -> int:
        """Rows and columns of a square of results that fits into the workspace, operands included."""
        k = self.problem.k
        return max(1, int((math.sqrt(4 * k * k + 6 * self.most) - 2 * k) / 6))  # 4 side k + 6 side^2 elements

    def shares(self, numbers: Any, beside: int) -> Iterator[Share]:
        """So many at a time that results with *beside* rows (or columns) fit into the workspace, operands included."""
        k = self.problem.k
        step = max(1, (self.most - 2 * k * beside) // (2 * k + 6 * beside))
        for low in range(0, len(numbers), step):
            yield self.share(numbers[low : low + step])

    def within(self, share: Share, low: int, high: int) -> Share:
        """Some of a share."""
        return Share(share.numbers[low:high], within(share.index, low, high))

    def share(self, numbers: Any) -> Share:
        """These rows or columns."""
        if len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1:
            return Share(numbers, slice(int(numbers[0]), int(numbers[-1]) + 1))
        return Share(numbers, self.arrays.from_host(numbers))


def within(index: Any, low: int, high: int) -> Any:
    """The index of elements *low* to *high* - 1 of what an index selects; None selects all."""
    if index is None:
        return slice(low, high)
    if isinstance(index, slice):
        return slice((index.start or 0) + low, (index.start or 0) + high)
    return index[low:high]
