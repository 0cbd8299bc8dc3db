"""Peak memory of a check: its operands, one output, guards, and not much more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

if not Path("/proc/self/status").exists():
    pytest.skip("peak sizes are read from /proc", allow_module_level=True)

CHILD = """
import json, sys
import numpy as np
import zeroulp
from zeroulp import memory
from zeroulp.checks import snapshot
from zeroulp.checks.bench import block_size
from zeroulp.plan import make_plan

def status(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))

sizes, isolation, passing, copied, probes = json.loads(sys.argv[1])
memory.COPIED_BYTES = snapshot.COPIED_BYTES = copied
kernel = sys.argv[2]
for small, chosen in (((64, 64, 64), None), ((400, 400, 400), probes)):  # the larger one loads what is compiled
    problem = zeroulp.Matmul(*small, a="float32")
    zeroulp.check(kernel, problem, isolation=isolation, destination_passing=passing, seed=1, probes=chosen)
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew
problem = zeroulp.Matmul(*sizes, a="float32")
options = {"trials": 1, "probes": probes}
plan = make_plan(problem, **options)
needed = block_size(problem, [trial.layouts for trial in plan.trials], writes=passing)
needed += 0 if passing else 4 * problem.output.size
options |= {"isolation": isolation, "destination_passing": passing}
report = zeroulp.check(kernel, problem, seed=1, workspace_bytes=2**22, **options)
print(json.dumps({"beyond": status("VmHWM") - before - needed, "kinds": [finding.kind for finding in report.findings]}))
"""
KERNEL = """
import numpy as np

def matmul(a, b, out=None):
    result = np.matmul(a, b, out=out)
    return result
"""


def beyond(tmp_path, sizes, isolation, *, passing, copied=2**20, probes=None):
    """Bytes at the peak of the process that judges, beyond what it had before, operands, one output and guards."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "child.py").write_text(CHILD)
    arguments = [json.dumps([sizes, isolation, passing, copied, probes]), f"{tmp_path / 'kernel.py'}:matmul"]
    done = subprocess.run([sys.executable, str(tmp_path / "child.py"), *arguments], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    assert said["kinds"] == [], said
    return said["beyond"]


@pytest.mark.parametrize("isolation", ["none", "process"])
@pytest.mark.parametrize("passing", [False, True], ids=["returns", "writes"])
def test_a_large_result_is_not_copied(tmp_path, isolation, passing):
    """It has 36 MB."""
    assert beyond(tmp_path, (3000, 3000, 24), isolation, passing=passing) < 30e6


def test_large_operands_are_not_taken_as_a_whole(tmp_path):
    """They have 36 MB, and 72 in float64. Subnormal elements of special values take as much for a block alone."""
    probes = ["signed", "wide", "one_hot", "cancel", "halves", "sparse", "real"]
    assert beyond(tmp_path, (24, 3000, 3000), "none", passing=False, probes=probes) < 60e6


def test_what_is_small_is_copied_all_the_same(tmp_path):
    """So the measurement would see a copy."""
    assert beyond(tmp_path, (3000, 3000, 24), "none", passing=False, copied=2**26) > 60e6
