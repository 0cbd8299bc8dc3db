from __future__ import annotations

import numpy as np
import pytest

from zeroulp.errors import UnknownNameError
from zeroulp.problem import LAYOUTS, layout_named


@pytest.mark.parametrize(("name", "strides", "span"), [
    ("contiguous", (5, 1), 20), ("column", (1, 4), 20), ("padded", (8, 1), 29), ("padded-column", (1, 9), 40),
    ("offset", (5, 1), 21), ("broadcast", (0, 1), 5),
])
def test_strides_and_span_of_a_matrix(name, strides, span):
    assert LAYOUTS[name].strides((4, 5)) == strides
    assert LAYOUTS[name].span((4, 5)) == span


@pytest.mark.parametrize(("name", "strides"), [
    ("contiguous", (60, 20, 5, 1)), ("column", (60, 20, 1, 4)), ("padded", (96, 32, 8, 1)), ("broadcast", (0, 20, 5, 1)),
])
def test_strides_of_a_batch(name, strides):
    assert LAYOUTS[name].strides((2, 3, 4, 5)) == strides


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_vectors_are_dense_or_one_element(layout):
    assert layout.strides((7,)) == ((0,) if layout.broadcast else (1,))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
@pytest.mark.parametrize("shape", [(4, 5), (1, 1), (1, 7), (7, 1), (2, 3, 4), (3,), (2, 1, 3, 2)])
def test_elements_are_apart_and_within_the_span(layout, shape):
    """Every element has an address of its own, but along an axis of stride 0; the last one ends the span."""
    strides = layout.strides(shape)
    at = sum(np.indices(shape)[axis] * stride for axis, stride in enumerate(strides)) + layout.offset
    distinct = shape[1:] if layout.broadcast else shape
    assert len(np.unique(at)) == np.prod(distinct, dtype=int)
    assert (at.min(), at.max()) == (layout.offset, layout.span(shape) - 1)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
@pytest.mark.parametrize("shape", [(0, 5), (4, 0), (0,), (0, 2, 3)])
def test_nothing_spans_nothing(layout, shape):
    assert layout.span(shape) == layout.offset


def test_layouts_by_name():
    assert layout_named("padded") is LAYOUTS["padded"]
    with pytest.raises(UnknownNameError, match="unknown layout 'paded'") as caught:
        layout_named("paded")
    assert "padded" in caught.value.do
