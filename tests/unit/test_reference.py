"""The exact product in every branch, and the expected bits against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.laws.arithmetic import power, rounded, store_of
from zeroulp import Matmul, encoding
from zeroulp.exactness import Family, Lattice, certify
from zeroulp.reference import exact_product, expected_result
from zeroulp.reference.product import is_product


def whole(magnitude, shape, seed=0):
    return np.random.default_rng(seed).integers(-magnitude, magnitude, shape, endpoint=True)


def python_product(a, b):
    return [[sum(int(x) * int(y) for x, y in zip(row, column)) for column in b.T] for row in a]


@pytest.mark.parametrize(("magnitude", "branch"), [(100, 2**24), (2**20, 2**53), (2**25, 2**62)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_products_are_exact_in_every_branch(magnitude, branch, dtype):
    a, b = whole(magnitude, (9, 30)).astype(dtype), whole(magnitude, (30, 7), 1).astype(dtype)
    bound = 30 * magnitude**2
    assert bound <= branch
    product = exact_product(a, b, bound)
    assert product.dtype == np.int64
    assert product.tolist() == python_product(a, b)


@pytest.mark.parametrize("bound", [2**24, 2**53])
def test_the_largest_sums_of_a_branch_are_exact(bound):
    """All terms alike, so that the sum reaches the bound, and one less."""
    k, half = 4, bound // 4
    a, b = np.full((1, k), 2 ** (half.bit_length() // 2)), np.full((k, 1), half // 2 ** (half.bit_length() // 2))
    assert exact_product(a, b, bound).item() == bound
    a = np.hstack([a, [[1]]])
    b = np.vstack([b, [[-1]]])
    assert exact_product(a, b, bound).item() == bound - 1


@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 4, 5)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((3, 2), (2, 0)), ((2, 2, 1, 3), (2, 2, 3, 1))])
def test_batches_and_empty_products(shapes):
    a, b = whole(9, shapes[0]), whole(9, shapes[1])
    product = exact_product(a, b, 1000)
    assert product.dtype == np.int64
    assert np.array_equal(product, a @ b)


def test_operands_of_stride_zero():
    a = np.broadcast_to(whole(9, (1, 5)), (4, 5))
    b = whole(9, (5, 3))
    assert np.array_equal(exact_product(a, b, 1000), a @ b)


@pytest.mark.parametrize("error", [1, -1, 2, 2**20, -(2**40)])
def test_any_single_wrong_element_is_rejected(error):
    a, b = whole(100, (5, 9)), whole(100, (9, 4))
    right = a @ b
    assert is_product(right, a, b)
    for i in range(5):
        for j in range(4):
            wrong = right.copy()
            wrong[i, j] += error
            assert not is_product(wrong, a, b)


def test_errors_that_cancel_in_sums_are_rejected():
    a, b = whole(100, (5, 9)), whole(100, (9, 4))
    for wrong in ((a @ b)[::-1], np.roll(a @ b, 1, axis=1), (a @ b) + np.array([1, -1, 0, 0]), 0 * (a @ b), (a @ b) * 2):
        assert not is_product(np.ascontiguousarray(wrong), a, b)


def test_one_wrong_matrix_of_a_batch_is_rejected():
    a, b = whole(100, (3, 5, 9)), whole(100, (3, 9, 4))
    wrong = a @ b
    assert is_product(wrong, a, b)
    wrong[1, 2, 3] += 1
    assert not is_product(wrong, a, b)


@pytest.mark.parametrize("bound", [2**24, 2**53])
@pytest.mark.parametrize("damage", [lambda out: out + (np.indices(out.shape).sum(axis=0) == 3), lambda out: 0 * out, lambda out: out * 1.5,
                                    lambda out: out + 2.0**40, lambda out: out * np.nan, lambda out: out + np.inf,
                                    lambda out: out - 2.0**63])
def test_a_wrong_blas_is_caught_and_not_used(monkeypatch, bound, damage):
    matmul, calls = np.matmul, []

    def wrong(a, b, *rest, **options):
        result = matmul(a, b, *rest, **options)
        if result.dtype.kind != "f":
            return result
        calls.append(1)
        return damage(result)

    a, b = whole(100, (6, 9)), whole(100, (9, 5))
    expected = a @ b
    monkeypatch.setattr(np, "matmul", wrong)
    assert np.array_equal(exact_product(a, b, bound), expected)
    assert calls


def test_not_a_number_where_zero_belongs_is_caught_every_time(monkeypatch):
    """As an integer it would be -2^63, which half of all test vectors modulo 2^64 cannot tell from 0."""
    matmul = np.matmul
    monkeypatch.setattr(np, "matmul", lambda a, b: matmul(a, b) * (np.nan if a.dtype.kind == "f" else 1))
    a, b = np.array([[1, 1]]), np.array([[1], [-1]])
    assert [exact_product(a, b, 2).item() for _ in range(50)] == [0] * 50


PROBLEMS = [
    dict(a="float16"), dict(a="bfloat16"), dict(a="float16", out="float32"), dict(a="float32", out="bfloat16"),
    dict(a="float16", alpha=0.5), dict(a="float16", alpha=-3.0), dict(a="bfloat16", alpha=2.0**-7, beta=3.0),
    dict(a="float16", beta=-0.25), dict(a="float16", bias="float32"), dict(a="float16", alpha=5.0, beta=0.5, bias="bfloat16"),
    dict(a="float16", transpose_a=True), dict(a="float16", transpose_b=True, transpose_a=True, beta=1.0), dict(a="float16", batch=(2, 2), bias="float16"),
    dict(a="e4m3", out="e4m3"), dict(a="e5m2", out="float16"), dict(a="fp4", out="float16"), dict(a="int8"), dict(a="int8", out="float16"),
]


def drawn(fields, size=40, seed=0, k=6):
    """A problem with elements of up to *size* quanta, its family and certificate."""
    problem = Matmul(5, 4, k, **fields)
    narrow = {"e4m3": 8, "e5m2": 4, "fp4": 2}.get(fields["a"], size)
    exponent = 0 if fields["a"] == "int8" else -3 if problem.out_format.bits > 8 and narrow == size else 0
    own = 2 * exponent + {0.5: -1, 2.0**-7: -7}.get(problem.alpha, 0)
    family = Family(Lattice(narrow, exponent), Lattice(narrow, exponent), k, Lattice(2, own + 2) if problem.beta else None,
                    Lattice(3, own) if problem.bias else None)
    certificate = certify(problem, family, declared=True)
    assert certificate.holds, certificate.reason
    integers = {o.name: whole(family.lattices()[o.name].magnitude, o.shape, seed + i) for i, o in enumerate(problem.operands)}
    return problem, family, certificate, integers


def exact_results(problem, family, integers):
    """alpha a b + beta c + bias as fractions, by three loops."""
    values = {name: np.array([int(x) * power(family.lattices()[name].exponent) for x in elements.ravel()], object).reshape(elements.shape)
              for name, elements in integers.items()}
    a, b = values["a"], values["b"]
    a = np.swapaxes(a, -1, -2) if problem.transpose_a else a
    b = np.swapaxes(b, -1, -2) if problem.transpose_b else b
    for index in np.ndindex(problem.output.shape):
        *batch, i, j = index
        total = Fraction(problem.alpha) * sum((a[(*batch, i, k)] * b[(*batch, k, j)] for k in range(problem.k)), Fraction(0))
        if problem.beta:
            total += Fraction(problem.beta) * values["c"][index]
        if problem.bias:
            total += values["bias"][j]
        yield index, total


@pytest.mark.parametrize("fields", PROBLEMS, ids=str)
def test_expected_bits_are_the_exact_result_rounded_once(fields):
    problem, family, certificate, integers = drawn(fields)
    expected = expected_result(problem, family, certificate, integers)
    assert expected.compared is None and expected.also == () and expected.zero_sign is None and expected.share_compared == 1
    values = encoding.decode(expected.codes, problem.out_format)
    some_rounds = False
    for index, exact in exact_results(problem, family, integers):
        assert Fraction(float(values[index])) == rounded(exact, store_of(problem.out_format))
        some_rounds |= Fraction(float(values[index])) != exact
    assert some_rounds <= expected.rounded


def test_some_of_these_results_round():
    problem, family, certificate, integers = drawn(dict(a="bfloat16"))
    expected = expected_result(problem, family, certificate, integers)
    values = encoding.decode(expected.codes, problem.out_format)
    assert any(Fraction(float(values[index])) != exact for index, exact in exact_results(problem, family, integers))


def test_ties_either_allows_both_neighbours_at_a_tie_and_nothing_else():
    problem, family, certificate, integers = drawn(dict(a="bfloat16", rounding="ties-either"), seed=5)
    expected = expected_result(problem, family, certificate, integers)
    values = [encoding.decode(codes, problem.out_format) for codes in (*expected.also, expected.codes)]
    store, ties = store_of(problem.out_format), 0
    for index, exact in exact_results(problem, family, integers):
        low, high, middle = (Fraction(float(x[index])) for x in values)
        down, up = rounded(exact, store, "down"), rounded(exact, store, "up")
        if exact - down == up - exact != 0:
            assert (low, high) == (down, up)
            ties += 1
        else:
            assert low == high == middle == rounded(exact, store)
    assert ties > 0


def test_an_exact_result_has_no_ties():
    problem, family, certificate, integers = drawn(dict(a="float16", rounding="ties-either"), size=8)
    assert certificate.theorem == "any-order"
    assert expected_result(problem, family, certificate, integers).also == ()


def test_masked_positions_are_those_whose_sum_of_moduli_exceeds_the_budget():
    problem = Matmul(30, 30, 600, a="bfloat16", bias="bfloat16")
    family = Family(Lattice(1), Lattice(1), 600, bias=Lattice(1), masked=True)
    certificate = certify(problem, family, declared=True)
    rng = np.random.default_rng(1)
    integers = {"a": rng.integers(0, 2, (30, 600)), "b": -(rng.random((600, 30)) < 0.84).astype(int), "bias": rng.integers(0, 2, 30)}
    expected = expected_result(problem, family, certificate, integers)
    moduli = abs(integers["a"] @ integers["b"]) + integers["bias"]
    assert np.array_equal(expected.compared, moduli <= 256)
    assert expected.share_compared == np.mean(moduli <= 256)
    assert 0.2 < expected.share_compared < 0.8


def test_the_sign_of_a_zero_is_determined_where_something_was_added_up():
    problem = Matmul(1, 3, 2, a="float16", signed_zero="strict")
    family = Family(Lattice(1), Lattice(1), 2)
    integers = {"a": np.array([[1, -1]]), "b": np.array([[1, 0, 1], [1, 0, 0]])}
    expected = expected_result(problem, family, certify(problem, family, declared=True), integers)
    assert expected.codes.tolist() == [[0, 0, 0x3C00]]
    assert expected.zero_sign.tolist() == [[True, False, True]]


@pytest.mark.parametrize(("bound", "kind"), [(2**24, "float32"), (2**24 + 1, "float64"), (2**53, "float64"), (2**53 + 1, "int64")])
def test_the_narrowest_exact_precision_is_used(monkeypatch, bound, kind):
    matmul, used = np.matmul, []

    def recording(a, b):
        used.append(a.dtype.name)
        return matmul(a, b)

    monkeypatch.setattr(np, "matmul", recording)
    exact_product(whole(9, (3, 4)), whole(9, (4, 2)), bound)
    assert used[0] == kind
