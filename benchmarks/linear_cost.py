"""The check of a kernel that is given by a reference, against the time of the kernel's own calls, and where it goes."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import Counter
from functools import wraps
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
import torch.nn.functional as F  # noqa: N812
from common import Steps, Tables, add_output_option

import zeroulp
from zeroulp import Linear, Tensor
from zeroulp.checks.linear_run import LinearRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NOTES = """The check includes the kernel's calls, so 1.0 would be free. The run with the smallest ratio counts.
fit: choosing what to draw, with its tracked runs, self-checks and redraws; judge: the trials, without the
kernel's calls; in either, tracked: float64 runs that track, and native: runs of the reference in its own formats (ms).
The kernel is the reference itself, called on PyTorch's tensors.
"""


def convolution(x: Any, weight: Any) -> Any:
    """3x3, the image as large as before."""
    return F.conv2d(x, weight, padding=1)


def layer(x: Any, weight: Any, bias: Any, residual: Any) -> Any:
    """A product, a bias, relu, a residual."""
    return torch.relu(F.linear(x, weight, bias)) + residual


def scatter(x: Any, index: Any) -> Any:
    """Rows added up by index."""
    return torch.zeros(4096, x.shape[1], dtype=x.dtype).index_add(0, index, x)


def scan(x: Any) -> Any:
    """Along rows."""
    return torch.cumsum(x, 1)


def _weight(*shape: int, format: str = "float32") -> Tensor:  # noqa: A002
    return Tensor("weight", shape, format, role="weight")


def problems() -> dict[str, Linear]:
    """By what they are called in the table."""
    found = {}
    for name in ("float32", "float16", "bfloat16"):
        operands = [Tensor("x", (8, 64, 56, 56), name), _weight(64, 64, 3, 3, format=name)]
        found[f"conv 3x3, 64 channels, 56 x 56, batch 8, {name}"] = Linear(convolution, operands)
    for name in ("float32", "float16"):
        operands = [Tensor("a", (1024, 1024), name), Tensor("b", (1024, 1024), name)]
        found[f"matmul 1024, {name}"] = Linear(torch.matmul, operands, name="matmul")
    index = Tensor("index", (65536,), role="index", below=4096)
    found["scatter-add 65,536 x 64, float32"] = Linear(scatter, [Tensor("x", (65536, 64)), index])
    found["cumsum 2048 x 2048, float32"] = Linear(scan, [Tensor("x", (2048, 2048))])
    bias, residual = Tensor("bias", (1024,), role="weight"), Tensor("residual", (512, 1024))
    fused = [Tensor("x", (512, 1024)), _weight(1024, 1024), bias, residual]
    found["layer: linear, bias, relu, residual, 512 x 1024 x 1024, float32"] = Linear(layer, fused)
    return found


@contextlib.contextmanager
def timed(spent: Counter[str]) -> Iterator[None]:
    """Note what is spent in the parts of a check."""

    def around(function: Callable[..., Any], part: str) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                spent[part] += time.perf_counter() - start

        return call

    from zeroulp.checks import check  # noqa: PLC0415  (a module, and a function of the same name)
    from zeroulp.track import target_run, tracked  # noqa: PLC0415

    module = __import__(check.__module__, fromlist=["prepared"])
    with (
        patch.object(module, "prepared", around(module.prepared, "fit")),
        patch.object(LinearRun, "judge_all", around(LinearRun.judge_all, "judge")),
        patch.object(tracked, "track_program", around(tracked.track_program, "tracked")),
        patch.object(target_run, "_run", around(target_run._run, "native")),  # noqa: SLF001
    ):
        yield


def measure(problem: Linear, repeats: int) -> list[str]:
    """One row: the run with the smallest ratio, after one that does not count."""
    zeroulp.check(problem.reference, problem, trials=1, framework="torch", seed=0)
    runs = []
    for seed in range(repeats):
        spent: Counter[str] = Counter()
        with timed(spent):
            report = zeroulp.check(problem.reference, problem, framework="torch", seed=seed)
        kernel, check = report.seconds["kernel"], report.seconds["check"]
        spent["judge"] -= kernel
        runs.append((check / kernel, report, spent))
    ratio, report, spent = min(runs, key=lambda run: run[0])
    times = [report.seconds["kernel"], report.seconds["check"]]
    verdicts = "/".join(sorted({run[1].verdict.value for run in runs}))
    parts = [f"{spent[part] * 1e3:.0f}" for part in ("fit", "judge", "tracked", "native")]
    return [str(report.calls), *(f"{seconds * 1e3:.0f}" for seconds in times), f"{ratio:.1f}", *parts, verdicts]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="checks, of which the best counts (default: 5)")
    parser.add_argument("--only", default="", metavar="TEXT", help="problems that are called so")
    add_output_option(parser)
    arguments = parser.parse_args(argv)
    chosen = {name: problem for name, problem in problems().items() if arguments.only in name}
    head = ["problem", "calls", "kernel, ms", "check, ms", "ratio", "fit", "judge", "tracked", "native", "verdict"]
    with Tables(arguments.output) as tables:
        rows = []
        with Steps("checks of references", len(chosen)) as steps:
            for name, problem in chosen.items():
                steps.next(name)
                rows.append([name, *measure(problem, arguments.repeats)])
        threads = torch.get_num_threads()
        tables.add(f"Check of PyTorch's own kernels by reference ({threads} threads)", head, rows, NOTES)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
