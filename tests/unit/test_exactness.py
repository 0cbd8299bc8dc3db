"""Certificates: the numbers of the theory's tables, and every obligation refused when it is not met."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from zeroulp import Matmul
from zeroulp import exactness
from zeroulp.exactness import Certificate, Family, Lattice, budget, certify, dyadic
from zeroulp.formats import TABLE, format_named

UNIT = Lattice(1)


def problem(k=1, a="float16", **fields):
    return Matmul(1, 1, k, a=a, **fields)


def units(k, **family):
    return Family(UNIT, UNIT, terms=k, **family)


@pytest.mark.parametrize(("fields", "any_order", "declared"), [
    (dict(a="float16"), 2**11, 2**24), (dict(a="bfloat16"), 2**8, 2**24), (dict(a="tf32"), 2**24, 2**24),
    (dict(a="float16", accumulate="float16"), 2**11, 2**11), (dict(a="float16", out="float32"), 2**24, 2**24),
    (dict(a="bfloat16", accumulate="float16"), 2**8, 2**11),
    (dict(a="float16", accumulate="any"), 2**11, 2**11), (dict(a="bfloat16", accumulate="any"), 2**8, 2**8),
    (dict(a="e4m3", out="float32"), 2**14, 2**14), (dict(a="e4m3", out="float16"), 2**11, 2**14),
    (dict(a="e4m3", accumulate="any"), 2**4, 2**4), (dict(a="e5m2", accumulate="any"), 2**3, 2**3),
    (dict(a="e4m3", out="float32", accumulator_precision=24), 2**24, 2**24),
    (dict(a="e4m3", out="float16", accumulate="float16"), 2**11, 2**11),
    (dict(a="float32"), 2**24, 2**24), (dict(a="float64"), 2**53, 2**53), (dict(a="float64", out="float32"), 2**24, 2**53),
    (dict(a="float64", out="float16"), 2**11, 2**24),  # by way of float32 to 16 bits would be two roundings
    (dict(a="int8"), 2**31 - 1, 2**31 - 1), (dict(a="int8", out="int8"), 127, 127), (dict(a="int8", out="float32"), 2**24, 2**31),
    (dict(a="int8", out="float16"), 2**11, 2**24),
    (dict(a="e2m3"), 7, 7), (dict(a="fp4"), 2**2, 6), (dict(a="e3m2"), 2**3, 112),  # 28 / 2^-2
])
def test_budget(fields, any_order, declared):
    """N for each kind of operand, output and accumulator."""
    assert budget(problem(**fields), declared=False)[0] == any_order
    assert budget(problem(**fields), declared=True)[0] == declared


def test_a_sum_that_fits_the_output_leans_on_no_accumulator():
    certificate = certify(problem(2048), units(2048), declared=True)
    assert (certificate.holds, certificate.theorem, certificate.declared) == (True, "any-order", False)
    assert (certificate.budget, certificate.largest_sum, certificate.precision, certificate.quantum_exponent) == (2048, 2048, 11, 0)
    assert certificate.sentence() == "sum of |terms| <= 2,048 <= N = 2,048 (11 bits), quantum 1: any order, any accumulator the contract allows"


def test_a_wider_sum_leans_on_the_declared_accumulator():
    certificate = certify(problem(2049), units(2049), declared=True)
    assert (certificate.holds, certificate.theorem, certificate.declared) == (True, "round-once", True)
    assert (certificate.budget, certificate.clause) == (2**24, "accumulate='float32'")
    assert "one rounding" in certificate.sentence()


@pytest.mark.parametrize("fields", [dict(accumulate="any"), dict(accumulate="float16")])
def test_a_wider_sum_is_refused_where_no_wider_accumulator_is_declared(fields):
    certificate = certify(problem(2049, **fields), units(2049), declared=True)
    assert not certificate.holds
    assert certificate.sentence() == certificate.reason
    assert "2,049 quanta and only 2,048" in certificate.reason
    assert certificate.remedy


def test_leaning_on_the_contract_can_be_forbidden():
    assert not certify(problem(2049), units(2049), declared=False).holds


@pytest.mark.parametrize(("accumulate", "out", "k"), [
    ("float32", "float32", 2**24), ("any", "bfloat16", 256), ("float64", "float64", 2**53), ("int32", "int32", 2**31 - 1),
])
def test_the_certificate_holds_up_to_n_and_not_beyond(accumulate, out, k):
    a = "int8" if out == "int32" else out
    for terms, holds in ((k, True), (k + 1, False)):
        assert certify(problem(terms, a=a, accumulate=accumulate), units(terms), declared=True).holds == holds


def test_no_more_terms_are_counted_than_there_are():
    assert certify(problem(3), units(10**9), declared=False).largest_sum == 3


@pytest.mark.parametrize(("value", "expected"), [
    (1.0, (1, 0)), (0.0, (0, 0)), (-0.0, (0, 0)), (2.0, (1, 1)), (-6.0, (-3, 1)), (0.375, (3, -3)), (2.0**-1074, (1, -1074)),
    (2.0**1023, (1, 1023)), (1 / 3, (6004799503160661, -54)),
])
def test_dyadic(value, expected):
    assert dyadic(value) == expected


def test_dyadic_is_exact():
    for value in np.random.default_rng(0).standard_normal(100):
        j, i = dyadic(float(value))
        assert j % 2 == 1
        assert Fraction(j) * Fraction(2) ** i == Fraction(float(value))


def test_a_third_is_refused_and_says_why():
    certificate = certify(problem(4, alpha=1 / 3), units(4), declared=True)
    assert not certificate.holds
    assert "alpha=0.333" in certificate.remedy and "53 significant bits" in certificate.remedy


def test_a_third_in_float32_fits_a_float64_sum():
    third = float(np.float32(1 / 3))
    certificate = certify(problem(4, a="float32", alpha=third, accumulate="float64"), units(4), declared=True)
    assert (certificate.holds, certificate.theorem) == (True, "round-once")
    assert certificate.largest_sum == 4 * dyadic(third)[0]
    assert not certify(problem(4, a="float32", alpha=third), units(4), declared=True).holds


def test_a_factor_of_c_is_named_too():
    family = units(4, c=UNIT)
    certificate = certify(problem(4, beta=0.1), family, declared=True)
    assert not certificate.holds and "beta=0.1" in certificate.remedy


@pytest.mark.parametrize(("fields", "family", "largest", "quantum"), [
    (dict(alpha=0.5), units(8), 8, -1),
    (dict(alpha=-3.0), units(8), 24, 0),
    (dict(beta=2.0), units(8, c=Lattice(5)), 18, 0),
    (dict(beta=-0.25), units(8, c=Lattice(5)), 37, -2),
    (dict(bias="float16"), units(8, bias=Lattice(3, -1)), 19, -1),
    (dict(alpha=0.5, beta=4.0, bias="float32"), units(8, c=Lattice(1), bias=Lattice(3)), 8 + 8 + 6, -1),
])
def test_the_epilogue_counts_in_the_common_quantum(fields, family, largest, quantum):
    certificate = certify(problem(8, **fields), family, declared=True)
    assert certificate.holds
    assert (certificate.largest_sum, certificate.quantum_exponent) == (largest, quantum)


@pytest.mark.parametrize(("lattice", "format_", "fits"), [
    (Lattice(2048), "float16", True), (Lattice(2049), "float16", False), (Lattice(256), "bfloat16", True),
    (Lattice(2048, 4), "float16", True), (Lattice(2048, 5), "float16", False), (Lattice(1, -14), "float16", True),
    (Lattice(1, -15), "float16", False), (Lattice(0, -99), "float16", True), (Lattice(16), "e4m3", True),
    (Lattice(15, 5), "e4m3", False), (Lattice(14, 5), "e4m3", True), (Lattice(7), "e2m3", True), (Lattice(8), "e2m3", False),
    (Lattice(127), "int8", True), (Lattice(128), "int8", False), (Lattice(1, -1), "int8", False), (Lattice(63, 1), "int8", True),
    (Lattice(64, 1), "int8", False),
])
def test_operands_have_to_be_numbers_of_their_format(lattice, format_, fits):
    assert (lattice.misfit(format_named(format_), allow_subnormals=False) is None) == fits


@pytest.mark.parametrize(("family", "part"), [
    (Family(Lattice(4096), UNIT, 1), "a would hold"), (Family(UNIT, Lattice(4097), 1), "b would hold"),
    (Family(UNIT, UNIT, 1, c=Lattice(9999)), "c would hold"), (Family(UNIT, UNIT, 1, bias=Lattice(9999)), "bias would hold"),
])
def test_the_operand_that_does_not_fit_is_named(family, part):
    certificate = certify(problem(1, beta=1, bias="float16"), family, declared=True)
    assert not certificate.holds and part in certificate.reason


@pytest.mark.parametrize(("exponents", "fields", "holds"), [
    ((-7, -7), {}, True), ((-7, -8), {}, False), ((-7, -8), dict(subnormals="preserve"), True),
    ((-12, -12), dict(subnormals="preserve"), True), ((-12, -13), dict(subnormals="preserve"), False),
    ((-7, -8), dict(subnormals="flush"), False), ((-15, 0), {}, False), ((-15, 0), dict(subnormals="preserve"), True),
    ((-7, -7), dict(alpha=0.5), False), ((-7, -7), dict(alpha=2.0), True), ((-7, -8), dict(alpha=2.0), False),
    ((-7, -8), dict(out="float32"), True), ((-7, -8), dict(out="float32", accumulate="float16"), False),
])
def test_quanta_stay_above_the_smallest_normal_number_unless_subnormals_are_kept(exponents, fields, holds):
    """Before alpha as well as after it, in the output and in a narrower accumulator."""
    family = Family(Lattice(1, exponents[0]), Lattice(1, exponents[1]), 1)
    certificate = certify(problem(1, **fields), family, declared=True)
    assert certificate.holds == holds
    if not holds and fields.get("subnormals") != "preserve":
        assert "normal number" in certificate.reason and "subnormals='preserve'" in certificate.remedy


@pytest.mark.parametrize(("magnitude", "exponent", "fields", "holds"), [
    (2047, 5, {}, True), (2048, 5, {}, False), (2047, 5, dict(alpha=2.0), False), (2047, 6, dict(alpha=0.5), False),
    (2048, 5, dict(out="float32"), True), (2048, 5, dict(out="float32", accumulate="float16"), False),
])
def test_sums_stay_below_the_largest_number(magnitude, exponent, fields, holds):
    """2047 * 2^5 = 65504 is the largest number of float16."""
    family = Family(Lattice(magnitude, exponent), UNIT, 1)
    certificate = certify(problem(1, a="float32", **{"out": "float16", **fields}), family, declared=True)
    assert certificate.holds == holds
    if not holds:
        assert "65504" in certificate.reason


def test_a_masked_family_holds_at_the_positions_within_the_budget():
    certificate = certify(problem(9000), units(9000, masked=True), declared=True)
    assert (certificate.holds, certificate.theorem, certificate.masked) == (True, "any-order", True)
    assert certificate.budget == 2048
    assert certificate.sentence().startswith("only sums of |terms| <= N = 2,048 are compared")


def test_a_masked_family_whose_single_product_exceeds_the_budget_holds_nowhere():
    family = Family(Lattice(64), Lattice(64), 10, masked=True)
    assert not certify(problem(10), family, declared=True).holds


def test_an_empty_sum_is_exact():
    certificate = certify(problem(0), units(0), declared=True)
    assert (certificate.holds, certificate.largest_sum) == (True, 0)


def test_sums_of_any_size_are_counted_in_integers():
    huge = Family(Lattice(2**53), Lattice(2**53), 10**9)
    certificate = certify(problem(10**9, a="float64"), huge, declared=True)
    assert not certificate.holds
    assert certificate.largest_sum == 10**9 * 2**106


def test_the_default_certificate_has_no_reason():
    assert Certificate(True, "any-order", False, "", 11, 1, 1, 0).remedy == ""
    assert math.isfinite(budget(problem(), declared=True)[1])


@pytest.mark.parametrize("format_", TABLE, ids=str)
def test_limits_in_whole_numbers_are_those_of_exact_fractions(format_):
    """Just below, at and just above the largest number, in quanta of every size."""
    for exponent in (-1200, -30, -1, 0, 1, 9, 1100):
        limit = Fraction(format_.max_finite) / Fraction(2) ** exponent
        for size in {max(0, int(limit) + step) for step in (-1, 0, 1, 2)} | {1}:
            assert exactness._exceeds(size, exponent, format_) == (size > limit)
    for bits in (1, 8, 24, 53, 3000):
        ratio = int(Fraction(format_.max_finite) / Fraction(2) ** format_.emin)
        expected = min((1 << bits) - 1, format_.max_significand) if format_.is_integer else min(1 << bits, ratio)
        assert exactness._largest(bits, format_) == expected


def test_elements_of_few_bits_may_be_larger_than_the_significand():
    """11 bits, moved up by five places: numbers of float16 although 2^16 is no limit of its integers."""
    few, many = Lattice(2047 << 5, -10, bits=11), Lattice(2047 << 5, -10)
    float16 = format_named("float16")
    assert few.misfit(float16, allow_subnormals=False) is None
    assert many.misfit(float16, allow_subnormals=False) is not None
    assert Lattice(2047 << 5, -10, bits=12).misfit(float16, allow_subnormals=False) is not None


def test_the_smallest_integer_has_no_opposite():
    int8 = format_named("int8")
    assert Lattice(128, to_lowest=True).misfit(int8, allow_subnormals=False) is None
    assert Lattice(128).misfit(int8, allow_subnormals=False) is not None
    assert Lattice(129, to_lowest=True).misfit(int8, allow_subnormals=False) is not None
    assert Lattice(64, 1, to_lowest=True).misfit(int8, allow_subnormals=False) is not None
