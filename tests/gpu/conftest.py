"""Small problems are looked at on the device here, as large ones are: the host's way is tested elsewhere."""

from __future__ import annotations

import pytest

from zeroulp.runner import base, process


@pytest.fixture(autouse=True)
def small_problems_stay_on_the_device(monkeypatch):
    for module in (base, process):
        monkeypatch.setattr(module, "SMALL_BYTES", 0)
