"""What it takes to find, locate and name a fault of a large kernel, against the kernel's own calls."""

from __future__ import annotations

import argparse
import resource
import time
from typing import TYPE_CHECKING

import numpy as np
from common import report

import zeroulp
from zeroulp.checks import run as checks_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zeroulp.report import Report


def right(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product in float32, rounded once."""
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def one_ulp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One element in the middle is the next number."""
    out = right(a, b)
    place = out.shape[0] // 3, out.shape[1] // 2 + 1
    out[place] = np.nextafter(out[place], out.dtype.type(np.inf))
    return out


def last_row(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The last row has the sign turned."""
    out = right(a, b)
    out[-1] = -out[-1]
    return out


def last_k(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The last product of every sum is left out."""
    return right(a[:, :-1], b[:-1])


def last_block(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The last 128 x 128 outputs lack the last 32 products."""
    out = right(a, b)
    out[-128:, -128:] = right(a[-128:, :-32], b[:-32, -128:])
    return out


def unwritten_block(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """The last 64 rows of the last 64 columns are never written."""
    corner = out[-64:, -64:].copy()
    out[...] = right(a, b)
    out[-64:, -64:] = corner


def narrow_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sums are rounded to the output's format after each quarter of k (to float16 for float32)."""
    narrow = np.float16
    total = np.zeros((a.shape[0], b.shape[1]), narrow)
    step = max(1, a.shape[1] // 4)
    for low in range(0, a.shape[1], step):
        piece = a[:, low : low + step].astype(np.float32) @ b[low : low + step].astype(np.float32)
        total = (total.astype(np.float32) + piece).astype(narrow)
    return total.astype(a.dtype)


FAULTS = {kernel.__name__: kernel for kernel in (one_ulp, last_row, last_k, last_block, unwritten_block, narrow_sums)}


class Naming:
    """Seconds, and kernel calls, that names take: measured around `name_difference`."""

    def __init__(self) -> None:
        self._name = checks_run.name_difference
        self.seconds, self.kernel_seconds, self.calls = 0.0, 0.0, 0

    def __call__(self, bench, *rest):
        """Name a difference, with a clock."""
        start, kernel, calls = time.perf_counter(), bench.kernel_seconds, bench.calls
        try:
            return self._name(bench, *rest)
        finally:
            self.seconds = time.perf_counter() - start
            self.kernel_seconds, self.calls = bench.kernel_seconds - kernel, bench.calls - calls


def located(kernel: Callable[..., np.ndarray], n: int, format_: str) -> tuple[Report, Naming]:
    """A default check of n x n x n."""
    naming = Naming()
    own = checks_run.name_difference
    checks_run.name_difference = naming
    try:
        writes = kernel is unwritten_block
        found = zeroulp.check(kernel, zeroulp.Matmul(n, n, n, a=format_), seed=1, destination_passing=writes)
    finally:
        checks_run.name_difference = own
    return found, naming


def rows(sizes: Sequence[int], formats: Sequence[str], faults: Sequence[str]) -> Iterator[list[str]]:
    """The lines of the table, as they come."""
    for n in sizes:
        for format_ in formats:
            for name in faults:
                found, naming = located(FAULTS[name], n, format_)
                kernel, check = found.seconds["kernel"], found.seconds["check"]
                before = (check - naming.seconds) - (kernel - naming.kernel_seconds)
                one = kernel / max(1, found.calls)
                sentence = found.findings[0].sentence if found.findings else found.verdict.value
                kind = found.findings[0].kind if found.findings else "-"
                row = [f"{n}^3", format_, name.replace("_", " "), f"{one:.3g}", f"{found.calls - naming.calls}"]
                row += [f"{before / one:.1f}", f"{naming.calls}"]
                row += [f"{(naming.seconds - naming.kernel_seconds) / one:.1f}", kind, sentence]
                print("  ".join(row), flush=True)
                yield row


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[512, 1024, 2048, 4096, 8192], help="n of n x n x n")
    parser.add_argument("--formats", nargs="+", default=["float16", "float32"])
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=list(FAULTS))
    arguments = parser.parse_args(argv)
    found = list(rows(arguments.sizes, arguments.formats, arguments.faults))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    calls = ["kernel, s", "calls", "check / call", "naming calls", "naming / call"]
    notes = (
        "`kernel, s`: one call. `calls`: until a difference is found. `check / call`: all that the check does until"
        "\nthen without the kernel, in calls of it. `naming calls`: further ones, for the name. `naming / call`: all"
        f"\nthat is done for that without the kernel, in calls of it. Most memory of the process: {peak:.1f} GiB.\n"
    )
    head = ["shape", "format", "fault", *calls, "kind", "said"]
    report("Faults of large kernels, found, located and named", head, found, notes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
