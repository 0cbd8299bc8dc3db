"""What a tolerance rule is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from zeroulp.formats import Format
from zeroulp.problem import Matmul

Values: TypeAlias = NDArray[np.float64]
Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, ...], Format, Matmul], Values]
Accept: TypeAlias = Callable[[Values, Values, Format], tuple[bool, str]]


@dataclass(frozen=True)
class Rule:
    """
    How another tool decides.

    Args:
        name: The tool, and which of its rules.
        source: Where the rule stands.
        inputs: Its input distribution, in words.
        criterion: Its criterion, in words.
        trials: How many inputs it tries.
        draw: (generator, shape, format, problem) -> values, later rounded to the format.
        accept: (actual, reference, output format) -> accepted, and how close it was.
    """

    name: str
    source: str
    inputs: str
    criterion: str
    trials: int
    draw: Draw
    accept: Accept


@dataclass(frozen=True)
class RuleResult:
    """
    What a rule said of a kernel.

    Args:
        rule: The rule.
        accepted: Its answer; None if the kernel broke.
        detail: How close it was, in the trial that decided.
    """

    rule: Rule
    accepted: bool | None
    detail: str
