"""Correct kernels that do unusual but legal things between and within calls are not accused."""

from __future__ import annotations

import threading
import time
import weakref

import numpy as np
import pytest

import zeroulp
from zeroulp.report import Verdict

PROBLEM = zeroulp.Matmul(9, 10, 33, a="float16")
SEEDS = range(4)


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def address(x):
    return x.__array_interface__["data"][0]


def workspace_reused():
    """Partial sums in a workspace that outlives the call and is written before it is read."""
    workspace = np.empty((2, 9, 10), np.float32)

    def kernel(a, b):
        wide = a.astype(np.float32), b.astype(np.float32)
        workspace[0] = wide[0][:, :16] @ wide[1][:16]
        workspace[1] = wide[0][:, 16:] @ wide[1][16:]
        return workspace.sum(0).astype(a.dtype)

    return kernel


def workspace_allocated_late():
    """A workspace that the third call allocates and later ones find."""
    kept = []

    def kernel(a, b):
        kept.append(np.empty((9, 10), np.float32))
        space = kept[min(2, len(kept) - 1)]
        space[...] = a.astype(np.float32) @ b.astype(np.float32)
        return space.astype(a.dtype)

    return kernel


def result_is_a_view():
    """The result is a transposed view of what was computed, of a larger array."""

    def kernel(a, b):
        padded = np.full((16, 12), np.nan, a.dtype)
        padded[:10, :9] = right(a, b).T
        return padded[:10, :9].T

    return kernel


def result_with_reversed_rows():
    """Negative strides."""

    def kernel(a, b):
        return np.ascontiguousarray(right(a, b)[::-1])[::-1]

    return kernel


def results_from_a_pool():
    """Buffers are used again once nobody holds the array that was returned."""
    free, made = [], []

    def kernel(a, b):
        if free:
            buffer = free.pop()
        else:
            made.append(buffer := np.empty((9, 10), np.float16))
        buffer[...] = right(a, b)
        result = buffer.view()
        weakref.finalize(result, free.append, buffer)
        return result

    return kernel


def weights_packed_by_content():
    """b is packed once for each content: the whole of it is the key."""
    packed = {}

    def kernel(a, b):
        return right(a, packed.setdefault((b.shape, b.tobytes()), b.copy()))

    return kernel


def weights_packed_and_compared():
    """b is packed by address, and the copy is used only if b is still what was packed."""
    packed = {}

    def kernel(a, b):
        kept = packed.get(address(b))
        if kept is None or not np.array_equal(kept, b):
            kept = packed[address(b)] = b.copy()
        return right(a, kept)

    return kernel


def results_cached_by_content():
    """Every result is kept, and a copy of it returned for the same operands."""
    results = {}

    def kernel(a, b):
        return results.setdefault((a.tobytes(), b.tobytes()), right(a, b)).copy()

    return kernel


def threads_joined():
    """Rows are computed by threads that end before the call does."""

    def kernel(a, b):
        out = np.empty((9, 10), a.dtype)

        def rows(start):
            time.sleep(0.0005)
            with np.errstate(all="ignore"):  # infinities of both signs: NaN, and a warning of its own in each thread
                out[start::3] = right(a[start::3], b)

        threads = [threading.Thread(target=rows, args=(start,)) for start in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return out

    return kernel


def tuned_on_copies():
    """The first call tries three ways on copies of its operands, and takes its time."""
    best = []

    def kernel(a, b):
        if not best:
            ways = [right, lambda a, b: right(b.T, a.T).T, lambda a, b: np.stack([right(row[None], b)[0] for row in a])]
            for way in ways:
                way(a.copy(), b.copy())
            time.sleep(0.01)
            best.append(ways[1])
        return best[0](a, b)

    return kernel


def other_order_each_call():
    """Split over k in another number of pieces at every call, as an autotuner may choose."""
    calls = []

    def kernel(a, b):
        calls.append(1)
        pieces = np.array_split(np.arange(a.shape[1]), 1 + len(calls) % 5)
        wide = a.astype(np.float32), b.astype(np.float32)
        return sum(wide[0][:, ks] @ wide[1][ks] for ks in pieces).astype(a.dtype)

    return kernel


def inputs_used_and_put_back():
    """An operand is negated in place and restored before the call ends."""

    def kernel(a, b):
        kept = a.copy()
        a *= -1
        out = (-(a.astype(np.float32) @ b.astype(np.float32))).astype(a.dtype)
        a[...] = kept
        return out

    return kernel


RETURNING = [
    workspace_reused, workspace_allocated_late, result_is_a_view, result_with_reversed_rows, results_from_a_pool,
    weights_packed_by_content, weights_packed_and_compared, results_cached_by_content, threads_joined, tuned_on_copies,
    other_order_each_call, inputs_used_and_put_back,
]  # fmt: skip


@pytest.mark.parametrize("make", RETURNING, ids=lambda make: make.__name__)
def test_an_unusual_kernel_is_correct(make):
    for seed in SEEDS:
        report = zeroulp.check(make(), PROBLEM, seed=seed)
        assert report.verdict is Verdict.CORRECT, str(report)


@pytest.mark.parametrize("layouts", ["contiguous", "any"])
@pytest.mark.parametrize("make", [workspace_reused, weights_packed_by_content, other_order_each_call], ids=lambda make: make.__name__)
def test_an_unusual_kernel_is_correct_when_called_many_times(make, layouts):
    problem = PROBLEM.replace(layouts=layouts)
    assert zeroulp.check(make(), problem, seed=0, race_rate=0.2).verdict is Verdict.CORRECT


def zeroed_then_added_to(a, b, out):
    out[...] = 0
    out += right(a, b)


def zeroed_by_multiplication_of_a_copy(a, b, out):
    out[...] = np.where(True, right(a, b), out)


def written_twice(a, b, out):
    out[...] = 7
    out[...] = right(a, b)


def written_by_columns(a, b, out):
    for j in range(out.shape[1]):
        out[:, j] = right(a, b[:, j : j + 1])[:, 0]


WRITING = [zeroed_then_added_to, zeroed_by_multiplication_of_a_copy, written_twice, written_by_columns]


@pytest.mark.parametrize("a", ["float16", "bfloat16", "float32", "e4m3", "e4m3fnuz", "e5m2", "int8"])
@pytest.mark.parametrize("kernel", WRITING, ids=lambda kernel: kernel.__name__)
def test_what_stands_in_the_output_makes_no_correct_kernel_wrong(kernel, a):
    if a == "int8":
        problem = zeroulp.Matmul(9, 10, 33, a=a)
        wide = lambda a, b, out: out.__setitem__(..., a.astype(np.int32) @ b.astype(np.int32))
        assert zeroulp.check(wide, problem, seed=0, destination_passing=True).verdict is Verdict.CORRECT
        return
    problem = zeroulp.Matmul(9, 10, 33, a=a)
    for seed in SEEDS:
        report = zeroulp.check(kernel, problem, seed=seed, destination_passing=True)
        assert report.verdict is Verdict.CORRECT, str(report)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 2), (2, 1, 1), (1, 9, 3), (2, 2, 2), (3, 3, 3), (0, 3, 4), (3, 4, 0), (5, 4, 9000)])
@pytest.mark.parametrize("a", ["float16", "bfloat16"])
def test_small_empty_and_long_problems_are_changed_and_moved_too(shape, a):
    for layouts in ("contiguous", "any", "broadcast"):
        report = zeroulp.check(right, zeroulp.Matmul(*shape, a=a, layouts=layouts), seed=1)
        assert not report.findings, str(report)


def test_a_worker_keeps_results_too():
    report = zeroulp.check(right, PROBLEM, seed=1, isolation="process")
    assert report.verdict is Verdict.CORRECT, str(report)
