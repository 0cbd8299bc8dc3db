"""A check of a kernel that is given by a reference: its plan, its trials, its verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from zeroulp.checks.insensitive import insensitive
from zeroulp.checks.linear_bench import LinearBench, LinearJudge
from zeroulp.checks.linear_naming import name_linear
from zeroulp.checks.run import NEEDS_NO_NAME, Run
from zeroulp.draw import fresh_seed
from zeroulp.errors import UsageError
from zeroulp.exactness import Certificate
from zeroulp.judge import Differs
from zeroulp.linear import fit
from zeroulp.linear.drawing import DRAWING
from zeroulp.linear.following import contract_of
from zeroulp.plan import Plan, Trial, calls_for
from zeroulp.report import Tracking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.checks.bench import Observation
    from zeroulp.linear import Fit, Followed
    from zeroulp.problem import Linear
    from zeroulp.runner import Runner

_FEWEST = 8  # trials, unless somebody says how many
_MOVED_EVERY, _FIRST_MOVED = 6, 3  # those whose inputs lie at other addresses
_CHANGED = (1, 5)  # those that change a few elements of the one before
_OPEN = Certificate(
    holds=True, theorem="tracked", declared=True, clause="", precision=1, budget=2, largest_sum=0, quantum_exponent=0
)
"""Stands in a plan for the certificate that comes with the drawing."""

WISHED = 1e-9
_DIVIDES = "what comes after a division is not compared: a kernel may divide term by term, and differ"


@dataclass
class LinearRun(Run):
    """A check in progress."""

    demoted: list[str] = field(default_factory=list)
    followed: dict[int, Followed] = field(default_factory=dict)

    def _bench(self, runner: Runner) -> LinearBench:
        judge: Any = LinearJudge()
        problem: Any = self.plan.problem
        bench = LinearBench(problem, runner, self.seed, judge, writes=self._writes)
        bench.device, bench.known = self.spec.device, self.followed
        later = [trial.index for trial in self.plan.trials if DRAWING not in trial.settings]
        if later:
            bench.surprise = later[fresh_seed() % len(later)]
        return bench

    def _trials(self, bench: Any) -> None:
        before: Observation | None = None
        trials = self.plan.trials
        for done, planned in enumerate(trials):
            if self.progress is not None:
                self.progress(done, len(trials), planned.probe)
            inputs = bench.inputs_of(planned)
            seen = bench.observe(inputs.trial, patient=True)
            trial = inputs.trial  # with the certificate of what was looked at
            if inputs.is_followed and inputs.followed.demoted:
                self.demoted.append(inputs.followed.demoted)
            self._record(trial, seen)
            self.findings += seen.findings
            if isinstance(seen.outcome, Differs) and not {f.kind for f in seen.findings} & NEEDS_NO_NAME:
                named = name_linear(bench, trial, seen, before)
                self.findings = [named, *(f for f in self.findings if f.kind != named.kind)]
            if self.findings:
                break
            before = seen
        else:
            self.findings += bench.look_at_kept([record.index for record in self.records])
        if self.progress is not None:
            self.progress(len(trials), len(trials), "done")

    def _why_inconclusive(self) -> tuple[tuple[str, str], ...]:
        problem: Any = self.plan.problem
        if self.tracking is None:
            return self.plan.unmet
        return why_inconclusive(problem, self.tracking, self.coverage, self.demoted)


def why_inconclusive(
    problem: Linear, tracking: Tracking, coverage: float, demoted: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """
    Why equal bits are no proof: (reason, remedy) pairs; empty if they are.

    Args:
        problem: With its output known.
        tracking: What is known of the reference.
        coverage: Share of the outputs that some trial compares.
        demoted: What the reference itself does otherwise, trial by trial.
    """
    reasons = list(tracking.vacuous)
    if coverage == 1:
        return tuple(reasons)
    share = f"{1 - coverage:.2%} of the outputs were never compared" if coverage else "nothing is compared"
    reasons += [(f"{share}: exactness ends at {sentence}", _help(sentence)) for sentence in tracking.ended[:1]]
    if "division" in tracking.leans and problem.division == "any":
        reasons.append((f"{share}: {_DIVIDES}", "division='last', if kernels divide where the reference does"))
    for sentence in list(dict.fromkeys(filter(None, [*demoted, tracking.demoted])))[:1]:
        help_ = "a reference that sums the same products directly; the kernel is not blamed"
        reasons.append((f"{share}: {sentence}", help_))
    return tuple(reasons) or ((share, "more trials"),)


def _help(sentence: str) -> str:
    if "not in the table" in sentence:
        return "return what comes before that operation, or add a rule for it with zeroulp.track.register"
    return "return what comes before that operation, or choose smaller shapes, so that sums have fewer terms"


def prepared(problem: Linear, seed: int, device: str) -> tuple[Linear, Fit]:
    """The problem with its output known, and what to draw for it. Raises UsageError if there is nothing to follow."""
    if problem.reference is None:
        raise UsageError("the problem has no reference", why="it was read from a report", do="load it from its file")
    fitted = fit(problem, seed, device)
    if not fitted.vacuous and not any(fitted.live.values()):
        fitted = replace(fitted, vacuous=_insensitive(fitted.problem, seed))
    return fitted.problem, fitted


def _insensitive(problem: Linear, seed: int) -> tuple[tuple[str, str], ...]:
    """Why a comparison would say little, where nothing is exact."""
    assert problem.reference is not None, "it has been followed"
    return insensitive(problem.reference, problem.tensors, seed, **contract_of(problem)).reasons


def tracking_of(fitted: Fit) -> Tracking:
    """What a report says of the reference."""
    return Tracking(**{part.name: getattr(fitted, part.name) for part in fields(Tracking)})


def linear_plan(
    fitted: Fit, *, trials: int | None = None, repeat: int | None = None, race_rate: float | None = None
) -> Plan:
    """
    The trials: every strategy in turn, some with the operands of the one before but for a few elements.

    Args:
        fitted: What to draw.
        trials: So many of each strategy; default: eight in all, or two of each.
        repeat: Further calls of the first trial of each strategy; default 1.
        race_rate: Instead: so many that a race of this rate shows.
    """
    for name, value, least in (("trials", trials, 1), ("repeat", repeat, 0)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise UsageError(f"{name}={value!r}", do=f"pass a whole number, {least} or more")
    if repeat is not None and race_rate is not None:
        raise UsageError("repeat and also race_rate", do="leave out one of them")
    again = calls_for(race_rate, WISHED) if race_rate is not None else 1 if repeat is None else repeat
    problem, strategies = fitted.problem, fitted.strategies
    count = max(_FEWEST, 2 * len(strategies)) if trials is None else trials * len(strategies)
    names = [tensor.name for tensor in problem.tensors if fitted.live.get(tensor.name, 1)]
    layouts = {operand.name: "contiguous" for operand in (*problem.operands, problem.output)}
    found: list[Trial] = []
    turn = 0
    for index in range(count):
        if index in _CHANGED and names and trials is None:
            base = found[-1]
            name = names[_CHANGED.index(index) % len(names)]
            found.append(Trial(index, base.probe, base.settings, _OPEN, layouts, 1, base.index, name))
            continue
        strategy, is_first = strategies[turn % len(strategies)], turn < len(strategies)
        turn += 1
        settings = fitted.first_of(strategy) if is_first else strategy.settings
        calls = 1 + again if is_first else 1
        moved = index % _MOVED_EVERY == _FIRST_MOVED and trials is None
        found.append(Trial(index, strategy.name, settings, _OPEN, layouts, calls, moved=moved))
    unmet = fitted.vacuous
    any_problem: Any = problem
    return Plan(any_problem, tuple(found), (), 1.0, WISHED, unmet)


def refuse(options: dict[str, Any], words: Sequence[str]) -> None:
    """Raise UsageError if something was asked for that a problem given by a reference does not have."""
    for name in words:
        if options.get(name) is not None:
            raise UsageError(
                f"{name} for a problem that is given by a reference",
                why="its inputs follow from the reference, and no bound is claimed",
                do=f"leave {name} out",
            )
