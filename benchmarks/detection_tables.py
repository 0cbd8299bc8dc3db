"""The tables of `detection.py`, from measurements as plain data."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT, SUPPLIED, BINARY = "zeroulp", "with needs", "binary"
KIND_RIGHT = "kind right"
HEADS = {
    "torch.allclose defaults": "torch.allclose",
    "FlashInfer-Bench": "FlashInfer",
    "GPU MODE matmul": "GPU MODE",
    "DeepGEMM similarity": "DeepGEMM",
    "0/1 exact match": "0/1 exact",
}

Measured = dict[str, Any]
"""A kernel: its name, kind (empty if correct), expected findings, and what was said of it, a list over seeds each."""


def head(tools: Sequence[str]) -> list[str]:
    """The columns of `rows_by_kind`."""
    return ["kind of fault", "kernels", DEFAULT, KIND_RIGHT, *(HEADS.get(tool, tool) for tool in tools[1:])]


def rows_by_kind(measured: Sequence[Measured], kinds: Sequence[str], tools: Sequence[str]) -> list[list[str]]:
    """Faults caught in every seed, by kind; correct kernels accused in any. The first tool is zeroulp."""
    rows = []
    for kind in [*kinds, "all"]:
        faults = [m for m in measured if m["kind"] and kind in (m["kind"], "all")]
        if faults:
            counts = [str(len(caught(faults, tool))) for tool in tools]
            rows.append([kind, str(len(faults)), counts[0], kind_right(faults, DEFAULT), *counts[1:]])
    right = [m for m in measured if not m["kind"]]
    if right:
        counts = [str(len(accused(right, tool))) for tool in tools]
        rows.append(["correct, accused", str(len(right)), counts[0], "", *counts[1:]])
    return rows


def caught(measured: Sequence[Measured], tool: str) -> list[Measured]:
    """Faults that *tool* catches in every seed."""
    return [m for m in measured if m["kind"] and all(m["wrong"][tool])]


def accused(measured: Sequence[Measured], tool: str) -> list[Measured]:
    """Correct kernels that *tool* accuses in any seed."""
    return [m for m in measured if not m["kind"] and any(m["wrong"][tool])]


def kind_right(measured: Sequence[Measured], tool: str) -> str:
    """Share of the checks that caught a fault and whose first finding is of a kind that the entry expects."""
    first = [(m, found[0]) for m in measured if m["kind"] for found in m["findings"][tool] if found]
    if not first:
        return "-"
    return f"{sum(kind in m['expected'] for m, kind in first) / len(first):.0%}"


def summary(measured: Sequence[Measured]) -> str:
    """What the tables come to, a line each for the default check and for one with what entries need."""
    faults = [m for m in measured if m["kind"]]
    right = len(measured) - len(faults)
    lines = []
    for tool in (DEFAULT, SUPPLIED):
        parts = []
        if faults:
            parts += [f"caught {len(caught(faults, tool))} of {len(faults)}"]
            parts += [f"kind right in {kind_right(faults, tool)}"] if any(any(m["wrong"][tool]) for m in faults) else []
        parts += [f"correct kernels accused: {len(accused(measured, tool))} of {right}"] if right else []
        lines.append(f"{tool}: {'; '.join(parts)}")
    return "\n".join(lines)


def missed(measured: Sequence[Measured]) -> tuple[str, list[str], list[list[str]]]:
    """Faults that zeroulp does not catch in every seed, although it is given what they need."""
    rows = []
    for m in measured:
        seen = m["wrong"][SUPPLIED]
        if m["kind"] and not all(seen):
            seeds = f"{sum(seen)} of {len(seen)}"
            rows.append([m["name"], m["kind"], ", ".join(m["needs"]), seeds, m["sentence"]])
    return "missed by zeroulp", ["fault", "kind", "needs", "seeds caught", "what goes wrong"], rows


def misnamed(measured: Sequence[Measured]) -> tuple[str, list[str], list[list[str]]]:
    """First findings of another kind than the expected ones."""
    rows = []
    for m in measured:
        first = collections.Counter(kinds[0] for kinds in m["findings"][SUPPLIED] if kinds)
        other = {kind: count for kind, count in first.items() if kind not in m["expected"]}
        if m["kind"] and other:
            got = ", ".join(f"{kind} ({count})" for kind, count in other.items())
            rows.append([m["name"], m["kind"], " or ".join(m["expected"]), got])
    return "findings of another kind than expected", ["fault", "kind", "expected", "found (seeds)"], rows


def accusations(measured: Sequence[Measured]) -> tuple[str, list[str], list[list[str]]]:
    """Correct kernels that zeroulp accuses: each is a fault of zeroulp."""
    rows = []
    for tool in (DEFAULT, SUPPLIED, BINARY):
        for m in accused(measured, tool):
            said = ", ".join(sorted({kind for kinds in m["findings"].get(tool, []) for kind in kinds}))
            rows.append([m["name"], tool, f"{sum(m['wrong'][tool])} of {len(m['wrong'][tool])}", said])
    return "CORRECT KERNELS ACCUSED BY ZEROULP", ["kernel", "by", "seeds", "findings"], rows


def undecided(measured: Sequence[Measured]) -> tuple[str, list[str], list[list[str]]]:
    """Checks that ended neither CORRECT nor INCORRECT."""
    rows = [[m["name"], text] for m in measured for text in sorted({text for run in m["undecided"] for text in run})]
    return "neither correct nor incorrect", ["kernel", "verdict"], rows
