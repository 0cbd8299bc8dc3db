"""
How an operand lies in memory: order, leading dimension, offset, stride 0.

All lengths are in elements, never in bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from zeroulp.errors import UnknownNameError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """
    A memory layout of a matrix, or of a batch of them.

    Args:
        name: What reports call it.
        order: ``"row"``: neighbours in a row are adjacent; ``"column"``: those in a column.
        padding: By how much the leading dimension exceeds the width (for ``"column"``, the height).
        offset: Elements between an aligned address and the first element.
        broadcast: Whether the first axis has stride 0, so that its entries are one and the same.
    """

    name: str
    order: str = "row"
    padding: int = 0
    offset: int = 0
    broadcast: bool = False

    def strides(self, shape: Shape) -> Shape:
        """Strides in elements of an array of this *shape*."""
        if len(shape) < 2:
            return (0 if self.broadcast else 1,) * len(shape)
        rows, columns = shape[-2:]
        if self.order == "row":
            leading = max(columns, 1) + self.padding
            matrix, size = (leading, 1), rows * leading
        else:
            leading = max(rows, 1) + self.padding
            matrix, size = (1, leading), columns * leading
        outer: list[int] = []
        for extent in reversed(shape[:-2]):
            outer.insert(0, size)
            size *= max(extent, 1)
        strides = (*outer, *matrix)
        return (0, *strides[1:]) if self.broadcast else strides

    def span(self, shape: Shape) -> int:
        """Elements from the first to the last one, offset and padding between rows included."""
        if math.prod(shape) == 0:
            return self.offset
        reach = sum((n - 1) * s for n, s in zip(shape, self.strides(shape), strict=True))
        return self.offset + reach + 1


LAYOUTS: dict[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("contiguous"),
        Layout("column", order="column"),
        Layout("padded", padding=3),
        Layout("padded-column", order="column", padding=5),
        Layout("offset", offset=1),
        Layout("broadcast", broadcast=True),
    )
}


def layout_named(name: str) -> Layout:
    """The layout called *name*. Raises UnknownNameError if there is none."""
    if name not in LAYOUTS:
        raise UnknownNameError("layout", name, [*LAYOUTS, "any"])
    return LAYOUTS[name]
