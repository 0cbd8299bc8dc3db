"""
Whether a kernel still holds the memory of a result that it returned.

If nobody but us has a reference to it, the memory goes when we let go, and no later call can write
there. Where that cannot be known, somebody is taken to hold it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from zeroulp.kernels.torch_device import is_shared_tensor


def is_held_elsewhere(box: list[Any]) -> bool:
    """
    Whether somebody else has a reference to an array, or to what its memory belongs to.

    Args:
        box: With the array: the only reference of ours.
    """
    counts, owner = _references(box)
    if any(count > _ALONE for count in counts):
        return True
    if isinstance(owner, np.ndarray):
        return not owner.flags.owndata
    return is_shared_tensor(owner)


def _references(box: list[Any]) -> tuple[list[int], Any]:
    """How many references there are to an array and to each array that it is a view of; and whose the memory is."""
    counts: list[int] = []
    array = box[0]
    while isinstance(array, np.ndarray):
        counts.append(sys.getrefcount(array))
        if array.base is None:
            break
        owner = array
        array = owner.base
    return counts, array


_ALONE = _references([np.empty(1)])[0][0]
