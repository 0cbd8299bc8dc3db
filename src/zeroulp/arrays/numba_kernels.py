"""
Numba's kernels for `zeroulp.arrays.compiled`: each one pass over the host's memory. Importing this takes Numba.

A matrix is a one-dimensional window of memory and the elements from one row of it to the next, so that
whatever lies in a row is contiguous. Loops stand by themselves, in functions of a line or two: that is
what a compiler turns into vector instructions.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

HALF, BRAIN, SINGLE, BYTE = range(4)
"""How encodings are read: float16, bfloat16, float32, and by a table of 256."""

_TILE = 1024  # elements that stay in a core's nearest cache, with all that becomes of them
_NAN = np.float32(np.nan)
_SIGN, _FINITE, _INFINITE = np.uint32(0x8000), np.uint32(0x7FFF), np.uint32(0x7C00)  # of float16
_UP = np.float32(2.0**112)
_REBIASED, _LEAST = np.uint32(112 << 23), np.uint32(113 << 23)  # exponents of float16 in float32; 2^-14


def _jit(function: Callable[..., Any], **options: Any) -> Any:
    """Compiled, and kept in a file where one can be written; other threads may run meanwhile."""
    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # nowhere to write
        return numba.njit(nogil=True, **options)(function)


_exact = functools.partial(_jit, fastmath={"reassoc", "contract"})
"""For sums in which nothing rounds: they have no order."""


@_jit
def _read(codes, kind, table, values):
    """float32 values of encodings. Those of float16 pass through subnormal numbers; see `zeroulp.arrays.half`."""
    bits = values.view(np.uint32)
    if kind == HALF:
        special = np.uint32(0)
        for j in range(len(codes)):
            code = np.uint32(codes[j])
            bits[j] = ((code & _FINITE) << np.uint32(13)) | ((code & _SIGN) << np.uint32(16))
        for j in range(len(codes)):
            special |= np.uint32(1) if (np.uint32(codes[j]) & _INFINITE) == _INFINITE else np.uint32(0)
        for j in range(len(codes)):
            values[j] *= _UP
        if special:
            for j in range(len(codes)):
                values[j] = _NAN if (np.uint32(codes[j]) & _INFINITE) == _INFINITE else values[j]
    elif kind == BRAIN:
        for j in range(len(codes)):
            bits[j] = np.uint32(codes[j]) << np.uint32(16)
    elif kind == SINGLE:
        for j in range(len(codes)):
            bits[j] = np.uint32(codes[j])
    else:
        for j in range(len(codes)):
            values[j] = table[np.uint32(codes[j]) & np.uint32(255)]


@_exact
def _dot(x, w):
    total = 0.0
    for j in range(len(x)):
        total += np.float64(x[j]) * w[j]
    return total


@_exact
def _two_dots(x, w, v):
    one, other = 0.0, 0.0
    for j in range(len(x)):
        value = np.float64(x[j])
        one += value * w[j]
        other += value * v[j]
    return one, other


@_jit
def _count_off(x, across, down, limit):
    """How many of x times across down are no integers, or large; what becomes zero was too small to be one."""
    off = 0
    for j in range(len(x)):
        y = x[j] * across[j] * down
        off += 0 if (abs(y) <= limit) & (y == np.floor(y)) & ((y != 0) | (x[j] == 0)) else 1
    return off


@_jit
def _add_off(x, across, down, limit, off):
    for i in range(len(x)):
        y = x[i] * across * down[i]
        off[i] += 0 if (abs(y) <= limit) & (y == np.floor(y)) & ((y != 0) | (x[i] == 0)) else 1


@_jit
def _add_product(x, w, total):
    for i in range(len(x)):
        total[i] += np.float64(x[i]) * w


@_jit
def keeps_subnormals(smallest):
    """Whether this thread's processor takes subnormal numbers for what they are."""
    return smallest[0] * _UP != 0


@_jit
def sums(codes, stride, kind, table, vectors, out, off, factors, limit, first, last):
    """Sums of rows *first* to *last*, out[v, i] = sum of x[i, j] vectors[v, j]; off[i] unless *limit* is negative."""
    across, down = factors
    values = np.empty(_TILE, np.float32)
    count, width = vectors.shape
    for i in range(first, last):
        for low in range(0, width, _TILE):
            high = min(low + _TILE, width)
            x = values[: high - low]
            _read(codes[i * stride + low : i * stride + high], kind, table, x)
            if limit >= 0:
                off[i] += _count_off(x, across[low:high], down[i], limit)
            for v in range(0, count - 1, 2):
                one, other = _two_dots(x, vectors[v, low:high], vectors[v + 1, low:high])
                out[v, i] += one
                out[v + 1, i] += other
            if count % 2:
                out[count - 1, i] += _dot(x, vectors[count - 1, low:high])


@_jit
def sums_down(codes, stride, kind, table, vectors, out, off, factors, limit, first, last):
    """The same of a matrix whose columns are contiguous; *stride* is from column to column."""
    across, down = factors
    values = np.empty(_TILE, np.float32)
    count, width = vectors.shape
    for low in range(first, last, _TILE):
        high = min(low + _TILE, last)
        x = values[: high - low]
        for j in range(width):
            _read(codes[j * stride + low : j * stride + high], kind, table, x)
            if limit >= 0:
                _add_off(x, across[j], down[low:high], limit, off[low:high])
            for v in range(count):
                _add_product(x, vectors[v, j], out[v, low:high])


@_jit
def words(out, key, first):
    """SplitMix64 at first + 1, first + 2 and so on: two words each."""
    for i in range(len(out)):
        z = np.uint64(i) * np.uint64(0x9E3779B97F4A7C15) + (np.uint64(first) + np.uint64(1)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z += np.uint64(key)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out[i] = z ^ (z >> np.uint64(31))


@_jit
def below(drawn, bound, half, out):
    """The high half of word times bound; or, with a *half*, from {±1, ..., ±half}."""
    signed = np.int32(1 if half > 0 else 0)
    for i in range(len(drawn)):
        found = np.int32((np.uint64(drawn[i]) * np.uint64(bound)) >> np.uint64(32)) - np.int32(half)
        out[i] = found + (signed if found >= 0 else np.int32(0))


@_jit
def _rounded(values, kind, out):
    """Encodings of float32 numbers, rounded to nearest, ties to even; none of them NaN."""
    bits = values.view(np.uint32)
    if kind == HALF:
        for j in range(len(values)):
            sign, size = (bits[j] >> np.uint32(16)) & _SIGN, bits[j] & np.uint32(0x7FFFFFFF)
            large = (size - _REBIASED + np.uint32(0xFFF) + ((size >> np.uint32(13)) & np.uint32(1))) >> np.uint32(13)
            units = abs(values[j]) * np.float32(2.0**24) + np.float32(2.0**23)  # rounds to a whole number
            small = np.uint32(np.int32(units - np.float32(2.0**23))) if size < _LEAST else np.uint32(0)
            size = small if size < _LEAST else large
            out[j] = sign | (min(_INFINITE, size))
    elif kind == BRAIN:
        for j in range(len(values)):
            out[j] = (bits[j] + np.uint32(0x7FFF) + ((bits[j] >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    else:
        for j in range(len(values)):
            out[j] = bits[j]


@_jit
def _scaled(integers, across, down, values):
    for j in range(len(integers)):
        values[j] = np.float32(integers[j]) * across[j] * down


@_jit
def store(target, stride, kind, integers, across, down):
    """Integers times factors, into a matrix."""
    values = np.empty(_TILE, np.float32)
    count, width = integers.shape
    for i in range(count):
        for low in range(0, width, _TILE):
            high = min(low + _TILE, width)
            _scaled(integers[i, low:high], across[low:high], down[i], values[: high - low])
            _rounded(values[: high - low], kind, target[i * stride + low : i * stride + high])


@_jit
def _looked_up(row, columns, across, down, values):
    for j in range(len(columns)):
        values[j] = np.float32(np.float64(row[columns[j]]) * across[j] * down)


@_jit
def _count_other(codes, wanted, zero):
    """Encodings that are not the same, nor zeros of either sign; *zero*: all bits but the sign."""
    other = 0
    for j in range(len(codes)):
        one, two = np.uint32(codes[j]), np.uint32(wanted[j])
        other += 0 if (one == two) | (((one | two) & zero) == 0) else 1
    return other


@_jit
def other_than_rounded(codes, stride, kind, sums, columns, factors, wanted, first, last):
    """Whether some codes[i, j] of these rows is not sums[i, columns[j]] across[j] down[i], rounded."""
    across, down = factors
    values = np.empty(_TILE, np.float32)
    zero = np.uint32(0x7FFFFFFF if kind == SINGLE else 0x7FFF)
    for i in range(first, last):
        for low in range(0, len(columns), _TILE):
            high = min(low + _TILE, len(columns))
            x = values[: high - low]
            _looked_up(sums[i], columns[low:high], across[low:high], down[i], x)
            _rounded(x, kind, wanted[: high - low])
            if _count_other(codes[i * stride + low : i * stride + high], wanted[: high - low], zero):
                return True
    return False


@_exact
def _nh(one, two, keys, more):
    total = np.uint64(0)
    for i in range(len(one)):
        total += np.uint64(np.uint32(one[i] + keys[i])) * np.uint64(np.uint32(two[i] + more[i]))
    return total


@_jit
def chunk_sums(chunks, keys, out):
    """Of a fingerprint: for each row the sum of products of its two halves, each plus the keys."""
    half = chunks.shape[1] // 2
    for c in range(len(out)):
        out[c] = _nh(chunks[c, :half], chunks[c, half:], keys[:half], keys[half:])


@_exact
def _sum_of_moduli(values):
    total = 0.0
    for j in range(len(values)):
        total += abs(values[j])
    return total


@_jit
def _range(values, scale):
    """Whether a value times scale has a fraction, and the bits of the largest modulus; those of NaN are larger yet."""
    bits, largest, fractions = values.view(np.int64), np.int64(0), np.int64(0)
    for j in range(len(values)):
        largest = max(largest, bits[j] & np.int64(0x7FFFFFFFFFFFFFFF))
        y = abs(values[j]) * scale
        fractions |= np.int64(0) if y - np.floor(y) == 0 else np.int64(1)  # not for infinity
    return fractions, largest


@_jit
def look_over(values, scale, sums):
    """The same of all rows, and the sums of their moduli, unless *sums* is empty."""
    fractions, largest = np.int64(0), np.int64(0)
    for i in range(len(values)):
        here, most = _range(values[i], scale)
        fractions, largest = fractions | here, max(largest, most)
        if len(sums):
            sums[i] = _sum_of_moduli(values[i])
    return fractions, largest


@_jit
def _largest(values):
    """The bits of the largest float32 of which none is negative, or of NaN."""
    bits, largest = values.view(np.int32), np.int32(0)
    for j in range(len(values)):
        largest = max(largest, bits[j])
    return largest


@_jit
def _add_moduli(one, other, scale, out):
    for j in range(len(out)):
        out[j] = np.float32(abs(one[j])) + np.float32(abs(other[j])) * scale


@_jit
def add_moduli(one, other, scale, out):
    """Moduli as float32, and others times scale, added up; the bits of the largest sum."""
    largest = np.int32(0)
    for low in range(0, len(out), _TILE):
        high = min(low + _TILE, len(out))
        _add_moduli(one[low:high], other[low:high], scale, out[low:high])
        largest = max(largest, _largest(out[low:high]))
    return largest


@_jit
def _cumulate_moduli(values, out):
    totals = np.zeros(len(values), np.float32)
    for j in range(values.shape[1]):
        for i in range(len(values)):
            totals[i] += np.float32(abs(values[i, j]))
            out[i, j] = totals[i]


@_jit
def cumulate_moduli(values, out):
    """Running sums of the moduli of each row, as float32: of a few at once, since an addition waits for the last."""
    for low in range(0, len(values), 8):
        _cumulate_moduli(values[low : low + 8], out[low : low + 8])
