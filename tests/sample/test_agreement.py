"""Bits compared on a checkout made here: programs that agree, that differ, that do not run, and what explains it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from agreement_blame import clause, differences, first_operation
from agreement_settings import Setting
from tests.sample.test_kernelbench import problem

from zeroulp import track

F = torch.nn.functional
PLAIN = Setting("plain")
PROBLEMS = {
    "1_Layer": problem("torch.relu(self.layer(x))", "self.layer = nn.Linear(dim, 32)"),
    "2_Differs": problem("torch.relu(x + x) * (1 + (x.element_size() < 8))"),
    "3_Inexact": problem("torch.sin(x)"),
    "4_Broken": problem("x @ undefined"),
    "5_Exits": problem("__import__('os')._exit(3)").replace("4096", "8").replace("1024 * 64", "8"),
}


def run(tmp_path, *options):
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    for name, text in PROBLEMS.items():
        (folder / f"{name}.py").write_text(text)
    command = ["benchmarks/agreement.py", "--checkout", str(tmp_path), "--level", "1", "--workers", "1", "--compile", "no"]
    return subprocess.run([sys.executable, *command, *options], capture_output=True, text=True, cwd=ROOT, check=False)


def lines(text, title):
    """Cells of the rows of a table."""
    rows = text.partition(f"{title}\n\n")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell for cell in row.split("  ") if cell] for row in rows]


def test_what_differs_is_counted_and_named_and_the_others_agree(tmp_path):
    found = run(tmp_path, "--storage", "float32", "float16")
    assert found.returncode == 1
    counts = [[cell.strip() for cell in row] for row in lines(found.stdout, "Agreement, cpu")]
    assert [row[:5] for row in counts[:4]] == [
        ["float32", "float32", f"{threads}, oneDNN {word}", "2", "0"] for word in ("on", "off") for threads in ("1 thread", "2 threads")]
    assert len(counts) == 12 and all(int(row[6]) == int(row[9]) > 0 and row[8] == "0" for row in counts)
    differ = [[cell.strip() for cell in row] for row in lines(found.stdout, "Elements that differ")]
    assert len(differ) == 12
    assert {(row[0].split(",")[0], row[2], row[-1]) for row in differ} == {("1/2", "mul", "UNEXPLAINED")}
    assert "something is exact in 4: these were run" in found.stdout
    ends = found.stdout.partition("were not run to the end")[2]
    assert "NameError" in ends and "its process died, exit status 3" in ends


def test_one_that_agrees_is_no_failure(tmp_path):
    found = run(tmp_path, "--only", "1/1", "1/3")
    assert found.returncode == 0 and "UNEXPLAINED" in found.stdout
    assert lines(found.stdout, "Elements that differ") == []
    assert run(tmp_path / "again", "--minutes", "0.001").stdout.count("no time was left") == 1


def outputs(function, tracked):
    return lambda setting: [function(*tracked.program.operands.values(), setting)]


def test_sums_that_are_kept_in_sixteen_bits_are_a_clause_and_other_faults_of_the_same_operator_are_none():
    index, signs = torch.zeros(600, dtype=torch.int64), torch.ones(600)
    signs[300:] = -1
    x = signs.to(torch.bfloat16)

    def reference(x, i):
        return torch.zeros(2, dtype=x.dtype).index_add(0, i, x)

    tracked = track.track(reference, {"x": x, "i": index}, storage="bfloat16")
    assert tracked.outputs[0].grade.tolist() == [0, 0]
    run = outputs(lambda x, i, _: reference(x, i), tracked)
    (found,) = differences(tracked, run(PLAIN))
    assert found.algebraic >= 1
    assert first_operation(tracked, lambda: run(PLAIN)) == "index_add"
    assert clause(tracked, PLAIN, "index_add", "bfloat16", run).startswith('accumulate="any"')
    assert clause(tracked, PLAIN, "mul", "bfloat16", run) == ""

    few = track.track(reference, {"x": x[:100], "i": index[:100]}, storage="bfloat16")
    wrong = outputs(lambda x, i, _: reference(x, i) + 1, few)
    assert differences(few, wrong(PLAIN)) and clause(few, PLAIN, "index_add", "bfloat16", wrong) == ""


def test_another_algorithm_of_cudnn_is_a_clause_where_it_is_right_without_cudnn():
    x, w = torch.randint(-3, 4, (1, 2, 8, 8)).float(), torch.randint(-3, 4, (2, 2, 3, 3)).float()
    tracked = track.track(F.conv2d, {"x": x, "w": w})
    device = Setting("cuDNN", "cuda")

    def off(x, w, setting, always=False):
        return F.conv2d(x, w) + (1e-3 if setting.cudnn or always else 0)

    run = outputs(off, tracked)
    assert clause(tracked, device, "convolution", "float32", run).startswith("algorithm")
    always = outputs(lambda x, w, setting: off(x, w, setting, True), tracked)
    assert clause(tracked, device, "convolution", "float32", always) == ""
    assert clause(tracked, PLAIN, "convolution", "float32", run) == ""


def test_zeros_and_nan_are_compared_as_numbers():
    tracked = track.track(lambda x: x * 1, {"x": torch.tensor([0.0, 1.0, 2.0])})
    assert differences(tracked, [torch.tensor([-0.0, 1.0, 2.0])]) == []
    (found,) = differences(tracked, [torch.tensor([0.0, float("nan"), 3.0])])
    assert (found.count, found.algebraic, found.example) == (2, 2, "[1]: nan, not 1")
    with pytest.raises(ValueError, match="shapes"):
        differences(tracked, [torch.zeros(4)])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiler_that_compiled_nothing_is_not_said_to_agree():
    setting = Setting("Inductor", compiler="inductor")
    setting.compiled(lambda x: x)
    with pytest.raises(RuntimeError, match="nothing was compiled"):
        setting.look_at_compiler()
    PLAIN.look_at_compiler()


