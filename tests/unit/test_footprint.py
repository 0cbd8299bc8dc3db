"""What cannot fit is refused before anything is allocated."""

from __future__ import annotations

import pytest

import zeroulp
from zeroulp import Matmul
from zeroulp.checks import footprint
from zeroulp.cli import main


def test_a_check_that_does_not_fit_says_what_it_needs(monkeypatch, capsys):
    monkeypatch.setattr(footprint, "available_bytes", lambda: 2**20)
    with pytest.raises(MemoryError, match=r"guards take 0\.0 GiB and a result 0\.0 GiB; 0\.0 GiB are available"):
        zeroulp.check(lambda a, b: a @ b, Matmul(600, 600, 600, a="float32"))
    zeroulp.check(lambda a, b: a @ b, Matmul(6, 6, 6, a="float32"))
    assert main(["check", "examples/correct/numpy_tiled.py:matmul", "-m", "600", "-n", "600", "-k", "600", "--a", "float16"]) == 2
    assert "are available" in capsys.readouterr().err


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_problem_beyond_any_memory_is_refused_at_once(isolation):
    problem = Matmul(10**6, 10**6, 10**6, a="float16")
    with pytest.raises(MemoryError, match="guards take 3,7"):
        zeroulp.check("examples/correct/numpy_tiled.py:matmul", problem, isolation=isolation)


def test_available_memory_is_known_here_or_nobody_says(monkeypatch, tmp_path):
    assert footprint.available_bytes() > 2**20
    monkeypatch.setattr(footprint, "_MEMINFO", tmp_path / "none")
    assert footprint.available_bytes() > 2**20
    monkeypatch.delattr(footprint.os, "sysconf")
    assert footprint.available_bytes() is None
    footprint.refuse_what_cannot_fit(Matmul(10**6, 10**6, 10**6, a="float16"), 2**60)
