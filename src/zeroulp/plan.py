"""
Which trials, for which escape probability.

A plan is data: made from the problem and the options alone, before any kernel is seen. Trials
whose certificate does not hold are not in it, and it says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING

from zeroulp.counts import MOST_CALLS, MOST_CALLS_ASKED, counts_for, log_missed
from zeroulp.errors import ProblemError
from zeroulp.exactness import Certificate, certify
from zeroulp.probes import TABLE, Options, Partial, family_of, probe_named
from zeroulp.problem import LAYOUTS, Matmul
from zeroulp.unmet import Asked, Skipped, unmet_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zeroulp.exactness import Family
    from zeroulp.probes.base import Settings

_MOVED_EVERY, _FIRST_MOVED = 6, 3  # trials whose inputs lie at other addresses
_CHANGED = ("a", "b")  # operands of which a few elements are changed in place, in one further trial each

_ORDER = (
    *("signed", "wide", "one_hot", "cancel", "halves", "cover"),
    *("sparse", "binary", "fractional", "real", "specials"),
)
_TOGETHER = ("specials",)  # all of its trials stand at the end of the first turn
_REPEATED = ("signed", "wide")  # probes whose first trial calls again on the same inputs
_CHANGEABLE = ("signed", "wide", "fractional", "binary")  # of whose first trial a few elements can be changed
_SMALLEST_TARGET = 1e-300
DEFAULT_ESCAPE_PROBABILITY = 1e-9


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
class Plan:
    """
    The trials of a check.

    Args:
        problem: What is checked.
        trials: In the order in which they run.
        skipped: Probes without a certificate for this problem, and variants of probes.
        escape_probability: Bound on the chance that a bilinear fault of one output passes all
            trials; 1.0 where none is claimed. For a kernel fixed before the seed was drawn.
        wished: The escape probability that was asked for.
        unmet: What was asked for and is not to be had, so that the verdict on a kernel that does
            nothing wrong is INCONCLUSIVE: (reason, remedy) pairs.
    """

    problem: Matmul
    trials: tuple[Trial, ...]
    skipped: tuple[Skipped, ...]
    escape_probability: float
    wished: float
    unmet: tuple[tuple[str, str], ...] = ()

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
    escape_probability: float | None = None,
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
        escape_probability: Bound that is asked for; decides how many trials there are, up to
            `MOST_CALLS_ASKED` calls, and a bound that is not reached is `Plan.unmet`. Default:
            1e-9 if that is reached within `MOST_CALLS`, else what is reached within them.
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
    if not isinstance(problem, Matmul):
        raise ProblemError(f"the problem is a {type(problem).__name__}", do="a Linear has zeroulp.make_linear_plan")
    wished = DEFAULT_ESCAPE_PROBABILITY if escape_probability is None else escape_probability
    if race_rate is not None:
        if repeat is not None:
            raise ProblemError("repeat and race_rate both", do="pass one of them: each says how many further calls")
        repeat = calls_for(race_rate, wished)
    _check_numbers(wished, trials, p_zero, repeat)
    names = list(dict.fromkeys(probes)) if probes is not None else list(_ORDER)
    if not names:
        raise ProblemError("an empty list of probes", do=f"choose from {', '.join(TABLE)}, or leave it out")
    drafts = _draft(problem, names, Options(p_zero=p_zero))
    repeats = 1 if repeat is None else repeat
    settings = {name: [own for own, _ in certified] for name, certified in drafts.variants.items()}

    def planned(target: float, most: int) -> Plan:
        if trials is not None:
            wanted = [x for x in settings if probes or x != "cover" or _needs_blocks(problem, settings)]
            counts = dict.fromkeys(wanted, trials)
        else:
            room = most - len(_REPEATED) - len(_CHANGED)
            counts = counts_for(problem, settings, target, room=room, named=probes is not None)
        found = _trials(problem, drafts, names, counts, repeats, changes=trials is None)
        escape = escape_probability_of(problem, found)
        return Plan(problem, tuple(found), tuple(drafts.skipped), escape, wished)

    plan = planned(wished, MOST_CALLS)
    if escape_probability is not None and trials is None:
        target, reached = wished, plan.escape_probability
        while reached > wished and target > _SMALLEST_TARGET:
            longer = planned(target, MOST_CALLS_ASKED)
            reached, before = longer.escape_probability, reached
            plan = longer if reached <= wished else plan
            if reached >= before and target < wished:
                break
            target *= target  # trials in some layouts count for nothing: more of them
    asked = Asked(tuple(names) if probes is not None else (), escape_probability, trials)
    is_exact = any(trial.certificate.theorem != "bounded" for trial in plan.trials)
    unmet = unmet_by(problem, asked, plan.skipped, plan.escape_probability, calls=plan.calls, is_exact=is_exact)
    return replace(plan, unmet=unmet)


def _needs_blocks(problem: Matmul, settings: dict[str, list[Settings]]) -> bool:
    """Whether the budget of `signed` does not hold all of k."""
    return any(int(own["terms"]) < problem.k for own in settings.get("signed", [])[:1])


def _trials(
    problem: Matmul, drafts: _Drafts, names: Sequence[str], counts: dict[str, int], repeats: int, *, changes: bool
) -> list[Trial]:
    """So many trials of each probe, in turn."""
    result: list[Trial] = []
    usable = [name for name in names if counts.get(name)]
    base = next((name for name in _CHANGEABLE if name in usable), None)
    exact = [name for name in usable if drafts.variants[name][0][1].theorem != "bounded"]
    repeated = [name for name in exact if name in _REPEATED] or exact
    for i, name in _turns(usable, counts):
        settings, certificate = drafts.variants[name][i % len(drafts.variants[name])]
        calls = 1 + (repeats if i == 0 and name in repeated else 0)
        index = len(result)
        layouts = layouts_of(problem, index, settings)
        is_base = changes and i == 0 and name == base
        moved = index % _MOVED_EVERY == _FIRST_MOVED and not is_base
        result.append(Trial(index, name, settings, certificate, layouts, calls, moved=moved))
        if is_base:
            result += _changed(problem, result[-1])
    return result


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

    @cache
    def certificate_of(family: Family) -> Certificate:  # blocks of k have one family
        return certify(problem, family, declared=options.declared)

    for name in names:
        probe = probe_named(name)
        certified: list[tuple[Settings, Certificate]] = []
        refused: list[tuple[Settings, Certificate]] = []
        for settings in probe.variants(problem, options):
            certificate = certificate_of(family_of(problem, name, settings))
            if certificate.holds:
                certified.append((settings, certificate))
            else:
                refused.append((settings, certificate))
        if certified:
            drafts.variants[name] = certified
        if isinstance(probe, Partial):
            drafts.skipped += _left_out(problem, name, probe, refused, partly=bool(certified))
        elif certified:
            drafts.skipped += _refused_variants(name, refused)
        elif not refused:
            drafts.skipped.append(Skipped(name, "these formats have no such values, or the contract ignores them", ""))
        else:
            drafts.skipped.append(Skipped(name, refused[0][1].reason, refused[0][1].remedy))
    return drafts


def _left_out(
    problem: Matmul, name: str, probe: Partial, refused: list[tuple[Settings, Certificate]], *, partly: bool
) -> list[Skipped]:
    """The kinds of trial that a probe has for other problems, those with one reason together; *partly*: not all."""
    reasons = [(kind, reason, "") for kind, reason in probe.left_out(problem).items()]
    reasons += [(str(chosen["kind"]), certificate.reason, certificate.remedy) for chosen, certificate in refused]
    kinds: dict[tuple[str, str], list[str]] = {}
    for kind, reason, remedy in reasons:
        kinds.setdefault((reason, remedy), []).append(kind)
    return [
        Skipped(name, reason, remedy, variant=", ".join(alike))
        if partly
        else Skipped(name, f"{', '.join(alike)}: {reason}", remedy)
        for (reason, remedy), alike in kinds.items()
    ]


def _refused_variants(name: str, refused: Sequence[tuple[Settings, Certificate]]) -> list[Skipped]:
    """The variants of a probe that have no certificate, where others have one; those with one reason together."""
    by_reason: dict[tuple[str, str], list[Settings]] = {}
    for settings, certificate in refused:
        by_reason.setdefault((certificate.reason, certificate.remedy), []).append(settings)
    return [
        Skipped(name, reason, remedy, variant=" and ".join(dict.fromkeys(_words(settings) for settings in alike)))
        for (reason, remedy), alike in by_reason.items()
    ]


def _words(settings: Settings) -> str:
    """What tells a variant from its sisters: its settings that are words; its numbers if there are none."""
    words = [f"{key}={value}" for key, value in settings.items() if isinstance(value, (str, bool))]
    return ", ".join(words or [f"{key}={value}" for key, value in settings.items()])


def escape_probability_of(problem: Matmul, trials: Sequence[Trial]) -> float:
    """The product, over trials, of the chance that a bilinear fault goes unseen."""
    if problem.k == 0 or problem.output.size == 0:
        return 0.0
    counted: dict[str, list[Settings]] = {}
    for trial in trials:
        if trial.based_on is not None or any(LAYOUTS[layout].broadcast for layout in trial.layouts.values()):
            continue  # entries that are one and the same, or those of another trial, are not independent
        counted.setdefault(trial.probe, []).append(trial.settings)
    return math.exp(sum(log_missed(problem, probe, own) for probe, own in counted.items()))


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
    zeroed = str(settings.get("zeroed", "b"))
    chosen = {zeroed} if int(settings.get("terms", problem.k)) < problem.k else set()
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
