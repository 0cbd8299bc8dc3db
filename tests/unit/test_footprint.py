"""What cannot fit is refused before anything is allocated."""

from __future__ import annotations

import pytest

import zeroulp
from zeroulp import Matmul
from zeroulp.checks import footprint
from zeroulp.cli import main


def test_a_check_that_does_not_fit_says_what_it_needs(monkeypatch, capsys):
    monkeypatch.setattr(footprint, "available_bytes", lambda: 2**20)
    with pytest.raises(MemoryError, match=r"take 0\.0 GiB, results 0\.0 GiB and their verification 0\.0 GiB; 0\.0 GiB are available"):
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
    footprint.refuse_what_cannot_fit(footprint.Footprint(2**60, 0, 0), footprint.available_bytes())


def test_what_is_needed_follows_from_how_the_kernel_is_called():
    problem = Matmul(16384, 16384, 16384, a="float16")
    result = 2**29

    def needed(*, writes, isolation, **options):
        return footprint.footprint_of(problem, 3 * result, writes=writes, isolation=isolation, **options)

    assert needed(writes=False, isolation="none") == footprint.Footprint(3 * result, result, 2**28)
    assert needed(writes=False, isolation="process").results == 2 * result
    assert [needed(writes=True, isolation=name).results for name in ("none", "process")] == [0, 0]
    assert needed(writes=True, isolation="none", workspace=2**20).total == 3 * result + 2**20
