"""What all tests share: wrong kernels are not waited for, except where lateness is the matter."""

from __future__ import annotations

import pytest

from zeroulp.checks import bench


@pytest.fixture(autouse=True)
def _no_waiting(request, monkeypatch):
    """The check waits 40 ms for a late result of a wrong kernel; thousands of tests need not."""
    if not any(word in request.node.nodeid for word in ("late", "wait", "after-return", "thread", "stream")):
        monkeypatch.setattr(bench, "_SHORTEST_WAIT", 0.0)
