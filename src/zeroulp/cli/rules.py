"""``zeroulp rules``: what other tools' tolerance rules say of the same kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.checks import check
from zeroulp.cli import arguments as shared
from zeroulp.cli.console import Progress, show, table
from zeroulp.kernels import KernelSpec
from zeroulp.report.text import headline
from zeroulp.rules import RULES, run_rules

if TYPE_CHECKING:
    import argparse

_WORDS = {True: "accepts", False: "rejects", None: "broke"}


def add_command(commands: Any) -> None:
    """Add ``rules`` to the command line."""
    parser = commands.add_parser("rules", help="what other tools' tolerance rules say of the same kernel")
    shared.add_kernel_options(parser)
    shared.add_problem_options(parser)
    parser.add_argument("--seed", help="of zeroulp's own check")
    parser.add_argument("--sources", action="store_true", help="say where each rule stands, and its criterion")
    shared.add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table; exit with zeroulp's verdict."""
    problem = shared.problem_from(arguments)
    calling = {"framework": arguments.framework, "signature": arguments.signature, "device": arguments.device}
    with Progress("checking") as progress:
        report = check(
            arguments.kernel,
            problem,
            seed=arguments.seed,
            destination_passing=arguments.destination_passing,
            isolation=arguments.isolate,
            deadline_seconds=arguments.deadline,
            progress=progress,
            **calling,
        )
        spec = KernelSpec(arguments.kernel, destination_passing=arguments.destination_passing, **calling)
        results = run_rules(
            spec, problem, isolation=arguments.isolate, deadline_seconds=arguments.deadline, progress=progress
        )
    rows = [["zeroulp", "exact by certificate", report.verdict.value, headline(report)]]
    rows += [[r.rule.name, f"{r.rule.inputs} x {r.rule.trials}", _WORDS[r.accepted], r.detail] for r in results]
    show(table(["rule", "inputs x trials", "verdict", "why"], rows))
    if arguments.sources:
        show("\n" + table(["rule", "criterion", "source"], [[r.name, r.criterion, r.source] for r in RULES]))
    return report.verdict.exit_status
