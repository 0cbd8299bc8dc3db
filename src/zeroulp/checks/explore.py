"""Further trials on a kernel that is known to be wrong, to find out what it does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zeroulp.diagnose import Case
from zeroulp.judge import Differs, differing
from zeroulp.plan import fitting_layouts, trials_of
from zeroulp.reference.expected import total_in_quanta

if TYPE_CHECKING:
    from zeroulp.checks.bench import Bench, Observation
    from zeroulp.encoding import Array
    from zeroulp.plan import Trial
    from zeroulp.probes import Options
    from zeroulp.problem import Matmul

_NAMING_INDEX = 1_000_000  # trials that are not in the plan have numbers from here on


@dataclass(frozen=True)
class Named:
    """A finding without its place: kind, clause, and what was measured as (label, text) pairs."""

    kind: str
    clause: str
    evidence: tuple[tuple[str, str], ...] = ()


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

    def trials(self, probe: str, options: Options, most: int) -> list[Trial]:
        """Trials that nobody has run yet; none if the probe has no certificate with these options."""
        found = trials_of(self.problem, probe, options, first_index=self._next_index, most=most)
        self._next_index += _NAMING_INDEX
        return [replace(t, layouts=fitting_layouts(self.problem, self._layouts, t.settings)) for t in found]

    def observe(self, trial: Trial) -> Observation:
        """Run one of them."""
        return self._bench.observe(trial)

    def first_wrong(self, probe: str, options: Options, most: int) -> Observation | None:
        """The first of *most* trials that does not match, or None if all do."""
        for trial in self.trials(probe, options, most):
            seen = self.observe(trial)
            if seen.outcome is None or isinstance(seen.outcome, Differs) or seen.findings:
                return seen
        return None

    def observations(self, probe: str, options: Options, most: int) -> list[Observation]:
        """What *most* trials show, right or wrong; those that returned no array of the right kind left out."""
        seen = [self.observe(trial) for trial in self.trials(probe, options, most)]
        return [one for one in seen if one.results]

    def cases(self, probe: str, options: Options, most: int) -> list[Case]:
        """The same, for diagnosis."""
        return [case_of(self.problem, seen) for seen in self.observations(probe, options, most)]


def case_of(problem: Matmul, seen: Observation) -> Case:
    """An observation with a result, for diagnosis."""
    inputs = seen.inputs
    actual = seen.codes[0]
    wrong = differing(actual, inputs.expected, problem.out_format)
    certificate = inputs.trial.certificate
    total = total_in_quanta(problem, inputs.family, certificate, inputs.integers)
    exponents = None if isinstance(inputs.exponent, int) else inputs.exponent
    return Case(problem, inputs.family, certificate, inputs.integers, total, actual, wrong, exponents)


def moduli_of(case: Case) -> Array:
    """Sums of |terms| behind each output, in quanta: what an accumulator may have to hold."""
    return total_in_quanta(case.problem, case.family, case.certificate, case.integers, moduli=True)
