"""The example kernels: right ones accepted in every format, wrong ones found, named, and missed by other tools' rules."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import zeroulp
from zeroulp.cli import main
from zeroulp.kernels import KernelSpec
from zeroulp.report import Verdict
from zeroulp.rules import RULES, run_rules

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FORMATS = ("float16", "bfloat16", "float32", "float8_e4m3fn")


def target(path):
    return f"{EXAMPLES / path}.py:matmul"


def problem(m, n, k, a="float16", **options):
    return zeroulp.Matmul(m, n, k, a=a, out="float32" if a == "float8_e4m3fn" else a, **options)


def needs(name):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def skip_without_triton():
    """Without importing it: its interpreter has to be chosen before that, which the example does."""
    for name in ("torch", "triton"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.mark.parametrize(("name", "kind", "says"), [
    ("last_k_dropped", "wrong-result", "k = 256 of 257"),
    ("stale_k_tile", "wrong-result", "tile"),
    ("fp16_accumulator", "precision-below-contract", "significant bits"),
    ("squares_a", "wrong-result", "a*a*b"),
    ("unwritten_tail", "unwritten-output", "column 64"),
    ("cached_output", "stale-result", "an earlier result"),
])
def test_each_wrong_example_is_found_and_named(name, kind, says):
    n = 65 if name == "unwritten_tail" else 64
    sentences = []
    for seed in range(3):
        report = zeroulp.check(target(f"wrong/{name}"), problem(64, n, 257), seed=seed,
                               destination_passing=name == "unwritten_tail")
        assert report.verdict is Verdict.INCORRECT
        assert [finding.kind for finding in report.findings] == [kind]
        sentences.append(report.findings[0].sentence)
    assert any(says in sentence for sentence in sentences), sentences


def test_what_is_said_of_an_old_tile_is_true():
    for seed in range(40):
        report = zeroulp.check(target("wrong/stale_k_tile"), problem(64, 64, 257), seed=seed)
        assert "counts twice" not in report.findings[0].sentence, seed


@pytest.mark.parametrize("name", sorted(file.stem for file in EXAMPLES.glob("wrong/*.py")))
@pytest.mark.parametrize("format_name", ["bfloat16", "float32", "float8_e4m3fn"])
def test_wrong_examples_are_found_in_every_format(name, format_name):
    for seed in range(3):
        report = zeroulp.check(target(f"wrong/{name}"), problem(32, 33, 257, format_name), seed=seed,
                               destination_passing=name == "unwritten_tail")
        assert report.verdict is Verdict.INCORRECT, report


def test_the_float16_accumulator_keeps_a_lesser_promise():
    for accumulate in ("any", "float16"):
        report = zeroulp.check(target("wrong/fp16_accumulator"), problem(64, 64, 257, accumulate=accumulate))
        assert report.verdict is Verdict.CORRECT, report


@pytest.mark.parametrize(("name", "sizes", "accepting"), [
    ("last_k_dropped", (64, 64, 1025), ("KernelBench", "DeepGEMM similarity")),
    ("stale_k_tile", (64, 64, 4096), ("KernelBench",)),
    ("fp16_accumulator", (64, 64, 257), ("KernelBench", "SOL-ExecBench", "DeepGEMM similarity", "0/1 exact match")),
    pytest.param("fp16_accumulator", (64, 64, 4096), ("KernelBench", "DeepGEMM similarity", "0/1 exact match"),
                 marks=pytest.mark.slow),
    ("squares_a", (64, 64, 257), ("0/1 exact match",)),
    ("unwritten_tail", (64, 241, 257), ("SOL-ExecBench",)),
    pytest.param("unwritten_tail", (64, 2049, 257), ("SOL-ExecBench", "DeepGEMM similarity"), marks=pytest.mark.slow),
    ("cached_output", (64, 64, 257), ("KernelBench", "FlashInfer-Bench", "SOL-ExecBench", "DeepGEMM similarity",
                                      "0/1 exact match")),
])
def test_each_wrong_example_is_accepted_by_a_rule_in_use(name, sizes, accepting):
    """As the example's own text says. A cache must not outlive a rule, hence a fresh process for each."""
    spec = KernelSpec(target(f"wrong/{name}"), destination_passing=name == "unwritten_tail")
    rules = [rule for rule in RULES if rule.name in accepting]
    results = run_rules(spec, problem(*sizes), isolation="process" if name == "cached_output" else "none", rules=rules)
    assert {result.rule.name: result.accepted for result in results} == dict.fromkeys(accepting, True)


def test_a_rule_that_is_too_tight_rejects_right_kernels_too():
    """torch.allclose's defaults in float32, where two orders of summation differ by more."""
    rule = [rule for rule in RULES if rule.name == "torch.allclose defaults"]
    spec, wide = KernelSpec(target("correct/numpy_tiled")), problem(64, 64, 4096, "float32")
    assert run_rules(spec, wide, rules=rule)[0].accepted is False
    assert zeroulp.check(spec.target, wide).verdict is Verdict.CORRECT


def test_a_kernel_that_breaks_under_a_rule_is_neither_accepted_nor_rejected(tmp_path):
    (tmp_path / "kernel.py").write_text("def matmul(a, b): raise ValueError('no')")
    for isolation in ("none", "process"):
        results = run_rules(KernelSpec(f"{tmp_path / 'kernel.py'}:matmul"), problem(4, 4, 4), isolation=isolation,
                            rules=RULES[:2])
        assert [(r.accepted, r.detail) for r in results] == [(None, "the kernel raised ValueError: no")] * 2


def test_rules_do_not_run_without_the_isolation_that_was_asked_for():
    with pytest.raises(zeroulp.UsageError, match="isolation 'sandbox' is not available"):
        run_rules(KernelSpec(target("correct/numpy_tiled")), problem(4, 4, 4), isolation="sandbox")


def correct_examples():
    """A process with Triton takes seconds to start: two formats by default."""
    for example in ("numpy_tiled", "triton_matmul"):
        for name in FORMATS:
            slow = example == "triton_matmul" and name in ("bfloat16", "float32")
            yield pytest.param(example, name, marks=[pytest.mark.slow] * slow)


@pytest.mark.parametrize(("example", "format_name"), list(correct_examples()))
def test_each_correct_example_is_accepted(example, format_name):
    """The one in C stands in tests/soundness/test_shared_library.py."""
    options, shapes = {}, [(64, 64, 257), (1, 1, 1), (33, 70, 40)]
    if example == "triton_matmul":
        skip_without_triton()
        options, shapes = {"isolation": "process"}, [(33, 70, 257)]
    for m, n, k in shapes:
        asked = problem(m, n, k, format_name, layouts="any")
        report = zeroulp.check(target(f"correct/{example}"), asked, **options)
        assert report.verdict is Verdict.CORRECT, report


@pytest.mark.parametrize("layouts", ["contiguous", "column", "padded", "offset", "any"])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_torch_on_the_cpu_is_accepted(name, layouts):
    torch = needs("torch")
    for m, n, k in ((1, 1, 1), (5, 7, 33), (64, 65, 300)):
        report = zeroulp.check(torch.matmul, problem(m, n, k, name, layouts=layouts))
        assert report.verdict is Verdict.CORRECT, report
        assert report.environment["torch"] == torch.__version__


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_torch_into_an_output_with_batches_and_epilogues_is_accepted(name):
    torch = needs("torch")
    into = lambda a, b, out: torch.matmul(a, b, out=out)
    report = zeroulp.check(into, problem(5, 7, 33, name, layouts="any"), framework="torch", destination_passing=True)
    assert report.verdict is Verdict.CORRECT, report
    report = zeroulp.check(torch.bmm, problem(5, 7, 33, name, batch=(3,), layouts="any"))
    assert report.verdict is Verdict.CORRECT, report
    linear = lambda a, b, bias: torch.nn.functional.linear(a, b, bias)
    report = zeroulp.check(linear, problem(5, 7, 33, name, transpose_b=True, bias=name))
    assert report.verdict is Verdict.CORRECT, report


def commands():
    """Every command of examples/README.md and of the examples' first lines."""
    found = {}
    for file in (EXAMPLES / "README.md", *sorted(EXAMPLES.glob("*/*.*"))):
        if file.suffix in (".md", ".py", ".c"):
            text = file.read_text()
            lines = text.replace("\\\n *", " ").splitlines() + re.findall(r"`(zeroulp \w+ examples[^`]+)`", text)
            found |= {line.strip(" *").partition("  #")[0].strip(): file.name for line in lines
                      if line.strip(" *").startswith("zeroulp ")}
    return found


@pytest.mark.parametrize("line", commands())
def test_every_command_in_the_examples_runs_as_written(line, monkeypatch, tmp_path, capsys):
    """From the root of the repository; C kernels have been built before."""
    words = shlex.split(line)[1:]
    monkeypatch.chdir(EXAMPLES.parent)
    if "triton" in line:
        skip_without_triton()
    if ".so:" in line:
        if not shutil.which("cc"):
            pytest.skip("there is no C compiler")
        build = next(x for x in (EXAMPLES / "README.md").read_text().splitlines() if x.startswith("cc "))
        assert build in (EXAMPLES / "correct/blocked.c").read_text()
        subprocess.run(shlex.split(build.replace("-o ", f"-o {tmp_path}/")), check=True, timeout=120)
        words = [word.replace("./blocked.so", f"{tmp_path}/blocked.so") for word in words]
    status = main(words)
    out, err = capsys.readouterr()
    assert (status, err) == (1 if "wrong/" in line else 0, ""), out + err
