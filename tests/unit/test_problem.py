from __future__ import annotations

import numpy as np
import pytest

from zeroulp import Matmul
from zeroulp.errors import ProblemError, UnknownNameError
from zeroulp.problem import Contract


def test_defaults_follow_a():
    problem = Matmul(2, 3, 4, a="half")
    assert (problem.a, problem.b, problem.out, problem.accumulate) == ("float16", "float16", "float16", "float32")
    assert problem.contract == Contract(accumulate="float32")


@pytest.mark.parametrize(("a", "b", "out", "accumulate"), [
    ("fp64", "float64", "float64", "float64"), ("fp32", "float32", "float32", "float32"),
    ("tf32", "tfloat32", "float32", "float32"), ("bf16", "bfloat16", "bfloat16", "float32"),
    ("e4m3", "float8_e4m3fn", "float8_e4m3fn", "float32"), ("int8", "int8", "int32", "int32"),
])
def test_defaults_by_format(a, b, out, accumulate):
    problem = Matmul(1, 1, 1, a=a)
    assert (problem.b, problem.out, problem.accumulate) == (b, out, accumulate)


@pytest.mark.parametrize(("a", "b", "accumulate"), [
    ("float32", "float64", "float64"), ("float64", "float16", "float64"), ("int8", "float16", "float32"),
])
def test_default_accumulator_of_mixed_operands(a, b, accumulate):
    assert Matmul(1, 1, 1, a=a, b=b, out="float32").accumulate == accumulate


@pytest.mark.parametrize(("transpose_a", "transpose_b", "a", "b"), [
    (False, False, (5, 2, 4), (5, 4, 3)), (True, False, (5, 4, 2), (5, 4, 3)), (False, True, (5, 2, 4), (5, 3, 4)),
])
def test_operand_shapes(transpose_a, transpose_b, a, b):
    problem = Matmul(2, 3, 4, batch=5, a="half", transpose_a=transpose_a, transpose_b=transpose_b, beta=2, bias="bf16")
    operands = {operand.name: operand for operand in problem.operands}
    assert {name: operand.shape for name, operand in operands.items()} == {"a": a, "b": b, "c": (5, 2, 3), "bias": (3,)}
    assert (operands["c"].format.name, operands["bias"].format.name) == ("float16", "bfloat16")
    assert (problem.output.shape, problem.output.size) == ((5, 2, 3), 30)


def test_operands_that_are_not_asked_for_are_not_there():
    assert [operand.name for operand in Matmul(1, 1, 1, a="half").operands] == ["a", "b"]


def test_sizes_of_any_integer_type_and_batches_of_any_sequence():
    problem = Matmul(np.int64(2), 3, 4, batch=[np.int32(5), 6], a="half")
    assert (problem.m, type(problem.m), problem.batch) == (2, int, (5, 6))


@pytest.mark.parametrize("field", ["m", "n", "k"])
@pytest.mark.parametrize("size", [-1, 1.5, "3", None, True])
def test_what_is_no_size_is_refused(field, size):
    sizes = {"m": 1, "n": 1, "k": 1, field: size}
    with pytest.raises(ProblemError, match=f"{field}={size!r} is no size") as caught:
        Matmul(**sizes, a="half")
    assert "0 or more" in caught.value.why


@pytest.mark.parametrize("field", ["alpha", "beta"])
@pytest.mark.parametrize("factor", [float("nan"), float("inf"), "x", None])
def test_what_is_no_factor_is_refused(field, factor):
    with pytest.raises(ProblemError, match=f"{field}=.* is no finite number"):
        Matmul(1, 1, 1, a="half", **{field: factor})


@pytest.mark.parametrize("field", ["a", "b", "out", "bias"])
def test_an_unknown_format_is_refused_with_close_names(field):
    with pytest.raises(UnknownNameError) as caught:
        Matmul(1, 1, 1, **{"a": "half", field: "flaot16"})
    assert caught.value.name == "flaot16"
    assert "float16" in caught.value.do


@pytest.mark.parametrize("field", ["a", "b", "out", "bias"])
def test_scales_are_no_elements(field):
    with pytest.raises(ProblemError, match="holds scales") as caught:
        Matmul(1, 1, 1, **{"a": "half", field: "e8m0"})
    assert caught.value.where == f"format of {field}"


@pytest.mark.parametrize("field", ["out", "bias"])
def test_tfloat32_is_a_format_of_operands_alone(field):
    with pytest.raises(ProblemError, match="format of operands") as caught:
        Matmul(1, 1, 1, **{"a": "tf32", field: "tf32"})
    assert caught.value.do == f"pass {field}='float32'"


def test_an_integer_accumulator_needs_integers():
    with pytest.raises(ProblemError, match="needs integer operands") as caught:
        Matmul(1, 1, 1, a="int8", b="half", accumulate="int32")
    assert caught.value.where == "a is int8, b is float16"


@pytest.mark.parametrize("fields", [dict(a="half", out="int8"), dict(a="int8", b="half", out="int32"), dict(a="int8", bias="half")])
def test_an_integer_output_of_fractions_is_refused(fields):
    with pytest.raises(ProblemError, match="integer output"):
        Matmul(1, 1, 1, **fields)


@pytest.mark.parametrize(("clause", "word"), [
    ("accumulate", "float31"), ("rounding", "up"), ("subnormals", "maybe"), ("signed_zero", "yes"), ("nonfinite", "no"),
])
def test_an_unknown_word_of_a_clause_is_refused(clause, word):
    with pytest.raises(UnknownNameError, match=f"clause {clause}"):
        Matmul(1, 1, 1, a="half", **{clause: word})


@pytest.mark.parametrize("bits", [0, 54, 1.5, "14"])
def test_accumulator_precision_is_a_number_of_bits(bits):
    with pytest.raises(ProblemError, match="significand bits"):
        Matmul(1, 1, 1, a="half", accumulator_precision=bits)


@pytest.mark.parametrize(("layouts", "error"), [
    ("diagonal", UnknownNameError), ({"a": "diagonal"}, UnknownNameError), ({"c": "padded"}, ProblemError),
    (7, ProblemError), ({"out": "broadcast"}, ProblemError), ({"a": "any"}, ProblemError),
])
def test_layouts_that_make_no_sense_are_refused(layouts, error):
    with pytest.raises(error):
        Matmul(1, 1, 1, a="half", layouts=layouts)


@pytest.mark.parametrize("layouts", ["any", "padded", "broadcast", {"a": "column", "b": "broadcast", "out": "offset"}])
def test_layouts_that_make_sense_are_kept(layouts):
    assert Matmul(1, 1, 1, a="half", layouts=layouts).layouts == layouts


@pytest.mark.parametrize("problem", [
    Matmul(2, 3, 4, a="half"),
    Matmul(0, 1, 2, batch=(3, 4), a="bf16", b="e4m3", out="fp32", transpose_a=True, transpose_b=True, alpha=0.1, beta=-2,
           bias="fp64", layouts={"a": "padded"}, accumulate="float16", accumulator_precision=9, rounding="ties-either",
           subnormals="flush", signed_zero="strict", nonfinite="ignore", saturate=True),
])
def test_a_problem_survives_as_plain_data(problem):
    data = problem.to_dict()
    assert data["operation"] == "matmul"
    assert Matmul.from_dict(data) == problem
    assert Matmul.from_dict(problem.to_dict()).to_dict() == data


def test_replace_checks_again():
    problem = Matmul(2, 3, 4, a="half")
    assert problem.replace(k=9).k == 9
    with pytest.raises(ProblemError):
        problem.replace(k=-9)


@pytest.mark.parametrize(("fields", "bits"), [
    (dict(a="half"), 24), (dict(a="half", accumulate="any"), 11), (dict(a="half", accumulate="float16"), 11),
    (dict(a="bf16", accumulate="any"), 8), (dict(a="e4m3", out="fp32"), 14), (dict(a="e4m3", accumulate="any"), 4),
    (dict(a="e4m3", out="fp32", accumulator_precision=24), 24), (dict(a="e4m3", b="half", out="fp32"), 24),
    (dict(a="e4m3", out="fp32", accumulate="float16"), 11), (dict(a="int8"), 31), (dict(a="fp64"), 53),
    (dict(a="half", accumulator_precision=53), 24), (dict(a="fp4", out="fp32"), 14),
])
def test_bits_that_sums_keep(fields, bits):
    problem = Matmul(1, 1, 1, **fields)
    assert problem.contract.sum_bits(problem.a_format, problem.b_format, problem.out_format) == bits


def test_the_sentence_states_the_contract():
    assert Matmul(1, 1, 1, a="half").sentence() == "float16 x float16 -> float16; sums in float32, one rounding, ties to even"
    any_sum = Matmul(1, 1, 1, a="half", b="bf16", accumulate="any", rounding="ties-either")
    assert any_sum.sentence() == "float16 x bfloat16 -> float16; sums in any format as precise as the output, ties either way"
