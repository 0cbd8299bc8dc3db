"""Kernels that are right at a friendly shape and wrong beside it are found from that shape."""

from __future__ import annotations

import numpy as np
import pytest

import zeroulp
from benchmarks.zoo import FAULTY
from zeroulp import Verdict, check_shapes, ragged_shapes

FRIENDLY = zeroulp.Matmul(256, 256, 256, a="float16")
TILES = (8, 16, 32, 64, 128)
ONE_PROBE = {"probes": ["signed"], "trials": 1}  # the default plan has these calls among others, and takes longer


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def whole(size, tile):
    return size // tile * tile


def drops_the_remainder_of_k(tile):
    return lambda a, b: right(a[:, : whole(a.shape[1], tile)], b[: whole(a.shape[1], tile)])


def counts_the_remainder_of_k_twice(tile):
    def kernel(a, b):
        ks = whole(a.shape[1], tile)
        return right(np.hstack([a, a[:, ks:]]), np.vstack([b, b[ks:]]))

    return kernel


def reads_k_up_to_a_whole_tile(tile):
    """Past the end it wraps to the start, as a mask that is forgotten does at the last row."""
    def kernel(a, b):
        ks = np.arange(-(-a.shape[1] // tile) * tile) % a.shape[1]
        return right(a[:, ks], b[ks])

    return kernel


def drops_one_beyond_whole_tiles_of_k(tile):
    """Only a remainder of one is lost."""
    def kernel(a, b):
        k = a.shape[1]
        return right(a[:, : k - (k > tile and k % tile == 1)], b[: k - (k > tile and k % tile == 1)])

    return kernel


def drops_the_remainder_of_k_in_the_fast_path(tile):
    """The fast path is for whole tiles of m and n and vectors of 8; everything else is right."""
    def kernel(a, b):
        (m, k), n = a.shape, b.shape[1]
        if m % 128 or n % 128 or k % 8:
            return right(a, b)
        return drops_the_remainder_of_k(tile)(a, b)

    return kernel


def leaves_columns_unwritten(tile):
    def kernel(a, b, out):
        js = whole(b.shape[1], tile)
        out[:, :js] = right(a, b)[:, :js]

    return kernel


def leaves_rows_unwritten(tile):
    def kernel(a, b, out):
        rows = whole(a.shape[0], tile)
        out[:rows] = right(a, b)[:rows]

    return kernel


def repeats_the_last_tile_of_columns(tile):
    def kernel(a, b):
        js = np.arange(b.shape[1])
        js[whole(len(js), tile) :] -= tile if len(js) > tile else 0
        return right(a, b[:, js])

    return kernel


def assumes_one_tile_of_k(tile):
    """Below one tile of k the pipeline starts with a tile that is not there: nothing is summed."""
    return lambda a, b: right(a, b) * np.float16(a.shape[1] >= tile)


@pytest.mark.parametrize(("fault", "tile"), [
    *((fault, tile) for tile in TILES for fault in (
        drops_the_remainder_of_k, leaves_columns_unwritten, assumes_one_tile_of_k)),
    *((fault, tile) for tile in (16, 128) for fault in (
        drops_one_beyond_whole_tiles_of_k, leaves_rows_unwritten, repeats_the_last_tile_of_columns,
        counts_the_remainder_of_k_twice, reads_k_up_to_a_whole_tile)),
], ids=lambda value: getattr(value, "__name__", str(value)))
def test_tails_of_every_size(fault, tile):
    into = fault in (leaves_columns_unwritten, leaves_rows_unwritten)
    found(fault(tile), kinds={"unwritten-output"} if into else {"wrong-result"}, destination_passing=into)


@pytest.mark.parametrize("tile", TILES[1:])
def test_tails_of_k_where_all_else_is_whole(tile):
    found(drops_the_remainder_of_k_in_the_fast_path(tile))


def test_tails_with_the_default_plan():
    found(drops_the_remainder_of_k(32), probes=None, trials=None)


def found(kernel, *, kinds=frozenset({"wrong-result"}), **options):
    """Right at the friendly shape, wrong at a neighbour, and called what it is."""
    report = check_shapes(kernel, FRIENDLY, seed=1, **{**ONE_PROBE, **options})
    assert report.reports[0].verdict is Verdict.CORRECT
    assert report.verdict is Verdict.INCORRECT
    assert report.telling.problem != FRIENDLY
    assert report.telling.findings[0].kind in kinds, report
    return report.telling.problem


def when(condition, spoil=np.negative):
    """Right, but spoilt where the sizes (m, n, k) are such."""
    def kernel(a, b):
        out = right(a, b)
        return spoil(out) if condition(a.shape[0], b.shape[1], a.shape[1]) else out

    return kernel


CONDITIONS = {
    "m = 1": lambda m, n, k: m == 1,
    "n = 1": lambda m, n, k: n == 1,
    "k = 1": lambda m, n, k: k == 1,
    "m = 1 with whole n and k": lambda m, n, k: m == 1 and n % 64 == 0 and k % 64 == 0,
    "n = 1 with whole m and k": lambda m, n, k: n == 1 and m % 64 == 0 and k % 64 == 0,
    "m up to 8": lambda m, n, k: 1 < m <= 8,
    "m up to 16": lambda m, n, k: 8 < m <= 16,
    "m up to 32": lambda m, n, k: 16 < m <= 32,
    "m up to 64": lambda m, n, k: 32 < m <= 64,
    "n up to 8": lambda m, n, k: 1 < n <= 8,
    "n up to 16": lambda m, n, k: 8 < n <= 16,
    "n up to 64": lambda m, n, k: 32 < n <= 64,
    "n up to 128": lambda m, n, k: 64 < n <= 128,
    "k below 16": lambda m, n, k: k < 16,
    "k below 64": lambda m, n, k: 16 < k < 64,
    "k = 8": lambda m, n, k: k == 8,
    "m < n": lambda m, n, k: m < n,
    "m > n": lambda m, n, k: m > n,
    "m != n": lambda m, n, k: m != n,
    "m much larger than n": lambda m, n, k: m > 16 * n > 16,
    "n much larger than m": lambda m, n, k: n > 16 * m > 16,
    "k much larger than m and n": lambda m, n, k: k > 8 * max(m, n) > 8,
    "k odd, the others whole": lambda m, n, k: k % 2 and m % 64 == n % 64 == 0,
    "n odd, the others whole": lambda m, n, k: n % 2 and m % 64 == k % 64 == 0,
    "m odd, the others whole": lambda m, n, k: m % 2 and n % 64 == k % 64 == 0,
    "n a multiple of 8 alone": lambda m, n, k: n % 16 == 8,
    "n a multiple of 4 alone": lambda m, n, k: n % 8 == 4,
    "k a multiple of 4 alone": lambda m, n, k: k % 8 == 4,
    "k a multiple of 2 alone": lambda m, n, k: k % 4 == 2,
    "all odd": lambda m, n, k: m % 2 and n % 2 and k % 2 and min(m, n, k) > 64,
    "all multiples of 16 with a remainder": lambda m, n, k: m % 16 == n % 16 == k % 16 == 0 and m % 128 and n % 128 and k % 128,
    "both m and n ragged, k whole": lambda m, n, k: m % 8 and n % 8 and k % 64 == 0,
    "more than 256 rows": lambda m, n, k: m > 256,
    "more than 256 columns": lambda m, n, k: n > 256,
    "more than 256 terms": lambda m, n, k: k > 256,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_paths_chosen_by_the_sizes(name):
    """A neighbour has such sizes; it is checked alone, which takes a tenth of the time."""
    at = next(shape for shape in ragged_shapes(FRIENDLY) if CONDITIONS[name](shape.m, shape.n, shape.k))
    assert found(when(CONDITIONS[name]), shapes=[at]) == at


@pytest.mark.parametrize("name", ["m = 1", "m much larger than n", "n a multiple of 4 alone"])
def test_paths_chosen_by_the_sizes_among_all_neighbours(name):
    at = found(when(CONDITIONS[name]))
    assert CONDITIONS[name](at.m, at.n, at.k)


def test_m_and_n_swapped_in_a_bound():
    """The grid has as many tiles of rows as n has, the other way round for columns."""
    def kernel(a, b, out):
        result = right(a, b)
        m, n = result.shape
        out[:n, :m] = result[:n, :m]

    found(kernel, kinds={"unwritten-output"}, destination_passing=True)


def test_m_and_n_swapped_in_a_mask():
    def kernel(a, b):
        out = right(a, b)
        rows, columns = np.indices(out.shape)
        return out * ((rows < out.shape[1]) & (columns < out.shape[0])).astype(a.dtype)

    found(kernel)


def test_the_last_of_a_batch_lost():
    def kernel(a, b):
        out = right(a, b)
        if len(out) % 2:
            out[-1] = out[0] if len(out) > 1 else 0
        return out

    report = check_shapes(kernel, zeroulp.Matmul(32, 32, 32, a="float16", batch=(4,)), seed=1)
    assert report.reports[0].verdict is Verdict.CORRECT
    assert report.verdict is Verdict.INCORRECT
    assert report.telling.problem.batch in ((1,), (3,))


def test_a_kernel_that_refuses_a_shape_is_broken_there():
    def kernel(a, b):
        if a.shape[1] % 64:
            raise ValueError(f"k = {a.shape[1]} is no multiple of 64")
        return right(a, b)

    report = check_shapes(kernel, FRIENDLY, seed=1, **ONE_PROBE)
    assert report.verdict is Verdict.BROKEN
    k = report.telling.problem.k
    assert f"k = {k} is no multiple of 64" in report.telling.reasons[0][0]
    assert f"x {k} (" in str(report).splitlines()[0]
    assert zeroulp.check(kernel, FRIENDLY, seed=1, **ONE_PROBE).verdict is Verdict.CORRECT


RAGGED = [entry for entry in FAULTY if "shapes ragged" in entry.needs]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("entry", RAGGED, ids=lambda entry: entry.name)
def test_the_zoo(entry, seed):
    problem = zeroulp.Matmul(**entry.problem)
    assert zeroulp.check(entry.make(), problem, seed=seed, **entry.options).verdict is Verdict.CORRECT
    report = check_shapes(entry.make(), problem, seed=seed, **entry.options)
    assert report.verdict is Verdict.INCORRECT
    assert report.telling.findings[0].kind in entry.finding


def test_the_zoo_has_such():
    assert len(RAGGED) >= 3
