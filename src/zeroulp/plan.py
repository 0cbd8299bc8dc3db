"""
Which trials, for which escape probability.

A plan is data: made from the problem and the options alone, before any kernel is seen. Trials
whose certificate does not hold are not in it, and it says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING

from zeroulp.errors import ProblemError
from zeroulp.exactness import Certificate, certify
from zeroulp.probes import TABLE, Options, Partial, family_of, probe_named
from zeroulp.problem import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zeroulp.probes.base import Settings
    from zeroulp.problem import Matmul

MOST_CALLS = 42
"""A plan that nobody asked to be longer calls the kernel about this often."""

_MOVED_EVERY, _FIRST_MOVED = 6, 3  # trials whose inputs lie at other addresses
_CHANGED = ("a", "b")  # operands of which a few elements are changed in place, in one further trial each

_ORDER = ("signed", "wide", "one_hot", "cancel", "sparse", "binary", "fractional", "specials")
_ALL_VARIANTS = ("wide", "sparse", "specials")  # each variant is a trial
_TOGETHER = ("specials",)  # all of its trials stand at the end of the first turn
_AT_LEAST = {"one_hot": 3, "cancel": 2}
_CANCEL_FOR_BLOCKS = 8  # trials of `cancel` where k has more blocks than there are trials of the main probe
_REPEATED = ("signed", "wide")  # probes whose first trial calls again on the same inputs
_BOUNDED = ("signed", "wide", "fractional", "binary")  # whose trials are multiplied, best first


@dataclass(frozen=True)
class Trial:
    """
    One probe drawn with one seed, one memory layout and one way of calling.

    Args:
        index: Its number within the check; with the check's seed it fixes every input bit.
        probe: Name of the probe.
        settings: The numbers that size it.
        certificate: Why every correct kernel must return the same bits.
        layouts: Name of the layout of each operand and of ``out``.
        calls: How often the kernel is called on these inputs.
        based_on: Index of the trial whose inputs these are, but for a few elements; None: its own inputs.
        changed: Name of the operand that those elements belong to.
        moved: Whether inputs and output lie elsewhere than in other trials.
    """

    index: int
    probe: str
    settings: Settings
    certificate: Certificate
    layouts: dict[str, str]
    calls: int = 1
    based_on: int | None = None
    changed: str = ""
    moved: bool = False

    @property
    def needs(self) -> tuple[int, ...]:
        """Indices of the trials that are run to see this one again, in order."""
        return (self.index,) if self.based_on is None else (self.based_on, self.index)


@dataclass(frozen=True)
class Skipped:
    """A probe that is not run, and why."""

    probe: str
    reason: str
    remedy: str


@dataclass(frozen=True)
class Plan:
    """
    The trials of a check.

    Args:
        problem: What is checked.
        trials: In the order in which they run.
        skipped: Probes without a certificate for this problem.
        escape_probability: Bound on the chance that a bilinear fault of one output passes all
            trials; 1.0 where none is claimed. For a kernel fixed before the seed was drawn.
        wished: The escape probability that was asked for.
    """

    problem: Matmul
    trials: tuple[Trial, ...]
    skipped: tuple[Skipped, ...]
    escape_probability: float
    wished: float

    @property
    def calls(self) -> int:
        """How often the kernel will be called."""
        return sum(trial.calls for trial in self.trials)


@dataclass
class _Drafts:
    """Certified variants by probe, and the probes that have none."""

    variants: dict[str, list[tuple[Settings, Certificate]]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


def make_plan(
    problem: Matmul,
    *,
    escape_probability: float = 1e-9,
    trials: int | None = None,
    probes: Sequence[str] | None = None,
    p_zero: float | None = None,
    repeat: int | None = None,
    race_rate: float | None = None,
) -> Plan:
    """
    The plan for *problem*.

    Args:
        problem: What is to be checked.
        escape_probability: Wished bound; decides how many trials there are, within `MOST_CALLS`.
        trials: This many trials of each probe instead.
        probes: Names of the probes to use; default: all.
        p_zero: Probability of a zero in ``binary`` and ``fractional``; default: derived.
        repeat: Further calls on the inputs of the first trial of ``signed`` and of ``wide`` (of
            each probe's first trial, if neither is used); default 1.
        race_rate: Instead of *repeat*: as many further calls as see a race that spoils this share
            of the calls, but for the escape probability.

    Raises:
        ProblemError: If a number is out of range.
        UnknownNameError: If there is no such probe.
    """
    if race_rate is not None:
        if repeat is not None:
            raise ProblemError("repeat and race_rate both", do="pass one of them: each says how many further calls")
        repeat = calls_for(race_rate, escape_probability)
    _check_numbers(escape_probability, trials, p_zero, repeat)
    names = list(dict.fromkeys(probes)) if probes is not None else list(_ORDER)
    if not names:
        raise ProblemError("an empty list of probes", do=f"choose from {', '.join(TABLE)}, or leave it out")
    drafts = _draft(problem, names, Options(p_zero=p_zero))
    counts = _counts(problem, drafts, escape_probability, trials)
    repeats = 1 if repeat is None else repeat
    result: list[Trial] = []
    base = next((name for name in _BOUNDED if name in drafts.variants), None)
    usable = [name for name in names if name in drafts.variants]
    repeated = [name for name in usable if name in _REPEATED] or usable
    for i, name in _turns(usable, counts):
        settings, certificate = drafts.variants[name][i % len(drafts.variants[name])]
        calls = 1 + (repeats if i == 0 and name in repeated else 0)
        index = len(result)
        layouts = layouts_of(problem, index, settings)
        changes = trials is None and i == 0 and name == base
        moved = index % _MOVED_EVERY == _FIRST_MOVED and not changes
        result.append(Trial(index, name, settings, certificate, layouts, calls, moved=moved))
        if changes:
            result += _changed(problem, result[-1])
    escape = escape_probability_of(problem, result)
    return Plan(problem, tuple(result), tuple(drafts.skipped), escape, escape_probability)


def calls_for(race_rate: float, escape_probability: float) -> int:
    """
    Further calls on one unchanged input, so many that a race is seen but for the *escape_probability*.

    A call that a race spoils with probability r, each on its own, escapes n of them with
    probability (1 - r)^n: n = ln(escape_probability) / ln(1 - r), rounded up.

    Args:
        race_rate: r, the share of the calls that go wrong.
        escape_probability: Wished bound.

    Raises:
        ProblemError: If either is not between 0 and 1.
    """
    _check_numbers(escape_probability, None, None, None)
    if not (_is_real(race_rate) and 0 < race_rate < 1):
        what = f"race_rate={race_rate!r} is not between 0 and 1"
        raise ProblemError(what, why="it is the share of the calls that go wrong", do="for one in twenty pass 0.05")
    return math.ceil(math.log(escape_probability) / math.log1p(-race_rate))


def _changed(problem: Matmul, base: Trial) -> list[Trial]:
    """Trials on the inputs of *base*, in the same places, with a few elements changed."""
    if problem.k == 0 or problem.output.size == 0:
        return []
    formats = {"a": problem.a_format, "b": problem.b_format}
    names = [name for name in _CHANGED if formats[name].is_signed]
    return [
        replace(base, index=base.index + 1 + i, calls=1, based_on=base.index, changed=name)
        for i, name in enumerate(names)
    ]


def _turns(names: Sequence[str], counts: dict[str, int]) -> Iterator[tuple[int, str]]:
    """The probes in turn, so that each kind of input comes early: (how many before, name)."""
    for i in range(max((counts[name] for name in names), default=0)):
        yield from ((i, name) for name in names if name not in _TOGETHER and i < counts[name])
        if i == 0:
            yield from ((j, name) for name in names if name in _TOGETHER for j in range(counts[name]))


def trials_of(problem: Matmul, probe: str, options: Options, *, first_index: int, most: int) -> list[Trial]:
    """Trials outside a plan, to name a fault: *most* of them, going through the certified variants in turn."""
    variants = _draft(problem, [probe], options).variants.get(probe, [])
    drawn = [variants[i % len(variants)] for i in range(most if variants else 0)]
    return [
        Trial(first_index + i, probe, settings, certificate, layouts_of(problem, 0, settings))
        for i, (settings, certificate) in enumerate(drawn)
    ]


def _check_numbers(escape: float, trials: int | None, p_zero: float | None, repeat: int | None) -> None:
    if not (_is_real(escape) and 0 < escape < 1):
        raise ProblemError(f"escape_probability={escape!r} is not between 0 and 1", why="no finite test is certain")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise ProblemError(f"trials={trials!r} is no number of trials", do="pass 1 or more, or leave it out")
    if repeat is not None and (isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 0):
        raise ProblemError(f"repeat={repeat!r} is no number of further calls", do="pass 0 or more, or leave it out")
    if p_zero is not None and not (_is_real(p_zero) and 0 <= p_zero < 1):
        raise ProblemError(
            f"p_zero={p_zero!r} is infeasible",
            why="it is the probability of a zero, and inputs of zeros alone show nothing",
            do="pass a number from 0 up to, but not including, 1; or leave it out to have it derived",
        )


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _draft(problem: Matmul, names: Sequence[str], options: Options) -> _Drafts:
    drafts = _Drafts()
    for name in names:
        probe = probe_named(name)
        certified: list[tuple[Settings, Certificate]] = []
        refused: list[tuple[Settings, Certificate]] = []
        for settings in probe.variants(problem, options):
            certificate = certify(problem, family_of(problem, name, settings), declared=options.declared)
            if certificate.holds:
                certified.append((settings, certificate))
            else:
                refused.append((settings, certificate))
        if certified:
            drafts.variants[name] = certified
        if isinstance(probe, Partial):
            drafts.skipped += _left_out(problem, name, probe, refused)
        elif not certified:
            drafts.skipped.append(Skipped(name, refused[0][1].reason, refused[0][1].remedy))
    return drafts


def _left_out(
    problem: Matmul, name: str, probe: Partial, refused: list[tuple[Settings, Certificate]]
) -> list[Skipped]:
    """The kinds of trial that a probe has for other problems; in one line if the reason is the same for all."""
    absent = probe.left_out(problem)
    skipped = [Skipped(name, f"{kind}: {reason}", "") for kind, reason in absent.items()]
    if len(set(absent.values())) == 1 and len(absent) > 1:
        skipped = [Skipped(name, f"{', '.join(absent)}: {next(iter(absent.values()))}", "")]
    return skipped + [Skipped(name, f"{chosen['kind']}: {c.reason}", c.remedy) for chosen, c in refused]


def _counts(problem: Matmul, drafts: _Drafts, wished: float, trials: int | None) -> dict[str, int]:
    """How many trials of each probe: enough of the best one for the wished bound, within reason."""
    if trials is not None:
        return dict.fromkeys(drafts.variants, trials)
    counts = {
        name: len(variants) if name in _ALL_VARIANTS else _AT_LEAST.get(name, 1)
        for name, variants in drafts.variants.items()
    }
    main = next((name for name in _BOUNDED if name in drafts.variants and name != "wide"), None)
    if main is None or problem.k == 0:
        return counts
    seen = probe_named(main).detection(problem, drafts.variants[main][0][0])
    others = sum(counts.values()) - counts[main] + len(_REPEATED) + len(_CHANGED)
    room = max(1, MOST_CALLS - others)
    if len(drafts.variants[main]) > room and "cancel" in counts:
        room -= _CANCEL_FOR_BLOCKS - counts["cancel"]
        counts["cancel"] = _CANCEL_FOR_BLOCKS
    if seen >= 1:
        counts[main] = 1
    elif seen > 0:
        counts[main] = min(room, math.ceil(math.log(wished) / math.log1p(-seen)))
    else:
        counts[main] = min(room, len(drafts.variants[main]))
    return counts


def escape_probability_of(problem: Matmul, trials: Sequence[Trial]) -> float:
    """The product, over trials, of the chance that a bilinear fault goes unseen."""
    if problem.k == 0 or problem.output.size == 0:
        return 0.0
    logarithm = 0.0
    for trial in trials:
        if trial.based_on is not None or any(LAYOUTS[layout].broadcast for layout in trial.layouts.values()):
            continue  # entries that are one and the same, or those of another trial, are not independent
        seen = probe_named(trial.probe).detection(problem, trial.settings)
        if seen >= 1:
            return 0.0
        logarithm += math.log1p(-seen)
    return math.exp(logarithm)


def layouts_of(problem: Matmul, index: int, settings: Settings) -> dict[str, str]:
    """The layout of each operand and of the output in trial *index*, for a probe with these *settings*."""
    return fitting_layouts(problem, _wished_layouts(problem, index), settings)


def fitting_layouts(problem: Matmul, layouts: dict[str, str], settings: Settings) -> dict[str, str]:
    """The same layouts, but for one that a probe with these *settings* cannot have."""
    layouts = dict(layouts)
    first_axis_is_k = {"a": problem.transpose_a, "b": not problem.transpose_b}
    for name in _chooses_k(problem, settings):
        if LAYOUTS[layouts[name]].broadcast and not problem.batch and first_axis_is_k[name]:
            layouts[name] = "contiguous"  # one k cannot be zero where all are the same
    return layouts


def _chooses_k(problem: Matmul, settings: Settings) -> set[str]:
    """Operands that are zero at some k and not at others, on which a certificate relies."""
    chosen = {"b"} if int(settings.get("terms", problem.k)) < problem.k else set()
    return chosen | ({str(settings["lone"])} if "lone" in settings else set())


def _wished_layouts(problem: Matmul, index: int) -> dict[str, str]:
    operands = [operand.name for operand in problem.operands]
    if isinstance(problem.layouts, dict):
        return {name: problem.layouts.get(name, "contiguous") for name in (*operands, "out")}
    if problem.layouts != "any":
        inputs = dict.fromkeys(operands, problem.layouts)
        return inputs | {"out": "contiguous" if problem.layouts == "broadcast" else problem.layouts}
    names = list(LAYOUTS)
    rounds, count = index // len(names), len(names)
    chosen = {name: names[(index * (1 if i % 2 == 0 else 5) + rounds * i) % count] for i, name in enumerate(operands)}
    outputs = [name for name in names if not LAYOUTS[name].broadcast]
    return chosen | {"out": outputs[index % len(outputs)]}
