"""What all tests share: one thread for small products, and no waiting for wrong kernels unless lateness is the matter."""

from __future__ import annotations

import os
import re
from pathlib import Path

for _library in ("OPENBLAS", "OMP", "MKL"):  # several libraries' threads spin against each other on small matrices
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
if not Path("/dev/nvidiactl").exists():  # Triton reads this once, when it is imported, and PyTorch imports it at will
    os.environ.setdefault("TRITON_INTERPRET", "1")

import pytest

from zeroulp.checks import bench


WORDS_OF_TIME = {"late", "wait", "waits", "after", "return", "thread", "threads", "stream", "streams"}


@pytest.fixture(autouse=True)
def _no_waiting(request, monkeypatch):
    """The check waits 40 ms for a late result of a wrong kernel; thousands of tests need not."""
    if not WORDS_OF_TIME & set(re.split("[^a-z]+", request.node.nodeid)):  # whole words: not those in "accumulate"
        monkeypatch.setattr(bench, "_SHORTEST_WAIT", 0.0)
