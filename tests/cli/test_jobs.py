"""``--jobs`` on the command line: several processes, interrupted, ended with the command, resumed by another number."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import zeroulp
from tests.cli.test_grid import HALF, MIXED, QUICK, RIGHT, lines_of, said_of, sizes, wait_for_lines
from zeroulp.cli import grid

SLOW = """
    import os, time
    with open(__file__ + '.ids', 'a') as file:
        file.write(f'{os.getpid()} {os.getppid()}\\n')
    def matmul(a, b):
        time.sleep(0.05)
        return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)
"""
GRID = [(m, n, k) for m in (4, 8, 9) for n in (4, 8, 9) for k in (4, 8, 9)]


def start(target, file, jobs, isolation):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(zeroulp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}
    words = (*HALF, "--probe", "signed", "--trials", 1, "--seed", 7, "--isolate", isolation, "--jobs", jobs, "--json", file)
    command = [sys.executable, "-m", "zeroulp", "check", target, "--grid", "4,8,9", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def is_running(number):
    try:
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def assert_all_ended(target, but):
    """Everything that loaded the kernel, and what started it, ends in time."""
    numbers = {int(word) for word in Path(target.rpartition(":")[0] + ".ids").read_text().split()} - {but, os.getpid(), 1}
    assert numbers
    end = time.monotonic() + 20
    while any(map(is_running, numbers)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not [number for number in numbers if is_running(number)]


@pytest.mark.parametrize("isolation", ["process", "none"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_in_the_middle_loses_nothing_and_leaves_no_process(kernel_file, tmp_path, number, isolation):
    file, target = tmp_path / "grid.jsonl", kernel_file(SLOW)
    process = start(target, file, 3, isolation)
    wait_for_lines(process, file, 4)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert out == ""
    assert_all_ended(target, process.pid)
    done = len(lines_of(file)) - 1
    assert 3 <= done < 27
    if number == signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 130
        assert err == f"zeroulp: interrupted; {done} of 27 shapes are done and kept in {file}; the same command goes on from there\n"

    process = start(target, file, 2, isolation)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert_all_ended(target, process.pid)
    assert out.startswith("CORRECT  at each of 27 shapes")
    assert f"resumed           {done} of these shapes had been checked before" in out
    assert "s in all, 2 shapes at a time\n" in out
    assert sorted(sizes(lines_of(file))) == GRID
    if number != signal.SIGINT:
        return
    once = tmp_path / "once.jsonl"
    process = start(target, once, 1, isolation)
    process.communicate(timeout=120)
    in_order = sorted(said_of(lines_of(file)), key=lambda line: [line["problem"][name] for name in "mnk"])
    assert in_order == said_of(lines_of(once))


def test_a_process_that_is_killed_loses_nothing(kernel_file, tmp_path):
    """The process that judges: its parent checks the shape again."""
    file, target = tmp_path / "grid.jsonl", kernel_file(SLOW)
    process = start(target, file, 2, "process")
    wait_for_lines(process, file, 6)
    ids = Path(target.rpartition(":")[0] + ".ids")
    while ids.read_text().count("\n") < 2 and process.poll() is None:
        time.sleep(0.01)
    for line in ids.read_text().splitlines()[:2]:
        judge = line.split()[1]
        os.kill(int(judge), signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("CORRECT  at each of 27 shapes")
    assert sorted(sizes(lines_of(file))) == GRID
    assert_all_ended(target, process.pid)


def test_exit_status_and_text(command, kernel_file, tmp_path):
    file = tmp_path / "grid.jsonl"
    ran = command("check", kernel_file(MIXED), "--grid", "4,5x4x8,9,10", *HALF, "--probe", "signed", "--json", file, "--jobs", 2)
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.startswith("INCORRECT  at 2 of 6 shapes; the first is 4x4x9: matmul leaves out the product k = 8 of 9")
    assert re.search(r"^  BROKEN +1 ", ran.out, re.MULTILINE)
    assert "2 shapes at a time" in ran.out
    assert command("replay", file, "--shape", "5x4x9").status == 1
    assert command("check", kernel_file(RIGHT), "--grid", "4x4x8,9", *QUICK, "--jobs", 2).status == 0


def test_progress_tells_of_those_beside(command, kernel_file, monkeypatch):
    monkeypatch.setattr(grid, "_LINE_EVERY", 0.0)
    ran = command("check", kernel_file(RIGHT), "--grid", "4,5,6x4x8,9", *QUICK, "--jobs", 3)
    assert ran.status == 0
    assert re.search(r"^checking: 1 of 6, about \d+ s left; now \S+(, trial 1 of 1)?, and 2 more; 1 CORRECT$", ran.err, re.MULTILINE)


@pytest.mark.parametrize(("words", "message"), [
    (("--grid", "4", "--jobs", 0), "jobs=0 is no number of shapes to check at once"),
    (("--grid", "4", "--jobs", "two"), "argument --jobs: invalid int value: 'two'"),
    (("-m", 4, "-n", 4, "-k", 4, "--jobs", 2), "--jobs goes with --grid"),
    (("--grid", "4,5", "--jobs", 2, "--probe", "sgined"), "unknown probe 'sgined'"),
])
def test_requests_that_make_no_sense(command, kernel_file, words, message):
    ran = command("check", kernel_file(RIGHT), *QUICK, *words)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize(("device", "isolate", "shapes", "cores", "jobs"), [
    ("cuda", "process", 1000, 16, 4),
    ("cuda:1", "process", 8, 8, 2),
    ("cuda", "process", 7, 16, 1),
    ("cuda", "process", 1000, 2, 1),
    ("cuda", "process", 1000, 64, 4),
    ("cuda", "none", 1000, 16, 1),
    ("cpu", "process", 1000, 16, 1),
])
def test_how_many_where_nobody_says(monkeypatch, device, isolate, shapes, cores, jobs):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert grid._jobs(SimpleNamespace(jobs=None, device=device, isolate=isolate), shapes) == jobs
    assert grid._jobs(SimpleNamespace(jobs=3, device=device, isolate=isolate), shapes) == 3


def test_the_command_that_shows_the_telling_shape_is_for_one(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["zeroulp", "check", "k.py:f", "--grid", "4x4x8,9", "--a=float16", "--jobs", "4"])
    report = zeroulp.check_grid(lambda a, b: (a[:, :8].astype("f4") @ b[:8].astype("f4")).astype("f2"), zeroulp.Matmul(1, 1, 1, a="half"), "4x4x8,9", seed=7)
    assert grid._again(report, None) == "zeroulp check k.py:f --a=float16 -m 4 -n 4 -k 9 --seed 0x0000000000000007"
