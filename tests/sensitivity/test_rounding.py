"""The exact sum, rounded in another way than promised: found, and named."""

from __future__ import annotations

import numpy as np
import pytest

import zeroulp
from tests.emulation import convert
from zeroulp.formats import format_named

BITS = {"float16": 11, "bfloat16": 8}


def exact_product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def on_grid(exact, name, to_integer):
    """Every value replaced by to_integer(value in units of its last place), in units of its last place."""
    step = np.ldexp(1.0, np.frexp(exact)[1] - BITS[name])
    return convert(to_integer(exact / step) * step, name)


def half_away(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


WAYS = {
    "rounds toward zero": np.trunc,
    "rounds down": np.floor,
    "rounds up": np.ceil,
    "rounds away from zero": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "rounds ties away from zero": half_away,
}


@pytest.mark.parametrize("clause", WAYS)
@pytest.mark.parametrize("name", BITS)
def test_another_way_of_rounding_is_found_and_named(clause, name):
    kernel = lambda a, b: on_grid(exact_product(a, b), name, WAYS[clause])
    for seed in range(3):
        report = zeroulp.check(kernel, zeroulp.Matmul(90, 90, 12, a=name), seed=seed)
        assert [finding.kind for finding in report.findings] == ["rounding"], report
        assert clause in report.findings[0].sentence


@pytest.mark.parametrize(("through", "name"), [
    ("bfloat16", "float16"), ("float16", "bfloat16"), ("tfloat32", "bfloat16"), ("float8_e4m3fn", "float16"),
    ("bfloat16", "float32"),
])
def test_two_roundings_are_found_and_named(through, name):
    kernel = lambda a, b: convert(convert(exact_product(a, b), through).astype(np.float64), name)
    for seed in range(3):
        report = zeroulp.check(kernel, zeroulp.Matmul(40, 40, 12, a=name), seed=seed)
        assert [finding.kind for finding in report.findings] == ["rounding"], report
        assert f"first to {format_named(through).precision} significant bits" in report.findings[0].sentence


def test_random_rounding_is_found_and_named():
    rng = np.random.default_rng(0)
    kernel = lambda a, b: on_grid(exact_product(a, b), "float16", lambda x: np.floor(x + rng.random(x.shape)))
    report = zeroulp.check(kernel, zeroulp.Matmul(40, 40, 12, a="float16"), seed=1)
    assert [finding.kind for finding in report.findings] == ["rounding"], report
    assert "at random" in report.findings[0].sentence
