"""
Rules applied to a kernel.

Each rule meets the kernel in a fresh runner, and each of its trials in memory of its own, as
in those tools; outputs that are written into start as zeros. The reference is the float64
product of the rounded operands, rounded once to the output's format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding, memory
from zeroulp.errors import KernelError, UsageError
from zeroulp.kernels import KernelSpec, load, wrap
from zeroulp.kernels.load import is_library
from zeroulp.problem import LAYOUTS, Matmul
from zeroulp.rules.base import Rule, RuleResult, Values
from zeroulp.rules.table import RULES
from zeroulp.runner import InProcess, Runner, start_worker
from zeroulp.runner.base import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroulp.memory import Region


def run_rules(
    spec: KernelSpec,
    problem: Matmul,
    *,
    function: Callable[..., Any] | None = None,
    seed: int = 42,
    isolation: str = "none",
    deadline_seconds: float = 60.0,
    rules: Sequence[Rule] = RULES,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[RuleResult]:
    """
    What each rule says of the kernel.

    Args:
        spec: Which kernel, and how it is called.
        problem: What it computes; its contract plays no part here.
        function: The kernel itself, where it was given in Python.
        seed: Of the rules' inputs.
        isolation: ``"none"`` or ``"process"``.
        deadline_seconds: Longest time of one call, under ``"process"``.
        rules: Which rules.
        progress: Called with (rules done, rules in all, name of the next).

    Returns:
        One result per rule, in order.

    Raises:
        UsageError: If the kernel does not exist, or there is no such isolation.
    """
    if isolation not in ("none", "process"):
        raise UsageError(f"isolation {isolation!r} is not available", do="choose 'none' or 'process'")
    results = []
    for done, rule in enumerate(rules):
        if progress is not None:
            progress(done, len(rules), rule.name)
        results.append(_apply(rule, spec, problem, function, seed, isolation, deadline_seconds))
    if progress is not None:
        progress(len(rules), len(rules), "done")
    return results


def _apply(  # noqa: PLR0917
    rule: Rule,
    spec: KernelSpec,
    problem: Matmul,
    function: Callable[..., Any] | None,
    seed: int,
    isolation: str,
    deadline_seconds: float,
) -> RuleResult:
    writes = spec.destination_passing or is_library(spec.target)
    contiguous = LAYOUTS["contiguous"]
    arrays = [(operand, contiguous) for operand in (*problem.operands, problem.output)]
    regions, size = memory.arrange(arrays * rule.trials)
    runner: Runner
    try:
        if isolation == "process":
            runner = start_worker(spec, problem, size, deadline_seconds)
        else:
            kernel = load(spec, problem) if function is None else wrap(function, spec, problem)
            runner = InProcess(kernel, size)
    except KernelError as error:
        return RuleResult(rule, None, error.what)
    generator, detail = np.random.default_rng(seed), ""
    try:
        for trial in range(rule.trials):
            own = regions[trial * len(arrays) : (trial + 1) * len(arrays)]
            accepted, detail = _one(rule, runner, problem, own, generator, number=trial, writes=writes)
            if not accepted:
                return RuleResult(rule, False, detail)
    except KernelError as error:
        return RuleResult(rule, None, error.what)
    finally:
        runner.close()
    return RuleResult(rule, True, detail)


def _one(
    rule: Rule,
    runner: Runner,
    problem: Matmul,
    regions: Sequence[Region],
    generator: np.random.Generator,
    *,
    number: int,
    writes: bool,
) -> tuple[bool, str]:
    """One trial of a rule."""
    values: dict[str, Values] = {}
    for region, operand in zip(regions[:-1], problem.operands, strict=True):
        codes = encoding.round_values(rule.draw(generator, operand.shape, operand.format, problem), operand.format)
        encoding.bits_of(memory.view(runner.block, region))[...] = codes
        values[operand.name] = encoding.decode(codes, operand.format)
    output = regions[-1]
    encoding.bits_of(memory.view(runner.block, output))[...] = 0
    returned = runner.call(Call(number, tuple(regions[:-1]), output, writes, 0))
    if returned.codes is None:
        return False, f"it returned {returned.dtype} of shape {returned.shape}"
    reference = encoding.round_values(_product(problem, values), problem.out_format, saturate=True)
    actual = encoding.decode(returned.codes, problem.out_format)
    return rule.accept(actual, encoding.decode(reference, problem.out_format), problem.out_format)


def _product(problem: Matmul, values: dict[str, Values]) -> Values:
    a = np.swapaxes(values["a"], -1, -2) if problem.transpose_a else values["a"]
    b = np.swapaxes(values["b"], -1, -2) if problem.transpose_b else values["b"]
    total: Values = problem.alpha * np.matmul(a, b)
    if "c" in values:
        total = total + problem.beta * values["c"]
    if "bias" in values:
        total = total + values["bias"]
    return total
