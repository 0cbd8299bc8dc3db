"""The data of a report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zeroulp.exactness import Certificate
    from zeroulp.judge import Outcome
    from zeroulp.kernels import KernelSpec
    from zeroulp.unmet import Skipped

FINDING_KINDS = (
    "wrong-result",
    "precision-below-contract",
    "input-precision",
    "rounding",
    "special-values",
    "nondeterministic",
    "unwritten-output",
    "out-of-bounds-write",
    "out-of-bounds-read",
    "input-mutated",
    "stale-result",
    "late-result",
    "aliased-output",
    "wrong-dtype",
    "wrong-shape",
)


class Verdict(str, Enum):
    """What a check came to; the command line's exit status follows from it."""

    CORRECT = "CORRECT"
    INCORRECT = "INCORRECT"
    INCONCLUSIVE = "INCONCLUSIVE"
    BROKEN = "BROKEN"

    @property
    def exit_status(self) -> int:
        """0, 1, 3 and 4; 2 is kept for usage errors."""
        return {"CORRECT": 0, "INCORRECT": 1, "INCONCLUSIVE": 3, "BROKEN": 4}[self.value]


@dataclass(frozen=True)
class Finding:
    """
    One diagnosed defect. Each is proof: what was seen cannot come from a correct kernel.

    Args:
        kind: One of `FINDING_KINDS`.
        sentence: What is wrong, in one sentence.
        trial: Index of the trial that shows it.
        replay: Indices of the trials needed to see it again, in order.
        evidence: What else is known, as (label, text) pairs.
    """

    kind: str
    sentence: str
    trial: int
    replay: tuple[int, ...]
    evidence: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TrialRecord:
    """
    A trial that was run.

    Args:
        index: Its number within the check.
        probe: Name of the probe.
        settings: The numbers that size it.
        layouts: Layout of each operand and of ``out``.
        based_on: Index of the trial whose inputs these are, but for a few elements of *changed*; or None.
        changed: Name of that operand, or empty.
        moved: Whether inputs and output lay elsewhere than in other trials.
        calls: How often the kernel was called.
        certificate: Why every correct kernel must return the same bits.
        digest: Hash of all input and expected bits, to tell whether a replay is the same trial.
        share_compared: Share of positions compared.
        outcome: What the comparison gave; None if there was nothing to compare.
    """

    index: int
    probe: str
    settings: dict[str, Any]
    layouts: dict[str, str]
    based_on: int | None
    changed: str
    moved: bool
    calls: int
    certificate: Certificate
    digest: str
    share_compared: float
    outcome: Outcome | None


@dataclass(frozen=True)
class Audited:
    """
    What the host looked at, where a device drew the inputs and verified the results.

    Args:
        outputs: How many outputs it compared.
        trials: Indices of their trials, in the order in which they ran.
    """

    outputs: int
    trials: tuple[int, ...]


@dataclass(frozen=True)
class Tracking:
    """
    What is known of a problem's reference.

    Args:
        live: For each operand that was redrawn the share of the exact outputs that changed with it.
        vacuous: Why equal bits say nothing: (reason, remedy) pairs; empty if they do say something.
        ended: Where exactness ended, operation by operation.
        leans: What exactness leans on beside sums and products (``"division"``).
        demoted: What the reference itself does otherwise, where that was asked, so that it is not compared.
        unchecked: Why it could not be asked.
        operations: Of the reference: number, name, and the probes in which it saw exact data that are not all alike.
    """

    live: dict[str, float] = field(default_factory=dict)
    vacuous: tuple[tuple[str, str], ...] = ()
    ended: tuple[str, ...] = ()
    leans: tuple[str, ...] = ()
    demoted: str = ""
    unchecked: str = ""
    operations: tuple[tuple[int, str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Report:
    """
    All of a check.

    Args:
        verdict: What it came to.
        problem: What was checked.
        kernel: Which kernel, and how it was called.
        seed: The check's seed; with the same seed every input bit is the same.
        findings: Defects; empty unless the verdict is INCORRECT.
        trials: The trials that were run.
        skipped: Probes that were not run, and why.
        coverage: Share of the outputs that were compared in at least one trial.
        special_values: What the kernel was seen to do with special values, by kind. ``"nan"``:
            ``"propagates"``. ``"infinity"`` and ``"overflow"``: gives ``"infinity"``, ``"nan"``, the
            ``"largest"`` finite number or, from output to output, ``"mixed"``. ``"subnormal operands"``
            and ``"subnormal results"``: ``"kept"``, ``"zero"`` or ``"mixed"``.
        audited: What was looked at on the host, where a device judged; else None.
        tracking: What is known of the reference, where the problem is given by one; else None.
        calls: How often the kernel was called.
        escape_probability: Bound on the chance that a bilinear fault of one output passed; 1.0
            where none is claimed.
        wished: The escape probability that was asked for.
        reasons: Why the verdict is INCONCLUSIVE or BROKEN: (reason, remedy) pairs.
        log: The end of the kernel's output, where it broke.
        isolation: How the kernel was kept apart: ``"none"`` or ``"process"``.
        seconds: Wall time: ``"kernel"`` for its calls, ``"check"`` for everything.
        environment: Versions and machine.
        options: What else was asked for, as needed to replay.
    """

    verdict: Verdict
    problem: Any
    kernel: KernelSpec
    seed: int
    findings: tuple[Finding, ...] = ()
    trials: tuple[TrialRecord, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    coverage: float = 0.0
    special_values: dict[str, str] = field(default_factory=dict)
    audited: Audited | None = None
    tracking: Tracking | None = None
    calls: int = 0
    escape_probability: float = 1.0
    wished: float = 1e-9
    reasons: tuple[tuple[str, str], ...] = ()
    log: str = ""
    isolation: str = "none"
    seconds: dict[str, float] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        from zeroulp.report.text import render_text  # noqa: PLC0415  (the rendering knows the data, not the reverse)

        return render_text(self)

    def trial(self, index: int) -> TrialRecord | None:
        """The record of trial *index*, if it was run."""
        return next((trial for trial in self.trials if trial.index == index), None)
