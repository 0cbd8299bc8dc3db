"""
One trial: inputs in guarded memory, calls, and everything but the values looked at.

Around every call: the output is poisoned (`zeroulp.checks.poison`), NaN lies beside and between
the inputs, a pattern beside the output; afterwards inputs and guards are compared with private
copies, dtype and shape come before values, and the result of the call before must still be what
it was, as must a few older ones at the very end. Inputs of successive trials share their buffers,
but for some that lie elsewhere.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zeroulp import encoding, memory
from zeroulp.arrays import arrays_of
from zeroulp.checks.excerpt import Excerpt
from zeroulp.checks.inputs import Inputs, digest, draw_inputs
from zeroulp.checks.poison import foreign_number, guard_code, poison_of
from zeroulp.checks.repetition import Differences, differences
from zeroulp.checks.snapshot import Snapshot
from zeroulp.judge import Differs, Matched, Outcome
from zeroulp.problem import LAYOUTS
from zeroulp.report import Finding
from zeroulp.runner.base import Call

if TYPE_CHECKING:
    from zeroulp.checks.judging import Judge
    from zeroulp.encoding import Array
    from zeroulp.memory import Region
    from zeroulp.plan import Trial
    from zeroulp.problem import Matmul
    from zeroulp.runner import Returned, Runner


MOVED_BYTES = 3 * 4096
"""How much further on everything lies in a trial that is moved: whole pages, so that alignment stays as it is."""

KEPT_RESULTS, KEPT_BYTES = 6, 2**28
"""How many results are looked at again at the end: so many, or as many as fit, and one in any case."""

CODES_PER_TRIAL = 4
"""How many results of one trial are kept to name what is wrong."""

_KEPT_CALLS = (1, 2, 4, 7, 12, 19)
_PERHAPS_LATE = {"nondeterministic", "unwritten-output"}
_SHORTEST_WAIT, _LONGEST_WAIT = 0.04, 1.0  # seconds, for a result that may be late; twice its call, within these


@dataclass
class Observation:
    """
    What one trial showed.

    Args:
        inputs: What the kernel was fed.
        digest: A hash of all input bits.
        results: Encodings that it returned at the first calls, where dtype and shape were right.
        poisons: Encodings that stood in the output (or in freed memory) before each call.
        marks: Fingerprints of what each call returned, where results are too large for copies.
        row: The first row of the first of them.
        judged: Whether the first result is compared with what it should be.
        outcome: The first call's result, judged; None if it could not be.
        findings: Defects other than wrong values.
    """

    inputs: Inputs
    digest: str = ""
    results: list[Any] = field(default_factory=list)
    poisons: list[Any] = field(default_factory=list)
    outcome: Outcome | None = None
    findings: list[Finding] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    row: Any = None
    judged: bool = True

    @functools.cached_property
    def excerpt(self) -> Excerpt:
        """What of the first result is looked at to name what is wrong, on the host, as it is when first asked for."""
        return Excerpt.of(self.inputs, self.results[0], self.outcome)

    @property
    def bits(self) -> list[Any]:
        """What tells whether calls returned the same bits: their results, or the fingerprints of those."""
        return self.marks or self.results

    @property
    def share_compared(self) -> float:
        """Share of positions that were compared."""
        if self.outcome is None or not self.outcome.elements:
            return 1.0
        return self.outcome.compared / self.outcome.elements


@dataclass(frozen=True)
class Earlier:
    """A result that must not change any more: its encodings, or their fingerprint."""

    number: int
    trial: Trial
    output: Region
    bits: Any


def block_size(problem: Matmul, layouts: list[dict[str, str]], *, writes: bool) -> int:
    """Bytes of memory that trials with these layouts need."""
    return MOVED_BYTES + max((_regions(problem, names, writes=writes)[2] for names in layouts), default=0)


def _regions(problem: Matmul, layouts: dict[str, str], *, writes: bool) -> tuple[list[Region], list[Region], int]:
    """Regions of the operands, two for the output (used in turn; one for a large one), and the bytes of all."""
    inputs = [(operand, LAYOUTS[layouts[operand.name]]) for operand in problem.operands]
    count = 2 if writes and memory.is_copied(problem.output) else 1
    outputs = [(problem.output, LAYOUTS[layouts["out"] if writes else "contiguous"])] * count
    regions, size = memory.arrange([*inputs, *outputs])
    return regions[: len(inputs)], regions[len(inputs) :], size if writes else regions[len(inputs)].low


class Bench:
    """
    Runs trials of one problem on one kernel, one after the other.

    Args:
        problem: What the kernel computes.
        runner: Where it runs.
        seed: The check's seed.
        judge: Says what results should have been.
        writes: Whether it writes into its last argument.
    """

    def __init__(self, problem: Matmul, runner: Runner, seed: int, judge: Judge, *, writes: bool) -> None:
        self.problem, self.runner, self.seed, self.writes = problem, runner, seed, writes
        self._judge = judge
        self._waited = False
        self.calls = 0
        self.kernel_seconds = 0.0
        self._earlier: Earlier | None = None
        self._kept: list[Earlier] = []
        self._base: Observation | None = None

    def observe(
        self,
        trial: Trial,
        *,
        calls: int | None = None,
        plain_guards: bool = False,
        poison: str = "",
        patient: bool = False,
        judged: bool = True,
    ) -> Observation:
        """
        Draw the trial's inputs, call the kernel, look at everything.

        Args:
            trial: The trial.
            calls: How many calls, instead of what the trial says.
            plain_guards: Put zeros around the inputs in place of NaN.
            poison: Poison outputs with this kind only: ``"nan"`` or ``"number"``.
            patient: Give a result that is not right some time to become right.
            judged: Whether the first result is compared with what it should be.
        """
        with self.runner.guarded():
            seen = Observation(self._inputs(trial), judged=judged)
            return self._observe(trial, seen, calls, plain_guards=plain_guards, poison=poison, patient=patient)

    def _inputs(self, trial: Trial) -> Any:
        """What the kernel is fed."""
        return draw_inputs(self.problem, trial, self.seed)

    def _observe(
        self, trial: Trial, seen: Observation, calls: int | None, *, plain_guards: bool, poison: str, patient: bool
    ) -> Observation:
        operands, outputs, _ = _regions(self.problem, trial.layouts, writes=self.writes)
        if trial.moved:
            operands, outputs = ([memory.moved(r, MOVED_BYTES) for r in regions] for regions in (operands, outputs))
        snapshots = self._feed(seen, operands, plain_guards=plain_guards)
        for i in range(trial.calls if calls is None else calls):
            output = outputs[self.calls % len(outputs)]
            seen.poisons.append(self._poison(trial, i, poison))
            self._call_and_look(trial, seen, operands, output, snapshots, patient=patient)
            if seen.findings:
                break
        if trial.based_on is None:
            self._base = seen
        return seen

    def _call_and_look(
        self,
        trial: Trial,
        seen: Observation,
        operands: list[Region],
        output: Region,
        snapshots: list[Snapshot],
        *,
        patient: bool,
    ) -> None:
        """One call, and everything about it; nothing of its result outlives it but what is in *seen*."""
        returned = self._call(trial, seen, tuple(operands), output)
        self._look_at_inputs(trial, seen, snapshots)
        if not self._has_right_attributes(trial, seen, returned) or seen.findings:
            return
        assert returned.codes is not None
        self._look_at_result(trial, seen, returned.codes, operands, output, patient=patient)
        if patient and (isinstance(seen.outcome, Differs) or _kinds(seen) & _PERHAPS_LATE):
            self._wait(trial, seen, returned, operands, output)

    def _feed(self, seen: Observation, operands: list[Region], *, plain_guards: bool) -> list[Snapshot]:
        """Guards, then elements; and what it takes to tell whether they are still the same."""
        block, arrays = self.runner.block, arrays_of(self.runner.block)
        targets = {}
        for region, operand in zip(operands, self.problem.operands, strict=True):
            memory.fill_beside(block, region, 0 if plain_guards else guard_code(operand.format))
            if not plain_guards and self.problem.nonfinite != "ieee":
                memory.fill_gaps(block, region, foreign_number(operand.format))
            whole = memory.view(block, region)
            shape = seen.inputs.shape(operand.name)
            targets[operand.name] = whole if shape == operand.shape else whole[:1]
        seen.inputs.fill(arrays, targets)
        snapshots, marks = Snapshot.of(block, operands, [arrays.codes(target) for target in targets.values()])
        seen.digest = digest(dict(zip(targets, marks, strict=True)))
        return snapshots

    def look_at_kept(self, trials: list[int]) -> list[Finding]:
        """Read the results of some calls once more; *trials*: all that were run, in order."""
        for kept in self._kept:
            now = self.runner.recall(kept.number, kept.output, copy=False)
            if now.codes is None or not arrays_of(now.codes).equal(now.codes, kept.bits):
                first = kept.trial.index
                sentence = f"{self.problem.title} changes the result of an earlier call when it is called again."
                return [Finding("aliased-output", sentence, first, tuple(trials[trials.index(first) :]))]
        return []

    def _poison(self, trial: Trial, call: int, only: str) -> Any:
        """One encoding; before the first call of a changed trial, what the kernel returned for the old inputs."""
        base = self._base
        changed = self.writes and call == 0 and not only and trial.based_on is not None and not trial.moved
        if changed and base is not None and base.inputs.trial.index == trial.based_on:
            earlier = self._left_by(base)
            if earlier is not None:
                return earlier
        return poison_of(self.problem, trial, call, only=only)

    @staticmethod
    def _left_by(base: Observation) -> Any:
        """What the kernel returned for inputs of which a few elements are changed now; None if nothing."""
        return base.results[0] if base.results else None

    def _call(self, trial: Trial, seen: Observation, operands: tuple[Region, ...], output: Region) -> Returned:
        block, poison, guard = self.runner.block, seen.poisons[-1], None
        if self.writes:
            memory.fill_guarded_output(block, output, poison)
            guard = memory.outside(block, output)
        self.calls += 1
        in_freed_memory = poison if isinstance(poison, int) else poison_of(self.problem, trial, 0)
        call = Call(self.calls, operands, output, self.writes, in_freed_memory, keep=self._keeps())
        returned = self.runner.call(self._as_wished(call))
        self.kernel_seconds += returned.seconds
        if guard is not None and not memory.is_same_outside(guard, block, output):
            self._find(seen, trial, "out-of-bounds-write", "writes outside its output")
        return returned

    def _as_wished(self, call: Call) -> Call:
        """The call, with what is to become of results."""
        return call

    def _keeps(self) -> bool:
        """Whether the result of this call is looked at again at the end. Ours are overwritten, so they are not."""
        size = self.problem.output.size * encoding.storage_dtype(self.problem.out_format).itemsize
        most = max(1, min(KEPT_RESULTS, KEPT_BYTES // max(size, 1)))
        return not self.writes and len(self._kept) < most and self.calls in _KEPT_CALLS

    def _look_at_inputs(self, trial: Trial, seen: Observation, snapshots: list[Snapshot]) -> None:
        for snapshot in Snapshot.changed(snapshots):
            name = snapshot.region.name
            if snapshot.is_unchanged_outside():
                self._find(seen, trial, "input-mutated", f"changes its input {name}")
            else:
                self._find(seen, trial, "out-of-bounds-write", f"writes outside {name}, which it only reads")

    def _has_right_attributes(self, trial: Trial, seen: Observation, returned: Returned) -> bool:
        output = self.problem.output
        dtype = encoding.storage_dtype(output.format).name
        if returned.shape != output.shape:
            sentence = f"returns shape {returned.shape} where {output.shape} is asked for"
            self._find(seen, trial, "wrong-shape", sentence)
        elif returned.dtype != dtype:
            self._find(seen, trial, "wrong-dtype", f"returns {returned.dtype} where {dtype} is asked for")
        return returned.codes is not None

    def _look_at_result(
        self, trial: Trial, seen: Observation, codes: Any, operands: list[Region], output: Region, *, patient: bool
    ) -> None:
        """What this call and the one before returned."""
        del patient
        self._look_at_earlier(trial, seen, codes, output)
        self._compare(trial, seen, codes, operands)

    def _look_at_earlier(self, trial: Trial, seen: Observation, codes: Array, output: Region) -> None:
        """The result of the call before must not have changed, unless we overwrote it ourselves."""
        earlier, self._earlier = self._earlier, Earlier(self.calls, trial, output, codes)
        if self._keeps():
            self._kept.append(self._earlier)
        if earlier is None or (self.writes and not _share_places(earlier.trial, trial)):
            return
        now = self.runner.recall(earlier.number, earlier.output, copy=False)
        if now.codes is None or not arrays_of(now.codes).equal(now.codes, earlier.bits):
            self._find_aliased(seen, trial, earlier)

    def _find_aliased(self, seen: Observation, trial: Trial, earlier: Earlier) -> None:
        replay = tuple(dict.fromkeys((*earlier.trial.needs, *trial.needs)))
        sentence = "changes the result of an earlier call when it is called again"
        self._find(seen, trial, "aliased-output", sentence, replay)

    def _compare(self, trial: Trial, seen: Observation, codes: Any, operands: list[Region]) -> None:
        """Judge the first result of a trial; later ones must be the same."""
        first = not seen.results
        if first and seen.judged:
            seen.outcome = self._judged(seen, codes, operands)
        if len(seen.results) < CODES_PER_TRIAL:
            seen.results.append(codes)
        if not first:
            self._compare_with_first(trial, seen, codes)

    def _compare_with_first(self, trial: Trial, seen: Observation, codes: Any) -> None:
        if arrays_of(codes).equal(codes, seen.results[0]):
            return
        if trial.certificate.theorem == "bounded":
            return  # bits are not determined
        differ = self._differences(codes, seen)
        if not differ.count:
            return
        self._find_unsteady(seen, trial, differ.count, self.problem.output.size, written=not differ.are_poison)

    def _differences(self, codes: Any, seen: Observation) -> Differences:
        """Where a later result differs from the first one."""
        return differences(codes, seen.results[0], seen)

    def _find_unsteady(self, seen: Observation, trial: Trial, count: int, elements: int, *, written: bool) -> None:
        share = f"{count:,} of {elements:,} outputs"
        if written:
            sentence = f"returns other bits when called again on the same inputs, in {share}"
            self._find(seen, trial, "nondeterministic", sentence)
        else:
            sentence = f"leaves outputs unwritten when called again on the same inputs, {share}"
            self._find(seen, trial, "unwritten-output", sentence)

    def _judged(self, seen: Observation, codes: Any, operands: list[Region]) -> Outcome:
        """What every correct kernel returns, compared with what this one did."""
        return self._judge.outcome(seen.inputs, self.runner.block, operands, codes)

    def _wait(
        self, trial: Trial, seen: Observation, returned: Returned, operands: list[Region], output: Region
    ) -> None:
        """
        Something is wrong: if the same result is right when read a little later, it was late and that is all.

        Once in a check: later trials only name what is known to be wrong.
        """
        if self._waited:
            return
        self._waited = True
        end = time.monotonic() + min(_LONGEST_WAIT, max(_SHORTEST_WAIT, 2 * returned.seconds))
        pause = 0.001
        while time.monotonic() < end:
            time.sleep(pause)
            pause *= 2
            now = self._changed(seen, returned, output)
            if now is not None and isinstance(self._judged(seen, now, operands), Matched):
                seen.findings.clear()
                self._find(seen, trial, "late-result", "returns before its result is there: read later, it is right")
                return

    def _changed(self, seen: Observation, returned: Returned, output: Region) -> Any:
        """Encodings of the latest result if they are others than before; else None."""
        del seen
        now = self.runner.recall(self.calls, output).codes
        return None if now is None or arrays_of(now).equal(now, returned.codes) else now

    def _find(self, seen: Observation, trial: Trial, kind: str, sentence: str, replay: tuple[int, ...] = ()) -> None:
        sentence = f"{self.problem.title} {sentence}."
        seen.findings.append(Finding(kind, sentence, trial.index, replay or trial.needs))


def _kinds(seen: Observation) -> set[str]:
    return {finding.kind for finding in seen.findings}


def _share_places(left: Trial, right: Trial) -> bool:
    """Whether inputs and outputs of two trials lie in the same places."""
    return left.layouts == right.layouts and left.moved == right.moved
