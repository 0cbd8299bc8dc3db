"""A grid on a CUDA device that is interrupted and goes on."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import zeroulp

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

KERNEL = """
import torch


def matmul(a, b):
    return torch.matmul(a, b)
"""
SIZES = (33, 64, 130)
GRID = [(m, n, k) for m in SIZES for n in SIZES for k in SIZES]


@pytest.fixture(scope="module", autouse=True)
def torch():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    return torch


def start(folder, file, isolation, *further):
    """The command line on all shapes, in a process of its own."""
    kernel = folder / "kernel.py"
    kernel.write_text(KERNEL)
    source = str(Path(zeroulp.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    words = ["--grid", ",".join(map(str, SIZES)), "--a", "float16", "--device", "cuda", "--isolate", isolation, "--seed", "7", *further]
    command = [sys.executable, "-m", "zeroulp", "check", f"{kernel}:matmul", *words, "--json", str(file)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_for_lines(process, file, count):
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        if file.exists() and file.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.001)
    raise AssertionError(process.communicate())


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def said_of(lines):
    """What the file says of each shape, but for times, the machine, and what was audited, which is drawn anew."""
    left_out = ("seconds", "environment", "audited")
    return [{name: part for name, part in line.items() if name not in left_out} for line in lines[1:]]


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_grid_that_is_interrupted_comes_to_what_it_comes_to_at_once(tmp_path, isolation):
    once, file = tmp_path / "once.jsonl", tmp_path / "grid.jsonl"
    out, err = start(tmp_path, once, isolation, "--jobs", "1").communicate(timeout=300)
    assert out.startswith("CORRECT  at each of 27 shapes"), (out, err)
    for number, count in ((signal.SIGINT, 3), (signal.SIGKILL, 8), (signal.SIGTERM, 13)):
        process = start(tmp_path, file, isolation, "--jobs", "1")
        wait_for_lines(process, file, count)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == (-number if number == signal.SIGKILL else 130), (out, err)
        if number == signal.SIGKILL:  # in the middle of a write
            whole = file.read_bytes()
            file.write_bytes(whole[: len(whole) - 500])
        else:
            done = len(lines_of(file)) - 1
            assert f"{done} of 27 shapes are done and kept" in err
    done = len(lines_of(file)) - 1
    out, err = start(tmp_path, file, isolation, "--jobs", "1").communicate(timeout=300)
    assert out.startswith("CORRECT  at each of 27 shapes"), (out, err)
    assert f"{done} of these shapes had been checked before" in out
    found, wanted = lines_of(file), lines_of(once)
    assert [tuple(line["problem"][name] for name in "mnk") for line in found[1:]] == GRID
    assert said_of(found) == said_of(wanted)
    assert found[-1]["audited"] is None or found[-1]["audited"]["outputs"]  # small ones are judged on the host
