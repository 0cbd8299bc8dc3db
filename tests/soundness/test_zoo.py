"""The correct kernels of the zoo are never accused."""

from __future__ import annotations

import pytest

import zeroulp
from benchmarks.zoo import CORRECT
from zeroulp.report import Verdict


@pytest.mark.parametrize("entry", CORRECT, ids=lambda entry: entry.name)
def test_nobody_is_accused(entry):
    if entry.available():
        pytest.skip(entry.available())
    for seed in (0, 1):
        report = zeroulp.check(entry.make(), zeroulp.Matmul(**entry.problem), seed=seed, **entry.options)
        assert report.verdict is Verdict.CORRECT, f"{entry.name}, seed {seed}\n{report}"
