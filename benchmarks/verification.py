"""What verifying one result costs against the product itself and an FP32 product on the CPU, and how both grow."""

from __future__ import annotations

import argparse
import importlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from common import Steps, Tables, add_output_option

import zeroulp
from zeroulp import encoding, memory
from zeroulp.arrays import HOST, Arrays, Torch
from zeroulp.checks.inputs import Inputs, draw_inputs
from zeroulp.judge import Matched
from zeroulp.plan import make_plan
from zeroulp.problem import LAYOUTS
from zeroulp.verify import Fed, Verifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PROBES = ("signed", "wide", "one_hot", "cancel", "halves", "sparse", "cover", "binary", "fractional")
SIZES = (1024, 2048, 4096, 8192)
HEAD = ["shape", "format", "probe", "kernel, ms", "draw, ms", "verify, ms", "verify / kernel", "FP32 on CPU, ms",
        "CPU / verify"]  # fmt: skip
GROWTH_HEAD = ["format", "what", "from n", "to n", "e, least squares", "e, end to end"]
NOTES = """`signed`: nothing rounds. `wide`: every result is rounded, and b has a pool of columns.
In full: some sums are not compared, and the whole reference says which; that is no verification in O(n^2)."""


@dataclass(frozen=True)
class Device:
    """
    Where it is measured.

    Args:
        arrays: The library.
        multiply: The kernel.
        synchronize: Waits for the device.
    """

    arrays: Arrays
    multiply: Callable[..., Any]
    synchronize: Callable[[], None]

    @classmethod
    def named(cls, name: str) -> Device:
        """The CPU, with the FP32 product as the kernel; or a device of PyTorch, with its matmul."""
        if name == "cpu":
            return cls(HOST, fp32_product, lambda: None)
        torch = importlib.import_module("torch")
        return cls(Torch(torch.device(name)), torch.matmul, torch.cuda.synchronize)

    def seconds(self, work: Callable[[], Any], repeats: int) -> float:
        """The shortest of some runs."""
        best = float("inf")
        for _ in range(repeats):
            self.synchronize()
            start = time.perf_counter()
            work()
            self.synchronize()
            best = min(best, time.perf_counter() - start)
        return best


class Bench:
    """
    The operands of one trial in memory, and a right result.

    Args:
        device: Where.
        inputs: The trial's operands.
    """

    def __init__(self, device: Device, inputs: Inputs) -> None:
        self.device, self.inputs = device, inputs
        arrays, problem = device.arrays, inputs.problem
        regions, size = memory.arrange([(operand, LAYOUTS["contiguous"]) for operand in problem.operands])
        block = arrays.from_host(np.zeros(size, np.uint8))
        self.operands = {region.name: memory.view(block, region) for region in regions}
        self.fill()
        self.result = arrays.codes(self.product())
        codes = {name: arrays.codes(array) for name, array in self.operands.items()}
        fed = Fed(problem, inputs.family, inputs.trial.certificate, arrays, codes, inputs.scales, inputs.pool)
        self.can = Verifier.can(fed)
        self.verifier = Verifier(fed, arrays.workspace)
        found = self.verify() if self.can else None
        assert found is None or isinstance(found, Matched), "the kernel is wrong"
        self.is_verified = found is not None

    def fill(self) -> None:
        """Draw the operands."""
        self.inputs.fill(self.device.arrays, self.operands)

    def product(self) -> Any:
        """Call the kernel."""
        return self.device.multiply(self.operands["a"], self.operands["b"])

    def verify(self) -> Any:
        """Verify its result."""
        return self.verifier.judge(self.result)

    def on_host(self) -> list[np.ndarray]:
        """The operands in the host's memory."""
        arrays, found = self.device.arrays, []
        for operand in self.inputs.problem.operands:
            codes = arrays.to_host(arrays.codes(self.operands[operand.name]))
            found.append(encoding.array_of(codes.view(encoding.code_dtype(operand.format)), operand.format))
        return found


def fp32_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The FP32 product on the CPU, rounded once: the reference of the original protocol."""
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


@dataclass
class Times:
    """
    Seconds of one format, by n.

    Args:
        cpu: Of the FP32 product on the CPU.
        kernel: Of the kernel.
        verify: Of verification, by probe.
    """

    cpu: dict[int, float]
    kernel: dict[int, float]
    verify: dict[str, dict[int, float]]


def growth(seconds: dict[int, float]) -> tuple[float, float]:
    """The exponent e of seconds ~ n^e: by least squares over all n, and from the smallest to the largest."""
    n, t = (np.log2(np.array(values, float)) for values in (list(seconds), list(seconds.values())))
    order = np.argsort(n)
    n, t = n[order], t[order]
    return float(np.polyfit(n, t, 1)[0]), float((t[-1] - t[0]) / (n[-1] - n[0]))


def add_options(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """What to verify; *prefix*: of options whose names others have too."""
    name, text = f"--{prefix}sizes", f"n of n x n x n; default: {' '.join(map(str, SIZES))}"
    parser.add_argument(name, dest="cubes", nargs="+", type=int, default=list(SIZES), metavar="N", help=text)
    parser.add_argument("--formats", nargs="+", default=["float16"], help="default: float16")
    parser.add_argument("--probes", nargs="+", choices=PROBES, default=list(PROBES), help="default: all of them")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: torch.matmul")
    parser.add_argument("--cpu-most", type=int, default=8192, help="largest n whose FP32 CPU product is measured")


def measure(tables: Tables, arguments: argparse.Namespace) -> None:
    """Make the tables: of every result, and of how times grow."""
    device, rows = Device.named(arguments.device), []
    times = {name: Times({}, {}, {}) for name in arguments.formats}
    cubes = sorted(set(arguments.cubes))
    where = "the CPU" if arguments.device == "cpu" else arguments.device
    try:
        with Steps("verification", len(times) * len(cubes) * len(arguments.probes)) as steps:
            for name, own in times.items():
                for n in cubes:
                    for found in _rows_of(device, zeroulp.Matmul(n, n, n, a=name), arguments, own, steps):
                        rows.append([f"{n}^3", name, *found])  # noqa: PERF401  (an interrupt leaves those before)
    finally:  # interrupted too: those that there are
        tables.add(f"Verification of one result on {where}", HEAD, rows, NOTES)
        grown = [row for name, own in times.items() for row in _growth_rows(name, own)]
        if grown:
            tables.add("Growth: seconds ~ n^e", GROWTH_HEAD, grown)


def _rows_of(
    device: Device, problem: zeroulp.Matmul, arguments: argparse.Namespace, times: Times, steps: Steps
) -> Iterator[list[str]]:
    """The probe and its times, for each of the probes that the plan has."""
    first = {trial.probe: trial for trial in reversed(make_plan(problem).trials) if trial.based_on is None}
    n = problem.n
    for probe in arguments.probes:
        steps.next(f"{n}^3 {problem.a} {probe}")
        if probe not in first:
            continue
        bench = Bench(device, draw_inputs(problem, first[probe], 1))
        if n not in times.kernel:
            times.kernel[n] = device.seconds(bench.product, arguments.repeats)
        if n not in times.cpu and n <= arguments.cpu_most:
            operands = bench.on_host()
            same = device.arrays is HOST
            times.cpu[n] = times.kernel[n] if same else device.seconds(lambda o=operands: fp32_product(*o), 1)
        kernel, cpu, drawn = times.kernel[n], times.cpu.get(n), device.seconds(bench.fill, arguments.repeats)
        if not bench.is_verified:
            yield [probe, _ms(kernel), _ms(drawn), "in full", "-", _ms(cpu), "-"]
            continue
        verified = device.seconds(bench.verify, arguments.repeats)
        times.verify.setdefault(probe, {})[n] = verified
        share = f"{cpu / verified:.1f}" if cpu else "-"
        yield [probe, *map(_ms, (kernel, drawn, verified)), f"{verified / kernel:.2f}", _ms(cpu), share]


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"


def _growth_rows(name: str, times: Times) -> list[list[str]]:
    measured = {"FP32 on CPU": times.cpu, "kernel": times.kernel}
    if measured["kernel"] == measured["FP32 on CPU"]:
        del measured["kernel"]
    measured |= {f"verify {probe}": seconds for probe, seconds in times.verify.items()}
    return [
        [name, what, str(min(seconds)), str(max(seconds)), *(f"{exponent:.2f}" for exponent in growth(seconds))]
        for what, seconds in measured.items()
        if len(seconds) > 1
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--repeats", type=int, default=3, help="runs, of which the best counts (default: 3)")
    add_output_option(parser)
    arguments = parser.parse_args(argv)
    with Tables(arguments.output) as tables:
        measure(tables, arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
