"""From differences to a clause: each hypothesis on operands it fits, and none where none fits."""

from __future__ import annotations

import numpy as np
import pytest

from zeroulp import Matmul, encoding
from zeroulp.diagnose import Case, explain, explain_clamp, explain_fractions, fitting_roundings, whereabouts
from zeroulp.exactness import Family, Lattice, certify
from zeroulp.judge import Tally

M, N, K = 6, 5, 40


def case_of(formula, *, rest_formula=lambda rest: rest, where=None, seed=0, size=8, k=K, exponent=0, finer=0, **fields):
    """A kernel that computes formula(a, b) + rest, rounded once, at the positions *where* (default: all)."""
    problem = Matmul(M, N, k, **{"a": "float16", **fields})
    own = 2 * exponent
    family = Family(Lattice(size, exponent), Lattice(size, exponent), k, Lattice(2, own) if problem.beta else None,
                    Lattice(2, own) if problem.bias else None)
    certificate = certify(problem, family, declared=True)
    assert certificate.holds
    rng = np.random.default_rng(seed)
    signed = lambda most, shape: rng.integers(1, most, shape, endpoint=True) * rng.choice((-1, 1), shape)
    integers = {o.name: signed(family.lattices()[o.name].magnitude, o.shape) for o in problem.operands}
    a, b = integers["a"], integers["b"]
    wide_a = np.swapaxes(a, -1, -2) if problem.transpose_a else a
    wide_b = np.swapaxes(b, -1, -2) if problem.transpose_b else b
    rest = 0
    if problem.beta:
        rest = rest + integers["c"]
    if problem.bias:
        rest = rest + integers["bias"]
    total = wide_a @ wide_b + rest
    wrong_total = formula(wide_a, wide_b) + rest_formula(rest)
    if where is not None:
        wrong_total = np.where(where, wrong_total, total)
    codes = [
        encoding.round_integers(np.asarray(x, np.int64), e, problem.out_format) for x, e in ((wrong_total, own - finer), (total, own))
    ]
    return Case(problem, family, certificate, integers, total, codes[0], codes[0] != codes[1])


def where_of(wrong):
    """Where these outputs are, in words."""
    tally, zeros = Tally(Matmul(1, 1, 1, a="float16").out_format, wrong.shape), np.zeros(np.count_nonzero(wrong), np.uint16)
    tally.add(np.nonzero(wrong), zeros + 1, zeros)
    return whereabouts(tally.outcome(), wrong.shape)


def without(ks):
    return lambda a, b: np.delete(a, ks, -1) @ np.delete(b, ks, -2)


def twice(k):
    return lambda a, b: a @ b + a[..., :, k : k + 1] * b[..., k : k + 1, :]


def stale(start, tile, name):
    def formula(a, b):
        a, b = a.copy(), b.copy()
        size = a.shape[-1] - start
        if name == "a":
            a[..., start:] = a[..., start - tile : start - tile + size]
        else:
            b[..., start:, :] = b[..., start - tile : start - tile + size, :]
        return a @ b

    return formula


FORMULAS = {
    "leaves out the product k = 39 of 40, the last one": without([39]),
    "leaves out the product k = 7 of 40": without([7]),
    "counts twice the product k = 7 of 40": twice(7),
    "counts twice the product k = 39 of 40, the last one": twice(39),
    "leaves out the products from k = 33 on, 7 of 40": without(range(33, 40)),
    "leaves out the first 3 of 40 products": without(range(3)),
    "returns zeros": lambda a, b: 0 * (a @ b),
    "multiplies by a twice: a*a*b": lambda a, b: a**2 @ b,
    "multiplies by b twice: a*b*b": lambda a, b: a @ b**2,
    "uses the absolute value of a": lambda a, b: abs(a) @ b,
    "uses the absolute value of b": lambda a, b: a @ abs(b),
    "uses the absolute values of a and b": lambda a, b: abs(a) @ abs(b),
    "has the wrong sign": lambda a, b: -(a @ b),
    "takes negative elements of a as zero": lambda a, b: np.maximum(a, 0) @ b,
    "takes negative elements of b as zero": lambda a, b: a @ np.maximum(b, 0),
    "reads an old tile of b for the last 8 of 40 products (tiles of 8)": stale(32, 8, "b"),
    "reads an old tile of a for the last 8 of 40 products (tiles of 16)": stale(32, 16, "a"),
}


@pytest.mark.parametrize("clause", FORMULAS)
@pytest.mark.parametrize("fields", [
    dict(), dict(a="bfloat16"), dict(out="float32"), dict(transpose_a=True, transpose_b=True), dict(batch=(2,)),
    dict(bias="float16") , dict(beta=1.0),
], ids=str)
def test_each_formula_has_its_name(clause, fields):
    if clause == "returns zeros" and ("bias" in fields or "beta" in fields):
        clause, formula = "returns the epilogue alone, without the product", FORMULAS[clause]
    else:
        formula = FORMULAS[clause]
    assert explain(case_of(formula, **fields)) == clause


def test_formulas_off_the_integers_have_their_names():
    assert explain(case_of(lambda a, b: a @ b**2, exponent=-2, finer=2)) == "multiplies by b twice: a*b*b"


def test_results_cut_off_at_a_value_are_named():
    assert explain(case_of(lambda a, b: np.clip(a @ b, -16, 16))) == "cuts results off at 16"


def test_a_forgotten_epilogue_is_named():
    assert explain(case_of(lambda a, b: a @ b, rest_formula=lambda rest: 0, bias="float16")) == "leaves out the epilogue (c or bias)"


def test_a_fault_of_one_output_is_named_at_that_output():
    where = np.zeros((M, N), bool)
    where[3, 2] = True
    case = case_of(without([7]), where=where)
    assert (explain(case), where_of(case.wrong)) == ("is off by the product k = 7 of 40", "in out[3, 2] only")


@pytest.mark.parametrize("formula", [
    lambda a, b: a @ b + 1, lambda a, b: np.minimum(a[:, :, None], b[None]).sum(1), lambda a, b: np.roll(a @ b, 1, axis=1),
    lambda a, b: 2 * (a @ b), lambda a, b: a[:, ::-1] @ b,
])
def test_what_fits_no_hypothesis_has_no_name(formula):
    assert explain(case_of(formula)) == ""


def test_a_formula_that_fits_some_outputs_only_has_no_name():
    """Every wrong output has to be explained, beyond the few that are sampled first."""
    where = np.ones((M, N), bool)
    def formula(a, b):
        result = abs(a) @ b
        result[5, 4] += 1
        return result

    assert explain(case_of(formula, where=where)) == ""


def test_nothing_wrong_needs_no_explanation():
    assert explain(case_of(lambda a, b: a @ b)) == ""


def test_a_sum_of_one_product_that_is_missing_returns_zeros():
    assert explain(case_of(lambda a, b: 0 * (a @ b), k=1)) == "returns zeros"


def box(rows, columns):
    where = np.zeros((M, N), bool)
    where[rows, columns] = True
    return where


ALL = slice(None)


@pytest.mark.parametrize(("rows", "columns", "words"), [
    (ALL, ALL, "in every output"), (3, ALL, "in row 3 only"), (ALL, 2, "in column 2 only"), (ALL, slice(3, None), "in the last 2 columns only"),
    (slice(2, None), ALL, "in the last 4 rows only"), (3, slice(1, 4), "in row 3 only"), (slice(1, 3), slice(1, 3), "in 4 of 30 outputs"),
    (slice(0, 2), ALL, "in 10 of 30 outputs"),
])
def test_where_the_wrong_outputs_are(rows, columns, words):
    assert where_of(case_of(lambda a, b: a @ b + 64, where=box(rows, columns)).wrong) == words


def test_where_in_a_batch():
    where = np.zeros((2, M, N), bool)
    where[1, :, 4] = True
    assert where_of(case_of(lambda a, b: a @ b + 64, where=where, batch=(2,)).wrong) == "in column 4 only"


def test_both_ends_of_twos_complement_are_one_limit():
    case = case_of(lambda a, b: np.clip(a @ b, -128, 127), a="int8", size=100)
    assert explain(case) == "cuts results off at 127"


def test_a_limit_is_seen_in_several_trials_together():
    where = np.zeros((M, N), bool)
    cases = []
    for seed in range(4):
        whole = case_of(lambda a, b: np.clip(a @ b, -16, 16), seed=seed)
        where[...] = False
        where[tuple(np.argwhere(whole.wrong)[0])] = True
        cases.append(case_of(lambda a, b: np.clip(a @ b, -16, 16), seed=seed, where=where))
    assert explain_clamp(cases[:2]) == ""
    assert explain_clamp(cases) == "cuts results off at 16"


def test_the_smallest_integer_taken_for_the_next_is_named():
    case = case_of(lambda a, b: np.maximum(a, -7) @ b, a="int8", size=8)
    assert explain(case) == ""  # -8 is no end of int8


@pytest.mark.parametrize(("clause", "change"), [
    ("truncates a to whole numbers", lambda x: np.sign(x) * (abs(x) // 4 * 4)),
    ("rounds a to whole numbers", lambda x: np.rint(x / 4).astype(int) * 4),
])
def test_lost_fractions_are_named(clause, change):
    cases = [case_of(lambda a, b: change(a) @ b, exponent=-2, seed=seed) for seed in range(3)]
    assert explain_fractions(cases) == clause
    assert explain_fractions([*cases, case_of(lambda a, b: change(b.T).T[:0].sum() + a @ b + 1, exponent=-2)]) == ""


def rounded(bits, to_integer):
    """A trial whose results are rounded to *bits* first, and then to float16."""
    case = case_of(lambda a, b: a @ b, size=40, exponent=-3)
    fraction, exponent = np.frexp(case.exact)
    first = np.ldexp(to_integer(np.ldexp(fraction, bits)), exponent - bits)
    codes = encoding.round_values(first, case.problem.out_format)
    return Case(case.problem, case.family, case.certificate, case.integers, case.total, codes, codes != case.actual)


def test_a_rounding_is_named_that_gives_every_bit():
    case = rounded(7, np.rint)
    clauses = [clause for clause, _ in fitting_roundings(case)]
    assert "rounds twice, first to 7 significant bits with ties to even, then to float16" in clauses
    assert not any("to odd" in clause or "toward zero" in clause for clause in clauses)


def test_ways_of_rounding_are_struck_out_by_further_trials():
    ways = fitting_roundings(rounded(7, np.rint))
    assert fitting_roundings(rounded(6, np.rint), ways) == []
