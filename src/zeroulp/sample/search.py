"""Which strategies a program is drawn by: recipes chosen from what a tracked run met, settings tuned to its bits."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ProgramError
from zeroulp.sample import recipe as recipes
from zeroulp.sample.coverage import Coverage, Shown, coverage_of
from zeroulp.sample.drawing import Kind
from zeroulp.sample.recipe import TERMS, Recipe, Setting, row_length
from zeroulp.sample.tensors import as_tensors
from zeroulp.track import changes, track

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroulp.problem import Tensor
    from zeroulp.sample.strategy import Strategy

TRIES = 6
"""Settings of one recipe that are tracked."""

HOPELESS = 4
"""Runs without an exact element after which an operator without a rule is taken to be what stands in the way."""

_NO_RULE = "not in the table"
_QUOTIENT = "the quotient"
DEEP = 6
"""Weights with rows longer than 1 from which on a program is tried with few terms first."""

_ENOUGH = 0.999
_LIVELY = 0.25
_NEARLY = 0.1
_AHEAD = 4.0
_LARGEST_STEP = 1 << 12
_RAREST = 1 << 20
_TIES = {"argmax", "argmin", "sort", "topk", "kthvalue", "median", "max", "min", "cummax", "cummin", "mode"}
_PRODUCTS = {"cumprod", "prod", "pow"}
_CUTS = {"relu", "clamp", "clamp_min", "clamp_max", "hardtanh", "where", "maximum", "minimum", "threshold"}


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
    of two, multiples of the numbers it divides by), how many non-zeros a row of a weight has, and how large inputs
    are: as many bits of the contract's sums are used as there are, and no more.

    Args:
        reference: A function of PyTorch tensors, called with the operands in order.
        operands: What it takes.
        storage: As of `zeroulp.track.track`; likewise the next three.
        accumulate: Format that sums are kept in at least.
        accumulator_bits: Bits that they keep, where that is fewer.
        refactored: Whether kernels may merge operations.
        seed: Of the trial that is tracked: number 0 of that seed.
        limit: How many strategies at most.
        seconds: After so many no other setting is tracked; at least one is.

    Returns:
        Strategies with their coverage. At least one, even where nothing is exact: see `Coverage.telling`.

    Raises:
        ProgramError: If the reference cannot be tracked on any of the operands drawn.

    Examples:
        >>> from zeroulp.problem import Tensor
        >>> first = draws(lambda a, b: a @ b, [Tensor("a", (8, 16)), Tensor("b", (16, 8))])[0]
        >>> first.name, first.coverage.share, first.coverage.live > 0.9
        ('signed', 1.0, True)
    """
    contract = {"storage": storage, "accumulate": accumulate, "accumulator_bits": accumulator_bits}
    search = _Search(reference, operands, {**contract, "refactored": refactored}, seed, time.monotonic() + seconds)
    found: list[Strategy] = []
    tried: list[Recipe] = []
    for recipe in search.recipes():
        if recipe in tried:
            continue
        tried.append(recipe)
        strategy = search.tuned(recipe)
        if strategy is not None:
            found.append(strategy)
        if search.late or search.hopeless:
            break
    if not found:
        assert search.failure is not None
        raise search.failure
    return _chosen(found, limit)


class _Search:
    """One program, its tracked runs."""

    def __init__(
        self,
        reference: Callable[..., Any],
        operands: Sequence[Tensor],
        contract: dict[str, Any],
        seed: int,
        deadline: float,
    ) -> None:
        self.reference = reference
        self.operands = operands
        self.contract = contract
        self.seed = seed
        self.deadline = deadline
        self.failure: ProgramError | None = None
        self.seen: list[Coverage] = []

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.deadline

    def recipes(self) -> Any:
        """Recipes worth trying, cheapest first; what runs so far have met decides about later ones."""
        indexed = any(tensor.role == "index" for tensor in self.operands)
        if sum(row_length(tensor) > 1 for tensor in self.operands) >= DEEP:
            yield recipes.SPARSE
            yield recipes.SPARSE_NONNEGATIVE
        yield recipes.SIGNED
        if indexed:
            yield recipes.SIGNED.apart()
        if self.met(_TIES):
            yield recipes.DISTINCT
        if self.met(_PRODUCTS):
            yield recipes.POWERS
        if self.met(_CUTS) or not self.done:
            yield recipes.NONNEGATIVE
        yield recipes.SPARSE
        if self.met(_CUTS) or not self.done:
            yield recipes.SPARSE_NONNEGATIVE
        if (step := self.step) > 1 and not self.done:
            for recipe in (recipes.NONNEGATIVE, recipes.SPARSE_NONNEGATIVE, recipes.SPARSE, recipes.SIGNED):
                if not self.done:
                    yield recipe.multiples(step)
        for recipe in (recipes.SINGLE, recipes.SINGLE_NONNEGATIVE, recipes.POWERS, recipes.DISTINCT):
            if not self.done:
                yield recipe

    @property
    def done(self) -> bool:
        """Whether a run had every element exact, and a good part of them live."""
        return any(coverage.telling >= _ENOUGH and coverage.live >= _LIVELY for coverage in self.seen)

    @property
    def hopeless(self) -> bool:
        """Whether nothing was exact in any of several runs, for an operator that there is no rule for."""
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
            if odd > 1 and result * odd <= _LARGEST_STEP:
                result *= odd
        return result

    def run(self, strategy: Strategy) -> Coverage | None:
        """Track one trial; None if the program cannot be tracked on it."""
        try:
            drawn = [as_tensors(self.operands, strategy.values(self.seed, trial)) for trial in (0, 1)]
            tracked = track(self.reference, drawn[0], **self.contract)
            moving = {tensor.name for tensor in self.operands if tensor.role != "weight"}
            other = {name: value for name, value in drawn[1].items() if name in (moving or drawn[0])}
            coverage = coverage_of(tracked, changes(tracked, other))
        except ProgramError as error:
            self.failure = error
            return None
        self.seen.append(coverage)
        return coverage

    def tuned(self, recipe: Recipe) -> Strategy | None:
        """The recipe in the best setting of those tried."""
        best: Strategy | None = None
        tuning = _Tuning(recipe, self.operands, self.contract)
        setting = recipe.setting
        for _ in range(TRIES):
            strategy = recipe.strategy(self.operands, setting)
            coverage = self.run(strategy)
            if coverage is None:
                break
            if best is None or _rank(coverage) > _rank(best.coverage):
                best = replace(strategy, coverage=coverage)
            following = tuning.next(setting, coverage)
            if following is None or self.late:
                break
            setting = following
        return best


class _Tuning:
    """How the next setting follows from the last run."""

    def __init__(self, recipe: Recipe, operands: Sequence[Tensor], contract: dict[str, Any]) -> None:
        self.recipe = recipe
        self.rows = [row_length(t) for t in operands if row_length(t) > 1]
        self.precision = {"float32": 24, "float16": 11, "bfloat16": 8}.get(str(contract["storage"]), 24)
        self.base: tuple[Setting, float] | None = None

    def next(self, setting: Setting, coverage: Coverage) -> Setting | None:
        """Another setting, or None if there is nothing to gain."""
        limit = min(self.precision, coverage.budget)
        over = coverage.over
        if coverage.ended is not None and coverage.share < 1:
            over = max(over, coverage.bits - limit)
        if self.base is not None:
            return self._between(setting, coverage, over)
        if over <= 0 and self._lone(setting, coverage):
            rarer = 16 if self.recipe.inputs is Kind.POWERS else 4
            return replace(setting, every=rarer * setting.every) if setting.every < _RAREST else None
        if over > 0:
            return self._thinner(setting, over, coverage)
        slack = limit - coverage.bits
        if slack >= 1 and coverage.share == 1 and self.recipe.fills:
            self.base = setting, coverage.bits
            return replace(setting, magnitude=setting.magnitude * 2 ** int(slack))
        return None

    def _lone(self, setting: Setting, coverage: Coverage) -> bool:
        """Whether fewer elements other than 0 (or than 1) may be what is missing: in a quotient, or a long product."""
        if coverage.share == 1 or coverage.ended is None or self.recipe.inputs is Kind.DISTINCT:
            return False
        return (setting.step > 1 and _QUOTIENT in coverage.ended.reason) or (
            self.recipe.inputs is Kind.POWERS and not self.rows
        )

    def _between(self, setting: Setting, coverage: Coverage, over: float) -> Setting | None:
        """A magnitude between that of the base, which left bits, and one that was too large."""
        if coverage.share == 1:
            return None
        base, bits = self.base or (setting, 0.0)
        raised = math.log2(setting.magnitude / base.magnitude)
        limit = min(self.precision, coverage.budget)
        reached = max(limit + over, limit + 1)
        degree = max(1.0, (reached - bits) / raised) if raised else 1.0
        shift = min(int((limit - bits) / degree), int(raised) - 1)
        return replace(setting, magnitude=base.magnitude * 2**shift) if shift >= 1 else None

    def _thinner(self, setting: Setting, over: float, coverage: Coverage) -> Setting | None:
        """
        Fewer terms, so that some bits are saved; first in the rows of weights, then in inputs.

        Weights behind the place where bits ran out save nothing there, and need as much again.
        """
        if self.recipe.inputs is Kind.DISTINCT and setting.magnitude == 1:
            return replace(setting, magnitude=64)
        reached = coverage.ended.number if coverage.ended is not None else 1
        needed = over * max(1.0, min(_AHEAD, len(coverage.operations) / max(1, reached)))
        for terms in range(setting.terms + 1, len(TERMS)):
            if self.rows and self._bits(setting.terms) - self._bits(terms) >= min(over, 1):
                saved = self._bits(setting.terms) - self._bits(terms)
                if saved >= needed or terms == len(TERMS) - 1 or TERMS[terms] <= 1:
                    return replace(setting, terms=terms)
        every = setting.every * 2 ** max(1, math.ceil(over))
        return replace(setting, every=every) if every <= 1 << 24 and self.recipe.inputs is not Kind.DISTINCT else None

    def _bits(self, terms: int) -> float:
        """Bits that sums over rows of all weights cost."""
        wanted = TERMS[terms]
        return sum(math.log2(max(1.0, min(row * 2 / 3, wanted) if wanted else row * 2 / 3)) for row in self.rows)


def _odd_part(number: float) -> int:
    """Of a whole number; 1 of any other."""
    if number < 1 or number != int(number) or number > _LARGEST_STEP**2:
        return 1
    whole = int(number)
    return whole // (whole & -whole)


def _rank(coverage: Coverage | None) -> tuple[float, ...]:
    if coverage is None:
        return (-1.0,)
    return (
        round(coverage.telling, 3),
        float(len(coverage.covered)),
        coverage.share,
        min(coverage.live, 0.5),
        coverage.bits,
    )


def _telling(strategy: Strategy) -> tuple[float, int]:
    """How much is exact, then whether much of it is live, in steps of 10 %."""
    coverage = strategy.coverage
    return (0.0, 0) if coverage is None else (round(coverage.telling, 2), round(10 * coverage.live))


def _chosen(found: Sequence[Strategy], limit: int) -> list[Strategy]:
    """The best first, then those that show an operation that none before did, then others that are as exact."""
    best = max(found, key=_telling)
    chosen, shown = [best], Shown((best,))
    for new_alone in (True, False):
        for each in found:
            coverage = each.coverage
            if any(each is one for one in chosen) or coverage is None or best.coverage is None or len(chosen) == limit:
                continue
            as_exact = 0 < coverage.telling >= best.coverage.telling - _NEARLY
            if shown.lacks(coverage) if new_alone else as_exact:
                chosen.append(each)
                shown = Shown(tuple(chosen))
    return chosen
