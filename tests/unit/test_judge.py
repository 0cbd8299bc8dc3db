from __future__ import annotations

import numpy as np
import pytest

from zeroulp import encoding
from zeroulp.formats import TABLE, format_named
from zeroulp.judge import Differs, Matched, Value, differing, judge, same
from zeroulp.reference import Expected

HALF = format_named("half")


def halves(*values):
    return np.array(values, np.float16).view(np.uint16)


def expecting(codes, *, compared=None, also=(), zero_sign=None):
    return Expected(codes, also, compared, zero_sign, rounded=False)


def test_equal_bits_match():
    codes = halves(1, 2, 3)
    assert judge(codes, expecting(codes), HALF) == Matched(3, 3)


@pytest.mark.parametrize("format_", [f for f in TABLE if not f.is_scale and not f.storage and f.bits <= 16], ids=str)
def test_every_single_bit_counts_but_that_of_a_zeros_sign_and_of_a_nan(format_):
    """Every code against every code that differs in one bit."""
    codes = np.arange(2**format_.bits, dtype=np.uint32).astype(encoding.code_dtype(format_))
    values = encoding.decode(codes, format_)
    for bit in range(format_.bits):
        other = codes ^ codes.dtype.type(1 << bit)
        both_nan = np.isnan(values) & np.isnan(encoding.decode(other, format_))
        both_zero = (values == 0) & (encoding.decode(other, format_) == 0)
        assert np.array_equal(same(codes, other, format_), both_nan | both_zero)
        assert np.array_equal(same(codes, other, format_, zero_sign=True), both_nan)


def test_all_nans_are_one():
    nans = np.array([0x7E00, 0xFE00, 0x7C01, 0xFFFF], np.uint16)
    assert judge(nans, expecting(np.full(4, 0x7E00, np.uint16)), HALF) == Matched(4, 4)


def test_a_nan_is_no_number():
    outcome = judge(halves(1, np.nan, np.nan), expecting(halves(1, 2, 3)), HALF)
    assert (outcome.nans, outcome.ulps, outcome.actual.decimal, outcome.expected.decimal) == (2, None, "nan", "2")
    outcome = judge(halves(1, 2), expecting(halves(np.nan, 2)), HALF)
    assert (outcome.nans, outcome.ulps) == (0, None)


def test_a_nan_further_on_is_counted_too():
    outcome = judge(halves(5, np.nan), expecting(halves(1, 2)), HALF)
    assert (outcome.nans, outcome.differing, outcome.ulps) == (1, 2, 0x4500 - 0x3C00)


def test_infinity_is_no_number_of_its_sign():
    assert judge(halves(np.inf), expecting(halves(65504)), HALF).ulps == 1
    assert isinstance(judge(halves(np.inf), expecting(halves(-np.inf)), HALF), Differs)


def test_zeros_are_one_unless_their_sign_counts_there():
    actual, expected = halves(-0.0, -0.0, 0.0), halves(0.0, 0.0, -0.0)
    assert judge(actual, expecting(expected), HALF) == Matched(3, 3)
    outcome = judge(actual, expecting(expected, zero_sign=np.array([False, True, False])), HALF)
    assert (outcome.first, outcome.differing, outcome.ulps) == ((1,), 1, 0)
    assert (outcome.expected.decimal, outcome.actual.decimal) == ("0", "-0")


def test_first_difference_box_and_counts():
    expected = np.zeros((4, 6), np.uint16)
    actual = expected.copy()
    actual[1, 4] = actual[2, 2] = 0x3C00
    outcome = judge(actual, expecting(expected), HALF)
    assert (outcome.first, outcome.low, outcome.high) == ((1, 4), (1, 2), (2, 4))
    assert (outcome.differing, outcome.compared, outcome.elements) == (2, 24, 24)
    assert outcome.actual == Value("1", "0x1p+0", "0x3c00")


def test_positions_that_are_not_compared_are_free():
    expected, actual = halves(1, 2, 3), halves(9, 2, 4)
    mask = np.array([False, True, True])
    outcome = judge(actual, expecting(expected, compared=mask), HALF)
    assert (outcome.first, outcome.differing, outcome.compared, outcome.elements) == ((2,), 1, 2, 3)
    assert judge(actual, expecting(expected, compared=np.array([False, True, False])), HALF) == Matched(1, 3)
    assert judge(actual, expecting(expected, compared=np.zeros(3, bool)), HALF) == Matched(0, 3)


def test_either_neighbour_is_allowed_where_the_reference_says_so():
    low, high, even = halves(2048, 5), halves(2050, 5), halves(2048, 5)
    wanted = expecting(even, also=(low, high))
    assert differing(halves(2050, 5), wanted, HALF).tolist() == [False, False]
    assert differing(halves(2052, 6), wanted, HALF).tolist() == [True, True]


def test_an_empty_result_matches():
    empty = np.zeros((0, 3), np.uint16)
    assert judge(empty, expecting(empty), HALF) == Matched(0, 0)


@pytest.mark.parametrize(("name", "value", "said"), [
    ("half", 161, Value("161", "0x1.42p+7", "0x5908")), ("half", -0.0, Value("-0", "-0x0p+0", "0x8000")),
    ("half", 2.0**-24, Value("5.960464477539063e-08", "0x1p-24", "0x0001")), ("half", np.inf, Value("inf", "inf", "0x7c00")),
    ("half", np.nan, Value("nan", "nan", "0x7e00")), ("fp32", 0.1, Value("0.10000000149011612", "0x1.99999ap-4", "0x3dcccccd")),
    ("fp64", 1e300, Value("1e+300", "0x1.7e43c8800759cp+996", "0x7e37e43c8800759c")), ("fp32", 2.0**60, Value("1.152921504606847e+18", "0x1p+60", "0x5d800000")),
    ("e4m3", -1.5, Value("-1.5", "-0x1.8p+0", "0xbc")), ("fp4", 6, Value("6", "0x1.8p+2", "0x07")), ("int8", -3, Value("-3", "-0x1.8p+1", "0xfd")),
    ("half", 512.5, Value("512.5", "0x1.004p+9", "0x6001")),
])
def test_a_number_is_said_in_three_ways(name, value, said):
    format_ = format_named(name)
    assert Value.of(encoding.round_values(np.array([value]), format_)[0], format_) == said


def test_the_hexadecimal_form_is_lossless():
    for code in range(0, 2**16, 7):
        value = float(np.array(code, np.uint16).view(np.float16))
        if np.isfinite(value):
            assert float.fromhex(Value.of(code, HALF).hexadecimal) == value


@pytest.mark.parametrize(("name", "expected", "actual", "ulps"), [
    ("half", 1, 1 + 2.0**-10, 1), ("half", -2.0**-24, 2.0**-24, 2), ("bf16", 256, 258, 1), ("int8", -128, 127, 255), ("fp4", -6, 6, 14),
    ("e4m3fnuz", -240, 240, 254),
])
def test_differences_are_counted_in_ulps(name, expected, actual, ulps):
    format_ = format_named(name)
    codes = [encoding.round_values(np.array([x]), format_) for x in (actual, expected)]
    assert judge(codes[0], expecting(codes[1]), format_).ulps == ulps
