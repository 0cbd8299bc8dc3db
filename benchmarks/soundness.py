"""How many checks of correct kernels the soundness suite makes, and how many of them accuse."""

from __future__ import annotations

import collections
import sys
from pathlib import Path

import pytest
from common import report

import zeroulp
import zeroulp.checks.check

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run ``tests/soundness``, what is slow too, and count verdicts."""
    counted: collections.Counter[tuple[str, str]] = collections.Counter()
    original = zeroulp.check

    def counting(kernel: object, problem: zeroulp.Matmul, **options: object) -> zeroulp.Report:
        result = original(kernel, problem, **options)
        counted[problem.a, result.verdict.value] += 1
        return result

    zeroulp.check = counting
    sys.path.insert(0, str(ROOT))
    everything = ["-m", "not gpu"]  # also what is slow
    status = pytest.main(["-q", "--no-header", *everything, str(ROOT / "tests" / "soundness")])
    verdicts = ["CORRECT", "INCORRECT", "INCONCLUSIVE", "BROKEN"]
    formats = sorted({name for name, _ in counted})
    rows = [[name, *(str(counted[name, verdict]) for verdict in verdicts)] for name in formats]
    rows.append(["all", *(str(sum(counted[name, verdict] for name in formats)) for verdict in verdicts)])
    report(
        "Checks in tests/soundness",
        ["format of a", *verdicts],
        rows,
        "Other verdicts than CORRECT are those of kernels that break the promise on purpose, to show that the tests\n"
        "can fail; the suite itself says whether each verdict was the right one.",
    )
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
