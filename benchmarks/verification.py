"""What verifying one result costs, against the product itself and against an FP32 product on the CPU."""

from __future__ import annotations

import argparse
import importlib
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from common import report

import zeroulp
from zeroulp import encoding, memory
from zeroulp.arrays import HOST, Arrays, Torch
from zeroulp.checks.inputs import Inputs, draw_inputs
from zeroulp.judge import Matched
from zeroulp.plan import make_plan
from zeroulp.problem import LAYOUTS
from zeroulp.verify import Fed, Verifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROBES = ("signed", "wide")


class Bench:
    """
    The operands of one trial in memory, and a right result.

    Args:
        arrays: Where.
        inputs: The trial's operands.
        multiply: The kernel.
        synchronize: Waits for the device.
    """

    def __init__(
        self, arrays: Arrays, inputs: Inputs, multiply: Callable[..., Any], synchronize: Callable[[], None]
    ) -> None:
        self.arrays, self.inputs, self.multiply, self.synchronize = arrays, inputs, multiply, synchronize
        problem = inputs.problem
        regions, size = memory.arrange([(operand, LAYOUTS["contiguous"]) for operand in problem.operands])
        block = arrays.from_host(np.zeros(size, np.uint8))
        self.operands = {region.name: memory.view(block, region) for region in regions}
        self.fill()
        self.result = arrays.codes(self.product())
        codes = {name: arrays.codes(array) for name, array in self.operands.items()}
        fed = Fed(problem, inputs.family, inputs.trial.certificate, arrays, codes, inputs.scales, inputs.pool)
        self.verifier = Verifier(fed, arrays.workspace)
        assert isinstance(self.verify(), Matched), "the kernel is wrong"

    def fill(self) -> None:
        """Draw the operands."""
        self.inputs.fill(self.arrays, self.operands)

    def product(self) -> Any:
        """Call the kernel."""
        return self.multiply(self.operands["a"], self.operands["b"])

    def verify(self) -> Any:
        """Verify its result."""
        return self.verifier.judge(self.result)

    def on_host(self) -> list[np.ndarray]:
        """The operands in the host's memory."""
        found = []
        for operand in self.inputs.problem.operands:
            codes = self.arrays.to_host(self.arrays.codes(self.operands[operand.name]))
            found.append(encoding.array_of(codes.view(encoding.code_dtype(operand.format)), operand.format))
        return found

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


def fp32_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The FP32 product on the CPU, rounded once: the reference of the original protocol."""
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def row(bench: Bench, repeats: int, cpu: float | None) -> list[str]:
    """One line of the table."""
    kernel, drawn, verified = (bench.seconds(work, repeats) for work in (bench.product, bench.fill, bench.verify))
    return [
        *(f"{1e3 * seconds:.2f}" for seconds in (kernel, drawn, verified)),
        f"{verified / kernel:.2f}",
        f"{1e3 * cpu:.0f}" if cpu else "-",
        f"{cpu / verified:.1f}" if cpu else "-",
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1024, 2048, 4096], help="n of n x n x n")
    parser.add_argument("--formats", nargs="+", default=["float16"])
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: torch.matmul")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu-most", type=int, default=8192, help="largest n whose FP32 CPU product is measured")
    arguments = parser.parse_args(argv)
    arrays, multiply, synchronize = HOST, fp32_product, lambda: None
    if arguments.device != "cpu":
        torch = importlib.import_module("torch")
        arrays, multiply = Torch(torch.device(arguments.device)), torch.matmul
        synchronize = torch.cuda.synchronize
    rows = []
    for name in arguments.formats:
        for n in arguments.sizes:
            problem = zeroulp.Matmul(n, n, n, a=name)
            trials, cpu = make_plan(problem).trials, None
            for probe in PROBES:
                trial = next(t for t in trials if t.probe == probe)
                bench = Bench(arrays, draw_inputs(problem, trial, 1), multiply, synchronize)
                if cpu is None and n <= arguments.cpu_most:
                    operands = bench.on_host()
                    cpu = bench.seconds(lambda operands=operands: fp32_product(*operands), 1)
                rows.append([f"{n}^3", name, probe, *row(bench, arguments.repeats, cpu)])
    times = ["kernel, ms", "draw, ms", "verify, ms", "verify / kernel", "FP32 on CPU, ms", "CPU / verify"]
    notes = "`signed`: nothing rounds. `wide`: every result is rounded, and b has a pool of columns."
    report("Verification of one result", ["shape", "format", "probe", *times], rows, notes)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
