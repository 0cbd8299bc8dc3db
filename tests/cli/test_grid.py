"""``--grid`` and ``--shapes FILE`` on the command line: exit codes, interrupts, going on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import zeroulp
from zeroulp.cli import console, grid

RIGHT = """
    def matmul(a, b):
        return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)
"""
MIXED = """
    import os, sys
    def matmul(a, b):
        if a.shape == (5, 8):
            os._exit(3) if 'zeroulp.runner.worker' in ' '.join(sys.orig_argv) else sys.exit('five')
        last = a.shape[1] - (a.shape[1] == 9)
        return (a[:, :last].astype('f4') @ b[:last].astype('f4')).astype(a.dtype)
"""
SLOW = """
    import os, time
    def matmul(a, b):
        time.sleep(0.05)
        return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)
"""
HALF = ("--a", "float16")
QUICK = (*HALF, "--isolate", "none", "--probe", "signed", "--trials", 1)


@pytest.fixture
def shapes_file(tmp_path):
    def write(text):
        path = tmp_path / "shapes.txt"
        path.write_text(text)
        return path

    return write


def lines_of(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def sizes(lines):
    return [tuple(line["problem"][name] for name in "mnk") for line in lines[1:]]


def test_a_grid_of_all_three_sizes(command, kernel_file, tmp_path):
    file = tmp_path / "grid.jsonl"
    ran = command("check", kernel_file(RIGHT), "--grid", "4,8,9", *QUICK, "--json", file)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("CORRECT  at each of 27 shapes, ")
    lines = lines_of(file)
    assert sizes(lines) == [(m, n, k) for m in (4, 8, 9) for n in (4, 8, 9) for k in (4, 8, 9)]
    assert len({line["seed"] for line in lines}) == 1


def test_verdicts_in_workers_and_their_exit_status(command, kernel_file, tmp_path):
    """A crash is BROKEN at its shape, and a new process goes on."""
    file = tmp_path / "grid.jsonl"
    target = kernel_file(MIXED)
    ran = command("check", target, "--grid", "4,5x4x8,9,10", *HALF, "--probe", "signed", "--json", file)
    assert (ran.status, ran.err) == (1, "")
    assert ran.out.startswith("INCORRECT  at 2 of 6 shapes; the first is 4x4x9: matmul leaves out the product k = 8 of 9")
    assert [line["verdict"] for line in lines_of(file)[1:]] == ["CORRECT", "INCORRECT", "CORRECT", "BROKEN", "INCORRECT", "CORRECT"]
    assert f"see it again      zeroulp replay {file} --shape 4x4x9" in ran.out

    assert command("replay", file).out.startswith("INCORRECT  matmul leaves out the product k = 8 of 9")
    again = command("replay", file, "--shape", "5x4x9")
    assert again.status == 1
    assert f"zeroulp replay {file} --shape 5x4x9" in again.out
    assert command("replay", file, "--shape", "4x4x8").status == 0
    assert command("replay", file, kernel_file(RIGHT, "mended.py")).status == 0
    for shape, message in (("4x4x4", "is not in this grid"), ("4x4", "is no shape")):
        ran = command("replay", file, "--shape", shape)
        assert ran.status == 2
        assert message in ran.err


@pytest.mark.parametrize(("shapes", "status"), [("4x4x8", 0), ("4x4x9", 1), ("5x4x8", 4), ("5x4x8,9", 1), ("4,5x4x8,10", 4)])
def test_exit_status(command, kernel_file, shapes, status):
    assert command("check", kernel_file(MIXED), "--grid", shapes, *QUICK).status == status


def test_inconclusive(command, kernel_file):
    ran = command("check", kernel_file(RIGHT), "--grid", "4x4x4,9000", *HALF, "--isolate", "none", "--probe", "binary", "--p-zero", 0.1)
    assert ran.status == 3
    assert ran.out.startswith("INCONCLUSIVE  at 1 of 2 shapes; the first is 4x4x9000: ")


def test_a_file_of_shapes(command, kernel_file, shapes_file, tmp_path):
    file = shapes_file("# of a model\n1 8 16\n\n7 8 9  # odd\n1 8 16\n")
    ran = command("check", kernel_file(RIGHT), "--shapes", file, *QUICK, "--json", tmp_path / "grid.jsonl")
    assert (ran.status, ran.err) == (0, "")
    assert sizes(lines_of(tmp_path / "grid.jsonl")) == [(1, 8, 16), (7, 8, 9)]


def test_an_error_in_the_file_names_its_line(command, kernel_file, shapes_file):
    file = shapes_file("m,n,k\n1,8,16\n1,8\n")
    ran = command("check", kernel_file(RIGHT), "--shapes", file, *QUICK)
    assert (ran.status, ran.out) == (2, "")
    assert f"where  {file}:3" in ran.err


def test_json_lines_to_standard_output(command, kernel_file):
    ran = command("check", kernel_file(MIXED), "--grid", "4x4x8,9", *QUICK, "--json", "-")
    assert ran.status == 1
    assert ran.err.startswith("INCORRECT  at 1 of 2 shapes")
    assert [result.verdict.value for result in zeroulp.grid_from_jsonl(ran.out).results] == ["CORRECT", "INCORRECT"]


def test_fail_fast(command, kernel_file, tmp_path):
    ran = command("check", kernel_file(MIXED), "--grid", "4,6x4x8,9", *QUICK, "--fail-fast", "--json", tmp_path / "grid.jsonl")
    assert ran.status == 1
    assert ran.out.startswith("INCORRECT  at 1 of 2 shapes checked of 4; the first is 4x4x9: ")
    assert re.search(r"not checked +2$", ran.out, re.MULTILINE)
    ran = command("check", kernel_file(MIXED), "--grid", "4,6x4x8,9", *QUICK, "--json", tmp_path / "grid.jsonl")
    assert ran.out.startswith("INCORRECT  at 2 of 4 shapes")
    assert "2 of these shapes had been checked before" in ran.out


@pytest.mark.parametrize(("words", "message"), [
    (("--grid", "4,"), "'4,' is no grid of sizes"),
    (("--grid", "4", "-m", 5), "-m and also a grid of shapes"),
    (("--grid", "4", "--shapes", "ragged"), "--grid and also --shapes"),
    (("--grid", "4", "--keep-going"), "--keep-going goes with --shapes ragged"),
    (("-m", 4, "-n", 4, "-k", 4, "--fail-fast"), "--fail-fast goes with --grid"),
    (("-m", 4, "-n", 4, "-k", 4, "--shapes", "ragged", "--fail-fast"), "--fail-fast goes with --grid"),
    (("--shapes", "none.txt"), "none.txt cannot be read"),
    (("--grid", "4", "--json", "none/grid.jsonl"), "none/grid.jsonl cannot be written"),
    (("--grid", "4", "--probe", "sgined"), "unknown probe 'sgined'"),
])
def test_requests_that_make_no_sense(command, kernel_file, words, message):
    ran = command("check", kernel_file(RIGHT), *QUICK, *words)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_no_format(command, kernel_file):
    ran = command("check", kernel_file(RIGHT), "--grid", "4")
    assert (ran.status, ran.out) == (2, "")
    assert "no --a" in ran.err
    assert "--grid 64,128,256 --a float16" in ran.err


def test_a_problem_file_gives_everything_but_the_sizes(command, kernel_file, tmp_path):
    (tmp_path / "problem.py").write_text("import zeroulp\nproblem = zeroulp.Matmul(1, 1, 1, a='bfloat16')\n")
    ran = command("check", kernel_file(RIGHT), "--grid", "4,8", "--problem", tmp_path / "problem.py", *QUICK[2:], "--json", tmp_path / "g.jsonl")
    assert ran.status == 0
    assert {line["problem"]["a"] for line in lines_of(tmp_path / "g.jsonl")} == {"bfloat16"}


def test_another_command_with_the_same_file_is_refused(command, kernel_file, tmp_path):
    file = tmp_path / "grid.jsonl"
    command("check", kernel_file(RIGHT), "--grid", "4,8", *QUICK, "--json", file)
    before = file.read_bytes()
    ran = command("check", kernel_file(RIGHT), "--grid", "4,9", *QUICK, "--json", file, "--out", "float32")
    assert (ran.status, ran.out) == (2, "")
    assert "where  problem.out: float16, now float32; shapes: 8 from 4x4x4 to 8x8x8, now 8 from 4x4x4 to 9x9x9" in ran.err
    assert file.read_bytes() == before


def test_the_same_command_from_the_command_line_shows_the_telling_shape(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["zeroulp", "check", "k.py:f", "--grid", "4x4x8,9", "--a=float16", "--json=-", "--fail-fast", "--seed", "7"])
    report = zeroulp.check_grid(lambda a, b: (a[:, :8].astype("f4") @ b[:8].astype("f4")).astype("f2"), zeroulp.Matmul(1, 1, 1, a="half"), "4x4x8,9", seed=7)
    assert grid._again(report, None) == "zeroulp check k.py:f --a=float16 -m 4 -n 4 -k 9 --seed 0x0000000000000007"


def test_progress_without_a_terminal(command, kernel_file, monkeypatch):
    monkeypatch.setattr(grid, "_LINE_EVERY", 0.0)
    ran = command("check", kernel_file(MIXED), "--grid", "4x4x8,9", *QUICK)
    assert "checking: 0 of 2; now 4x4x8, trial 1 of 1\n" in ran.err
    assert re.search(r"^checking: 1 of 2, about \d+ s left; now 4x4x9, trial 1 of 1; 1 CORRECT$", ran.err, re.MULTILINE)


def test_progress_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    said = []
    monkeypatch.setattr(console, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with console.Progress("checking", estimates=True) as bar:
        bar(0, 9, "4x4x4", left=None)
        bar(3, 9, "4x4x5, trial 2 of 7; 3 CORRECT", left=7000.0)
        said.append(bar._bar.tasks[0].description)
        bar(4, 9, "4x4x6", left=9000.0)
        said.append(bar._bar.tasks[0].description)
    assert said == ["checking: 3 of 9, about 117 min left; now 4x4x5, trial 2 of 7; 3 CORRECT", "checking: 4 of 9, about 2.5 h left; now 4x4x6"]


def start(target, file, *words):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(zeroulp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "zeroulp", "check", target, "--grid", "4,8,9", *map(str, (*HALF, "--probe", "signed", *words))]
    return subprocess.Popen([*command, *(("--json", str(file)) if file else ())], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment)


def wait_for_lines(process, file, count):
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if file.exists() and file.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)
    raise AssertionError(process.communicate())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_in_the_middle_loses_nothing(kernel_file, tmp_path, number):
    file = tmp_path / "grid.jsonl"
    target = kernel_file(SLOW)
    process = start(target, file, "--trials", 1)
    wait_for_lines(process, file, 3)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert out == ""
    done = file.read_bytes().count(b"\n") - 1
    assert 2 <= done < 27
    if number == signal.SIGKILL:
        assert process.returncode == -number
        with file.open("ab") as last:  # what a write that was cut short leaves
            last.write(b'{"schema_version":1,"zeroulp_version":"')
    else:
        assert process.returncode == 130
        assert err == f"zeroulp: interrupted; {done} of 27 shapes are done and kept in {file}; the same command goes on from there\n"

    process = start(target, file, "--trials", 1)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("CORRECT  at each of 27 shapes")
    assert f"resumed           {done} of these shapes had been checked before" in out
    lines = lines_of(file)
    assert sizes(lines) == [(m, n, k) for m in (4, 8, 9) for n in (4, 8, 9) for k in (4, 8, 9)]
    assert len({line["seed"] for line in lines}) == 1


def said_of(lines):
    """What the file says of each shape, but for times and the machine."""
    return [{name: part for name, part in line.items() if name not in ("seconds", "environment")} for line in lines[1:]]


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_grid_that_is_interrupted_again_and_again_comes_to_what_it_comes_to_at_once(kernel_file, tmp_path, isolation):
    """Ctrl-C, a kill, a write that was cut at any byte: nothing is lost, nothing is there twice, all bits are the same."""
    once, file = tmp_path / "once.jsonl", tmp_path / "grid.jsonl"
    target = kernel_file(SLOW.replace("0.05", "0.02").replace("return (a", "a, b = a[:, :8], b[:8]\n        return (a"))
    words = ("--trials", 2, "--seed", 7, "--isolate", isolation)
    process = start(target, once, *words)
    process.communicate(timeout=120)
    assert process.returncode == 1  # the products beyond k = 8 are missing
    for number, count in ((signal.SIGINT, 3), (signal.SIGKILL, 7), (signal.SIGINT, 11), (signal.SIGKILL, 16)):
        process = start(target, file, *words)
        wait_for_lines(process, file, count)
        process.send_signal(number)
        process.communicate(timeout=30)
        assert process.returncode == (130 if number == signal.SIGINT else -number)
        if number == signal.SIGKILL:
            whole = file.read_bytes()
            last = whole.rstrip(b"\n").rpartition(b"\n")[2]
            file.write_bytes(whole[: len(whole) - 1 - (count * 7919) % len(last)])
        else:
            lines_of(file)  # each is whole
    process = start(target, file, *words)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (1, "")
    assert out.startswith("INCORRECT  at 9 of 27 shapes; the first is 4x4x9: ")
    found, wanted = lines_of(file), lines_of(once)
    assert sizes(found) == sizes(wanted) == [(m, n, k) for m in (4, 8, 9) for n in (4, 8, 9) for k in (4, 8, 9)]
    assert said_of(found) == said_of(wanted)
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(("words", "message"), [
    ((), "zeroulp: interrupted; 1 of 8 shapes were done; --json FILE would have kept them\n"),
    (("--json", "-"), "zeroulp: interrupted; 1 of 8 shapes are done and printed\n"),
])
def test_an_interrupt_of_what_is_not_kept(command, kernel_file, words, message):
    kernel = "    def matmul(a, b):\n        if b.shape == (8, 4): raise KeyboardInterrupt\n        return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)\n"
    before = signal.getsignal(signal.SIGTERM)
    ran = command("check", kernel_file(kernel), "--grid", "4,8", *QUICK, *words)
    assert (ran.status, ran.err) == (130, message)
    assert ran.out.count("\n") == (2 if words else 0)
    assert signal.getsignal(signal.SIGTERM) is before
