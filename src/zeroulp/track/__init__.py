"""
Exactness tracked through a reference: which bits every correct kernel must return, whatever it computes.

Each tensor is followed by its exact value, the sum of |terms| behind each element, and a quantum that divides all
terms; the theorems of `zeroulp.exactness` then hold element by element. PyTorch is imported when something here that
needs it is first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from zeroulp.track.grades import Ending, Grade, Operation

if TYPE_CHECKING:
    from zeroulp.track.live import Liveness, OperandLiveness, changes, liveness, vanishing
    from zeroulp.track.program import Program
    from zeroulp.track.rules import Rule, decomposed, pointwise, register
    from zeroulp.track.rules.multilinear import multilinear
    from zeroulp.track.rules.structural import structural
    from zeroulp.track.target_run import OutputCheck, SelfCheck, native, self_check
    from zeroulp.track.tracked import Output, Tracked, refuse_random, track, track_program

_WHERE = {
    "live": ("Liveness", "OperandLiveness", "changes", "liveness", "vanishing"),
    "program": ("Program",),
    "rules": ("Rule", "decomposed", "multilinear", "pointwise", "register", "structural"),
    "target_run": ("OutputCheck", "SelfCheck", "native", "self_check"),
    "tracked": ("Output", "Tracked", "refuse_random", "track", "track_program"),
}

__all__ = [
    "Ending",
    "Grade",
    "Liveness",
    "OperandLiveness",
    "Operation",
    "Output",
    "OutputCheck",
    "Program",
    "Rule",
    "SelfCheck",
    "Tracked",
    "changes",
    "decomposed",
    "liveness",
    "multilinear",
    "native",
    "pointwise",
    "refuse_random",
    "register",
    "self_check",
    "structural",
    "track",
    "track_program",
    "vanishing",
]


def __getattr__(name: str) -> Any:
    """What needs PyTorch, imported when it is asked for."""
    for module, names in _WHERE.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
