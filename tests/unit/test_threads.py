"""Work on blocks of an array, one after the other or on several cores."""

from __future__ import annotations

import numpy as np
import pytest

from zeroulp import Matmul
from zeroulp.arrays import HOST, threads
from zeroulp.arrays.threads import spread
from zeroulp.checks.inputs import draw_inputs
from zeroulp.plan import make_plan


@pytest.fixture(params=[1, 4])
def cores(request, monkeypatch):
    monkeypatch.setattr(threads, "_threads", lambda: request.param)
    threads._pool.cache_clear()
    return request.param


def test_results_come_in_order_and_nobody_is_warned(cores, recwarn):
    infinite = np.array([np.inf])
    with np.errstate(all="raise"):
        found = spread(lambda i: float((infinite - infinite)[0]) if i == 3 else float(i), range(20))
    assert found[:3] == [0.0, 1.0, 2.0]
    assert np.isnan(found[3])
    assert found[4:] == [float(i) for i in range(4, 20)]
    assert not recwarn.list


def test_an_error_is_an_error(cores):
    with pytest.raises(ZeroDivisionError):
        spread(lambda i: 1 // (i - 5), range(10))


def test_operands_are_the_same_from_any_number_of_threads(cores, monkeypatch):
    problem = Matmul(130, 600, 520, a="float16")
    for trial in make_plan(problem).trials:
        whole = draw_inputs(problem, trial, 9).codes
        monkeypatch.setattr(type(HOST), "block_elements", 3000)
        pieces = draw_inputs(problem, trial, 9).codes
        monkeypatch.setattr(type(HOST), "block_elements", 1 << 16)
        assert all(np.array_equal(whole[name], pieces[name]) for name in whole), trial.probe
