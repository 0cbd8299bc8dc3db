"""Real libraries on this CPU: how many checks accuse them, and what they do outside the normal range."""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from pathlib import Path

from common import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.campaign.libraries import BEHAVIOUR, SUBJECTS

from zeroulp.report import Verdict


def row(subject, seeds):
    """Checks, accusations, and behaviour; what it is accused of."""
    reports = list(subject.checks(seeds=range(seeds)))
    accused = [found for found in reports if found.verdict is not Verdict.CORRECT]
    counts = [str(len(reports)), str(len(accused))]
    floating = not subject.problem["a"].startswith("int") and not subject.probes
    behaviour = subject.behaviour() if floating else [""] * len(BEHAVIOUR)
    shown = "" if subject.defect is None else "yes" if subject.defect() else "no"
    what = f"{subject.title}: {str(accused[0]).splitlines()[0]}" if accused else ""
    return [subject.title, *counts, shown, *behaviour], what


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="how many seeds (default 4)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, notes = [], []
    for subject in SUBJECTS:
        if not subject.missing():
            cells, what = row(subject, arguments.seeds)
            rows.append(cells)
            notes += [what] if what else []
    libraries = sorted({subject.package for subject in SUBJECTS if not subject.missing()})
    named = ", ".join(f"{name} {importlib.import_module(name).__version__}" for name in libraries)
    notes = [
        f"{named}; four shapes, each in the layouts that the function promises to take (contiguous, and all in turn).",
        "shown by hand: whether the defect that such a check meets is there without zeroulp too.",
        "kept: the exact value; zero: flushed; -: the formats have no such product.\n",
        *notes,
        *sorted({f"skipped: {subject.missing()}" for subject in SUBJECTS if subject.missing()}),
    ]
    head = ["function, formats, setting", "checks", "accused", "shown by hand", *BEHAVIOUR]
    report("Libraries on this CPU", head, rows, "\n".join(notes))


if __name__ == "__main__":
    main()
