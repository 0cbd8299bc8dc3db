"""The README's table of kinds: ``python -m benchmarks.zoo`` prints it, with ``--write`` renews it."""

from __future__ import annotations

import sys
from pathlib import Path

from . import CORRECT, FAULTY, KINDS, NEEDS

README = Path(__file__).with_name("README.md")
START, END = "<!-- counts: start -->\n", "<!-- counts: end -->"


def counts() -> str:
    """Entries by kind, in Markdown."""
    rows = [(f"{kind}: {text}", [e for e in FAULTY if e.kind == kind]) for kind, text in KINDS.items()]
    lines = ["| kind | kernels |", "| --- | --- |", *(f"| {text} | {len(found)} |" for text, found in rows)]
    lines += [f"| **all faulty** | {len(FAULTY)} |", f"| **correct** | {len(CORRECT)} |", ""]
    lines += ["| a fault may need | kernels |", "| --- | --- |"]
    lines += [f"| {need}: {text} | {sum(need in e.needs for e in FAULTY)} |" for need, text in NEEDS.items()]
    return "\n".join(lines) + "\n"


def renewed(text: str) -> str:
    """The README with today's counts."""
    before, _, rest = text.partition(START)
    return before + START + counts() + END + rest.partition(END)[2]


if __name__ == "__main__":
    if "--write" in sys.argv:
        README.write_text(renewed(README.read_text()))
    else:
        print(counts(), end="")
