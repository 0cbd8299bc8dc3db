"""
float16 to float32 by its bits: numpy converts one number at a time, and waits at each zero.

The exponent of float16 is the lower part of that of float32, so that its bits, moved to where
float32 has them, are a number 2^112 times too small; subnormal numbers among them. Multiplying by
2^112 makes each what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UP = np.float32(2.0**112)
_MOVED = 13  # bits by which the fraction of float32 is longer
_KEPT = np.int32(-0x7000_2000)  # the sign, five bits of the exponent, ten of the fraction: 0x8fffe000
_EXPONENT = np.uint16(0x7C00)
_SMALLEST = np.full(1, 2.0**-136, np.float32)


def half_values(stored: NDArray[np.float16]) -> NDArray[np.float32]:
    """
    The same numbers, exactly.

    Args:
        stored: float16 of any shape and strides.

    Exactness:
        float32 holds them all. Where the processor takes subnormal numbers for zero, or there are
        infinities or NaN, it is numpy's own conversion, which is one of integers.
    """
    codes = stored.view(np.uint16)
    special = bool(codes.size) and int((codes & _EXPONENT).max()) == _EXPONENT
    if special or not (_SMALLEST * _UP)[0]:
        return stored.astype(np.float32)
    wide = codes.view(np.int16).astype(np.int32)
    wide <<= _MOVED
    wide &= _KEPT
    values = wide.view(np.float32)
    values *= _UP
    return values
