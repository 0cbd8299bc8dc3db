"""What an entry of the zoo is, and the table of them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = {
    "layout": "layout, stride, transposition, alignment, fragment mapping",
    "unknown": "cause not visible in the report",
    "race": "race, missing barrier or fence, non-deterministic",
    "reward-hack": "hack of a checker or benchmark",
    "size-threshold": "wrong only above or below a size",
    "k-tail": "remainder of K dropped, unmasked, double counted",
    "int-overflow": "offset or size wraps (emulated with a small modulus)",
    "m-n-tail": "remainder of M or N unwritten, duplicated, overlapping",
    "precision-acc": "accumulator type or overflow of an intermediate",
    "uninitialised": "uninitialised output, accumulator or workspace",
    "precision-splitk": "split-K partials in the output type",
    "nan-inf": "propagation of NaN and infinity",
    "pipeline": "software pipelining, deterministic",
    "scale-epilogue": "scale, alpha, beta or bias misapplied",
    "precision-input": "operands rounded to a narrower type",
    "saturation": "saturation or overflow convention",
    "dtype-confusion": "bytes read as another type",
    "protocol": "calling contract: shapes, types, bounds, inputs",
    "scan-carry": "carry between blocks of a scan",
    "scheduler": "tile or work item skipped or done twice",
    "weak-test": "another formula, which inputs of zeros and ones cannot tell",
    "stale-state": "state left over from an earlier call",
    "denormal": "subnormal numbers flushed",
    "rounding": "rounding of the output",
    "value-dependent": "a branch on the values: zeros skipped, small ones pruned, inputs recognised",
}
"""The kinds of fault, after public bug reports."""

NEEDS = {
    "layouts any": "a problem whose layouts vary",
    "shapes ragged": "shapes next to the one that was asked for",
    "repeat": "many more calls on one input",
}
"""What a fault may need beyond a default check of its problem."""


@dataclass(frozen=True)
class Entry:
    """
    One kernel of the zoo.

    Args:
        name: Its id.
        kind: One of `KINDS`; empty for a correct kernel.
        finding: The finding kinds that name it rightly.
        models: The public report, or the practice, that it models.
        problem: Arguments of ``zeroulp.Matmul``: the smallest telling problem.
        options: Further arguments of ``zeroulp.check``.
        needs: Of `NEEDS`: what a default check of the problem lacks to see it.
        changes: Changes of the problem that supply it.
        extra: Options that supply it.
        factory: Makes a fresh kernel.
        available: Whether it can be made here; returns the reason if not.
    """

    name: str
    kind: str
    finding: tuple[str, ...]
    models: str
    problem: dict[str, Any]
    options: dict[str, Any]
    needs: tuple[str, ...]
    changes: dict[str, Any]
    extra: dict[str, Any]
    factory: Callable[[], Callable[..., Any]] = field(repr=False)
    available: Callable[[], str] = field(repr=False)

    @property
    def is_correct(self) -> bool:
        """Whether it keeps its contract."""
        return not self.kind

    @property
    def sentence(self) -> str:
        """What goes wrong."""
        return " ".join((self.factory.__doc__ or "").split())

    def make(self) -> Callable[..., Any]:
        """A fresh kernel: its caches and counters start anew. Floating-point warnings are silenced."""
        kernel = self.factory()

        @functools.wraps(kernel)
        def quiet(*operands: Any, **keywords: Any) -> Any:
            with np.errstate(all="ignore"):
                return kernel(*operands, **keywords)

        return quiet


TABLE: dict[str, Entry] = {}


def _here() -> str:
    return ""


def faulty(
    name: str,
    *,
    kind: str,
    models: str,
    problem: dict[str, Any],
    finding: str | tuple[str, ...] = "wrong-result",
    options: dict[str, Any] | None = None,
    needs: tuple[str, ...] = (),
    changes: dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
    available: Callable[[], str] = _here,
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Decorator of a factory: register its kernel as a faulty one."""
    assert kind in KINDS, kind
    assert set(needs) <= set(NEEDS), needs

    def register(factory: Callable[[], Any]) -> Callable[[], Any]:
        found = (finding,) if isinstance(finding, str) else finding
        given = (options or {}, needs, changes or {}, extra or {})
        _add(Entry(name, kind, found, models, problem, *given, factory, available))
        return factory

    return register


def correct(
    name: str,
    *,
    models: str,
    problem: dict[str, Any],
    options: dict[str, Any] | None = None,
    available: Callable[[], str] = _here,
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Decorator of a factory: register its kernel as a correct one."""

    def register(factory: Callable[[], Any]) -> Callable[[], Any]:
        _add(Entry(name, "", (), models, problem, options or {}, (), {}, {}, factory, available))
        return factory

    return register


def _add(entry: Entry) -> None:
    assert entry.name not in TABLE, f"{entry.name} is there twice"
    TABLE[entry.name] = entry
