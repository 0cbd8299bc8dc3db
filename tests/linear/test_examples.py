"""The example of a convolution, as its page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.cli.conftest import command  # noqa: F401

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("kernel", "status"), [("conv2d", 0), ("corner_lost", 1), ("rounded_twice", 1)])
@pytest.mark.parametrize("seed", range(4))
def test_the_example_is_what_it_says(command, kernel, status, seed):  # noqa: F811
    words = ("--problem", ROOT / "examples" / "conv2d_problem.py", "--isolate", "none", "--seed", seed)
    assert command("check", f"{ROOT}/examples/conv2d.py:{kernel}", *words).status == status


def test_the_commands_of_the_page_work(command, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page = (ROOT / "docs" / "linear.md").read_text()
    lines = [line for block in re.findall(r"```console\n(.*?)```", page, re.S) for line in block.splitlines()]
    assert [command(*shlex.split(line)[1:]).status for line in lines] == [0, 1, 1, 0]


def test_the_page_s_problem_is_one():
    page = (ROOT / "docs" / "linear.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.S)[1].replace("my_kernel", "reference")
    names = {}
    exec(code, names)
    assert names["report"].verdict.value == "CORRECT"
