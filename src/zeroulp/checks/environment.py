"""Versions and machine, as far as they can explain a difference between two runs."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
from pathlib import Path

import ml_dtypes
import numpy as np

from zeroulp.arrays import compiled
from zeroulp.version import __version__


def describe_environment(framework_versions: dict[str, str]) -> dict[str, str]:
    """What a report says of where it was made; *framework_versions* come from where the kernel ran."""
    return {
        "zeroulp": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": str(ml_dtypes.__version__),
        **_numba(),
        **framework_versions,
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": str(os.cpu_count() or 0),
    }


@functools.cache
def _numba() -> dict[str, str]:
    """Its version, where it is used for large arrays."""
    try:
        return {"numba": importlib.metadata.version("numba")} if compiled.is_there() else {}
    except importlib.metadata.PackageNotFoundError:
        return {}


@functools.cache
def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
