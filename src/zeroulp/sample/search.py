"""Which strategies a program is drawn by: recipes chosen from what a tracked run met, settings tuned to its bits."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ProgramError
from zeroulp.sample import recipe as recipes
from zeroulp.sample.coverage import LEAST_LIVE, Coverage, Shown, coverage_of
from zeroulp.sample.drawing import Kind
from zeroulp.sample.recipe import BY_NAME, LARGEST_STEP, Recipe, Setting, row_length, weighted
from zeroulp.sample.tensors import as_tensors
from zeroulp.sample.terms import terms_of
from zeroulp.sample.tuning import Tuning, Units, widened
from zeroulp.track import changes, track

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zeroulp.problem import Tensor
    from zeroulp.sample.strategy import Strategy
    from zeroulp.track import Tracked

TRIES = 6
"""Settings of one recipe that are tracked."""

HOPELESS = 4
"""Runs without an exact element after which an operator without a rule is taken to be what stands in the way."""

DEEP = 6
"""Weights with rows longer than 1 from which on a program is tried with few terms first."""

STRAIGHT = 3
"""Operands up to which a program that only adds and multiplies is drawn for without a tracked run of units."""

WIDENED = 6
"""Operands that are wide, each in a strategy of its own."""

_NO_RULE = "not in the table"
_ENOUGH = 0.999
_LIVELY = 0.25
_NEARLY = 0.1
_TIES = {"argmax", "argmin", "sort", "topk", "kthvalue", "median", "max", "min", "cummax", "cummin", "mode"}
_CUTS = {"relu", "clamp", "clamp_min", "clamp_max", "hardtanh", "where", "threshold", "maximum", "minimum", "sign"}
_COMPARED = _CUTS | {"gt", "ge", "lt", "le", "eq", "ne"}
_PRODUCTS = {"cumprod", "prod", "pow"}


@dataclass(frozen=True, eq=False)
class Run:
    """
    A strategy, and the tracked run on one trial of it.

    Args:
        strategy: With its coverage.
        tracked: The run.
    """

    strategy: Strategy
    tracked: Tracked

    @property
    def coverage(self) -> Coverage:
        """What the run saw."""
        assert self.strategy.coverage is not None, "it was run"
        return self.strategy.coverage


def draws(
    reference: Callable[..., Any],
    operands: Sequence[Tensor],
    *,
    storage: str = "float32",
    accumulate: str = "float32",
    accumulator_bits: int | None = None,
    refactored: bool = True,
    seed: int = 0,
    limit: int = 6,
    seconds: float = math.inf,
) -> list[Strategy]:
    """
    Strategies to draw a program's operands by, each exact in another part, the most telling one first.

    The program is tracked on drawn operands to learn how many bits its sums use and where exactness ends. From that
    follow which recipes are worth trying (integers of both signs, none negative, few non-zeros, all different, powers
    of two, multiples of the numbers it divides by), how many non-zeros a row of a weight has, and how large numbers
    are: as many bits of the contract's sums are used as there are, and no more, by one operand after the other.

    Args:
        reference: A function of PyTorch tensors, called with the operands in order.
        operands: What it takes.
        storage: As of `zeroulp.track.track`; likewise the next three.
        accumulate: Format that sums are kept in at least.
        accumulator_bits: Bits that they keep, where that is fewer.
        refactored: Whether kernels may merge operations.
        seed: Of the trials that are tracked.
        limit: How many strategies at most.
        seconds: After so many no other setting is tracked; at least one is.

    Returns:
        Strategies with their coverage. At least one, even where nothing is exact: see `Coverage.telling`.

    Raises:
        ProgramError: If the reference cannot be tracked on any of the operands drawn.

    Examples:
        >>> from zeroulp.problem import Tensor
        >>> first = draws(lambda a, b: a @ b, [Tensor("a", (8, 16)), Tensor("b", (16, 8))])[0]
        >>> first.name, first.settings["operand"], first.coverage.share, first.coverage.live > 0.9
        ('wide', 'a', 1.0, True)
    """
    contract = {
        "storage": storage,
        "accumulate": accumulate,
        "accumulator_bits": accumulator_bits,
        "refactored": refactored,
    }
    runs = explore(reference, operands, contract, seed=seed, limit=limit, seconds=seconds)
    return [run.strategy for run in runs]


def explore(
    reference: Callable[..., Any],
    operands: Sequence[Tensor],
    contract: dict[str, Any],
    *,
    seed: int = 0,
    first: int = 0,
    limit: int = 6,
    seconds: float = math.inf,
    rounded: bool = False,
    steady: bool = False,
) -> list[Run]:
    """
    `draws`, with the tracked runs.

    Args:
        reference: As of `draws`; likewise *operands*, *seed*, *limit* and *seconds*.
        operands: What it takes.
        contract: Keywords for `zeroulp.track.track`.
        seed: Of the trials that are tracked.
        first: The number of the first of these trials.
        limit: How many strategies at most.
        seconds: After so many no other setting is tracked; at least one is.
        rounded: Whether exact values that are rounded once count as algebraic ones do.
        steady: As of `zeroulp.track.track`.

    Raises:
        ProgramError: As `draws` does.
    """
    deadline = time.monotonic() + seconds
    search = _Search(reference, operands, contract, seed=seed, deadline=deadline, first=first, rounded=rounded)
    search.steady = steady
    if found := search.straight():
        return search.chosen(found, limit)
    tried: list[Recipe] = []
    for recipe in search.recipes():
        if recipe in tried:
            continue
        tried.append(recipe)
        run = search.tuned(recipe)
        if run is not None:
            found.append(run)
        if search.late or search.hopeless:
            break
    if not found:
        assert search.failure is not None
        raise search.failure
    if not search.late and not search.hopeless:
        found = search.widened(found)
    return search.chosen(found, limit)


class _Search:
    """One program, its tracked runs."""

    def __init__(
        self,
        reference: Callable[..., Any],
        operands: Sequence[Tensor],
        contract: dict[str, Any],
        *,
        seed: int,
        deadline: float,
        first: int,
        rounded: bool,
    ) -> None:
        self.reference = reference
        self.operands = operands
        self.contract = contract
        self.seed = seed
        self.deadline = deadline
        self.rounded = rounded
        self.following = first
        self.failure: ProgramError | None = None
        self.steady = False
        self.failures = 0
        self.seen: list[Coverage] = []

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.deadline

    def straight(self) -> list[Run]:
        """
        One operand after the other wide, no units having been tracked, where a program only adds and multiplies.

        Empty, unless every element is then algebraic, many are live, and all operations see data.
        """
        numbers = [tensor for tensor in self.operands if tensor.number_format is not None]
        if len(numbers) > STRAIGHT or any(tensor.role == "index" for tensor in self.operands):
            return []
        units = terms_of(self.reference, self.operands, self.contract, self.seed, self.following)
        if units is None:
            return []
        found: list[Run] = []
        for tensor in numbers:
            setting = next(widened(recipes.WIDE.setting, tensor, units), None)
            run = None if setting is None or self.late else self.run(recipes.WIDE, setting)
            if run is None or tensor.name in run.tracked.unread or not self._is_plain(run.coverage):
                self.seen = []
                return []
            found.append(run)
        return found

    def _is_plain(self, coverage: Coverage) -> bool:
        plain = not self.met(_COMPARED | _TIES | _PRODUCTS) and not any(each.trivial for each in coverage.operations)
        return plain and bool(coverage.operations) and coverage.share == 1 and coverage.live >= _LIVELY

    def recipes(self) -> Iterator[Recipe]:
        """Recipes worth trying, cheapest first; what runs so far have met decides about later ones."""
        indexed = any(tensor.role == "index" for tensor in self.operands)
        if sum(row_length(tensor) > 1 for tensor in self.operands) >= DEEP:
            yield recipes.SPARSE
            yield recipes.SPARSE_NONNEGATIVE
        both = recipes.WIDE, recipes.SIGNED
        for recipe in both:
            if not self.done:
                yield recipe
                if indexed:
                    yield recipe.apart()
        if self.met(_COMPARED):
            yield recipes.TERNARY
        if self.met(_TIES):
            yield recipes.DISTINCT
        if self.met(_PRODUCTS):
            yield recipes.POWERS
        for recipe in (recipes.NONNEGATIVE, recipes.SPARSE, recipes.SPARSE_NONNEGATIVE):
            if not self.done:
                yield recipe
        if (step := self.step) > 1 and not self.done:
            for recipe in (recipes.NONNEGATIVE, recipes.SPARSE_NONNEGATIVE, recipes.SPARSE, recipes.SIGNED):
                if not self.done:
                    yield recipe.multiples(step)
        for recipe in (recipes.SINGLE, recipes.SINGLE_NONNEGATIVE, recipes.POWERS, recipes.DISTINCT):
            if not self.done:
                yield recipe

    def worth(self, coverage: Coverage) -> float:
        """Share of all elements whose bits say something."""
        return coverage.determined if self.rounded and coverage.live >= LEAST_LIVE else coverage.telling

    @property
    def done(self) -> bool:
        """Whether a run had every element exact, and a good part of them live."""
        return any(self.worth(coverage) >= _ENOUGH and coverage.live >= _LIVELY for coverage in self.seen)

    @property
    def hopeless(self) -> bool:
        """Whether nothing was exact in any of several runs, for an operator that there is no rule for."""
        if self.failures >= HOPELESS and not self.seen:
            return True
        ended = [coverage.ended for coverage in self.seen if coverage.share == 0 and coverage.ended is not None]
        return len(ended) == len(self.seen) >= HOPELESS and all(_NO_RULE in each.reason for each in ended)

    def met(self, names: set[str]) -> bool:
        """Whether the program has an operator of these."""
        return any(
            part.rpartition("::")[2].partition(".")[0] in names
            for coverage in self.seen[-1:]
            for operation in coverage.operations
            for part in operation.name.split("/")
        )

    @property
    def step(self) -> int:
        """An odd number that averages and other quotients divide evenly, as far as there is room for it."""
        result = 1
        for divisor in sorted({each for coverage in self.seen for each in coverage.divisors}):
            odd = _odd_part(divisor)
            if odd > 1 and result * odd <= LARGEST_STEP:
                result *= odd
        return result

    def run(self, recipe: Recipe, setting: Setting) -> Run | None:
        """Track one trial; None if the program cannot be tracked on it."""
        strategy = recipe.strategy(self.operands, setting, self.following)
        self.following += 2
        try:
            trials = strategy.trial, strategy.trial + 1
            drawn = [as_tensors(self.operands, strategy.values(self.seed, trial)) for trial in trials]
            tracked = track(self.reference, drawn[0], **self.contract, steady=self.steady or bool(self.seen))
            moving = {tensor.name for tensor in self.operands if tensor.role != "weight"}
            other = {name: value for name, value in drawn[1].items() if name in (moving or drawn[0])}
            coverage = coverage_of(tracked, changes(tracked, other, quickly=True))
        except ProgramError as error:
            self.failure = error
            self.failures += 1
            return None
        self.seen.append(coverage)
        return Run(replace(strategy, coverage=coverage), tracked)

    def tuned(self, recipe: Recipe) -> Run | None:
        """The recipe in the best setting of those tried."""
        best: Run | None = None
        tuning = Tuning(recipe, self.operands, self.contract)
        setting = recipe.setting
        for _ in range(TRIES):
            run = self.run(recipe, setting)
            if run is None:
                break
            if best is None or self._rank(run.coverage) > self._rank(best.coverage):
                best = run
            following = tuning.next(setting, run.coverage)
            if following is None or self.late:
                break
            setting = following
        return best

    def widened(self, found: list[Run]) -> list[Run]:
        """The same, and before them sums of units whose spare bits one operand after the other is given."""
        wide = [run for base in self._units(found) for run in self._wide(base)]
        return [*wide, *found]

    def _wide(self, base: Run) -> Iterator[Run]:
        numbers = [tensor for tensor in self.operands if tensor.number_format is not None]
        formats = [output.format for output in base.tracked.outputs if output.format is not None]
        room = math.log2(min((format_.max_finite for format_ in formats), default=math.inf))
        units = Units(base.coverage.bits, base.coverage.budget, room, weighted(self.operands))
        for tensor in [tensor for tensor in numbers if tensor.name not in base.tracked.unread][:WIDENED]:
            for setting in widened(Setting(**base.strategy.settings), tensor, units):
                run = None if self.late else self.run(BY_NAME[base.strategy.name], setting)
                if run is not None and self.worth(run.coverage) >= self.worth(base.coverage):
                    yield run
                    break

    def _units(self, found: list[Run]) -> list[Run]:
        """Runs in which every number is 1, -1 or 0, about as exact as the best one: of these, or one of its kind."""
        best = max(found, key=lambda run: self._telling(run.coverage))
        least = self.worth(best.coverage) - _NEARLY
        units = [run for run in found if BY_NAME[run.strategy.name].wide and self.worth(run.coverage) >= max(least, 0)]
        recipe = BY_NAME[best.strategy.name]
        kinds = {Kind.SIGNED: recipes.WIDE, Kind.NONNEGATIVE: recipes.WIDE_NONNEGATIVE}
        if units or recipe.inputs not in kinds or recipe.lone or not self.worth(best.coverage):
            return units
        other = kinds[recipe.inputs].apart() if recipe.unique else kinds[recipe.inputs]
        run = self.run(other, replace(Setting(**best.strategy.settings), magnitude=1))
        return [run] if run is not None and self.worth(run.coverage) >= least else []

    def _rank(self, coverage: Coverage) -> tuple[float, ...]:
        return (
            round(self.worth(coverage), 3),
            float(len(coverage.covered)),
            coverage.share,
            min(coverage.live, 0.5),
            coverage.bits,
        )

    def _telling(self, coverage: Coverage) -> tuple[float, int]:
        """How much is exact, then whether much of it is live, in steps of 10 %."""
        return round(self.worth(coverage), 2), round(10 * coverage.live)

    def chosen(self, found: Sequence[Run], limit: int) -> list[Run]:
        """The best first, then those that show an operation that none before did, then others that are as exact."""
        best = max(found, key=lambda run: self._telling(run.coverage))
        chosen = [best]
        for new_alone in (True, False):
            for each in found:
                if any(each is one for one in chosen) or len(chosen) == limit:
                    continue
                shown = Shown(tuple(run.strategy for run in chosen))
                as_exact = 0 < self.worth(each.coverage) >= self.worth(best.coverage) - _NEARLY
                if shown.lacks(each.coverage) if new_alone else as_exact:
                    chosen.append(each)
        return chosen


def _odd_part(number: float) -> int:
    """Of a whole number; 1 of any other."""
    if number < 1 or number != int(number) or number > LARGEST_STEP**2:
        return 1
    whole = int(number)
    return whole // (whole & -whole)
