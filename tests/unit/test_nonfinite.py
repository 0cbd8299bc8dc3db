"""NaN and infinities reach exactly the outputs that IEEE arithmetic says, by counting."""

from __future__ import annotations

import numpy as np
import pytest

from zeroulp import Matmul, encoding
from zeroulp.formats import format_named
from zeroulp.reference import Expected, with_nonfinite


def plain_sum(a, b, alpha):
    """Term by term in float64: IEEE's own answer."""
    total = np.zeros((a.shape[0], b.shape[1]))
    with np.errstate(all="ignore"):
        for k in range(a.shape[1]):
            total = total + a[:, k, None] * b[None, k]
        return total * alpha


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("alpha", [1.0, -0.5])
@pytest.mark.parametrize("zeros", [False, True])
def test_agrees_with_ieee_arithmetic_term_by_term(seed, alpha, zeros):
    rng = np.random.default_rng(seed)
    m, n, k = rng.integers(1, 6, 3)
    values = [1.0, -2.0, 3.0] + ([0.0] if zeros else [])
    a, b = rng.choice(values, (m, k)), rng.choice(values, (k, n))
    for x in (a, b):
        for special in (np.nan, np.inf, -np.inf):
            if rng.random() < 0.5:
                x[rng.integers(x.shape[0]), rng.integers(x.shape[1])] = special
    half = format_named("float16")
    problem = Matmul(int(m), int(n), int(k), a="float16", alpha=alpha)
    codes = {"a": encoding.round_values(a, half), "b": encoding.round_values(b, half)}
    finite = np.full((m, n), 7.0)
    expected = with_nonfinite(problem, codes, Expected(encoding.round_values(finite, half), (), None, None, False))
    with np.errstate(all="ignore"):
        want = plain_sum(a, b, alpha)
    want = np.where(np.isfinite(want), 7.0, want)
    np.testing.assert_array_equal(encoding.decode(expected.codes, half), want)


def test_finite_operands_change_nothing():
    half = format_named("float16")
    codes = {"a": encoding.round_values(np.ones((2, 3)), half), "b": encoding.round_values(np.ones((3, 2)), half)}
    expected = Expected(encoding.round_values(np.full((2, 2), 3.0), half), (), None, None, False)
    assert with_nonfinite(Matmul(2, 2, 3, a="float16"), codes, expected) is expected
