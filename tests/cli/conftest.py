"""What the tests of the command line share."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass

import pytest

from zeroulp.cli import main


@dataclass
class Ran:
    """What a command came to."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(capsys, monkeypatch):
    """Run the command line in this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))  # a kernel's directory is put on it
    capsys.readouterr()

    def run(*words):
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def kernel_file(tmp_path):
    """Write a Python file with a kernel (or whatever the text says) and return its target."""

    def write(text, name="kernel.py", function="matmul"):
        path = tmp_path / name
        path.write_text("import numpy as np\n" + textwrap.dedent(text))
        return f"{path}:{function}"

    return write
