"""
The array libraries that we compute with: numpy on the host, PyTorch on a device.

Inputs are drawn, and results verified, where they lie. What that takes of a library is the small
table of operations in `Arrays`; another library is one more class with these operations.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from zeroulp.arrays.base import Arrays
from zeroulp.arrays.host import HOST, Host
from zeroulp.arrays.torch import Torch

__all__ = ["HOST", "Arrays", "Host", "Torch", "arrays_of"]


def arrays_of(array: Any) -> Arrays:
    """The library of *array*, on its device."""
    return HOST if isinstance(array, np.ndarray) else _torch_on(array.device)


@functools.cache
def _torch_on(device: Any) -> Torch:
    return Torch(device)
