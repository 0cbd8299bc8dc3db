"""Rounding to a format: round-trip, monotone, idempotent, nearest; and every path to it the same."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.laws.arithmetic import power, rounded, store_of
from zeroulp import encoding
from zeroulp.formats import TABLE, format_named

FLOATS = [f for f in TABLE if not f.is_integer and not f.is_scale]
formats = st.sampled_from(FLOATS)
law = settings(deadline=None, derandomize=True, max_examples=300)


def whole(bits):
    """Integers of any length up to *bits*, runs of equal bits (ties, carries) among them."""
    plain = st.integers(1, bits).flatmap(lambda n: st.integers(-(2**n), 2**n))
    runs = st.tuples(st.integers(0, bits - 1), st.integers(0, bits - 1), st.integers(-1, 1), st.sampled_from((1, -1)))
    return plain | runs.map(lambda r: r[3] * max(0, min((1 << r[0]) + (1 << r[1]) + r[2], 2**bits - 1)))


def value_of(code, format_):
    """The number that a code stands for, as a fraction (infinities as floats)."""
    value = float(encoding.decode(np.atleast_1d(code), format_)[0])
    return Fraction(value) if math.isfinite(value) else value


def round_one(integer, exponent, format_, **options):
    return encoding.round_integers(np.array([integer], object), exponent, format_, **options)[0]


def near(format_):
    """Exponents at which integers of up to 70 bits fall below, into and above the format's range."""
    return st.integers(format_.quantum_exponent_min - 72, format_.emax + 3)


@law
@given(formats.flatmap(lambda f: st.tuples(st.just(f), st.integers(0, 2**f.bits - 1))))
def test_a_code_comes_back_from_its_value(drawn):
    format_, code = drawn
    codes = np.array([code << (13 if format_.storage else 0)], encoding.code_dtype(format_))
    assume(not encoding.is_nan(codes, format_)[0])
    values = encoding.decode(codes, format_)
    assert encoding.round_values(values, format_)[0] == codes[0]


@law
@given(st.data(), formats)
def test_rounding_agrees_with_fractions(data, format_):
    """Integers of any size times any power of two: nearest, ties to even, overflow."""
    integer, exponent = data.draw(whole(200)), data.draw(near(format_))
    exponent -= max(0, abs(integer).bit_length() - 70)
    exact = rounded(integer * power(exponent), store_of(format_))
    got = value_of(round_one(integer, exponent, format_), format_)
    if isinstance(exact, float):  # overflow: infinity, else NaN, else the largest number
        if not format_.has_infinity:
            exact = math.nan if format_.has_nan else math.copysign(format_.max_finite, exact)
    assert got == exact or (got != got and exact != exact)


@pytest.mark.parametrize("format_", FLOATS, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_bit_far_below_a_tie_breaks_it(format_, sign):
    """1 + 2^-p lies between 1 and its neighbour; 200 bits further down there is more or less than that."""
    tie = 2**300 + 2 ** (300 - format_.precision)
    below, even, above = (value_of(round_one(sign * (tie + d), -300, format_), format_) for d in (-1, 0, 1))
    assert (below, even, above) == (sign, sign, sign * (1 + power(1 - format_.precision)))


@law
@given(st.data(), formats)
def test_no_other_number_of_the_format_is_closer(data, format_):
    integer, exponent = data.draw(whole(62)), data.draw(near(format_))
    exact = integer * power(exponent)
    assume(abs(exact) <= Fraction(format_.max_finite))
    code = round_one(integer, exponent, format_)
    error = abs(value_of(code, format_) - exact)
    step = 1 << (13 if format_.storage else 0)
    sign = 1 << (encoding.code_dtype(format_).itemsize * 8 - 1 if format_.bits >= 8 else format_.bits - 1)
    for neighbour in (int(code) + step, int(code) - step, int(code) ^ sign):
        if not 0 <= neighbour < 2 * sign:
            continue
        other = np.array([neighbour], encoding.code_dtype(format_))
        if not encoding.is_nan(other, format_)[0] and np.isfinite(encoding.decode(other, format_)[0]):
            assert abs(value_of(other[0], format_) - exact) >= error


@law
@given(st.data(), formats)
def test_rounding_is_monotone(data, format_):
    exponent = data.draw(near(format_))
    low, high = sorted((data.draw(whole(62)), data.draw(whole(62))))
    below, above = (value_of(round_one(x, exponent, format_, saturate=True), format_) for x in (low, high))
    assert below <= above


@law
@given(st.data(), formats)
def test_rounding_twice_is_rounding_once_to_one_format(data, format_):
    code = round_one(data.draw(whole(62)), data.draw(near(format_)), format_, saturate=True)
    again = encoding.round_values(encoding.decode(np.array([code]), format_), format_)[0]
    assert again == code


@law
@given(st.data(), formats)
def test_integers_round_as_values_do_where_float64_holds_them(data, format_):
    integers = np.array(data.draw(st.lists(whole(53), min_size=1, max_size=8)), np.int64)
    exponent = data.draw(st.integers(max(-1074, format_.quantum_exponent_min - 60), min(format_.emax + 3, 960)))
    values = np.ldexp(integers.astype(np.float64), exponent)
    from_integers = encoding.round_integers(integers, exponent, format_)
    as_values = encoding.round_values(np.where(integers == 0, 0.0, values), format_)
    assert from_integers.tolist() == as_values.tolist()


@law
@given(st.data(), formats)
def test_the_fast_path_and_the_slow_one_give_the_same_codes(data, format_):
    bits = data.draw(st.integers(1, min(format_.precision + 1, 62)))
    drawn = [x for x in data.draw(st.lists(whole(bits), min_size=1, max_size=8))]
    exponent = data.draw(st.integers(format_.emin - 1, min(format_.emax + 1, 901)))
    integers = np.array(drawn, np.int64)
    fast = encoding._all_representable(np.abs(integers).astype(np.uint64), exponent, format_)
    representable = all(abs(x) <= 2**format_.precision and abs(x) * power(exponent) <= Fraction(format_.max_finite) for x in drawn)
    assert fast == (representable and exponent >= format_.emin and exponent <= 900)
    slow = encoding._round(
        integers < 0, np.abs(integers).astype(np.uint64), np.full(1, exponent, np.int64), format_, saturate=False)
    assert encoding.round_integers(integers, exponent, format_).tolist() == slow.tolist()


@law
@given(st.data(), formats)
def test_object_integers_round_as_int64_ones_do(data, format_):
    integers = data.draw(st.lists(whole(62), min_size=1, max_size=8))
    exponent = data.draw(near(format_))
    plain = encoding.round_integers(np.array(integers, np.int64), exponent, format_)
    assert encoding.round_integers(np.array(integers, object), exponent, format_).tolist() == plain.tolist()


@law
@given(st.sampled_from(("int8", "int32")), whole(200), st.integers(-200, 100), st.booleans())
def test_integer_formats_agree_with_fractions(name, integer, exponent, saturate):
    format_ = format_named(name)
    exact = round(integer * power(exponent))
    limit = format_.max_significand
    if not -limit - 1 <= exact <= limit and not saturate:
        with pytest.raises(encoding.UsageError, match="does not fit"):
            round_one(integer, exponent, format_)
        return
    assert value_of(round_one(integer, exponent, format_, saturate=saturate), format_) == min(max(exact, -limit - 1), limit)


def test_a_shifted_integer_that_wraps_to_the_smallest_one_is_no_int32():
    """-(2^33 + 1) * 2^31 is -2^31 modulo 2^64."""
    with pytest.raises(encoding.UsageError, match="does not fit"):
        encoding.round_integers(np.array([-(2**33 + 1)]), 31, format_named("int32"))


@law
@given(formats.flatmap(lambda f: st.tuples(st.just(f), st.integers(0, 2**f.bits - 1), st.integers(0, 2**f.bits - 1))))
def test_ordinals_keep_the_order_of_the_numbers(drawn):
    format_, *codes = drawn
    codes = np.array(codes, encoding.code_dtype(format_)) << np.array(13 if format_.storage else 0, encoding.code_dtype(format_))
    assume(not encoding.is_nan(codes, format_).any())
    (x, y), (i, j) = encoding.decode(codes, format_), encoding.ordinals(codes, format_)
    assert (x < y, x == y) == (i < j, i == j)


def test_chunks_of_a_large_array_round_as_small_ones_do():
    half = format_named("half")
    integers = (np.arange(3 * 2**20, dtype=np.int64) * 2654435761) % 2**40 - 2**39
    whole_array = encoding.round_integers(integers, -20, half)
    for start in (0, 2**20 - 3, 2**21 - 3, 3 * 2**20 - 6):
        part = slice(start, start + 6)
        assert np.array_equal(whole_array[part], encoding.round_integers(integers[part], -20, half))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (1, 1), (2, 3)])
@pytest.mark.parametrize("kind", [np.int64, object])
def test_every_shape_is_kept(shape, kind):
    integers = np.full(shape, 2049, kind)
    codes = encoding.round_integers(integers, 0, format_named("half"))
    assert codes.shape == shape
    assert (codes == encoding.bits_of(np.array(2048, np.float16))).all()


@pytest.mark.slow
@pytest.mark.parametrize("format_", [f for f in FLOATS if f.bits <= 8], ids=str)
def test_every_integer_and_exponent_near_a_small_format(format_):
    exponents = range(format_.quantum_exponent_min - 9, format_.emax + 3)
    for integer, exponent in itertools.product(range(-300, 301), exponents):
        exact = rounded(integer * power(exponent), store_of(format_))
        if isinstance(exact, Fraction):
            assert value_of(round_one(integer, exponent, format_), format_) == exact
