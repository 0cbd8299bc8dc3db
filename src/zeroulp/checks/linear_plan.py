"""What a check of a kernel that is given by a reference would do: its trials, drawn and followed without a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.checks.bench import block_size
from zeroulp.checks.linear_bench import draw_linear
from zeroulp.checks.linear_run import linear_plan, prepared, tracking_of, why_inconclusive
from zeroulp.errors import UsageError
from zeroulp.problem import Linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.plan import Trial
    from zeroulp.report import Tracking


@dataclass(frozen=True)
class LinearPlan:
    """
    The trials of a check of a kernel that is given by a reference.

    Args:
        problem: What is checked, with its output known.
        trials: In the order in which they run, each with the certificate of its drawing.
        shares: For each trial the share of the outputs that it compares.
        coverage: Share of the outputs that one trial or another compares.
        tracking: What is known of the reference: what depends on which operand, and where exactness ends.
        unmet: Why the verdict on a kernel that does nothing wrong is INCONCLUSIVE: (reason, remedy) pairs.
        seed: That all of this was drawn from.
    """

    problem: Linear
    trials: tuple[Trial, ...]
    shares: tuple[float, ...]
    coverage: float
    tracking: Tracking
    unmet: tuple[tuple[str, str], ...]
    seed: int

    @property
    def calls(self) -> int:
        """How often the kernel will be called."""
        return sum(trial.calls for trial in self.trials)

    @property
    def block_bytes(self) -> int:
        """Memory for operands, output and guards."""
        return _bytes_of(self.problem, self.trials)


def make_linear_plan(
    problem: Linear,
    *,
    trials: int | None = None,
    repeat: int | None = None,
    race_rate: float | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> LinearPlan:
    """
    What `check` would do with a problem that is given by a reference, without a kernel.

    The reference is run a few times, and every trial drawn and followed through it. Another seed draws other numbers,
    so that shares of outputs may differ a little.

    Args:
        problem: What is to be checked.
        trials: This many trials of each way to draw; default: eight in all, or two of each.
        repeat: Further calls on the inputs of the first trial of each; default 1.
        race_rate: Instead of *repeat*: as many as see a race that spoils this share of the calls.
        seed: Of the inputs; a check with this seed runs these trials.
        device: Where the reference checks itself.

    Raises:
        UsageError: If the problem is no `Linear`, a number is out of range, or the reference cannot be followed.

    Exactness:
        A share is that of the outputs which every correct kernel returns with the same bits, on that trial's inputs.

    Examples:
        >>> from zeroulp import Tensor
        >>> plan = make_linear_plan(Linear(lambda x, w: x @ w, [Tensor("x", (4, 8)), Tensor("w", (8, 3))]))
        >>> plan.coverage, plan.unmet
        (1.0, ())
    """
    if not isinstance(problem, Linear):
        do = "pass zeroulp.Linear(reference, operands); for a zeroulp.Matmul there is zeroulp.make_plan"
        raise UsageError(f"the problem is a {type(problem).__name__}", do=do)
    problem, fitted = prepared(problem, seed, device)
    tracking = tracking_of(fitted)
    planned = linear_plan(fitted, trials=trials, repeat=repeat, race_rate=race_rate)
    covered: NDArray[np.bool_] = np.zeros(problem.output.shape, bool)
    drawn, shares, demoted = [], [], []
    for trial in planned.trials:
        inputs = draw_linear(problem, trial, seed, device)
        covered |= inputs.followed.compared
        drawn.append(inputs.trial)
        shares.append(inputs.followed.share)
        demoted.append(inputs.followed.demoted)
    coverage = float(covered.mean()) if covered.size else 1.0
    unmet = why_inconclusive(problem, tracking, coverage, demoted)
    return LinearPlan(problem, tuple(drawn), tuple(shares), coverage, tracking, unmet, seed)


def _bytes_of(problem: Any, trials: tuple[Trial, ...]) -> int:
    return block_size(problem, [trial.layouts for trial in trials], writes=True)
