"""
Operands of a trial as they are stored, drawn by one of the strategies of `zeroulp.sample`.

A report names the strategy and its settings; with the problem's operands and a seed they give the same bits again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.encoding import storage_dtype
from zeroulp.formats import BY_NAME
from zeroulp.sample import strategy_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.draw import Stream
    from zeroulp.encoding import Array
    from zeroulp.problem import Linear
    from zeroulp.sample import Strategy

DRAWING = "drawing"
"""The setting that says by which number operands are drawn, where that is not the trial's own."""

_CANDIDATES = 64


def strategy_for(problem: Linear, name: str, settings: Mapping[str, Any]) -> tuple[Strategy, int | None]:
    """
    What a trial is drawn by: a strategy, and the number of the drawing where it is not the trial's own.

    Args:
        problem: Its operands.
        name: Of the strategy.
        settings: Its settings, and perhaps `DRAWING`.

    Raises:
        ValueError: If there is no such strategy; TypeError: if that are no settings.
    """
    others = {key: value for key, value in settings.items() if key != DRAWING}
    number = settings.get(DRAWING)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
        raise ValueError(f"{DRAWING}={number!r} is no number of a drawing")
    return strategy_of(name, others, problem.tensors), number


def draw(problem: Linear, name: str, settings: Mapping[str, Any], seed: int, trial: int) -> dict[str, Array]:
    """
    All operands of a trial: stored arrays of their shapes, by name.

    Args:
        problem: Their shapes and formats.
        name: As of `strategy_for`; likewise *settings*.
        settings: How they are drawn.
        seed: The check's seed.
        trial: The number of the trial.

    Exactness:
        Every number is one that its format holds.
    """
    strategy, number = strategy_for(problem, name, settings)
    values = strategy.values(seed, trial if number is None else number)
    return {tensor.name: _stored(values[tensor.name], tensor.format) for tensor in problem.tensors}


def _stored(values: Array, name: str) -> Array:
    return np.ascontiguousarray(values.astype(storage_dtype(BY_NAME[name]), copy=False)).reshape(values.shape)


def changed(values: dict[str, Array], name: str, stream: Stream) -> dict[str, Array]:
    """
    The same but for two elements of one operand that are exchanged, or one that has its sign changed.

    Args:
        values: All operands.
        name: Of that operand.
        stream: Where the places come from.
    """
    array = values[name].copy()
    flat = array.reshape(-1)
    half = flat.size // 2
    places = half + stream.below(flat.size - half, (_CANDIDATES,))
    pairs = ((i, j) for i in places.tolist() for j in places.tolist() if flat[i] != flat[j])
    one, other = next(pairs, (-1, -1))
    if one >= 0:
        flat[[one, other]] = flat[[other, one]]
    elif flat.dtype == np.bool_:
        flat[places[0]] = ~flat[places[0]]
    elif not np.issubdtype(flat.dtype, np.integer):  # indices that are all the same stay as they are
        flat[places[0]] = -flat[places[0]]
    return {**values, name: array}
