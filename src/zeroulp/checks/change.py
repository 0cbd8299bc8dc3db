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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.draw import Stream
    from zeroulp.encoding import Array
    from zeroulp.problem import Matmul

_CANDIDATES = 64
_SAMPLED = 8  # caches that look at every 8th, 16th, 64th, ... element see no change


def with_a_few_changed(problem: Matmul, integers: Mapping[str, Array], name: str, stream: Stream) -> dict[str, Array]:
    """
    The same operands, but for two elements of a or b that are exchanged, or one of the other sign.

    Args:
        problem: Which axis is k.
        integers: Operands in quanta.
        name: ``"a"`` or ``"b"``.
        stream: Where the positions come from.
    """
    array = integers[name]
    places = [place for place in _candidates(problem, integers, name, stream) if array[place]]
    inner = [place for place in places if not _is_sampled(place, array.shape)] or places
    own = array.ndim - 3 - _axis_of_k(problem, name)  # the axis beside k: changes along it do not meet in one output
    changed = array.copy()
    pairs = ((one, two) for one in inner for two in inner if one[own] != two[own] and array[one] != array[two])
    one, two = next(pairs, (None, None))
    if one is not None and two is not None:
        changed[one], changed[two] = array[two], array[one]
    elif inner:
        changed[inner[0]] = -array[inner[0]]
    return {**integers, name: changed}


def _candidates(problem: Matmul, integers: Mapping[str, Array], name: str, stream: Stream) -> list[tuple[int, ...]]:
    """Random positions past the middle of an operand, short of its end, where its element counts."""
    array = integers[name]
    along_k = _axis_of_k(problem, name)
    counting = _counting(problem, integers)
    columns = []
    for axis, extent in enumerate(array.shape):
        inner = np.arange(extent)
        if axis >= array.ndim - 2 and extent > 2:
            inner = np.arange(max(1, extent // 2), extent - 1)
        if axis == array.ndim + along_k and extent == counting.size:
            live = inner[counting[inner]]
            inner = live if live.size else np.flatnonzero(counting)
        if not inner.size:
            return []
        columns.append(inner[stream.below(inner.size, (_CANDIDATES,))])
    return [tuple(int(i) for i in place) for place in zip(*columns, strict=True)]


def _axis_of_k(problem: Matmul, name: str) -> int:
    if name == "a":
        return -2 if problem.transpose_a else -1
    return -1 if problem.transpose_b else -2


def _counting(problem: Matmul, integers: Mapping[str, Array]) -> Array:
    """Which k have a product that is not zero, as far as each operand alone can tell."""
    live = np.ones(problem.k, bool)
    for name in ("a", "b"):
        array = integers[name]
        own = array.ndim + _axis_of_k(problem, name)
        live &= np.asarray((array != 0).any(axis=tuple(axis for axis in range(array.ndim) if axis != own)))
    return live


def _is_sampled(place: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    rows, columns = shape[-2:]
    row, column = place[-2:]
    return (row * columns + column) % _SAMPLED == 0 or (column * rows + row) % _SAMPLED == 0
