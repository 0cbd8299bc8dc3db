"""The yardstick on a checkout made here: verdicts, counts, and problems that break."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
HEAD = "import torch\nimport torch.nn as nn\n"
TAIL = """
batch_size = 4096
dim = 1024 * 64
def get_inputs():
    return [torch.rand(batch_size, dim)]
def get_init_inputs():
    return []
"""


def problem(body, init="pass"):
    return f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n    def forward(self, x):\n        return {body}\n{TAIL}"


PROBLEMS = {
    "1_Layer": problem("torch.relu(self.layer(x))", "self.layer = nn.Linear(dim, 32)"),
    "2_Bessel": problem("torch.special.bessel_j0(x)"),
    "3_Nothing": problem("x - x"),
    "4_Half": problem("torch.cat([x, torch.special.bessel_j0(x)])"),
    "5_Broken": problem("x @ undefined"),
    "6_Dropout": problem("self.drop(x) * 2", "self.drop = nn.Dropout(0.5)"),
}


def test_each_problem_gets_its_verdict(tmp_path):
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    for name, text in PROBLEMS.items():
        (folder / f"{name}.py").write_text(text)
    command = ["benchmarks/kernelbench.py", "--checkout", str(tmp_path), "--level", "1", "--verify", "--seconds", "3"]
    run = subprocess.run([sys.executable, *command, "--output", str(tmp_path / "found.txt")], capture_output=True,
                         text=True, cwd=ROOT, check=True)
    rows = {line.split()[1]: line for line in run.stdout.splitlines() if line.startswith("1/")}
    verdicts = {name: rows[name].split()[2] for name in rows}
    assert verdicts == {"Layer": "exact", "Bessel": "prefix", "Nothing": "vacuous", "Half": "partly",
                        "Broken": "failed", "Dropout": "exact"}
    assert "agrees" in rows["Layer"]
    assert "bessel_j0" in rows["Bessel"] and "50%" in rows["Half"] and "NameError" in rows["Broken"]
    (counts,) = [line.split() for line in run.stdout.splitlines() if line.startswith("float32")]
    assert counts[:8] == ["float32", "1", "6", "2", "1", "1", "1", "1"]
    assert (tmp_path / "found.txt").read_text() == run.stdout
    assert "1/5 failed" in run.stderr


FULL = {
    "1_Layer": problem("torch.relu(x @ x.T)").replace("4096", "300").replace("1024 * 64", "700"),
    "2_Large": problem("torch.relu(x)").replace("1024 * 64", "1 << 30"),
    "3_Sum": problem("x.sum()").replace("4096", "6000").replace("1024 * 64", "3000"),
    "4_Argmax": problem("x.argmax(1)").replace("4096", "60").replace("1024 * 64", "3000"),
    "5_Slow": problem("[torch.relu(x) for _ in iter(int, 1)]").replace("4096", "60").replace("1024 * 64", "8"),
    "6_Broken": problem("x @ undefined"),
}


def test_full_size_is_tracked_where_memory_and_time_allow(tmp_path):
    folder = tmp_path / "KernelBench" / "level1"
    folder.mkdir(parents=True)
    for name, text in FULL.items():
        (folder / f"{name}.py").write_text(text)
    command = ["benchmarks/kernelbench.py", "--checkout", str(tmp_path), "--level", "1", "--full", "--each", "20", "--seconds", "2"]
    run = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, check=True)
    rows = {line.split()[1]: line for line in run.stdout.splitlines() if line.startswith("1/")}
    verdicts = {name: " ".join(rows[name].split()[2:4]) for name in rows}
    assert {name: words.split()[0] for name, words in verdicts.items()} == {
        "Layer": "exact", "Large": "too", "Sum": "exact", "Argmax": "exact", "Slow": "failed", "Broken": "failed"}
    assert "4,398,046,511,104" in rows["Large"] and "GiB, and" in rows["Large"]
    assert "agrees" in rows["Layer"] and "agrees" in rows["Sum"] and "agrees" in rows["Argmax"]
    assert "more than 20 s" in rows["Slow"] and "NameError" in rows["Broken"]
    assert ", 1 in " in rows["Sum"] or float(rows["Sum"].split()[4].rstrip("%")) > 1
    assert "3 exact, 2 failed, 1 too large." in run.stdout
