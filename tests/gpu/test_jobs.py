"""A grid on a CUDA device, several shapes at once."""

from __future__ import annotations

import os
import signal

import pytest

import zeroulp
from tests.gpu.test_interrupts import GRID, KERNEL, lines_of, said_of, start, torch, wait_for_lines
from zeroulp import Matmul

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

__all__ = ["torch"]  # the fixture that skips where there is no device


def in_order(lines):
    return sorted(said_of(lines), key=lambda line: [line["problem"][name] for name in "mnk"])


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_it_comes_to_what_it_comes_to_one_by_one(tmp_path, isolation):
    """Also where it is wrong at some shapes, and refuses others."""
    kernel = tmp_path / "kernel.py"
    head = "    if a.shape == (64, 64): raise ValueError('64 x 64')\n    if a.shape[1] == 130: a, b = a[:, :129], b[:129]\n"
    kernel.write_text(KERNEL.replace("    return", f"{head}    return"))
    found = {}
    for jobs in (1, 3):
        file = tmp_path / f"{jobs}.jsonl"
        options = dict(device="cuda", isolation=isolation, seed=7, jobs=jobs, journal=file)
        report = zeroulp.check_grid(f"{kernel}:matmul", Matmul(1, 1, 1, a="float16"), "33,64,130", **options)
        wanted = {(m, n, k): "BROKEN" if (m, k) == (64, 64) else "INCORRECT" if k == 130 else "CORRECT" for m, n, k in GRID}
        assert {tuple(result.sizes): result.verdict.value for result in report.results} == wanted
        assert [tuple(result.sizes) for result in report.results] == GRID
        found[jobs] = in_order(lines_of(file))
    assert found[1] == found[3]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_loses_nothing_and_another_number_goes_on(tmp_path, number):
    file = tmp_path / "grid.jsonl"
    process = start(tmp_path, file, "process", "--jobs", "3")
    wait_for_lines(process, file, 6)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    done = len(lines_of(file)) - 1
    out, err = start(tmp_path, file, "process", "--jobs", "2").communicate(timeout=300)
    assert out.startswith("CORRECT  at each of 27 shapes"), (out, err)
    assert f"{done} of these shapes had been checked before" in out
    assert "2 shapes at a time" in out
    assert sorted(tuple(line["problem"][name] for name in "mnk") for line in lines_of(file)[1:]) == GRID


def test_by_default_several_where_there_are_the_cores(tmp_path):
    file = tmp_path / "grid.jsonl"
    out, err = start(tmp_path, file, "process").communicate(timeout=300)
    assert out.startswith("CORRECT  at each of 27 shapes"), (out, err)
    assert lines_of(file)[0]["jobs"] == max(1, min(4, len(os.sched_getaffinity(0)) // 4))


def test_shapes_that_fit_alone_only_are_checked_alone(tmp_path, torch):
    """The kernel takes more than a third of the device's memory for itself."""
    kernel = tmp_path / "kernel.py"
    half = torch.cuda.get_device_properties(0).total_memory * 2 // 5
    body = f"    if len(a) > 33: torch.empty({half}, dtype=torch.uint8, device=a.device)\n    return"
    kernel.write_text(KERNEL.replace("    return", body))
    options = dict(device="cuda", isolation="process", seed=7, jobs=3)
    report = zeroulp.check_grid(f"{kernel}:matmul", Matmul(1, 1, 1, a="float16"), "33,40,41,42,43x64x64", **options)
    assert [result.verdict.value for result in report.results] == ["CORRECT"] * 5
