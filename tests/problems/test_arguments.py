"""What shipped problems are asked for, and what they refuse."""

from __future__ import annotations

import json

import pytest

from zeroulp import Linear, UsageError, problems
from zeroulp.problem import problem_from_dict
from zeroulp.problems import (
    Affine, Batched, Conv, Dequantised, Einsum, EmbeddingBag, Grouped, Hadamard, LinearAttention, Pool, Reduce, Reference, Scan, ScatterAdd,
    SparseMatmul, StateSpace, Stencil,
)


@pytest.mark.parametrize(("make", "fragment"), [
    (lambda: Conv((2, 4, 9), (6, 3, 3)), "x has 4 channels"), (lambda: Conv((2, 4, 9), (6, 4, 3, 3)), "3, 4 or 5 axes"),
    (lambda: Conv((2, 4, 3), (6, 4, 5)), "nothing is left"), (lambda: Conv((2, 4, 9), (6, 4, 3), stride=(1, 1)), "for 1 axes"),
    (lambda: Conv((2, 4, 9), (6, 4, 3), stride=0), "stride=0"), (lambda: Conv((2, 4, 9), (6, 4, 3), padding=-1), "padding=-1"),
    (lambda: Conv((2, 4, 9), (6, 4, 3), gradient="b"), "gradient"), (lambda: Conv((2, 4, 9), (6, 4, 3), gradient="x", bias=True), "leave bias"),
    (lambda: Conv((2, 4, 9), (6, 2, 3), groups=4), "groups"), (lambda: Einsum("ij,jk", (2, 3), (3, 4)), "an arrow"),
    (lambda: Einsum("ij,jk->ik", (2, 3), (4, 4)), "'jk'"), (lambda: Einsum("ij,jk->ik", (2, 3)), "1 shapes"),
    (lambda: Reduce((2, 3), 2), "axis 2"), (lambda: Reduce((2, 3), (0, -2)), "each once"), (lambda: Reduce((2, 3), kind="median"), "median"),
    (lambda: Reduce((2, 3), (0, 1), kind="argmax"), "one axis"), (lambda: Scan((3,), 1), "axis 1"),
    (lambda: ScatterAdd(9, 4, 2, distinct=True), "occur twice"), (lambda: EmbeddingBag((3,), 4, 2, mode="min"), "min"),
    (lambda: EmbeddingBag((3,), 4, 2, mode="mean", weighted=True), "weights"), (lambda: Pool((2, 2, 9), (3, 3)), "windows"),
    (lambda: Pool((2, 2, 9), (3,), padding=(2,)), "half a window"), (lambda: Pool((2, 2, 9), (3,), kind="median"), "median"),
    (lambda: Stencil((4, 4), {(0,): 1}), "offset"), (lambda: Stencil((4,), {(4,): 1}), "offset"), (lambda: Stencil((4,), {}), "0 taps"),
    (lambda: SparseMatmul(2, 3, 6), "multiples"), (lambda: SparseMatmul(2, 3, 6, block=(2, 2)), "multiples"), (lambda: Hadamard(2, 12), "power of two"),
    (lambda: Dequantised(2, 2, 12, bits=4), "whole groups"), (lambda: Dequantised(2, 2, 12, bits=2), "4 or 8"), (lambda: Dequantised(2, 2, 12, group=5), "whole groups"),
    (lambda: LinearAttention(1, 4, 2, 2, decays=(-1,)), "decays"), (lambda: StateSpace(1, 4, 2, decays=()), "decays"),
    (lambda: Affine(2, 3, 4, format="e4m3"), "float8"), (lambda: Affine(2, 3, 4, accumulate="int8"), "accumulate"),
    (lambda: Grouped((3, -1), 2, 2), "none negative"), (lambda: EmbeddingBag((3, -1), 2, 2), "none negative"),
    (lambda: Batched(2, 0, 4, batch=2), "empty"), (lambda: Reference("no such"), "no such"), (lambda: Reference("scan", "[]"), "scan"),
])
def test_what_makes_no_sense_is_one_clear_error(make, fragment):
    with pytest.raises(UsageError) as caught:
        make()
    assert fragment in str(caught.value)


def test_every_problem_comes_back_from_plain_data_but_for_its_reference():
    problem = Conv((2, 4, 9), (6, 2, 3), groups=2, bias=True, format="float16", accumulate="any")
    again = problem_from_dict(json.loads(json.dumps(problem.to_dict())))
    assert (again, again.reference) == (problem, None)
    assert Reference(again.origin.name, again.origin.arguments) == problem.reference
    assert (problem.storage, problem.accumulate) == ("float16", "any")


def test_all_problems_are_made_by_one_call_and_documented():
    makers = [getattr(problems, name) for name in problems.__all__ if name != "Reference"]
    assert len(makers) == 17
    for maker in makers:
        assert maker.__annotations__["return"] == Linear.__name__
        for word in ("Args:", "Returns:", *(f"{name}:" for name in maker.__annotations__ if name != "return")):
            assert word in maker.__doc__, (maker, word)
