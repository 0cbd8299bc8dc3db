"""What all tests share: one thread for small products, and no waiting for wrong kernels unless lateness is the matter."""

from __future__ import annotations

import os

for _library in ("OPENBLAS", "OMP", "MKL"):  # several libraries' threads spin against each other on small matrices
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import pytest

from zeroulp.checks import bench


@pytest.fixture(autouse=True)
def _no_waiting(request, monkeypatch):
    """The check waits 40 ms for a late result of a wrong kernel; thousands of tests need not."""
    if not any(word in request.node.nodeid for word in ("late", "wait", "after-return", "thread", "stream")):
        monkeypatch.setattr(bench, "_SHORTEST_WAIT", 0.0)
