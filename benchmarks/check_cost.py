"""The default check against the time of the kernel's own calls, as a ratio in one run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from common import Steps, Tables, add_output_option

import zeroulp

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (
    "512x512x512:float16",
    "1024x1024x1024:float16",
    "2048x2048x2048:float16",
    "512x512x4096:float16",
    "512x512x4096:float32",
)

NOTES = "The check includes the kernel's calls, so 1.0 would be free. The run with the smallest ratio counts."


def blas(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A NumPy kernel as fast as they come: float32 BLAS, one rounding."""
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def size(text: str) -> tuple[int, int, int, str]:
    """Sizes and format of ``512x512x4096:float16``; without a format, float16."""
    sizes, _, name = text.partition(":")
    try:
        m, n, k = map(int, sizes.split("x"))
        return m, n, k, zeroulp.Matmul(m, n, k, a=name or "float16").a
    except (ValueError, zeroulp.ZeroulpError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not like 512x512x4096:float16") from error


def add_options(parser: argparse.ArgumentParser) -> None:
    """``--sizes`` and ``--repeats``."""
    default, text = [size(text) for text in SIZES], f"of the checks; default: {' '.join(SIZES)}"
    parser.add_argument("--sizes", nargs="+", type=size, default=default, metavar="MxNxK[:FORMAT]", help=text)
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts (default: 3)")


def measure(tables: Tables, sizes: Sequence[tuple[int, int, int, str]], repeats: int) -> None:
    """Make the table."""
    rows = []
    try:
        with Steps("default check", len(sizes) * repeats) as steps:
            for m, n, k, name in sizes:
                problem = zeroulp.Matmul(m, n, k, a=name)
                zeroulp.check(blas, problem, trials=1)
                reports = []
                for _ in range(repeats):
                    steps.next(f"{m} x {n} x {k}, {name}")
                    reports.append(zeroulp.check(blas, problem, seed=1))
                rows.append([f"{m} x {n} x {k}", name, *_best(reports)])
    finally:  # interrupted too: those that there are
        head = ["m x n x k", "format", "calls", "kernel, s", "check, s", "ratio", "verdict"]
        tables.add("Default check of a NumPy kernel against its own calls", head, rows, NOTES)


def _best(reports: Sequence[zeroulp.Report]) -> list[str]:
    """Calls, times and ratio of the run with the smallest ratio, and what all of them said."""
    best = min(reports, key=lambda report: report.seconds["check"] / report.seconds["kernel"])
    kernel, check = best.seconds["kernel"], best.seconds["check"]
    verdicts = "/".join(sorted({report.verdict.value for report in reports}))
    return [str(best.calls), f"{kernel:.3f}", f"{check:.3f}", f"{check / kernel:.1f}", verdicts]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    add_output_option(parser)
    arguments = parser.parse_args(argv)
    with Tables(arguments.output) as tables:
        measure(tables, arguments.sizes, arguments.repeats)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
