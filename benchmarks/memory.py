"""Peak memory of checks, each in a process of its own, beside their operands, output and guards."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from check_cost import size
from common import report

import zeroulp
from zeroulp.checks.bench import block_size
from zeroulp.plan import make_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = ("16384x16384x32:float16", "16384x16384x32:float32", "32x16384x16384:float16", "32x16384x16384:float32")
KERNELS = ("returns", "writes", "gathers")
ISOLATIONS = ("none", "process")
PARTS = "operands, output, guards"
HEAD = ("m x n x k", "format", "kernel", "isolation", PARTS, "peak", "beyond", "calls", "s", "verdict")
_TILE = 1024
_PAUSE = 0.01  # seconds between two looks at the processes


def writes(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """A kernel that takes some MiB for itself: tiles in float32, or BLAS."""
    if a.dtype == np.float32:
        np.matmul(a, b, out=out)
        return
    for i in range(0, a.shape[0], _TILE):
        for j in range(0, b.shape[1], _TILE):
            tile: Any = np.float32(0)
            for k in range(0, a.shape[1], _TILE):
                left, right = a[i : i + _TILE, k : k + _TILE], b[k : k + _TILE, j : j + _TILE]
                tile = tile + left.astype(np.float32) @ right.astype(np.float32)
            out[i : i + _TILE, j : j + _TILE] = tile


def returns(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same, which allocates its output."""
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    writes(a, b, out)
    return out


def gathers(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns its output, in O(m n): right where rows of a or columns of b have one element, as in `one_hot`."""
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    step = range(0, len(a), _TILE // 4)
    if all(int((a[i : i + step.step] != 0).sum(1).max()) <= 1 for i in step):
        lone, whole, result = a, b, out
    else:
        lone, whole, result = b.T, a.T, out.T
    for i in range(0, len(lone), step.step):
        part = lone[i : i + step.step]
        k = (part != 0).argmax(1)
        values = part[np.arange(len(part)), k]
        for row, (place, value) in enumerate(zip(k, values, strict=True), i):
            result[row] = whole[place].astype(np.float32) * np.float32(value)
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; or be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    default, text = [size(text) for text in SIZES], f"default: {' '.join(SIZES)}"
    parser.add_argument("--sizes", nargs="+", type=size, default=default, metavar="MxNxK[:FORMAT]", help=text)
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=KERNELS[:2], help="default: returns writes")
    parser.add_argument("--isolate", nargs="+", choices=ISOLATIONS, default=ISOLATIONS, help="default: both")
    parser.add_argument("--trials", type=int, help="trials of each probe (default: a default check)")
    parser.add_argument("--probe", action="append", help="a probe to use (default: all)")
    parser.add_argument("--measured", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.measured:
        print(json.dumps(_check(**json.loads(arguments.measured))))
        return 0
    options = {"trials": arguments.trials, "probes": arguments.probe}
    rows = []
    for m, n, k, name in arguments.sizes:
        for kernel in arguments.kernels:
            for isolation in arguments.isolate:
                case = {"sizes": (m, n, k), "name": name, "kernel": kernel, "isolation": isolation, "options": options}
                peak, done = _measure(case)
                over = peak - done["needed"]
                sizes = [f"{value / 2**20:,.0f}" for value in (done["needed"], peak, over)]
                row = [f"{m} x {n} x {k}", name, kernel, isolation, *sizes]
                rows.append([*row, f"{done['calls']}", f"{done['seconds']:.0f}", done["verdict"]])
                print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    alone, _ = _measure(None)
    report(
        "Peak memory of a check in MiB, beside operands, one output and guards",
        list(HEAD),
        rows,
        f"Nothing is subtracted. Python, NumPy and zeroulp alone take {alone / 2**20:.0f} MiB; a worker has them too.\n"
        "peak: VmHWM of the process; with a worker what both have of their own and what they share, every 10 ms.\n"
        "A result that a worker's kernel returns is there twice: where the kernel left it, and where it is judged.",
    )
    return 0


def _check(
    sizes: tuple[int, int, int], name: str, kernel: str, isolation: str, options: dict[str, Any]
) -> dict[str, Any]:
    """One check, by the process that is measured."""
    problem = zeroulp.Matmul(*sizes, a=name)
    passing = kernel == "writes"
    plan = make_plan(problem, **options)
    needed = block_size(problem, [trial.layouts for trial in plan.trials], writes=passing)
    if not passing:
        needed += problem.output.size * np.dtype(name).itemsize
    done = zeroulp.check(
        f"{__file__}:{kernel}",
        problem,
        seed=1,
        isolation=isolation,
        destination_passing=passing,
        deadline_seconds=3600.0,
        **options,
    )
    return {"needed": needed, "verdict": done.verdict.value, "calls": done.calls, "seconds": done.seconds["check"]}


def _measure(case: dict[str, Any] | None) -> tuple[int, dict[str, Any]]:
    """Bytes at the peak of a process that does the case (None: nothing), and what it says."""
    command = [sys.executable, __file__, "--measured", json.dumps(case)] if case else [sys.executable, "-c", _NOTHING]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            time.sleep(_PAUSE)
            peak = max(peak, _resident(process.pid))
        assert process.stdout is not None
        said = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"the measured process ended with exit status {process.returncode}")
    return peak, json.loads(said)


_NOTHING = f"import sys, time; sys.path.insert(0, {sys.path[0]!r}); import zeroulp; time.sleep(0.3); print('{{}}')"


def _resident(pid: int) -> int:
    """Bytes of a process and its worker now, what they share counted once; at least the process's own peak."""
    facts = [_status(other) for other in (pid, *_children(pid))]
    own = sum(fact.get("RssAnon", 0) + fact.get("RssFile", 0) for fact in facts)
    shared = max(fact.get("RssShmem", 0) for fact in facts)
    return max(own + shared, facts[0].get("VmHWM", 0))


def _children(pid: int) -> list[int]:
    try:
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _status(pid: int) -> dict[str, int]:
    """Sizes in bytes that the kernel of the system tells of a process."""
    try:
        lines = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    except OSError:
        return {}
    return {line[0].rstrip(":"): int(line[1]) * 1024 for line in lines if line[-1] == "kB"}


if __name__ == "__main__":
    raise SystemExit(main())
