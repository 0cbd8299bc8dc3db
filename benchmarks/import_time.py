"""``import zeroulp`` against ``import numpy``, as a ratio of medians in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

from common import report

_CODE = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def seconds(module: str, runs: int) -> float:
    """Median time of importing *module* in a fresh interpreter."""
    source = Path(__file__).resolve().parents[1] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", _CODE.format(module)]
    outputs = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(runs)
    ]
    return statistics.median(float(output) for output in outputs)


def main() -> None:
    """Measure and print."""
    runs = 15
    numpy, ours = seconds("numpy", runs), seconds("zeroulp", runs)
    rows = [["numpy", f"{numpy:.3f}", "1.0"], ["zeroulp (numpy included)", f"{ours:.3f}", f"{ours / numpy:.1f}"]]
    report(f"Import time, median of {runs} fresh interpreters", ["module", "seconds", "ratio"], rows)


if __name__ == "__main__":
    main()
