"""Further trials on a kernel that is known to be wrong, to find out what it does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zeroulp.checks.excerpt import is_large
from zeroulp.judge import Differs
from zeroulp.plan import fitting_layouts, trials_of
from zeroulp.reference.expected import total_in_quanta

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroulp.checks.bench import Bench, Observation
    from zeroulp.diagnose import Case
    from zeroulp.encoding import Array
    from zeroulp.plan import Trial
    from zeroulp.probes import Options

LARGE_CALLS = 48
"""How often a kernel is called at a large size to find a name, beyond its calls on the inputs of the failed trial."""

LARGE_TRIALS = 2
"""How many trials of a probe are run there at a time, or one of each variant: each has a great many outputs."""

_NAMING_INDEX = 1_000_000  # trials that are not in the plan have numbers from here on


@dataclass(frozen=True)
class Named:
    """A finding without its place: kind, clause, and what was measured as (label, text) pairs."""

    kind: str
    clause: str
    evidence: tuple[tuple[str, str], ...] = ()


class OutOfCallsError(Exception):
    """A large problem has had all the calls that a name is worth."""


class Explorer:
    """
    Runs further trials in the memory layouts of the one that failed.

    Args:
        bench: Runs trials.
        layouts: Of the trial that failed.
    """

    def __init__(self, bench: Bench, layouts: dict[str, str]) -> None:
        self._bench, self._layouts = bench, layouts
        self._next_index = _NAMING_INDEX
        self.problem = bench.problem
        self.is_large = is_large(bench.problem)
        self._calls = 0

    def trials(self, probe: str, options: Options, most: int) -> list[Trial]:
        """Trials that nobody has run yet; none if the probe has no certificate with these options."""
        found = trials_of(self.problem, probe, options, first_index=self._next_index, most=most)
        if self.is_large:
            variants = {str(trial.settings) for trial in found}
            found = found[: max(len(variants), LARGE_TRIALS)]
        self._next_index += _NAMING_INDEX
        return [replace(t, layouts=fitting_layouts(self.problem, self._layouts, t.settings)) for t in found]

    def observe(self, trial: Trial) -> Observation:
        """
        Run one of them.

        Raises:
            OutOfCallsError: If the problem is large, and there were `LARGE_CALLS` of them.
        """
        self._calls += 1
        if self.is_large and self._calls > LARGE_CALLS:
            raise OutOfCallsError
        return self._bench.observe(trial)

    def first_wrong(self, probe: str, options: Options, most: int) -> Observation | None:
        """The first of *most* trials that does not match, or None if all do."""
        for trial in self.trials(probe, options, most):
            seen = self.observe(trial)
            if seen.outcome is None or isinstance(seen.outcome, Differs) or seen.findings:
                return seen
        return None

    def observations(self, probe: str, options: Options, most: int) -> Iterator[Observation]:
        """What *most* trials show, right or wrong; those that returned no array of the right kind left out."""
        for trial in self.trials(probe, options, most):
            seen = self.observe(trial)
            if seen.results:
                yield seen

    def cases(self, probe: str, options: Options, most: int) -> list[Case]:
        """The same, for diagnosis."""
        return [seen.excerpt.case for seen in self.observations(probe, options, most)]


def moduli_of(case: Case) -> Array:
    """Sums of |terms| behind each output, in quanta: what an accumulator may have to hold."""
    return total_in_quanta(case.problem, case.family, case.certificate, case.integers, moduli=True)
