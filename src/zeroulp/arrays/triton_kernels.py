"""Triton's kernels for `zeroulp.arrays.fused`: each one pass over memory. Importing this takes Triton."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

_BLOCK = 1024
_PROGRAMS = 1024  # that keep a device busy


@triton.jit(do_not_specialize=["key", "first", "count", "bound", "half", "width"])
def _integers(out, indices, width, key, first, count, bound, half, PLACES: tl.constexpr, BLOCK: tl.constexpr):
    """SplitMix64 at word // 2 + 1, the half of it that is the word, and the high half of its product with bound."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = i < count
    if PLACES == 2:
        row = i // width
        word = tl.load(indices + row, mask=here, other=0) * width + (i - row * width)
    elif PLACES == 1:
        word = tl.load(indices + i, mask=here, other=0)
    else:
        word = first.to(tl.int64) + i
    z = ((word >> 1) + 1).to(tl.uint64) * 0x9E3779B97F4A7C15 + key.to(tl.int64).to(tl.uint64)
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)
    z = (z >> ((word & 1) * 32).to(tl.uint64)) & 0xFFFFFFFF
    drawn = ((z * bound.to(tl.int64).to(tl.uint64)) >> 32).to(tl.int64)
    drawn -= half.to(tl.int64)
    drawn += ((half > 0) & (drawn >= 0)).to(tl.int64)
    tl.store(out + i, drawn.to(tl.int32), mask=here)


@triton.jit(do_not_specialize=["count", "width", "row_stride", "column_stride", "rows_stride", "columns_stride"])
def _store(
    target,
    integers,
    rows,
    columns,
    count,
    width,
    row_stride,
    column_stride,
    rows_stride,
    columns_stride,
    BLOCK: tl.constexpr,
):
    """target[i, j] = integers[i, j] * columns[j] * rows[i]."""
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = e < count
    i = e // width
    j = e - i * width
    value = tl.load(integers + e, mask=here, other=0).to(tl.float32)
    value *= tl.load(columns + j * columns_stride, mask=here, other=0.0)
    value *= tl.load(rows + i * rows_stride, mask=here, other=0.0)
    tl.store(
        target + i.to(tl.int64) * row_stride + j.to(tl.int64) * column_stride,
        value.to(target.dtype.element_ty),
        mask=here,
    )


@triton.jit(do_not_specialize=["m", "n", "row", "column", "limit", "share"])
def _sums(
    stored, vectors, out, off, rows, columns, row, column, m, n, row_stride, column_stride, limit, share,
    V: tl.constexpr, SCAN: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DOWN: tl.constexpr,
    ACROSS: tl.constexpr,
):  # fmt: skip
    """Out[v, i] += sum of stored[i, j] vectors[v, j]; off[i]: one times columns[j] rows[i] is no integer, or large."""
    i = tl.program_id(0) * DOWN + tl.arange(0, DOWN)
    below = i < m
    sum0 = tl.zeros((DOWN, ACROSS), tl.float64)  # summed up across at the very end: that takes other threads
    sum1, sum2, sum3 = sum0, sum0, sum0
    wrong = tl.zeros((DOWN, ACROSS), tl.int32)
    start = stored + i.to(tl.int64)[:, None] * row_stride
    down = row
    if ROWS:
        down = tl.load(rows + i, mask=below, other=0.0)[:, None]
    first = tl.program_id(1) * share
    last = tl.minimum(first + share, n)
    for low in range(first, last, ACROSS):
        j = low + tl.arange(0, ACROSS)
        within = j < last
        x = tl.load(start + j.to(tl.int64)[None, :] * column_stride, mask=below[:, None] & within[None, :], other=0.0)
        x = x.to(tl.float32)
        if SCAN:  # what becomes zero was too small to be an integer
            y = x * down
            if COLUMNS:
                y *= tl.load(columns + j, mask=within, other=0.0)[None, :]
            else:
                y *= column
            right = (tl.abs(y) <= limit) & (y == tl.floor(y)) & ((y != 0) | (x == 0))
            wrong |= (~right).to(tl.int32)
        x = x.to(tl.float64)
        sum0 += x * tl.load(vectors + j, mask=within, other=0.0)[None, :]
        if V > 1:
            sum1 += x * tl.load(vectors + n + j, mask=within, other=0.0)[None, :]
        if V > 2:
            sum2 += x * tl.load(vectors + 2 * n + j, mask=within, other=0.0)[None, :]
        if V > 3:
            sum3 += x * tl.load(vectors + 3 * n + j, mask=within, other=0.0)[None, :]
    tl.atomic_add(out + i, tl.sum(sum0, 1), mask=below)  # exact sums have no order
    if V > 1:
        tl.atomic_add(out + m + i, tl.sum(sum1, 1), mask=below)
    if V > 2:
        tl.atomic_add(out + 2 * m + i, tl.sum(sum2, 1), mask=below)
    if V > 3:
        tl.atomic_add(out + 3 * m + i, tl.sum(sum3, 1), mask=below)
    if SCAN:
        tl.atomic_max(off + i, tl.max(wrong, 1), mask=below)


@triton.jit
def _chunk_sums(words, keys, out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Sum up, for each chunk c, all (words[c, i] + keys[i]) (words[c, i + half] + keys[i + half]), all unsigned."""
    chunk = words + tl.program_id(0).to(tl.int64) * WIDTH
    summed = tl.zeros((BLOCK,), tl.uint64)
    for low in range(0, WIDTH // 2, BLOCK):
        i = low + tl.arange(0, BLOCK)
        first = (tl.load(chunk + i) + tl.load(keys + i)).to(tl.uint32, bitcast=True)
        i += WIDTH // 2
        second = (tl.load(chunk + i) + tl.load(keys + i)).to(tl.uint32, bitcast=True)
        summed += first.to(tl.uint64) * second.to(tl.uint64)
    tl.store(out + tl.program_id(0), tl.sum(summed, 0).to(tl.int64))


@triton.jit(do_not_specialize=["m", "n"])
def _compare_rounded(
    stored, sums, columns, down, across, wrong, m, n, width,
    ROWS: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """One in *wrong* if some stored[i, j] is not sums[i, columns[j]] across[j] down[i], rounded."""
    i = (tl.program_id(0) * DOWN + tl.arange(0, DOWN)).to(tl.int64)
    j = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    here = (i < m)[:, None] & (j < n)[None, :]
    column = tl.load(columns + j, mask=j < n, other=0)[None, :]
    value = tl.load(sums + i[:, None] * width + column, mask=here, other=0.0).to(tl.float64)
    value *= tl.load(across + j, mask=j < n, other=0.0)[None, :]
    if ROWS:
        value *= tl.load(down + i, mask=i < m, other=0.0)[:, None]
    expected = value.to(tl.float32).to(stored.dtype.element_ty).to(tl.float32)
    actual = tl.load(stored + i[:, None] * n + j[None, :], mask=here, other=0.0).to(tl.float32)
    found = tl.max(tl.max((~(expected == actual)).to(tl.int32), 1), 0)
    if found != 0:
        tl.atomic_max(wrong, 1)


def integers(out: Any, indices: Any, width: int, key: int, first: int, bound: int, half: int) -> None:
    """Integers of a stream at the words from *first* on, or at *indices*, or at those of whole rows of a *width*."""
    count, places = out.numel(), 0 if indices is None else 2 if width else 1
    here = out if indices is None else indices
    _integers[(triton.cdiv(count, _BLOCK),)](
        out, here, width, key, first, count, bound, half, PLACES=places, BLOCK=_BLOCK
    )


def store(target: Any, whole: Any, rows: tuple[Any, int], columns: tuple[Any, int]) -> None:
    """Integers times factors, into a matrix."""
    count, width = target.numel(), target.shape[1]
    grid, strides = (triton.cdiv(count, _BLOCK),), target.stride()
    _store[grid](target, whole, rows[0], columns[0], count, width, *strides, rows[1], columns[1], BLOCK=_BLOCK)


def sums(stored: Any, vectors: Any, out: Any, off: Any, rows: Any, columns: Any, limit: int | None) -> None:
    """
    Add a matrix times up to four vectors to *out*: (v, n) and (v, m), contiguous.

    *rows* and *columns*, by which elements are multiplied before they are looked at: a number, or contiguous float32.
    """
    m, n = stored.shape
    down, across, warps = (8, 128, 4) if stored.stride(1) == 1 or stored.stride(0) != 1 else (64, 8, 2)
    programs = triton.cdiv(m, down)
    share = triton.cdiv(triton.cdiv(n, max(1, _PROGRAMS // programs)), across) * across
    scan, each_row, each_column = off is not None, not isinstance(rows, float), not isinstance(columns, float)
    _sums[(programs, triton.cdiv(n, share))](
        stored, vectors, out, off if scan else out, rows if each_row else out, columns if each_column else out,
        1.0 if each_row else rows, 1.0 if each_column else columns, m, n, *stored.stride(), float(limit or 0), share,
        V=vectors.shape[0], SCAN=scan, ROWS=scan and each_row, COLUMNS=scan and each_column, DOWN=down,
        ACROSS=across, num_warps=warps,
    )  # fmt: skip


def compare_rounded(stored: Any, sums: Any, columns: Any, down: Any, across: Any, wrong: Any) -> None:
    """One in *wrong* if a matrix is not what columns of sums times powers of two round to; contiguous."""
    (m, n), each_row = stored.shape, not isinstance(down, float)
    _compare_rounded[(triton.cdiv(m, 16), triton.cdiv(n, 256))](
        stored, sums, columns, down if each_row else across, across, wrong, m, n, sums.shape[1],
        ROWS=each_row, DOWN=16, ACROSS=256,
    )  # fmt: skip


def chunk_sums(words: Any, keys: Any, out: Any) -> None:
    """NH of the rows of a matrix, whose width is a multiple of 2,048."""
    _chunk_sums[(words.shape[0],)](words, keys, out, WIDTH=words.shape[1], BLOCK=_BLOCK)
