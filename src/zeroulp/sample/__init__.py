"""
Inputs for any program: drawn so that its sums use the bits of the contract, and no more.

`draws` tracks the reference on a few drawings and returns strategies; `Strategy.values` draws a trial of one, without
PyTorch. What each shows stands in its `Coverage`, what they show together in `Shown`. Recipes (`recipe.py`) draw for
sums, products and selections; points at which functions such as exp have exact values belong beside them: a `Kind`
of their own, and a recipe that `search.py` tries where the program has such a function.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zeroulp.sample.coverage import Coverage, Shown
from zeroulp.sample.drawing import Drawing, Kind
from zeroulp.sample.recipe import strategy_of
from zeroulp.sample.strategy import Strategy

if TYPE_CHECKING:
    from zeroulp.sample.search import Run, draws, explore
    from zeroulp.sample.tensors import as_tensors

_WHERE = {"Run": "search", "draws": "search", "explore": "search", "as_tensors": "tensors"}

__all__ = ["Coverage", "Drawing", "Kind", "Run", "Shown", "Strategy", "as_tensors", "draws", "explore", "strategy_of"]


def __getattr__(name: str) -> Any:
    """What needs PyTorch, imported when it is asked for."""
    if name in _WHERE:
        return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
