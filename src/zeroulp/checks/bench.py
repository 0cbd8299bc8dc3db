"""
One trial: inputs in guarded memory, calls, and everything but the values looked at.

Around every call: the output is poisoned (a second call uses another poison), NaN lies beside
and between the inputs, a pattern beside the output; afterwards inputs and guards are compared
with private copies, dtype and shape come before values, and the result of the call before must
still be what it was. Inputs of successive trials share their buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding, memory
from zeroulp.checks.inputs import Inputs, draw_inputs
from zeroulp.judge import Outcome, judge, same
from zeroulp.problem import LAYOUTS
from zeroulp.report import Finding
from zeroulp.runner.base import Call

if TYPE_CHECKING:
    from zeroulp.encoding import Array
    from zeroulp.memory import Region
    from zeroulp.plan import Trial
    from zeroulp.problem import Matmul
    from zeroulp.reference import Expected
    from zeroulp.runner import Returned, Runner


@dataclass
class Observation:
    """
    What one trial showed.

    Args:
        inputs: What the kernel was fed.
        expected: What every correct kernel returns.
        codes: What it returned at each call, where dtype and shape were right.
        poison: Encodings that stood in the output (or in freed memory) before each call.
        outcome: The first call's result, judged; None if it could not be.
        findings: Defects other than wrong values.
    """

    inputs: Inputs
    expected: Expected
    codes: list[Array] = field(default_factory=list)
    poison: list[int] = field(default_factory=list)
    outcome: Outcome | None = None
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class _Earlier:
    """A result that must not change any more."""

    number: int
    trial: int
    layouts: dict[str, str]
    output: Region
    codes: Array


def block_size(problem: Matmul, layouts: list[dict[str, str]], *, writes: bool) -> int:
    """Bytes of memory that trials with these layouts need."""
    return max((_regions(problem, names, writes=writes)[2] for names in layouts), default=0)


def _regions(problem: Matmul, layouts: dict[str, str], *, writes: bool) -> tuple[list[Region], list[Region], int]:
    """Regions of the operands, two for the output (used in turn), and the bytes of all."""
    inputs = [(operand, LAYOUTS[layouts[operand.name]]) for operand in problem.operands]
    outputs = [(problem.output, LAYOUTS[layouts["out"] if writes else "contiguous"])] * (2 if writes else 1)
    regions, size = memory.arrange([*inputs, *outputs])
    return regions[: len(inputs)], regions[len(inputs) :], size if writes else regions[len(inputs)].low


class Bench:
    """
    Runs trials of one problem on one kernel, one after the other.

    Args:
        problem: What the kernel computes.
        runner: Where it runs.
        seed: The check's seed.
        writes: Whether it writes into its last argument.
    """

    def __init__(self, problem: Matmul, runner: Runner, seed: int, *, writes: bool) -> None:
        self.problem, self.runner, self.seed, self.writes = problem, runner, seed, writes
        self.calls = 0
        self.kernel_seconds = 0.0
        self.last: Observation | None = None
        self._earlier: _Earlier | None = None

    def observe(self, trial: Trial, *, calls: int | None = None, plain_guards: bool = False) -> Observation:
        """
        Draw the trial's inputs, call the kernel, look at everything.

        Args:
            trial: The trial.
            calls: How many calls, instead of what the trial says.
            plain_guards: Put zeros around the inputs in place of NaN.
        """
        inputs = draw_inputs(self.problem, trial, self.seed)
        seen = Observation(inputs, inputs.expected(self.problem))
        operands, outputs, _ = _regions(self.problem, trial.layouts, writes=self.writes)
        block = self.runner.block
        for region, operand in zip(operands, self.problem.operands, strict=True):
            memory.fill(block, region, 0 if plain_guards else memory.poison_code(operand.format))
            encoding.bits_of(memory.view(block, region))[...] = inputs.codes[operand.name]
        copies = [memory.raw(block, region).copy() for region in operands]
        for i in range(trial.calls if calls is None else calls):
            output = outputs[self.calls % len(outputs)]
            returned = self._call(trial, seen, tuple(operands), output, second=i % 2 == 1)
            self._look_at_inputs(trial, seen, operands, copies)
            if not self._has_right_attributes(trial, seen, returned) or seen.findings:
                break
            assert returned.codes is not None
            self._look_at_earlier(trial, seen, returned.codes, output)
            self._compare_with_first(trial, seen, returned.codes)
            if seen.findings:
                break
        self.last = seen
        return seen

    def _call(
        self, trial: Trial, seen: Observation, operands: tuple[Region, ...], output: Region, *, second: bool
    ) -> Returned:
        block, poison = self.runner.block, memory.poison_code(self.problem.out_format, second=second)
        guard = None
        if self.writes:
            memory.fill_guarded_output(block, output, poison)
            guard = memory.outside(block, output)
        self.calls += 1
        returned = self.runner.call(Call(self.calls, operands, output, self.writes, poison))
        self.kernel_seconds += returned.seconds
        seen.poison.append(poison)
        if guard is not None and not np.array_equal(guard, memory.outside(block, output)):
            self._find(seen, trial, "out-of-bounds-write", "writes outside its output")
        return returned

    def _look_at_inputs(self, trial: Trial, seen: Observation, regions: list[Region], copies: list[Array]) -> None:
        block = self.runner.block
        for region, copy in zip(regions, copies, strict=True):
            if np.array_equal(memory.raw(block, region), copy):
                continue
            before = copy.copy()
            after = memory.outside(block, region)
            memory.raw(block, region)[:] = before
            if np.array_equal(after, memory.outside(block, region)):
                self._find(seen, trial, "input-mutated", f"changes its input {region.name}")
            else:
                self._find(seen, trial, "out-of-bounds-write", f"writes outside {region.name}, which it only reads")

    def _has_right_attributes(self, trial: Trial, seen: Observation, returned: Returned) -> bool:
        output = self.problem.output
        dtype = encoding.storage_dtype(output.format).name
        if returned.shape != output.shape:
            sentence = f"returns shape {returned.shape} where {output.shape} is asked for"
            self._find(seen, trial, "wrong-shape", sentence)
        elif returned.dtype != dtype:
            self._find(seen, trial, "wrong-dtype", f"returns {returned.dtype} where {dtype} is asked for")
        return returned.codes is not None

    def _look_at_earlier(self, trial: Trial, seen: Observation, codes: Array, output: Region) -> None:
        """The result of the call before must not have changed, unless we overwrote it ourselves."""
        earlier, self._earlier = self._earlier, _Earlier(self.calls, trial.index, trial.layouts, output, codes)
        if earlier is None or (self.writes and earlier.layouts != trial.layouts):
            return
        now = self.runner.recall(earlier.number, earlier.output)
        if now.codes is None or not np.array_equal(now.codes, earlier.codes):
            sentence = "changes the result of an earlier call when it is called again"
            self._find(seen, trial, "aliased-output", sentence, replay=(earlier.trial, trial.index))

    def _compare_with_first(self, trial: Trial, seen: Observation, codes: Array) -> None:
        seen.codes.append(codes)
        format_ = self.problem.out_format
        if len(seen.codes) == 1:
            seen.outcome = judge(codes, seen.expected, format_)
            return
        differ = ~same(codes, seen.codes[0], format_)
        if seen.expected.compared is not None:
            differ &= seen.expected.compared
        unwritten = codes == seen.poison[-1]
        if (differ & ~unwritten).any():
            share = f"{np.count_nonzero(differ):,} of {differ.size:,} outputs"
            sentence = f"returns other bits when called again on the same inputs, in {share}"
            self._find(seen, trial, "nondeterministic", sentence)

    @staticmethod
    def _find(seen: Observation, trial: Trial, kind: str, sentence: str, replay: tuple[int, ...] | None = None) -> None:
        seen.findings.append(Finding(kind, f"matmul {sentence}.", trial.index, replay or (trial.index,)))
