"""``zeroulp plan`` for a problem that is given by a reference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zeroulp.checks.linear_plan import LinearPlan, make_linear_plan
from zeroulp.checks.linear_run import refuse
from zeroulp.cli.console import show, table

if TYPE_CHECKING:
    import argparse

    from zeroulp.plan import Trial
    from zeroulp.problem import Linear

_OTHERS = ("escape_probability", "p_zero", "probe")
_ENDINGS = 3  # lines that say where exactness ends


def run(problem: Linear, arguments: argparse.Namespace) -> int:
    """Print the plan."""
    refuse(vars(arguments), _OTHERS)
    options = {name: getattr(arguments, name) for name in ("trials", "repeat", "race_rate")}
    plan = make_linear_plan(problem, **options)
    show(render_linear_plan(plan))
    return 3 if plan.unmet else 0


def render_linear_plan(plan: LinearPlan) -> str:
    """The plan as text."""
    problem, tracking = plan.problem, plan.tracking
    operands = ", ".join(f"{tensor.name} {_sizes(tensor.shape)}" for tensor in problem.tensors)
    head = f"{len(plan.trials)} trials, {plan.calls} calls of {problem.title}: {operands}"
    lines = [f"{head} -> {_sizes(problem.output.shape)} ({problem.sentence()})", ""]
    pairs = zip(plan.trials, plan.shares, strict=True)
    rows = [[str(t.index), str(t.calls), _percent(share), _bits(t), _drawn(t)] for t, share in pairs]
    lines += [table(["trial", "calls", "exact", "sums of |terms|", "inputs"], rows)]
    largest = max((trial.certificate for trial in plan.trials), key=lambda certificate: certificate.largest_sum)
    because = "judged by" if largest.theorem == "nearest" else "exact because"
    lines += [f"  {because} {largest.sentence()}"] if plan.coverage else []
    lines += [f"  {_percent(plan.coverage)} of the outputs are exact in one trial or another"]
    live = ", ".join(f"{_percent(share)} with {name}" for name, share in tracking.live.items())
    lines += [f"  of the exact outputs change {live}"] if live else []
    lines += [f"  exactness ends at {sentence}" for sentence in tracking.ended[:_ENDINGS]]
    lines += [f"  leans on {', '.join(tracking.leans)}"] if tracking.leans else []
    lines += [f"  self-check: {text}" for text in (tracking.demoted, tracking.unchecked) if text]
    for reason, remedy in plan.unmet:
        lines += [f"  not enough: {reason}", f"  {'':<12}what would help: {remedy}"]
    lines += ["  no bound on the escape probability is claimed"]
    return "\n".join([*lines, memory_text(plan.block_bytes)]) + "\n"


def memory_text(size: int) -> str:
    """So many bytes of memory, in a line."""
    return f"  memory for operands, output and guards: {size / 2**20:.1f} MiB"


def _bits(trial: Trial) -> str:
    """The bits of sums that a trial uses, and those that there are."""
    certificate = trial.certificate
    return f"2^{math.log2(max(1, certificate.largest_sum)):.1f} of 2^{certificate.precision}"


def _drawn(trial: Trial) -> str:
    """How the inputs of a trial are drawn."""
    if trial.based_on is not None:
        return f"those of trial {trial.based_on}, a few elements of {trial.changed} changed in place"
    settings = [f"{name} {value}" for name, value in trial.settings.items() if value not in {"", None}]
    return ", ".join([trial.probe, *settings]) + ("; at other addresses" if trial.moved else "")


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "one number"


def _percent(share: float) -> str:
    """Rounded down: 100% is all."""
    return f"{math.floor(share * 1000) / 10:g}%"
