"""What verifying one result costs, against the product itself and against an FP32 product on the CPU."""

from __future__ import annotations

import argparse
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

    def __init__(self, arrays: Arrays, inputs: Inputs, multiply: Callable[..., Any], synchronize: Callable[[], None]) -> None:
        self.arrays, self.inputs, self.multiply, self.synchronize = arrays, inputs, multiply, synchronize
        problem = inputs.problem
        regions, size = memory.arrange([(operand, LAYOUTS["contiguous"]) for operand in problem.operands])
        block = arrays.from_host(np.zeros(size, np.uint8))
        self.operands = {region.name: memory.view(block, region) for region in regions}
        self.fill()
        self.result = arrays.codes(self.product())
        codes = {name: arrays.codes(array) for name, array in self.operands.items()}
        self.verifier = Verifier(Fed(problem, inputs.family, inputs.trial.certificate, arrays, codes, inputs.scales, inputs.pool))
        outcome = self.verifier.judge(self.result)
        assert isinstance(outcome, Matched), f"the kernel is wrong: {outcome}"

    def fill(self) -> None:
        """Draw the operands."""
        self.inputs.fill(self.arrays, self.operands)

    def product(self) -> Any:
        """Call the kernel."""
        return self.multiply(self.operands["a"], self.operands["b"])

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


def on_host(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The FP32 product on the CPU, rounded once: the reference of the original protocol."""
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[1024, 2048, 4096], help="n of n x n x n")
    parser.add_argument("--formats", nargs="+", default=["float16"])
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: torch.matmul")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu-most", type=int, default=8192, help="largest n whose FP32 CPU product is measured")
    arguments = parser.parse_args(argv)
    arrays, multiply, synchronize = HOST, on_host, lambda: None
    if arguments.device != "cpu":
        import torch

        arrays, multiply = Torch(torch.device(arguments.device)), torch.matmul
        synchronize = torch.cuda.synchronize
    rows = []
    for name in arguments.formats:
        for n in arguments.sizes:
            problem = zeroulp.Matmul(n, n, n, a=name)
            trials = make_plan(problem).trials
            cpu = None
            for probe in PROBES:
                trial = next(t for t in trials if t.probe == probe)
                bench = Bench(arrays, draw_inputs(problem, trial, 1), multiply, synchronize)
                kernel = bench.seconds(bench.product, arguments.repeats)
                verified = bench.seconds(lambda bench=bench: bench.verifier.judge(bench.result), arguments.repeats)
                drawn = bench.seconds(bench.fill, arguments.repeats)
                if cpu is None and n <= arguments.cpu_most:
                    host = {o.name: encoding.array_of(np.ascontiguousarray(arrays.to_host(arrays.codes(bench.operands[o.name]))).view(encoding.code_dtype(o.format)), o.format) for o in problem.operands}
                    cpu = bench.seconds(lambda host=host: on_host(host["a"], host["b"]), 1)
                ratio = f"{cpu / verified:.1f}" if cpu else "-"
                rows.append([f"{n}^3", name, probe, *(f"{1e3 * s:.2f}" for s in (kernel, drawn, verified)), f"{verified / kernel:.2f}", f"{1e3 * cpu:.0f}" if cpu else "-", ratio])
    head = ["shape", "format", "probe", "kernel, ms", "draw, ms", "verify, ms", "verify / kernel", "FP32 on CPU, ms", "CPU / verify"]
    report("Verification of one result", head, rows, "`signed`: nothing rounds. `wide`: every result is rounded, and b has a pool of columns.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
