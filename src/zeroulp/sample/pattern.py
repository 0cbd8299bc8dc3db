"""
Patterns over the places of a tensor, balanced along every axis whatever is summed over: each place gets a residue.

Residues modulo m are sums of one random number for each axis. Axes are taken from the last to the first; each shares
out the residues that those before it left, as the digits of a number do, and once all are used the next axis starts
anew. So the places of one residue, 1 in m, are spread evenly over rows and over columns.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.draw import Stream


_LISTED = 1 << 20


def residues(stream: Stream, shape: tuple[int, ...], modulus: int) -> NDArray[np.int64]:
    """
    A number from 0 to *modulus* - 1 for every place.

    Args:
        stream: Of random numbers.
        shape: (...), any number of axes.
        modulus: m, positive.

    Returns:
        int64 of that shape. Each residue is that of size / m places or so. Along the last axis alone, or a few of
        the last, the places of one residue are as even as can be.
    """
    total: NDArray[np.int64] = stream.below(modulus, (1,)).astype(np.int64).reshape((1,) * len(shape))
    left = modulus
    for axis in reversed(range(len(shape))):
        extent = shape[axis]
        order = stream.permutation(extent)
        if extent < left:
            step = left // extent
            numbers, left = order * step, step
        else:
            numbers, left = order % left, modulus
        total = total + numbers.reshape((-1,) + (1,) * (len(shape) - 1 - axis))
    return np.broadcast_to(total % modulus, shape)


def latin(stream: Stream, shape: tuple[int, ...], modulus: int) -> NDArray[np.int64]:
    """
    A number from 0 to *modulus* - 1 for every place, all different along each axis no longer than *modulus*.

    Args:
        stream: Of random numbers.
        shape: (...), any number of axes.
        modulus: Positive.

    Returns:
        int64 of that shape. No two places are alike at all where there are at most *modulus* of them.
    """
    size = math.prod(shape)
    if size <= modulus:
        return np.sort(_some(stream, size, modulus))[stream.permutation(size)].reshape(shape)
    total = np.zeros((1,) * len(shape), np.int64)
    for axis, extent in enumerate(shape):
        numbers = stream.permutation(max(extent, modulus))[:extent] % modulus
        total = total + numbers.reshape((-1,) + (1,) * (len(shape) - 1 - axis))
    return np.broadcast_to(stream.permutation(modulus)[total % modulus], shape)


def _some(stream: Stream, size: int, modulus: int) -> NDArray[np.int64]:
    """So many different numbers from 0 to *modulus* - 1, without a list of all where there are far more of them."""
    if modulus <= max(_LISTED, 4 * size):
        return stream.permutation(modulus)[:size]
    found: NDArray[np.int64] = np.zeros(0, np.int64)
    while len(found) < size:
        both = np.concatenate([found, stream.below(modulus, (size,))])
        found = both[np.sort(np.unique(both, return_index=True)[1])]
    return found[:size]
