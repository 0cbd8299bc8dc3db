"""All ways of deciding about a result agree, bit for bit, on host arrays and on tensors."""

from __future__ import annotations

import copy
import importlib.util

import numpy as np
import pytest

from zeroulp import Matmul, encoding, memory
from zeroulp.arrays import HOST, Torch
from zeroulp.arrays.compiled import Compiled
from zeroulp.arrays.fingerprint import fingerprint
from zeroulp.checks import judging
from zeroulp.checks.inputs import blocks_of, draw_inputs
from zeroulp.draw import Field, Part
from zeroulp.exactness import certify
from zeroulp.judge import Matched, judge
from zeroulp.plan import make_plan
from zeroulp.problem import LAYOUTS
from zeroulp.reference import product
from zeroulp.verify import Fed, Verifier
from zeroulp.verify.freivalds import MISS, draw_vectors, size_for

PROBLEMS = [
    Matmul(33, 65, 129, a="float16"),
    Matmul(33, 65, 129, a="float32", transpose_a=True),
    Matmul(9, 7, 300, a="bfloat16", batch=(2, 3), transpose_b=True),
    Matmul(13, 11, 60, a="e4m3", out="float16"),
    Matmul(13, 11, 60, a="float16", alpha=-3, beta=0.5, bias="float16"),
    Matmul(13, 11, 60, a="int8", out="int32", accumulate="int32"),
    Matmul(13, 11, 2100, a="bfloat16", out="float32"),
    Matmul(13, 11, 60, a="float64", accumulate="float64"),
    Matmul(13, 11, 60, a="float16", rounding="ties-either", signed_zero="strict", subnormals="preserve"),
    Matmul(5, 1, 1, a="float16"),
    Matmul(5, 520, 600, a="float16"),
    Matmul(5, 520, 30, a="bfloat16", transpose_b=True),
]


def compiled():
    """numpy with Numba's operations, however small the arrays."""
    arrays = type(HOST)()
    arrays.fused, arrays.block_elements = Compiled(arrays, fewest=1), 1 << 10
    return arrays


def libraries():
    found = [pytest.param(HOST, id="numpy")]
    if importlib.util.find_spec("numba") is None:
        found.append(pytest.param(None, id="numba", marks=pytest.mark.skip(reason="Numba is not installed")))
    else:
        found.append(pytest.param(compiled(), id="numba"))
    try:
        import torch
    except ImportError:
        return [*found, pytest.param(None, id="torch", marks=pytest.mark.skip(reason="PyTorch is not installed"))]
    return [*found, pytest.param(Torch(torch.device("cpu")), id="torch")]


def first_of_each_probe(problem):
    trials = {trial.probe: trial for trial in reversed(make_plan(problem).trials) if trial.based_on is None}
    return list(trials.values())


def stored(inputs, arrays):
    return {o.name: arrays.from_host(encoding.array_of(inputs.codes[o.name], o.format)) for o in inputs.problem.operands}


def spoiled(codes, format_, rng):
    """One wrong bit; a wrong row; two errors that cancel in a sum; noise; NaN and infinity; only the last element wrong."""
    width = 8 * codes.dtype.itemsize
    yield "right", codes
    wrong = codes.copy()
    wrong.reshape(-1)[rng.integers(codes.size)] ^= 1
    yield "one bit", wrong
    wrong = codes.copy()
    wrong[..., rng.integers(codes.shape[-2]), :] ^= rng.integers(0, 3, codes.shape[-1]).astype(codes.dtype)
    yield "one row", wrong
    if codes.shape[-1] > 1:
        wrong = codes.copy()
        wrong[..., 0, 0], wrong[..., 0, 1] = codes[..., 0, 1], codes[..., 0, 0]
        yield "two that cancel", wrong
    wrong = codes.copy()
    wrong[..., -1, -1] ^= 1
    yield "the last one", wrong
    yield "noise", rng.integers(0, 2 ** (width - 1), codes.shape).astype(codes.dtype)
    if format_.has_nan:
        wrong = codes.copy()
        wrong[..., -1, 0] = encoding.nan_code(format_)
        yield "nan", wrong
    if format_.has_infinity:
        wrong = codes.copy()
        wrong[..., 0, -1] = encoding.round_values(np.array([np.inf]), format_)[0]
        yield "infinity", wrong


@pytest.mark.parametrize("arrays", libraries())
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_every_way_comes_to_the_same_outcome(problem, arrays):
    """Freivalds' test in one block and in many, with what it localises, against the dense reference."""
    rng = np.random.default_rng(1)
    verified = 0
    for trial in first_of_each_probe(problem):
        inputs = draw_inputs(problem, trial, 77)
        views = {name: arrays.codes(array) for name, array in stored(inputs, arrays).items()}
        fed = Fed(problem, inputs.family, trial.certificate, arrays, views, inputs.scales, inputs.pool)
        if inputs.overlaid or inputs.family.bounded or not Verifier.can(fed):
            continue
        for what, codes in spoiled(inputs.expected.codes, problem.out_format, rng):
            wanted = judge(codes, inputs.expected, problem.out_format)
            there = arrays.codes(arrays.from_host(encoding.array_of(codes, problem.out_format)))
            for workspace in (2**28, 3000) if problem.k < 100 and trial.probe in ("signed", "wide") else (2**28,):
                found = Verifier(fed, workspace).judge(there)
                assert found == wanted or (found is None and trial.certificate.masked), (trial.probe, what, workspace)
                assert found is not None or what != "right"
                verified += 1
    assert verified > 10


@pytest.mark.parametrize("arrays", libraries())
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_operands_are_drawn_with_the_same_bits_in_any_library_and_in_any_blocks(problem, arrays, monkeypatch):
    for trial in make_plan(problem).trials:
        inputs = draw_inputs(problem, trial, 2**64 - 5)
        whole = stored(inputs, arrays)
        assert all(max(array.shape) for array in whole.values())
        piecewise = copy.copy(arrays)
        piecewise.block_elements = 50
        targets = {name: arrays.copy(array) for name, array in whole.items()}
        for target in targets.values():
            arrays.codes(target)[...] = 0
        inputs.fill(piecewise, targets)
        for name, array in whole.items():
            assert arrays.equal(arrays.codes(array), arrays.codes(targets[name])), (trial.probe, name)
        host = {o.name: encoding.array_of(inputs.codes[o.name], o.format) for o in problem.operands}
        assert all(fingerprint(arrays.codes(targets[name])) == fingerprint(HOST.codes(host[name])) for name in targets)


def test_a_wrong_product_is_not_believed(monkeypatch):
    """Where results round, the fast product is put to the test: a BLAS that errs changes nothing."""
    problem = Matmul(20, 30, 400, a="float16")
    trial = next(t for t in make_plan(problem).trials if t.probe == "wide")
    inputs = draw_inputs(problem, trial, 3)
    views = {name: HOST.codes(array) for name, array in stored(inputs, HOST).items()}

    class Broken(type(HOST)):
        def matmul(self, a, b):
            found = np.matmul(a, b)
            if found.shape[-1] > 20:
                found[3, 4] += 1
            return found

    fed = Fed(problem, inputs.family, trial.certificate, Broken(), views, inputs.scales)
    assert isinstance(Verifier(fed).judge(inputs.expected.codes), Matched)


WRONG = {
    "right": lambda product: product,
    "one wrong": lambda product: np.where(np.arange(product.size).reshape(product.shape) == 5, 1, product),
    "rounded": lambda product: product.astype(np.float16).astype(np.float32),
    "not whole": lambda product: product * np.float32(1 + 2**-20),
    "no number": lambda product: np.full_like(product, np.nan),
    "far too large": lambda product: product + np.float32(2.0**100),
    "not there": lambda _: None,
}


class Multiplying(type(HOST)):
    """A library with a fast product of stored matrices, which nobody vouches for."""

    multiplied = frozenset(("float16", "bfloat16"))

    def __init__(self, how):
        super().__init__()
        self.how, self.calls = how, 0

    def stored_product(self, a, b, format_):
        self.calls += 1
        return self.how(HOST.values(a, format_, "float32") @ HOST.values(b, format_, "float32"))


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize(
    "problem", [Matmul(5, 520, 600, a="float16"), Matmul(30, 65, 700, a="bfloat16", transpose_b=True, alpha=-3)], ids=str
)
def test_a_fast_product_of_what_is_stored_is_not_believed_either(problem, how):
    rng, calls = np.random.default_rng(4), 0
    for trial in first_of_each_probe(problem):
        inputs, arrays = draw_inputs(problem, trial, 3), Multiplying(WRONG[how])
        views = {name: HOST.codes(array) for name, array in stored(inputs, HOST).items()}
        fed = Fed(problem, inputs.family, trial.certificate, arrays, views, inputs.scales, inputs.pool)
        if inputs.overlaid or inputs.family.bounded or not Verifier.can(fed):
            continue
        for what, codes in spoiled(inputs.expected.codes, problem.out_format, rng):
            found = Verifier(fed).judge(codes)
            wanted = judge(codes, inputs.expected, problem.out_format)
            assert found == wanted or (found is None and trial.certificate.masked), (trial.probe, what)
        calls += arrays.calls
    assert calls > 5


def test_vectors_keep_every_sum_exact_and_miss_as_rarely_as_asked():
    for columns in (1, 64, 8192, 16384):
        for largest in (1, 2**11, 2**24, 2**31):
            size = size_for(columns, largest)
            assert columns * size.rho * largest <= 2**53
            assert size.miss <= MISS
    assert size_for(64, 2**53) is None
    size = size_for(4096, 2**24)
    drawn = draw_vectors(HOST, 4096, size)
    assert drawn.shape == (4096, size.vectors)
    assert (drawn == drawn.round()).all()
    assert -size.rho <= drawn.min() < -0.9 * size.rho and 0.9 * size.rho < drawn.max() <= size.rho
    assert drawn.all()


def test_a_small_rho_misses_as_often_as_it_says():
    """With entries from -1 and 0 a difference in two elements of one row is seen half the time."""
    difference = np.array([1.0, -1.0])
    seen = sum(bool(difference @ draw_vectors(HOST, 2, type(size_for(1, 1))(1, 1))) for _ in range(2000))
    assert 900 < seen < 1100


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 2, 3, 4), (5,), (0, 3), (4, 0), (2, 0, 3), (1, 1)])
@pytest.mark.parametrize("most", [1, 5, 9, 13, 1000])
def test_blocks_cover_every_row_once(shape, most):
    array, rows = np.zeros(shape, int), []
    for index, start, stop in blocks_of(shape, most):
        array[index] += 1
        rows += range(start, stop)
        assert array[index].size == (stop - start) * shape[-1]
    assert (array == 1).all()
    assert rows == list(range(int(np.prod(shape[:-1]))))


@pytest.mark.parametrize("arrays", libraries())
def test_any_part_of_a_field_is_that_part_of_the_whole(arrays):
    shape = (3, 5, 7)
    numbers, whole = Field(2**63 + 11), Part.whole(shape, arrays)
    for draw in (lambda part: numbers.signed(5, part), lambda part: numbers.below(8, part), lambda part: numbers.chosen(0.3, part)):
        everything = arrays.to_host(draw(whole))
        assert everything.shape == (15, 7)
        rows, columns = np.array([14, 0, 3, 3]), np.array([6, 0, 1])
        picked = draw(whole.at(arrays.from_host(rows), arrays.from_host(columns)))
        assert np.array_equal(arrays.to_host(picked), everything[np.ix_(rows, columns)])
        assert np.array_equal(arrays.to_host(draw(whole.between(4, 9))), everything[4:9])


def test_plain_and_fast_products_agree():
    rng = np.random.default_rng(2)
    a, b = rng.integers(-9, 9, (4, 50)), rng.integers(-9, 9, (50, 6))
    assert np.array_equal(product.exact_product(a, b, 50 * 81), product.plain_product(a, b))


def test_the_certificate_bounds_what_is_multiplied():
    for problem in PROBLEMS:
        for trial in first_of_each_probe(problem):
            inputs = draw_inputs(problem, trial, 5)
            fed = Fed(problem, inputs.family, trial.certificate, HOST, {})
            assert certify(problem, inputs.family, declared=True).largest_sum >= fed.largest_product or problem.k == 0


@pytest.mark.parametrize("problem", [
    Matmul(40, 70, 90, a="float16"), Matmul(40, 70, 90, a="float16", transpose_a=True, transpose_b=True, nonfinite="ieee"),
    Matmul(30, 50, 129, a="bfloat16", transpose_b=True), Matmul(40, 60, 70, a="float32", subnormals="preserve"),
    Matmul(40, 60, 70, a="float16", beta=0.5, alpha=-1), Matmul(20, 600, 70, a="e5m2", out="float16"),
], ids=str)
@pytest.mark.parametrize("arrays", libraries())
def test_large_problems_are_judged_as_small_ones_are(problem, arrays, monkeypatch):
    """Special values by rows and columns, ordinary numbers by a sample: never another verdict than in full."""
    monkeypatch.setattr(judging, "SMALL", 0)
    rng = np.random.default_rng(3)
    for trial in make_plan(problem, probes=["specials", "real"]).trials:
        inputs = draw_inputs(problem, trial, 5)
        regions, size = memory.arrange([(o, LAYOUTS["contiguous"]) for o in problem.operands])
        block = arrays.from_host(np.zeros(size, np.uint8))
        inputs.fill(arrays, {region.name: memory.view(block, region) for region in regions})
        for what, codes in spoiled(inputs.expected.codes, problem.out_format, rng):
            wanted = judge(codes, inputs.expected, problem.out_format)
            there = arrays.codes(arrays.from_host(encoding.array_of(codes, problem.out_format)))
            found = judging.Judge(2**28, "verified").outcome(inputs, block, regions, there)
            if trial.probe == "real" and what not in ("right", "noise"):
                continue  # one bit may lie within the bound, and outside of the sample
            assert type(found) is type(wanted), (trial.settings, what, found, wanted)
            if trial.probe == "specials":
                assert found == wanted, (trial.settings, what)


def test_part_of_the_operands_is_that_part():
    for problem in (Matmul(9, 7, 11, a="float16", batch=(2, 3), transpose_a=True, beta=1, bias="float16"), Matmul(9, 7, 11, a="float32")):
        trial = make_plan(problem).trials[0]
        inputs = draw_inputs(problem, trial, 5)
        rows, columns, entry = np.array([8, 0, 3]), np.array([6, 2]), (1, 2) if problem.batch else ()
        smaller, drawn = inputs.part(entry, rows, columns)
        whole = {name: array if name == "bias" else array[entry] for name, array in inputs.integers.items()}
        assert (smaller.m, smaller.n, smaller.batch) == (3, 2, ())
        assert np.array_equal(drawn["a"], whole["a"][:, rows] if problem.transpose_a else whole["a"][rows])
        assert np.array_equal(drawn["b"], whole["b"][:, columns])
        if "c" in whole:
            assert np.array_equal(drawn["c"], whole["c"][np.ix_(rows, columns)])
            assert np.array_equal(drawn["bias"], whole["bias"][columns])
