"""The default check against the time of the kernel's own calls, as a ratio in one run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from common import report

import zeroulp

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = ("512x512x4096:float16", "512x512x4096:float32", "1024x1024x1024:float16")


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


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    default, text = [size(text) for text in SIZES], f"default: {' '.join(SIZES)}"
    parser.add_argument("--sizes", nargs="+", type=size, default=default, metavar="MxNxK[:FORMAT]", help=text)
    parser.add_argument("--repeats", type=int, default=3, help="the run with the smallest ratio counts (default: 3)")
    arguments = parser.parse_args(argv)
    rows = []
    for m, n, k, name in arguments.sizes:
        problem = zeroulp.Matmul(m, n, k, a=name)
        zeroulp.check(blas, problem, trials=1)
        reports = [zeroulp.check(blas, problem, seed=1) for _ in range(arguments.repeats)]
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
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
