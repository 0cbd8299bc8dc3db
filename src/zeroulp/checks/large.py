"""
Trials whose results are too large to be copied: each is looked at where it is, and a fingerprint remembered.

The output has one place, not two in turn. One older result at most is watched, and only while the
kernel holds its memory too: for a few calls, then a later one. What stands in the output before a
few elements of an operand change is one row of the earlier result, in all rows. All else is as for
other trials: the same bits again on the same inputs, inputs and guards as they were, late writers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import memory
from zeroulp.arrays import arrays_of
from zeroulp.arrays.fingerprint import fingerprint
from zeroulp.checks.bench import CODES_PER_TRIAL, Bench, Earlier, Observation
from zeroulp.checks.inputs import blocks_of
from zeroulp.checks.judging import on_host
from zeroulp.judge import Differs, Matched, Value

if TYPE_CHECKING:
    from zeroulp.checks.judging import Judge
    from zeroulp.memory import Region
    from zeroulp.plan import Trial
    from zeroulp.problem import Matmul
    from zeroulp.runner import Returned, Runner
    from zeroulp.runner.base import Call

_LOOKS = 8
"""Calls after which another result is watched: buffers that are used in turn show, up to so many."""

_WHOLE = ("integers", "codes", "expected")  # what inputs remember of all their elements, once asked


class LargeBench(Bench):
    """Runs trials of one problem whose results are looked at in place; see `Bench`."""

    def __init__(self, problem: Matmul, runner: Runner, seed: int, judge: Judge, *, writes: bool) -> None:
        super().__init__(problem, runner, seed, judge, writes=writes)
        self._looks = 0
        self._lent: Observation | None = None

    def _as_wished(self, call: Call) -> Call:
        """Looked at in place; whatever is left of the result before goes, but for the one that is watched."""
        if self._lent is not None:
            self._lent.results.clear()
            if not self._lent.findings:
                for name in _WHOLE:
                    vars(self._lent.inputs).pop(name, None)
            self._lent = None
        return replace(call, in_place=True, watched=self._earlier.number if self._earlier is not None else None)

    def _keeps(self) -> bool:
        """Nothing is looked at again at the end."""
        return False

    @staticmethod
    def _left_by(base: Observation) -> Any:
        """One row of the result that stands for inputs of which a few elements are changed now."""
        return base.row

    def _look_at_result(
        self, trial: Trial, seen: Observation, codes: Any, operands: list[Region], output: Region, *, patient: bool
    ) -> None:
        """
        Judge the first result of a trial; later ones must be the same, and the one that is watched what it was.

        Results are copied all the same where they are wrong, or looked at to name what is wrong.
        """
        mark = fingerprint(codes)
        seen.marks.append(mark)
        self._look_at_watched(trial, seen, mark, output)
        if len(seen.marks) == 1:
            seen.outcome = self._judged(seen, codes, operands) if seen.judged else None
            if isinstance(seen.outcome, Matched) and self.runner.mark(self.calls, output) != mark:
                self._find(seen, trial, "late-result", "goes on writing its result after it has returned")
            if self.writes:
                seen.row = arrays_of(codes).copy(codes[(0,) * len(self.problem.batch)][:1])
        elif mark != seen.marks[0]:
            self._compare_again(trial, seen, codes, operands)
        if isinstance(seen.outcome, Differs) or not patient:
            if len(seen.results) < CODES_PER_TRIAL:
                seen.results.append(arrays_of(codes).copy(codes))
        elif not seen.findings:
            seen.results, self._lent = [codes], seen

    def _look_at_watched(self, trial: Trial, seen: Observation, mark: str, output: Region) -> None:
        earlier = self._earlier
        now = None if earlier is None else self.runner.mark(earlier.number, earlier.output)
        if earlier is not None and now is not None and now != earlier.bits:
            self._find_aliased(seen, trial, earlier)
        self._looks += 1
        if now is None or self._looks == _LOOKS:
            self._looks = 0
            self._earlier = None if self.writes else Earlier(self.calls, trial, output, mark)

    def _compare_again(self, trial: Trial, seen: Observation, codes: Any, operands: list[Region]) -> None:
        """Another result on the same inputs: right all the same (zeros, NaN), or wrong where the first was right."""
        if seen.results:
            self._compare_with_first(trial, seen, codes)
            return
        if trial.certificate.theorem == "bounded":
            return  # bits are not determined
        outcome = self._judged(seen, codes, operands)
        if isinstance(outcome, Differs):
            written = not self._is_poison(seen.poisons[-1], codes, outcome)
            self._find_unsteady(seen, trial, outcome.differing, outcome.elements, written=written)

    def _is_poison(self, poison: Any, codes: Any, outcome: Differs) -> bool:
        """Whether what is wrong is what stood there before the call, as far as its first output and numbers tell."""
        format_ = self.problem.out_format
        if not isinstance(poison, int) or outcome.actual != Value.of(poison, format_):
            return False
        blocks = blocks_of(self.problem.output.shape, memory.COPIED_BYTES // 8)
        held = sum(int(np.count_nonzero(on_host(codes[index], format_) == poison)) for index, _, _ in blocks)
        return held >= outcome.differing

    def _changed(self, seen: Observation, returned: Returned, output: Region) -> Any:
        """The latest result, if it has another fingerprint than before; else None."""
        del returned
        mark = self.runner.mark(self.calls, output)
        return None if mark in (None, seen.marks[-1]) else self.runner.recall(self.calls, output).codes
