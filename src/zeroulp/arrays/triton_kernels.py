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


@triton.jit(do_not_specialize=["m", "n", "rows_stride", "columns_stride", "limit", "share"])
def _sums(
    stored, vectors, out, off, rows, columns, m, n, row_stride, column_stride, rows_stride, columns_stride, limit,
    share, V: tl.constexpr, SCAN: tl.constexpr, DOWN: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """Out[v, i] += sum of stored[i, j] vectors[v, j]; off[i]: one times columns[j] rows[i] is no integer, or large."""
    i = tl.program_id(0) * DOWN + tl.arange(0, DOWN)
    below = i < m
    sum0 = tl.zeros((DOWN,), tl.float64)
    sum1, sum2, sum3 = sum0, sum0, sum0
    wrong = tl.zeros((DOWN,), tl.int32)
    start = stored + i.to(tl.int64)[:, None] * row_stride
    if SCAN:
        row = tl.load(rows + i * rows_stride, mask=below, other=0.0)[:, None]
    first = tl.program_id(1) * share
    last = tl.minimum(first + share, n)
    for low in range(first, last, ACROSS):
        j = low + tl.arange(0, ACROSS)
        within = j < last
        x = tl.load(start + j.to(tl.int64)[None, :] * column_stride, mask=below[:, None] & within[None, :], other=0.0)
        x = x.to(tl.float32)
        if SCAN:  # what becomes zero was too small to be an integer
            y = x * tl.load(columns + j * columns_stride, mask=within, other=0.0)[None, :] * row
            right = (tl.abs(y) <= limit.to(tl.float32)) & (y == tl.floor(y)) & ((y != 0) | (x == 0))
            wrong |= tl.max((~right).to(tl.int32), 1)
        x = x.to(tl.float64)
        sum0 += tl.sum(x * tl.load(vectors + j, mask=within, other=0.0)[None, :], 1)
        if V > 1:
            sum1 += tl.sum(x * tl.load(vectors + n + j, mask=within, other=0.0)[None, :], 1)
        if V > 2:
            sum2 += tl.sum(x * tl.load(vectors + 2 * n + j, mask=within, other=0.0)[None, :], 1)
        if V > 3:
            sum3 += tl.sum(x * tl.load(vectors + 3 * n + j, mask=within, other=0.0)[None, :], 1)
    tl.atomic_add(out + i, sum0, mask=below)  # exact sums have no order
    if V > 1:
        tl.atomic_add(out + m + i, sum1, mask=below)
    if V > 2:
        tl.atomic_add(out + 2 * m + i, sum2, mask=below)
    if V > 3:
        tl.atomic_add(out + 3 * m + i, sum3, mask=below)
    if SCAN:
        tl.atomic_max(off + i, wrong, mask=below)


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
def _compare_looked_up(codes, table, columns, wrong, m, n, width, DOWN: tl.constexpr, ACROSS: tl.constexpr):
    """One in *wrong* if some codes[i, j] is not table[i, columns[j]]."""
    i = (tl.program_id(0) * DOWN + tl.arange(0, DOWN)).to(tl.int64)[:, None]
    j = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    here = (i < m) & (j < n)[None, :]
    column = tl.load(columns + j, mask=j < n, other=0)[None, :]
    expected = tl.load(table + i * width + column, mask=here, other=0)
    actual = tl.load(codes + i * n + j[None, :], mask=here, other=0)
    found = tl.max(tl.max((expected != actual).to(tl.int32), 1), 0)
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


def sums(
    stored: Any, vectors: Any, out: Any, off: Any, rows: tuple[Any, int], columns: tuple[Any, int], limit: int | None
) -> None:
    """Add a matrix times up to four vectors to *out*: (v, n) and (v, m), contiguous."""
    m, n = stored.shape
    down, across = (8, 256) if stored.stride(1) == 1 or stored.stride(0) != 1 else (256, 8)
    programs = triton.cdiv(m, down)
    share = triton.cdiv(triton.cdiv(n, max(1, _PROGRAMS // programs)), across) * across
    strides = (*stored.stride(), rows[1], columns[1])
    scan = off is not None
    _sums[(programs, triton.cdiv(n, share))](
        stored, vectors, out, off if scan else out, rows[0], columns[0], m, n, *strides, int(limit or 0), share,
        V=vectors.shape[0], SCAN=scan, DOWN=down, ACROSS=across,
    )  # fmt: skip


def compare_looked_up(codes: Any, table: Any, columns: Any, wrong: Any) -> None:
    """One in *wrong* if a matrix has other columns than those of a table; contiguous."""
    (m, n), down, across = codes.shape, 16, 256
    _compare_looked_up[(triton.cdiv(m, down), triton.cdiv(n, across))](
        codes, table, columns, wrong, m, n, table.shape[1], DOWN=down, ACROSS=across
    )


def chunk_sums(words: Any, keys: Any, out: Any) -> None:
    """NH of the rows of a matrix, whose width is a multiple of 2,048."""
    _chunk_sums[(words.shape[0],)](words, keys, out, WIDTH=words.shape[1], BLOCK=_BLOCK)
