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
from zeroulp.judge import Differs, Matched, judge, same
from zeroulp.linear import Followed, changed, draw, follow, returned, values_of, worked_out
from zeroulp.linear.drawing import DRAWING
from zeroulp.memory import is_copied
from zeroulp.reference import Expected

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from zeroulp.arrays import Arrays
    from zeroulp.checks.bench import Earlier, Observation
    from zeroulp.checks.snapshot import Snapshot
    from zeroulp.encoding import Array
    from zeroulp.exactness import Certificate
    from zeroulp.judge import Outcome
    from zeroulp.memory import Region
    from zeroulp.plan import Trial
    from zeroulp.problem import Linear
    from zeroulp.track import Program

_POISONS = (0x5A, 0xA5, 0x03)


@dataclass
class LinearInputs:
    """
    What one trial feeds a kernel.

    Args:
        problem: The problem.
        trial: The trial.
        values: The operands: stored arrays by name.
        device: Where the reference checks itself.
        known: What every correct kernel returns for them; None: nobody has looked yet.
        native: Encodings that the reference itself returns for them, in the contract's formats. A result that has
            the same says so by itself; only of one that has others anybody needs to know what is exact.
    """

    problem: Linear
    trial: Trial
    values: Mapping[str, Array]
    device: str
    known: Followed | None = None
    native: Array | None = None

    @property
    def is_followed(self) -> bool:
        """Whether these operands have been followed through the reference."""
        return self.known is not None

    @property
    def followed(self) -> Followed:
        """What every correct kernel returns; the trial's certificate is then that of this drawing."""
        if self.known is None:
            self.known = follow(self.problem, self.values, self.device)
            self.trial = replace(self.trial, certificate=self.known.certificate)
        return self.known

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
    problem: Linear, trial: Trial, seed: int, device: str, drawn: Mapping[str, Array] | None = None
) -> LinearInputs:
    """
    The operands of *trial*.

    Args:
        problem: The problem.
        trial: The trial.
        seed: The check's seed.
        device: Where the reference checks itself.
        drawn: Those operands, or those of the trial that it is based on, where somebody has drawn them already.
    """
    number = trial.index if trial.based_on is None else trial.based_on
    values = dict(drawn) if drawn is not None else draw(problem, trial.probe, trial.settings, seed, number)
    if trial.based_on is not None:
        values = changed(values, trial.changed, Seed(seed, trial.index).stream("change"))
    return LinearInputs(problem, trial, values, device)


class LinearJudge:
    """Compares encodings where they are determined; results of one number are seen as one of one element."""

    def outcome(self, inputs: LinearInputs, block: Any, operands: Sequence[Region], codes: Any) -> Outcome:
        """
        What every correct kernel returns, compared with what this one did; see `zeroulp.checks.judging.Judge`.

        The word of the reference itself is good enough to agree with. A difference from it counts for nothing: then
        the operands are followed, and what is exact decides.
        """
        del block, operands
        format_ = inputs.problem.out_format
        actual = np.atleast_1d(on_host(codes, format_))
        if not inputs.is_followed and inputs.native is not None:
            outcome = judge(actual, Expected(np.atleast_1d(inputs.native), (), None, None, False), format_)
            if isinstance(outcome, Matched):
                return outcome
        expected = inputs.expected
        flat = replace(expected, codes=np.atleast_1d(expected.codes), compared=np.atleast_1d(inputs.followed.compared))
        if expected.low is not None and expected.high is not None:
            flat = replace(flat, low=np.atleast_1d(expected.low), high=np.atleast_1d(expected.high))
        return judge(actual, flat, format_)


def strategy_key(trial: Trial) -> str:
    """What trials of one strategy have in common."""
    settings = {name: value for name, value in trial.settings.items() if name != DRAWING}
    return f"{trial.probe} {sorted(settings.items())}"


class LinearBench(Bench):
    """
    `Bench` for a problem that is given by a reference, run on *device*.

    Attributes:
        known: Drawings that were followed before, by their numbers; those that have been used are dropped.
        surprise: Number of a trial for which not the reference's own word is taken, but that of float64.
    """

    problem: Any
    device = "cpu"
    surprise = -1
    _latest: LinearInputs | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.known: dict[int, Followed] = {}
        self._exact: dict[str, tuple[Program, Certificate]] = {}

    def inputs_of(self, trial: Trial) -> LinearInputs:
        """
        The operands of a trial; those of the latest one are kept.

        The first ones of a strategy are followed. If every element is compared, and the reference itself returns the
        same bits, the others are not, unless the kernel returns something else than the reference itself; or than the
        reference in float64, in one trial that nobody could know beforehand.
        """
        latest = self._latest
        if latest is not None and replace(latest.trial, certificate=trial.certificate, moved=trial.moved) == trial:
            return latest
        followed = self.known.pop(int(trial.settings.get(DRAWING, -1)), None) if trial.based_on is None else None
        drawn = None if followed is None else values_of(followed)
        if latest is not None and latest.trial.based_on is None and latest.trial.index == trial.based_on:
            drawn = dict(latest.values)
        inputs = self._latest = draw_linear(self.problem, trial, self.seed, self.device, drawn)
        key = strategy_key(trial)
        like = self._exact.get(key)
        if like is not None and trial.index == self.surprise:
            inputs.native = worked_out(self.problem, inputs.values, like[0])
        elif like is not None:
            inputs.native = returned(self.problem, inputs.values, like[0], self.device)
        if like is not None and inputs.native is not None:
            inputs.trial = replace(trial, certificate=replace(like[1], theorem="alike"))
            return inputs
        inputs.known = followed
        inputs.trial = replace(trial, certificate=inputs.followed.certificate)
        if inputs.followed.share == 1 and not inputs.followed.unchecked:
            self._exact[key] = inputs.followed.tracked.program, inputs.followed.certificate
        return inputs

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
        now = self.runner.recall(earlier.number, earlier.output, copy=False).codes
        return now is not None and bool(arrays_of(now).equal(now, earlier.bits))

    def _poison(self, trial: Trial, call: int, only: str) -> Any:
        if self.problem.out_format in PLAIN:  # no NaN: one pattern after the other
            return 1 - call % 2 if self.problem.out == "bool" else _POISONS[(trial.index + call) % len(_POISONS)]
        return super()._poison(trial, call, only)

    def _compare_with_first(self, trial: Trial, seen: Observation, codes: Any) -> None:
        """Where kernels may use any algorithm another result on the same inputs has to be right, and no more."""
        if self.problem.algorithm == "direct":
            super()._compare_with_first(trial, seen, codes)
            return
        outcome = self._judge.outcome(seen.inputs, self.runner.block, (), codes)
        if isinstance(outcome, Differs) and isinstance(seen.outcome, Matched):
            held = bool(np.atleast_1d(on_host(codes, self.problem.out_format) == seen.poisons[-1])[outcome.first])
            self._find_unsteady(seen, trial, outcome.differing, outcome.elements, written=not held)

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
