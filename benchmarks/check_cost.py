"""The default check against the time of the kernel's own calls, as a ratio in one run."""

from __future__ import annotations

import argparse

import numpy as np
from common import report

import zeroulp


def blas(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A NumPy kernel as fast as they come: float32 BLAS, one rounding."""
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="the run with the smallest ratio counts")
    repeats = parser.parse_args().repeats
    rows = []
    for m, n, k, name in ((512, 512, 4096, "float16"), (512, 512, 4096, "float32"), (1024, 1024, 1024, "float16")):
        problem = zeroulp.Matmul(m, n, k, a=name)
        zeroulp.check(blas, problem, trials=1)
        reports = [zeroulp.check(blas, problem, seed=1) for _ in range(repeats)]
        best = min(reports, key=lambda r: r.seconds["check"] / r.seconds["kernel"])
        kernel, check = best.seconds["kernel"], best.seconds["check"]
        ratio = f"{check / kernel:.1f}"
        rows.append([f"{m} x {n} x {k}", name, str(best.calls), f"{kernel:.3f}", f"{check:.3f}", ratio])
    report(
        "Default check of a NumPy kernel against its own calls",
        ["m x n x k", "format", "calls", "kernel, s", "check, s", "ratio"],
        rows,
        "The check includes the kernel's calls, so 1.0 would be free.",
    )


if __name__ == "__main__":
    main()
