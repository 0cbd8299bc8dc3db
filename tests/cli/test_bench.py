"""``zeroulp bench``: the benchmarks of a checkout from the command line, and what their tables count."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import detection_tables as tables
from zeroulp.cli import bench, console
from zeroulp.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
RULES = ["torch.allclose", "KernelBench", "FlashInfer", "SOL-ExecBench", "GPU MODE", "DeepGEMM", "0/1 exact"]


@pytest.fixture(scope="module")
def correct_name():
    """A correct entry that is quickly checked."""
    from benchmarks.zoo import CORRECT

    return min((entry for entry in CORRECT if not entry.available()), key=lambda e: e.problem["m"] * e.problem["k"]).name


def lines_of(text):
    return {line.split("  ")[0]: re.split(r"  +", line) for line in text.splitlines() if line}


def test_detection_counts_a_fault_and_a_correct_kernel(command, tmp_path, correct_name):
    file = tmp_path / "detection.json"
    words = ("bench", "detection", "--only", "k-odd-last-pair", correct_name, "--seeds", 1, "--json", file)
    ran = command(*words)
    assert (ran.status, ran.err) == (0, "")
    rows = lines_of(ran.out)
    assert rows["kind of fault"] == ["kind of fault", "kernels", "zeroulp", "kind right", "with needs", "binary", *RULES]
    assert rows["k-tail"][1:5] == ["1", "1", "100%", "1"]
    assert rows["correct, accused"][1:3] == ["1", "0"]
    assert "\nzeroulp: caught 1 of 1; kind right in 100%; correct kernels accused: 0 of 1\n" in ran.out
    end = ran.out.splitlines()[-3:]
    assert end[0] == "command: " + " ".join(["zeroulp", *map(str, words)])
    assert re.fullmatch(r"date: \d{4}-\d\d-\d\d", end[1])
    assert end[2].startswith("machine: zeroulp ")
    assert "numpy " in end[2]
    data = json.loads(file.read_text())
    assert {kernel["name"] for kernel in data["kernels"]} == {"k-odd-last-pair", correct_name}
    assert (data["seeds"], data["missing"]) == (1, "")
    assert data["kernels"][0]["wrong"]["zeroulp"] == [data["kernels"][0]["kind"] != ""]


def test_detection_takes_kinds(command):
    ran = command("bench", "detection", "--kinds", "scan-carry", "--seeds", 1)
    assert ran.status == 0
    assert lines_of(ran.out)["scan-carry"][1] == lines_of(ran.out)["all"][1] == "2"
    assert "\nzeroulp: caught 2 of 2; kind right in 100%\n" in ran.out


def test_an_interrupted_detection_shows_what_it_has_and_says_so(command, monkeypatch, tmp_path, correct_name):
    """Interrupted with the second seed: what the first one showed stands."""
    import zeroulp

    original = zeroulp.check

    def check(kernel, problem, **options):
        if options["seed"] == 1:
            raise KeyboardInterrupt
        return original(kernel, problem, **options)

    monkeypatch.setattr(zeroulp, "check", check)
    file = tmp_path / "part.json"
    ran = command("bench", "detection", "--only", "k-odd-last-pair", correct_name, "--seeds", 3, "--json", file)
    assert ran.status == 130
    assert "\nINTERRUPTED: 1 of 3 seeds measured; the numbers are of those alone.\n" in ran.out
    assert "zeroulp: caught 1 of 1" in ran.out
    assert json.loads(file.read_text())["seeds"] == 1
    assert json.loads(file.read_text())["missing"].startswith("INTERRUPTED")


def test_one_that_is_interrupted_in_the_first_round_counts_the_kernels_it_met(command, monkeypatch, correct_name):
    import zeroulp

    original, met = zeroulp.check, []

    def check(kernel, problem, **options):
        met.append(kernel.__qualname__)
        if met[-1] != met[0]:
            raise KeyboardInterrupt
        return original(kernel, problem, **options)

    monkeypatch.setattr(zeroulp, "check", check)
    ran = command("bench", "detection", "--only", "k-odd-last-pair", correct_name, "--seeds", 3)
    assert ran.status == 130
    assert "\nINTERRUPTED: 1 of 2 kernels measured, with 1 of 3 seeds; the others do not count.\n" in ran.out


def test_a_correct_kernel_that_is_accused_stands_at_the_top_and_in_the_exit_status(command, monkeypatch, correct_name):
    """A wrong kernel that is listed as correct stands for one."""
    from benchmarks.zoo import TABLE

    wrong = TABLE["k-odd-last-pair"]
    object.__setattr__(wrong, "kind", "")
    try:
        ran = command("bench", "detection", "--only", "k-odd-last-pair", "--seeds", 1)
    finally:
        object.__setattr__(wrong, "kind", "k-tail")
    assert ran.status == 1
    assert "CORRECT KERNELS ACCUSED BY ZEROULP" in ran.out
    assert "correct kernels accused: 1 of 1" in ran.out


@pytest.mark.parametrize(("words", "message"), [
    (("--seeds", 0), "--seeds 0: at least one seed is needed"),
    (("--only", "no-such-kernel"), "--only no-such-kernel: no entry of the zoo is called so"),
    (("--kinds", "k-tial"), "invalid choice: 'k-tial'"),
    (("--json", "/no/such/directory/x.json"), "--json /no/such/directory/x.json cannot be written"),
])
def test_requests_that_make_no_sense(command, words, message):
    ran = command("bench", "detection", *words)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_cost_prints_its_table(command):
    ran = command("bench", "cost", "--tables", "check", "--sizes", "16x17x18", "8x8x8:bf16", "--repeats", 1)
    assert (ran.status, ran.err) == (0, "")
    assert "16 x 17 x 18" in ran.out
    assert "bfloat16" in ran.out
    assert "\ncommand: zeroulp bench cost --tables check --sizes 16x17x18 8x8x8:bf16 --repeats 1\n" in ran.out
    refused = command("bench", "cost", "--sizes", "16x17")
    assert (refused.status, refused.out) == (2, "")
    assert "'16x17' is not like 512x512x4096:float16" in refused.err


def test_cost_writes_both_tables_and_the_growth_to_a_file(command, tmp_path, monkeypatch):
    file = tmp_path / "cost.txt"
    words = ["--sizes", "16x16x16", "--verify-sizes", "64", "32", "--probes", "signed", "wide", "--repeats", 1, "--output", file]
    ran = command("bench", "cost", *words)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == file.read_text()
    rows = [re.split(r"  +", line) for line in ran.out.splitlines()]
    assert [row[:3] for row in rows if row[0] in ("32^3", "64^3")] == [
        [f"{n}^3", "float16", probe] for n in (32, 64) for probe in ("signed", "wide")]
    grown = [row for row in rows if row[:1] == ["float16"]]
    assert [row[1:4] for row in grown] == [[what, "32", "64"] for what in ("FP32 on CPU", "verify signed", "verify wide")]
    verified = {row[2]: [float(r[5]) for r in rows if r[:1] in (["32^3"], ["64^3"]) and r[2] == row[2]] for row in rows if row[0] == "32^3"}
    for row in grown[1:]:
        small, large = verified[row[1].removeprefix("verify ")]
        assert float(row[5]) == float(row[4]) == pytest.approx(math.log2(large / small), abs=0.3)
    monkeypatch.setattr(console.time, "monotonic", iter(range(0, 10**6, 31)).__next__)
    lines = command("bench", "cost", *words).err.splitlines()
    assert lines[-1].startswith("verification: 3 of 4, about ")
    assert lines[-1].endswith("; now 64^3 float16 wide")
    refused = command("bench", "cost", "--output", tmp_path / "none" / "x.txt")
    assert refused.status == 2
    assert "cannot be written" in refused.err


def test_an_interrupted_cost_keeps_what_was_measured(command, tmp_path, monkeypatch):
    import zeroulp

    original = zeroulp.check

    def check(kernel, problem, **options):
        if problem.m == 9:
            raise KeyboardInterrupt
        return original(kernel, problem, **options)

    monkeypatch.setattr(zeroulp, "check", check)
    file = tmp_path / "cost.txt"
    ran = command("bench", "cost", "--sizes", "8x8x8", "9x9x9", "--repeats", 1, "--output", file)
    assert ran.status == 130
    assert "\n8 x 8 x 8 " in file.read_text()
    assert "\nINTERRUPTED by KeyboardInterrupt: what is missing was not measured.\n" in file.read_text()
    assert "9 x 9 x 9" not in file.read_text()


def test_growth_is_an_exponent(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from verification import growth

    assert growth({8192: 64.0, 1024: 1.0, 4096: 16.0}) == pytest.approx((2.0, 2.0))
    assert growth({1024: 1.0, 2048: 16.0, 4096: 16.0}) == pytest.approx((2.0, 2.0))
    assert growth({1024: 1.0, 2048: 1.0, 4096: 1.0, 8192: 8.0}) == pytest.approx((0.9, 1.0))


def test_help_needs_no_benchmarks_and_names_them(command):
    ran = command("bench", "--help")
    assert ran.status == 0
    assert "detection" in ran.out
    assert "cost" in ran.out
    assert "--seeds N" in command("bench", "detection", "--help").out


def test_benchmarks_are_found_above_a_starting_point(tmp_path):
    assert bench.find_benchmarks(tmp_path, ROOT / "src" / "zeroulp") == ROOT / "benchmarks"
    other = tmp_path / "other" / "benchmarks"
    shutil.copytree(ROOT / "benchmarks" / "zoo", other / "zoo")
    shutil.copy(ROOT / "benchmarks" / "detection.py", other)
    assert bench.find_benchmarks(other.parent / "src", ROOT) == other


def test_without_a_checkout_the_message_says_how_to_get_one(command, monkeypatch, tmp_path):
    (tmp_path / "benchmarks").mkdir()  # somebody else's
    monkeypatch.setattr(bench.zeroulp, "__file__", str(tmp_path / "site-packages" / "zeroulp" / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    ran = command("bench", "detection")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("zeroulp: `zeroulp bench` needs a checkout of zeroulp\n")
    assert "clone the repository" in ran.err
    with pytest.raises(UsageError):
        bench.find_benchmarks(tmp_path)


def test_the_command_leaves_the_interpreter_as_it_was(command):
    argv, path = list(sys.argv), list(sys.path)
    command("bench", "cost", "--tables", "check", "--sizes", "8x8x8", "--repeats", 1)
    assert (sys.argv, sys.path) == (argv, path)


def kernel(name, kind, default, supplied=None, found=(), **more):
    supplied = supplied or default
    kinds = [list(found) if seen else [] for seen in default]
    return {"name": name, "kind": kind, "expected": ["wrong-result"], "needs": [], "sentence": "It is.",
            "wrong": {"zeroulp": default, "with needs": supplied, "binary": default, "rule": [True] * len(default)},
            "findings": {"zeroulp": kinds, "with needs": kinds}, "undecided": [[] for _ in default], **more}


MEASURED = [
    kernel("always", "k-tail", [True, True], found=("wrong-result", "rounding")),
    kernel("sometimes", "k-tail", [True, False], found=("rounding", "wrong-result")),
    kernel("with-needs", "nan-inf", [False, False], [True, True]),
    kernel("right", "", [False, False]),
    kernel("accused-once", "", [False, True], found=("wrong-result",)),
]
TOOLS = ["zeroulp", "with needs", "binary", "rule"]


def test_a_fault_counts_if_every_seed_catches_it_and_a_correct_kernel_if_any_accuses_it():
    rows = tables.rows_by_kind(MEASURED, ["k-tail", "nan-inf", "race"], TOOLS)
    assert rows == [
        ["k-tail", "2", "1", "67%", "1", "1", "2"],
        ["nan-inf", "1", "0", "-", "1", "0", "1"],
        ["all", "3", "1", "67%", "2", "1", "3"],
        ["correct, accused", "2", "1", "", "1", "1", "2"],
    ]
    assert all(len(row) == len(tables.head(TOOLS)) for row in rows)


def test_the_summary_counts_what_the_table_counts():
    assert tables.summary(MEASURED).splitlines() == [
        "zeroulp: caught 1 of 3; kind right in 67%; correct kernels accused: 1 of 2",
        "with needs: caught 2 of 3; kind right in 67%; correct kernels accused: 1 of 2",
    ]
    assert tables.summary(MEASURED[3:4]).splitlines()[0] == "zeroulp: correct kernels accused: 0 of 1"


def test_the_tables_beside_it():
    assert [row[:4] for row in tables.missed(MEASURED)[2]] == [["sometimes", "k-tail", "", "1 of 2"]]
    assert tables.misnamed(MEASURED)[2] == [["sometimes", "k-tail", "wrong-result", "rounding (1)"]]
    assert [row[0] for row in tables.accusations(MEASURED)[2]] == ["accused-once"] * 3
    broken = kernel("broken", "race", [False], undecided=[["zeroulp: BROKEN"]])
    assert tables.undecided([broken])[2] == [["broken", "zeroulp: BROKEN"]]


def test_without_a_terminal_a_line_says_how_long_it_will_take(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.Progress("detection", line_every=30) as progress:
        for done, seconds in ((0, 0), (1, 10), (2, 40), (3, 45), (4, 400)):
            now[0] = 100.0 + seconds
            progress(done, 8, f"kernel {done}")
    assert capsys.readouterr().err.splitlines() == [
        "detection: 2 of 8, about 2 min left; now kernel 2",
        "detection: 4 of 8, about 7 min left; now kernel 4",
    ]
    with console.Progress("checking") as progress:
        now[0] += 1000
        progress(1, 2, "kernel")
    assert capsys.readouterr().err == ""
