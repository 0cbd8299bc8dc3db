"""A trial of a problem that is given by a reference: what the kernel is fed, and how its result is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.arrays import arrays_of
from zeroulp.checks.bench import Bench
from zeroulp.checks.judging import on_host
from zeroulp.checks.repetition import Differences
from zeroulp.draw import Seed
from zeroulp.encoding import bits_of
from zeroulp.formats import PLAIN
from zeroulp.judge import judge, same
from zeroulp.linear import Followed, changed, draw, follow
from zeroulp.linear.drawing import DRAWING
from zeroulp.memory import is_copied

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zeroulp.arrays import Arrays
    from zeroulp.checks.bench import Earlier, Observation
    from zeroulp.checks.snapshot import Snapshot
    from zeroulp.encoding import Array
    from zeroulp.judge import Outcome
    from zeroulp.memory import Region
    from zeroulp.plan import Trial
    from zeroulp.problem import Linear
    from zeroulp.reference import Expected

_POISONS = (0x5A, 0xA5, 0x03)


@dataclass(frozen=True)
class LinearInputs:
    """
    What one trial feeds a kernel.

    Args:
        problem: The problem.
        trial: The trial.
        values: The operands: stored arrays by name.
        followed: What every correct kernel returns for them.
    """

    problem: Linear
    trial: Trial
    values: Mapping[str, Array]
    followed: Followed

    @property
    def expected(self) -> Expected:
        """The bits of every correct kernel, and where there are such."""
        return self.followed.expected

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape that is drawn."""
        return self.values[name].shape

    def fill(self, arrays: Arrays, targets: Mapping[str, Any]) -> None:
        """Put all operands where they belong; see `zeroulp.checks.inputs.Inputs`."""
        for name, target in targets.items():
            arrays.codes(target)[...] = arrays.from_host(bits_of(self.values[name]))


def draw_linear(
    problem: Linear, trial: Trial, seed: int, device: str, known: Mapping[int, Followed] | None = None
) -> LinearInputs:
    """
    The operands of *trial*, followed through the reference; its certificate is that of this drawing.

    Args:
        problem: The problem.
        trial: The trial.
        seed: The check's seed.
        device: Where the reference checks itself.
        known: Drawings that were followed before, by their numbers.
    """
    number = trial.index if trial.based_on is None else trial.based_on
    values = draw(problem, trial.probe, trial.settings, seed, number)
    followed = (known or {}).get(int(trial.settings.get(DRAWING, -1)))
    if trial.based_on is not None:
        values = changed(values, trial.changed, Seed(seed, trial.index).stream("change"))
        followed = None
    followed = followed or follow(problem, values, device)
    return LinearInputs(problem, replace(trial, certificate=followed.certificate), values, followed)


class LinearJudge:
    """Compares encodings where they are determined; results of one number are seen as one of one element."""

    def outcome(self, inputs: LinearInputs, block: Any, operands: Sequence[Region], codes: Any) -> Outcome:
        """What every correct kernel returns, compared with what this one did; see `zeroulp.checks.judging.Judge`."""
        del block, operands
        format_, expected = inputs.problem.out_format, inputs.expected
        flat = replace(expected, codes=np.atleast_1d(expected.codes), compared=np.atleast_1d(inputs.followed.compared))
        return judge(np.atleast_1d(on_host(codes, format_)), flat, format_)


class LinearBench(Bench):
    """`Bench` for a problem that is given by a reference, run on *device*."""

    problem: Any
    device = "cpu"
    known: Mapping[int, Followed] | None = None
    _latest: LinearInputs | None = None

    def inputs_of(self, trial: Trial) -> LinearInputs:
        """The operands of a trial; those of the latest one are kept."""
        latest = self._latest
        if latest is None or replace(latest.trial, certificate=trial.certificate, moved=trial.moved) != trial:
            latest = self._latest = draw_linear(self.problem, trial, self.seed, self.device, self.known)
        return latest

    def _inputs(self, trial: Trial) -> Any:
        return self.inputs_of(trial)

    def _feed(self, seen: Observation, operands: list[Region], *, plain_guards: bool) -> list[Snapshot]:
        """Earlier results that change with their operands are views of these: the kernel may return such."""
        snapshots = super()._feed(seen, operands, plain_guards=plain_guards)
        self._kept = [kept for kept in self._kept if self._stands(kept)]
        if self._earlier is not None and not self._stands(self._earlier):
            self._earlier = None
        return snapshots

    def _look_at_earlier(self, trial: Trial, seen: Observation, codes: Any, output: Region) -> None:
        """Nothing of a large output that the kernel writes to: it has one place, which this call has written to."""
        if not self.writes or is_copied(self.problem.output):
            super()._look_at_earlier(trial, seen, codes, output)

    def _stands(self, earlier: Earlier) -> bool:
        now = self.runner.recall(earlier.number, earlier.output).codes
        return now is not None and bool(arrays_of(now).equal(now, earlier.bits))

    def _poison(self, trial: Trial, call: int, only: str) -> Any:
        if self.problem.out_format in PLAIN:  # no NaN: one pattern after the other
            return 1 - call % 2 if self.problem.out == "bool" else _POISONS[(trial.index + call) % len(_POISONS)]
        return super()._poison(trial, call, only)

    def _differences(self, codes: Any, seen: Observation) -> Differences:
        inputs: Any = seen.inputs
        differ = inputs.followed.compared & different(codes, seen.results[0], self.problem)
        held = on_host(codes, self.problem.out_format) == seen.poisons[-1]
        return Differences(int(np.count_nonzero(differ)), bool(np.asarray(held)[differ].all()))


def different(one: Any, other: Any, problem: Linear) -> NDArray[np.bool_]:
    """Where two results are not the same."""
    if arrays_of(one).equal(one, other):
        return np.zeros(tuple(one.shape), bool)
    return ~same(on_host(one, problem.out_format), on_host(other, problem.out_format), problem.out_format)
