"""
A few elements of a trial before, changed in place.

Two elements are exchanged, far from the edges and at no multiple of 8: a cache that looks at a
corner, a row, a sample or the sum of an operand takes the inputs for the old ones. Neither is
zero and both are of the operand's lattice, so the certificate of the trial before holds as it
stands. Where no two differ, one has its sign changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zeroulp.draw import Part
from zeroulp.probes import axis_of_k

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.draw import Stream
    from zeroulp.encoding import Array
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape

_CANDIDATES = 64
_SAMPLED = 8  # caches that look at every 8th, 16th, 64th, ... element see no change
_LOOKED_AT = 4096  # of k, and 16 of what lies across it, to find where products count
_ACROSS = 16


def a_few_changed(
    problem: Matmul, elements: Mapping[str, Elements], shapes: Mapping[str, Shape], name: str, stream: Stream
) -> tuple[tuple[int, int], ...]:
    """
    Two elements of a or b that are exchanged, or one that gets the other sign.

    Args:
        problem: Which axis is k.
        elements: How elements of a and b follow from their places.
        shapes: Of a and b as they are drawn.
        name: ``"a"`` or ``"b"``.
        stream: Where the positions come from.

    Returns:
        (place, value) pairs: the place in the flattened operand, and what stands there afterwards.
    """
    shape = shapes[name]
    places = _candidates(problem, elements, shapes, name, stream)
    if not len(places):
        return ()
    rows, columns = _rows_of(places, shape), places[:, -1]
    values = elements[name](Part.whole(shape).at(rows, columns)).diagonal().tolist()
    found = [(tuple(place), value) for place, value in zip(places.tolist(), values, strict=True) if value]
    inner = [(place, value) for place, value in found if not _is_sampled(place, shape)] or found
    own = len(shape) - 3 - axis_of_k(problem, name)  # the axis beside k: changes along it do not meet in one output
    pairs = ((one, two) for one in inner for two in inner if one[0][own] != two[0][own] and one[1] != two[1])
    one, two = next(pairs, (None, None))
    if one is not None and two is not None:
        return (_flat(one[0], shape), two[1]), (_flat(two[0], shape), one[1])
    return ((_flat(inner[0][0], shape), -inner[0][1]),) if inner else ()


def _candidates(
    problem: Matmul, elements: Mapping[str, Elements], shapes: Mapping[str, Shape], name: str, stream: Stream
) -> Array:
    """Random positions past the middle of an operand, short of its end, where its element counts."""
    shape = shapes[name]
    along_k = axis_of_k(problem, name)
    live = _live(problem, elements, shapes, name, stream)
    columns = []
    for axis, extent in enumerate(shape):
        inner = np.arange(extent)
        if axis >= len(shape) - 2 and extent > 2:
            inner = np.arange(max(1, extent // 2), extent - 1)
        if axis == len(shape) + along_k and extent == problem.k:
            inner = np.intersect1d(inner, live) if np.isin(inner, live).any() else live
        if not inner.size:
            return np.empty((0, len(shape)), np.int64)
        columns.append(inner[stream.below(inner.size, (_CANDIDATES,))])
    return np.stack(columns, axis=-1)


def _live(
    problem: Matmul, elements: Mapping[str, Elements], shapes: Mapping[str, Shape], name: str, stream: Stream
) -> Array:
    """Some k at which both operands have elements other than zero."""
    chosen = np.arange(problem.k)
    if problem.k > _LOOKED_AT:
        chosen = np.unique(stream.below(problem.k, (_LOOKED_AT,))).astype(np.int64)
    live = np.ones(len(chosen), bool)
    for operand in ("b", "a") if name == "a" else ("a", "b"):
        shape, axis = shapes[operand], axis_of_k(problem, operand)
        across = np.arange(min(_ACROSS, shape[-3 - axis]))
        if shape[axis] != problem.k:
            continue
        part = Part.whole(shape).at(chosen, across) if axis == -2 else Part.whole(shape).at(across, chosen)
        live &= np.asarray((elements[operand](part) != 0).any(axis=1 if axis == -2 else 0))
    return chosen[live]


def _rows_of(places: Array, shape: Shape) -> Array:
    """Numbers of the rows, leading axes flattened."""
    return np.asarray(np.ravel_multi_index(tuple(places[:, :-1].T), shape[:-1]), np.int64)


def _flat(place: tuple[int, ...], shape: Shape) -> int:
    return int(np.ravel_multi_index(place, shape))


def _is_sampled(place: tuple[int, ...], shape: Shape) -> bool:
    rows, columns = shape[-2:]
    row, column = place[-2:]
    return (row * columns + column) % _SAMPLED == 0 or (column * rows + row) % _SAMPLED == 0
