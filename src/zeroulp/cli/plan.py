"""``zeroulp plan``: what would be tried, and why it is exact, without running anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.checks.bench import block_size
from zeroulp.checks.shapes import SHORT_PLAN
from zeroulp.cli import arguments as shared
from zeroulp.cli import linear_plan
from zeroulp.cli.console import show, table
from zeroulp.cli.linear_plan import memory_text
from zeroulp.plan import Plan, make_plan
from zeroulp.probes import probe_named
from zeroulp.problem import Linear
from zeroulp.report.text import probability_text
from zeroulp.shapes import shapes_named, sizes_text, why_shape

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from zeroulp.problem import Matmul


def add_command(commands: Any) -> None:
    """Add ``plan`` to the command line."""
    parser = commands.add_parser("plan", help="what would be tried and why it is exact, without running")
    shared.add_problem_options(parser)
    shared.add_plan_options(parser)
    shared.add_shapes_option(parser)
    shared.add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan."""
    problem = shared.problem_from(arguments, linear=not arguments.shapes)
    if isinstance(problem, Linear):
        return linear_plan.run(problem, arguments)
    options: dict[str, Any] = {
        "escape_probability": arguments.escape_probability,
        "trials": arguments.trials,
        "probes": arguments.probe,
        "p_zero": arguments.p_zero,
        "repeat": arguments.repeat,
        "race_rate": arguments.race_rate,
    }
    shapes = shapes_named(arguments.shapes, problem) if arguments.shapes else ()
    plan = make_plan(problem, **options)
    show(render_plan(plan))
    if shapes:
        plans = [plan, *(make_plan(shape, **options | SHORT_PLAN) for shape in shapes[1:])]
        show(render_shapes(problem, plans))
    return 3 if plan.unmet else 0


def render_plan(plan: Plan) -> str:
    """The plan as text."""
    problem = plan.problem
    sizes = " x ".join(str(size) for size in (*problem.batch, problem.m, problem.n, problem.k))
    lines = [f"{len(plan.trials)} trials, {plan.calls} calls of a matmul of {sizes} ({problem.sentence()})", ""]
    rows = []
    for name in dict.fromkeys(trial.probe for trial in plan.trials):
        own = [trial for trial in plan.trials if trial.probe == name]
        sentences = list(dict.fromkeys(trial.certificate.sentence() for trial in own))
        calls = sum(trial.calls for trial in own)
        rows.append([name, str(len(own)), str(calls), sentences[0]])
        rows += [["", "", "", sentence] for sentence in sentences[1:]]
    lines += [table(["probe", "trials", "calls", "exact because"], rows)] if rows else []
    lines += [f"  {name:<12}{probe_named(name).purpose}" for name in dict.fromkeys(t.probe for t in plan.trials)]
    for skipped in plan.skipped:
        gap = " " if skipped.variant else ""
        lines += [f"  {skipped.label:<12}{gap}not run: {skipped.reason}"]
        lines += [f"  {'':<12}what would help: {skipped.remedy}"] if skipped.remedy else []
    bound = probability_text(plan.escape_probability)
    lines += ["", f"  escape probability at most {bound} for any other bilinear form of"]
    lines += ["  an output's row and column with whole-number weights" + _wish(plan)]
    if plan.escape_probability >= 1:
        lines[-2:] = ["  no bound on the escape probability is claimed for these trials"]
    for reason, remedy in plan.unmet if plan.trials else ():
        lines += [f"  not enough: {reason}", f"  {'':<12}what would help: {remedy}"]
    size = block_size(problem, [trial.layouts for trial in plan.trials], writes=True)
    return "\n".join([*lines, memory_text(size)]) + "\n"


def render_shapes(given: Matmul, plans: Sequence[Plan]) -> str:
    """The shapes beside the given one as text."""
    calls = sum(plan.calls for plan in plans)
    rows = [[sizes_text(plan.problem), str(plan.calls), why_shape(given, plan.problem)] for plan in plans]
    return f"\n{len(plans)} shapes, {calls} calls in all\n\n" + table(["m x n x k", "calls", "why this shape"], rows)


def _wish(plan: Plan) -> str:
    if plan.escape_probability <= plan.wished:
        return ""
    return f" (wished: {plan.wished:g}; --escape-probability {plan.wished:g} insists)"
