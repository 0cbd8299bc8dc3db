"""What a strategy shows: which operations saw exact data that could show a fault, and which outputs are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.track import Grade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.sample.strategy import Strategy
    from zeroulp.track import Ending, Operation, Tracked

LEAST_LIVE = 0.01
"""Share of the exact elements that have to change with the operands, for equal bits to say anything."""

_MORE = 0.05  # of an output, that counts as more


@dataclass(frozen=True)
class Coverage:
    """
    What a tracked run on one trial of a strategy saw.

    Args:
        share: Share of all elements returned that are algebraic.
        live: Share of the exact elements that change when the operands are drawn again.
        outputs: Share of the algebraic elements of each output.
        bits: log2 of the largest sum of |terms|, in quanta, of an exact element.
        budget: Bits that sums keep by the contract, those of the outputs.
        operations: What the program ran, and which data each operation saw.
        ended: Where exact elements first ceased to be; None: nowhere.
        over: By how many bits the largest sum of those that ceased to be exact for that exceeds the budget.
        divisors: Numbers other than powers of two that the program divides by.
        leans: Whether every algebraic element is sums, products and selections alone; else what beside these.
        determined: Share of all elements returned that are algebraic, or exact values rounded once.
    """

    share: float
    live: float
    outputs: tuple[float, ...]
    bits: float
    budget: int
    operations: tuple[Operation, ...]
    ended: Ending | None
    over: float
    divisors: tuple[float, ...]
    leans: frozenset[str]
    determined: float = 0.0

    @property
    def telling(self) -> float:
        """Share of all elements whose bits say something: the algebraic ones, where enough of these are live."""
        return self.share if self.live >= LEAST_LIVE else 0.0

    @property
    def covered(self) -> frozenset[tuple[int, str]]:
        """Number and name of the operations that saw exact data which are not all the same."""
        return frozenset((each.number, each.name) for each in self.operations if not each.trivial)

    def sentence(self) -> str:
        """All of it in one line."""
        seen = f"{len(self.covered)} of {len(self.operations)} operations see exact data"
        ended = "" if self.ended is None else f"; ends in {self.ended.sentence()}"
        bits = f"{self.bits:.1f} of {self.budget} bits"
        return f"{self.share:.1%} exact, {self.live:.1%} of them live, {bits}, {seen}{ended}"


def coverage_of(tracked: Tracked, changed: Sequence[Any]) -> Coverage:
    """
    What a tracked run saw.

    Args:
        tracked: The run.
        changed: As `zeroulp.track.changes` returned it for another drawing.
    """
    arithmetic = tracked.program.arithmetic
    formats = [output.format or arithmetic.storage for output in tracked.outputs]
    budget = min((arithmetic.sum_bits(format_) for format_ in formats), default=0)
    exact = sum(int((output.grade < int(Grade.NOT_EXACT)).count_nonzero()) for output in tracked.outputs)
    changes = sum(int(mask.count_nonzero()) for mask in changed)
    needed = [ending.bits for ending in tracked.endings if ending.bits is not None]
    return Coverage(
        tracked.share(),
        changes / exact if exact else 0.0,
        tuple(output.share(Grade.ALGEBRAIC) for output in tracked.outputs),
        tracked.bits,
        budget,
        tracked.operations,
        tracked.endings[0] if tracked.endings else None,
        max(needed, default=float(budget)) - budget,
        tracked.divisors,
        frozenset().union(*(output.leans for output in tracked.outputs)),
        exact / max(1, sum(output.grade.numel() for output in tracked.outputs)),
    )


@dataclass(frozen=True)
class Shown:
    """
    What several strategies show together.

    Args:
        strategies: Those that were run.
    """

    strategies: tuple[Strategy, ...]

    @property
    def _coverages(self) -> list[tuple[str, Coverage]]:
        return [(each.name, each.coverage) for each in self.strategies if each.coverage is not None]

    @property
    def operations(self) -> dict[tuple[int, str], tuple[str, ...]]:
        """For each operation, by number and name: the strategies in which it saw exact data that are not all alike."""
        found: dict[tuple[int, str], tuple[str, ...]] = {}
        for name, coverage in self._coverages:
            for operation in coverage.operations:
                key = operation.number, operation.name
                found[key] = found.get(key, ()) + ((name,) if not operation.trivial else ())
        return found

    @property
    def unseen(self) -> tuple[tuple[int, str], ...]:
        """Operations that saw no such data in any strategy, by number and name."""
        return tuple(key for key, names in sorted(self.operations.items()) if not names)

    def lacks(self, coverage: Coverage) -> bool:
        """Whether a further strategy shows an operation that none does, or more of an output."""
        outputs = zip(coverage.outputs, self.outputs or (0.0,) * len(coverage.outputs), strict=False)
        more = coverage.live >= LEAST_LIVE and any(share > best + _MORE for share, best in outputs)
        return more or not coverage.covered.isdisjoint(self.unseen)

    @property
    def outputs(self) -> tuple[float, ...]:
        """For each output the largest share of algebraic elements that a live strategy reaches."""
        shares = [coverage.outputs for _, coverage in self._coverages if coverage.live >= LEAST_LIVE]
        return tuple(max(column) for column in zip(*shares, strict=False))

    @property
    def bits(self) -> float:
        """The most bits that a sum uses."""
        return max((coverage.bits for _, coverage in self._coverages), default=0.0)

    def text(self) -> str:
        """One line for each strategy, and one for what none shows."""
        lines = [f"{name}: {coverage.sentence()}" for name, coverage in self._coverages]
        if self.unseen:
            lines.append("no exact data for: " + ", ".join(f"{number} {name}" for number, name in self.unseen))
        return "\n".join(lines)
