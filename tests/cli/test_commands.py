"""The commands: exit statuses, what goes to stdout and what to stderr, seeds, replays."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zeroulp
from zeroulp.report import Verdict, to_json

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RIGHT = f"{EXAMPLES / 'correct/numpy_tiled.py'}:matmul"
WRONG = f"{EXAMPLES / 'wrong/last_k_dropped.py'}:matmul"
CACHED = f"{EXAMPLES / 'wrong/cached_output.py'}:matmul"
SIZES = ("-m", 8, "-n", 9, "-k", 17, "--a", "float16")
HERE = ("--isolate", "none")


def digests(report):
    return [trial["digest"] for trial in report["trials"]]


def in_a_new_process(*words):
    return subprocess.run(
        [sys.executable, "-m", "zeroulp", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_right_kernel_is_correct_and_exits_with_0(command, isolation):
    ran = command("check", RIGHT, *SIZES, "--isolate", isolation)
    assert ran.status == 0
    assert ran.out.startswith("CORRECT  ")
    assert "escaped with probability" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_wrong_kernel_is_incorrect_and_exits_with_1(command, isolation):
    ran = command("check", WRONG, *SIZES, "--isolate", isolation)
    assert ran.status == 1
    assert ran.out.startswith("INCORRECT  matmul leaves out the product k = 16 of 17")
    assert "first difference  out[0, 0]" in ran.out
    assert ran.err == ""


def test_a_request_that_makes_no_sense_exits_with_2(command):
    ran = command("check", RIGHT, "-m", 8, "-n", 9, "-k", 17, "--a", "float15")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("zeroulp: unknown format 'float15'")


def test_a_kernel_that_raises_is_broken_and_exits_with_4(command, kernel_file):
    ran = command("check", kernel_file("def matmul(a, b): raise ValueError('no such tile')"), *SIZES, *HERE)
    assert ran.status == 4
    assert ran.out.startswith("BROKEN  the kernel raised ValueError: no such tile. There is no result to judge.")
    assert "| Traceback" in ran.out
    assert ran.err == ""


def test_half_zeros_at_k_9000_in_float16_are_inconclusive(command):
    """Sums are 2250 on average, above 2048 where float16 stops to hold every integer."""
    ran = command("check", RIGHT, "-m", 8, "-n", 9, "-k", 9000, "--a", "float16", "--probe", "binary",
                  "--trials", 5, "--p-zero", 0.5, *HERE)
    assert ran.status == 3
    assert ran.out.startswith("INCONCLUSIVE  nothing wrong was seen in 6 calls, but 0% of the outputs were compared.")
    assert "a sum is 2250 on average" in ran.out
    assert "only up to 2048" in ran.out
    assert "what would help   a larger p_zero" in ran.out


def test_enough_zeros_at_k_9000_in_float16_are_conclusive(command):
    ran = command("check", RIGHT, "-m", 8, "-n", 9, "-k", 9000, "--a", "float16", "--probe", "binary",
                  "--trials", 5, *HERE)
    assert ran.status == 0
    assert "all 72 outputs compared in every one of them" in ran.out


def test_the_report_goes_to_a_file(command, tmp_path):
    file = tmp_path / "my report.json"
    ran = command("check", WRONG, *SIZES, *HERE, "--json", file)
    assert ran.status == 1
    assert f"zeroulp replay '{file}'" in ran.out
    report = json.loads(file.read_text())
    assert (report["verdict"], report["kernel"]["target"]) == ("INCORRECT", WRONG)
    assert [path.name for path in tmp_path.iterdir()] == ["my report.json"]


def test_the_report_goes_to_stdout_and_the_text_to_stderr(command):
    ran = command("check", WRONG, *SIZES, *HERE, "--json", "-")
    assert ran.status == 1
    assert json.loads(ran.out)["verdict"] == "INCORRECT"
    assert ran.err.startswith("INCORRECT  ")


def test_one_seed_gives_one_report(command):
    first, second, third = (
        json.loads(command("check", RIGHT, *SIZES, *HERE, "--json", "-", "--seed", seed).out) for seed in (5, 5, 6)
    )
    times = ("seconds",)
    assert {k: v for k, v in first.items() if k not in times} == {k: v for k, v in second.items() if k not in times}
    assert not set(digests(first)) & set(digests(third))


def test_without_a_seed_a_fresh_one_is_drawn_and_printed(command):
    seeds = set()
    for _ in range(2):
        ran = command("check", RIGHT, *SIZES, *HERE, "--json", "-", "--trials", 1)
        seeds.add(json.loads(ran.out)["seed"])
        assert f"seed              {json.loads(ran.out)['seed']}" in ran.err
    assert len(seeds) == 2


def test_a_printed_seed_is_taken_back(command):
    first = json.loads(command("check", RIGHT, *SIZES, *HERE, "--json", "-").out)
    again = json.loads(command("check", RIGHT, *SIZES, *HERE, "--json", "-", "--seed", first["seed"]).out)
    assert digests(again) == digests(first)


def test_the_problem_comes_from_a_file(command, kernel_file, tmp_path):
    problem = tmp_path / "problem.py"
    problem.write_text("import zeroulp\nproblem = zeroulp.Matmul(3, 4, 5, a='bf16', transpose_b=True, batch=2)\n")
    target = kernel_file("""
        def matmul(a, b):
            assert (a.shape, b.shape, a.dtype.name) == ((2, 3, 5), (2, 4, 5), "bfloat16")
            return np.matmul(a.astype(np.float32), np.swapaxes(b, 1, 2).astype(np.float32)).astype(a.dtype)
    """)
    ran = command("check", target, "--problem", problem, *HERE)
    assert ran.status == 0, ran.out


def test_every_option_of_the_problem_reaches_the_kernel(command, kernel_file):
    target = kernel_file("""
        def matmul(a, b, c, bias, out, *, alpha, beta):
            assert (a.shape, b.shape, c.shape, bias.shape, out.shape) == ((2, 5, 3), (2, 4, 5), (2, 3, 4), (4,), (2, 3, 4))
            assert [x.dtype.name for x in (a, b, c, bias, out)] == ["float8_e4m3fn"] * 2 + ["float16", "float32", "float16"]
            assert out.strides == (42, 14, 2)
            total = alpha * np.swapaxes(a, 1, 2).astype(np.float32) @ np.swapaxes(b, 1, 2).astype(np.float32)
            out[...] = (total + beta * c.astype(np.float32) + bias).astype(np.float16)
    """)
    ran = command("check", target, "-m", 3, "-n", 4, "-k", 5, "--batch", 2, "--a", "e4m3", "--out", "half",
                  "--transpose-a", "--transpose-b", "--alpha", 0.5, "--beta", -2, "--bias", "float32",
                  "--layouts", "padded", "--destination-passing", *HERE)
    assert ran.status == 0, ran.out


def test_replay_shows_the_failing_trial_again(command, tmp_path):
    file, again = tmp_path / "report.json", tmp_path / "again.json"
    command("check", WRONG, *SIZES, *HERE, "--json", file)
    ran = command("replay", file, *HERE, "--json", again)
    assert ran.status == 1
    assert ran.out.startswith("INCORRECT  matmul leaves out the product k = 16 of 17")
    before, after = json.loads(file.read_text()), json.loads(again.read_text())
    failing = [trial for trial in before["trials"] if trial["index"] in before["findings"][0]["replay"]]
    assert digests(after) == [trial["digest"] for trial in failing]
    assert after["trials"][0]["outcome"] == failing[0]["outcome"]


def test_replay_of_a_mended_kernel_is_correct(command, tmp_path):
    file = tmp_path / "report.json"
    command("check", WRONG, *SIZES, *HERE, "--json", file)
    ran = command("replay", file, RIGHT, *HERE)
    assert ran.status == 0
    assert ran.out.startswith("CORRECT  ")


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_a_finding_that_takes_two_trials_replays(command, tmp_path, isolation):
    file = tmp_path / "report.json"
    command("check", CACHED, *SIZES, *HERE, "--json", file)
    finding = json.loads(file.read_text())["findings"][0]
    assert (finding["kind"], len(finding["replay"])) == ("stale-result", 2)
    ran = command("replay", file, "--isolate", isolation)
    assert ran.status == 1
    assert "stale-result" in ran.out


def test_a_report_of_a_lambda_replays_with_a_kernel_that_has_a_name(command, tmp_path):
    file = tmp_path / "report.json"
    file.write_text(to_json(zeroulp.check(lambda a, b: a @ b + 1, zeroulp.Matmul(8, 9, 17, a="float32"))))
    nameless = command("replay", file)
    assert (nameless.status, nameless.out) == (2, "")
    assert "<lambda>' cannot be found by its name" in nameless.err
    assert "file.py:function" in nameless.err
    assert command("replay", file, RIGHT, *HERE).status == 0


def right_in_float16(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)


def test_replay_in_python_takes_a_mended_function():
    report = zeroulp.check(WRONG, zeroulp.Matmul(8, 9, 17, a="float16"), seed=1)
    assert zeroulp.replay(report).verdict is Verdict.INCORRECT
    assert zeroulp.replay(report, right_in_float16).verdict is Verdict.CORRECT


def test_replay_in_a_worker_takes_a_mended_function():
    report = zeroulp.check(WRONG, zeroulp.Matmul(8, 9, 17, a="float16"), seed=1, isolation="process")
    assert zeroulp.replay(report, right_in_float16).verdict is Verdict.CORRECT


def test_a_replay_of_a_function_is_reported_under_its_own_name():
    report = zeroulp.check(WRONG, zeroulp.Matmul(8, 9, 17, a="float16"), seed=1)
    assert zeroulp.replay(report, right_in_float16).kernel.target == f"{__file__}:right_in_float16"


def test_a_report_without_findings_replays_all_its_trials(command, tmp_path):
    file = tmp_path / "report.json"
    command("check", RIGHT, *SIZES, *HERE, "--json", file)
    ran = command("replay", file, *HERE, "--json", "-")
    assert ran.status == 0
    assert digests(json.loads(ran.out)) == digests(json.loads(file.read_text()))


def test_a_report_replays_to_the_same_bits_in_another_process(tmp_path):
    file, again = tmp_path / "report.json", tmp_path / "again.json"
    first = in_a_new_process("check", WRONG, *SIZES, "--json", file)
    second = in_a_new_process("replay", file, "--json", again)
    assert (first.returncode, second.returncode) == (1, 1), first.stderr + second.stderr
    before, after = json.loads(file.read_text()), json.loads(again.read_text())
    assert after["trials"] == [t for t in before["trials"] if t["index"] in before["findings"][0]["replay"]]
    assert after["findings"] == before["findings"]


def test_the_answer_names_the_command_that_shows_it_again():
    first = in_a_new_process("check", WRONG, *SIZES, *HERE)
    again = first.stdout.rpartition("see it again")[2].strip()
    words = shlex.split(again)
    assert words[:3] == ["zeroulp", "check", WRONG]
    assert words[-2] == "--seed"
    second = in_a_new_process(*words[1:])
    assert (second.returncode, second.stdout) == (1, first.stdout)


def test_a_reader_that_stops_early_does_not_change_the_status():
    """`zeroulp check ... | head -1`: the verdict stands, and nothing is said of broken pipes."""
    with subprocess.Popen(
        [sys.executable, "-m", "zeroulp", "check", WRONG, *map(str, SIZES), *HERE],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:
        process.stdout.close()
        err = process.stderr.read()
        assert (process.wait(), err) == (1, "")


@pytest.mark.parametrize(("kernel", "status"), [(RIGHT, 0), (WRONG, 1)])
def test_rules_are_listed_beside_the_verdict(command, kernel, status):
    ran = command("rules", kernel, *SIZES, *HERE)
    assert ran.status == status
    assert ran.err == ""
    names = [line.split("  ")[0] for line in ran.out.splitlines()]
    assert names[2:] == ["zeroulp", "torch.allclose defaults", "KernelBench", "FlashInfer-Bench", "SOL-ExecBench",
                         "GPU MODE matmul", "DeepGEMM similarity", "0/1 exact match"]


def test_rules_of_a_kernel_that_breaks_say_so(command, kernel_file):
    ran = command("rules", kernel_file("def matmul(a, b): raise ValueError('no')"), *SIZES, *HERE)
    assert ran.status == 4
    assert ran.out.count("broke ") == 7


def test_rules_name_their_sources(command):
    ran = command("rules", RIGHT, *SIZES, *HERE, "--sources")
    assert "ScalingIntelligence/KernelBench" in ran.out


def test_plan_says_what_would_be_tried_and_why_it_is_exact(command):
    ran = command("plan", *SIZES)
    assert (ran.status, ran.err) == (0, "")
    for text in ("signed", "wide", "binary", "fractional", "sum of |terms| <=", "escape probability at most"):
        assert text in ran.out


def test_a_plan_without_trials_exits_with_3(command):
    ran = command("plan", *SIZES, "--alpha", 1 / 3, "--probe", "signed")
    assert ran.status == 3
    assert "alpha=0.333" in ran.out


def test_a_plan_that_cannot_give_what_is_asked_for_exits_with_3_and_says_so(command):
    ran = command("plan", *SIZES, "--probe", "one_hot", "--escape-probability", "1e-6")
    assert ran.status == 3
    assert "not enough: an escape probability of 1e-06 was asked for" in ran.out
    assert command("plan", *SIZES, "--escape-probability", "1e-15").status == 0


def test_formats_are_listed_with_their_exact_ranges(command):
    ran = command("formats")
    assert (ran.status, ran.err) == (0, "")
    rows = {line.split()[0]: line for line in ran.out.splitlines()}
    assert " 2,048 " in rows["float16"]
    assert " 256 " in rows["bfloat16"]


def test_the_version_and_the_help_exit_with_0(command):
    assert command("--version").status == 0
    assert "0 CORRECT, 1 INCORRECT, 2 usage error, 3 INCONCLUSIVE, 4 BROKEN" in command("--help").out
