"""One shape of a grid, and what its check came to; also where it could not be checked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.checks.check import check
from zeroulp.checks.environment import describe_environment
from zeroulp.errors import UsageError
from zeroulp.report import Report, Verdict
from zeroulp.report.codec import to_dict

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.checks.session import Session
    from zeroulp.problem import Matmul

_REFUSAL = ("what", "where", "why", "do")


@dataclass(frozen=True)
class Checked:
    """
    What the check of one shape came to.

    Args:
        report: As plain data.
        is_final: Whether it is kept; else it is INCONCLUSIVE, because the shape cannot be checked here and now.
        has_loaded: Whether the kernel was ever loaded.
        refused: Why the request makes no sense at this shape.
    """

    report: dict[str, Any]
    is_final: bool
    has_loaded: bool
    refused: UsageError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for a message."""
        refused = None if self.refused is None else {name: getattr(self.refused, name) for name in _REFUSAL}
        return {**vars(self), "refused": refused}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Checked:
        """What `to_dict` described."""
        refused = data["refused"]
        return cls(**{**data, "refused": None if refused is None else UsageError(refused.pop("what"), **refused)})


def check_shape(
    session: Session,
    problem: Matmul,
    seed: int,
    options: dict[str, Any],
    progress: Callable[[int, int, str], None] | None = None,
) -> Checked:
    """Check *problem*, as `zeroulp.check` does; what that would raise is in the result."""
    started = time.perf_counter()
    refused = None
    try:
        report = check(session, problem, seed=seed, progress=progress, **options)
        return Checked(to_dict(report), is_final=True, has_loaded=session.has_loaded)
    except UsageError as error:
        refused = error
        reason = (error.what, " ".join(filter(None, [error.why, error.do])))
    except MemoryError as error:
        reason = (f"there is not enough memory: {error}", "a machine with more memory, or smaller sizes")
    seconds = time.perf_counter() - started
    data = undecided(session, problem, Verdict.INCONCLUSIVE, reason, seed=seed, options=options, seconds=seconds)
    return Checked(data, is_final=False, has_loaded=session.has_loaded, refused=refused)


def undecided(
    session: Session,
    problem: Matmul,
    verdict: Verdict,
    reason: tuple[str, str],
    *,
    seed: int,
    options: dict[str, Any],
    seconds: float,
) -> dict[str, Any]:
    """
    The report, as plain data, of a shape at which nothing was seen.

    Args:
        session: Which kernel.
        problem: With its sizes.
        verdict: INCONCLUSIVE or BROKEN.
        reason: Why, and what would change that.
        seed: Of the check.
        options: Of the plan.
        seconds: How long that took.
    """
    report = Report(
        verdict=verdict,
        problem=problem,
        kernel=session.spec,
        seed=seed,
        reasons=(reason,),
        isolation=session.isolation,
        seconds={"kernel": 0.0, "check": round(seconds, 6)},
        environment=describe_environment({}),
        options={name: options.get(name) for name in ("p_zero", "trials", "probes", "repeat")},
    )
    return to_dict(report)
