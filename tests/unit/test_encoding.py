"""Every code point of every format of 16 bits or fewer, against ml_dtypes and numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from zeroulp import encoding
from zeroulp.arrays.half import half_values
from zeroulp.errors import UsageError
from zeroulp.formats import TABLE, format_named

SMALL = [f for f in TABLE if f.bits <= 16]
SMALL_FLOATS = [f for f in SMALL if not f.is_integer]
ids = str


def all_codes(format_):
    return np.arange(2**format_.bits, dtype=np.uint32).astype(encoding.code_dtype(format_))


def oracle_values(format_, codes):
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return encoding.array_of(codes, format_).astype(np.float64)


def oracle_round(values, format_):
    """ml_dtypes casts (and numpy's for float16), from float64."""
    with np.errstate(all="ignore"):
        return encoding.bits_of(values.astype(encoding.storage_dtype(format_)))


@pytest.mark.parametrize("format_", SMALL, ids=ids)
def test_decodes_every_code(format_):
    codes = all_codes(format_)
    np.testing.assert_array_equal(encoding.decode(codes, format_), oracle_values(format_, codes))


@pytest.mark.parametrize("format_", SMALL, ids=ids)
def test_decode_keeps_the_sign_of_zero(format_):
    codes = all_codes(format_)
    ours, theirs = encoding.decode(codes, format_), oracle_values(format_, codes)
    numbers = ~np.isnan(theirs)
    np.testing.assert_array_equal(np.signbit(ours)[numbers], np.signbit(theirs)[numbers])


@pytest.mark.parametrize("format_", SMALL, ids=ids)
def test_encoding_a_value_gives_its_code_back(format_):
    codes = all_codes(format_)
    numbers = codes[~encoding.is_nan(codes, format_)]
    np.testing.assert_array_equal(encoding.round_values(encoding.decode(numbers, format_), format_), numbers)


@pytest.mark.parametrize("format_", SMALL_FLOATS, ids=ids)
def test_rounds_midpoints_and_their_neighbours_once(format_):
    """Between any two neighbours: the tie, and the closest float64 on either side of it."""
    codes = all_codes(format_)
    values = encoding.decode(codes, format_)
    values = np.unique(values[np.isfinite(values)]) + 0.0
    ties = (values[:-1] + values[1:]) / 2
    points = np.concatenate([values, ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf)])
    np.testing.assert_array_equal(encoding.round_values(points, format_), nearest_even(points, values, format_))


def nearest_even(points, values, format_):
    """Rounding by search in the table of values: no shifts, no exponents."""
    codes = encoding.round_values(values, format_)
    upper = np.clip(np.searchsorted(values, points), 1, len(values) - 1)
    low, high = values[upper - 1], values[upper]
    below, above = points - low, high - points
    parity = encoding.ordinals(codes, format_) % 2
    if format_.is_scale:  # one digit: none is even, and IEEE 754-2019 (4.3.1) takes the larger
        parity = np.zeros_like(parity)
    take_high = (above < below) | ((above == below) & (parity[upper] == 0))
    result = encoding.round_values(np.where(take_high, high, low), format_)
    if format_.has_negative_zero:
        sign = encoding.bits_of(np.array(-0.0, encoding.storage_dtype(format_)))
        result = np.where((np.where(take_high, high, low) == 0) & np.signbit(points), sign, result)
    return result


@pytest.mark.parametrize("format_", [f for f in SMALL_FLOATS if not f.is_scale], ids=ids)
def test_rounds_as_ml_dtypes_does(format_):
    """All float16 values scaled over the whole range, incl. overflow, underflow and infinities."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves = halves[~np.isnan(halves)]
    points = np.concatenate([halves * 2.0**e for e in (-120, -20, -8, 0, 3, 60, 110)])
    if not format_.has_infinity:
        points = points[np.isfinite(points)]
    if format_.name == "float16" or format_.bits == 16:
        points = np.concatenate([points, points * (1 + 2.0**-12)])
    np.testing.assert_array_equal(
        normal_nan(encoding.round_values(points, format_), format_), normal_nan(oracle_round(points, format_), format_)
    )


def normal_nan(codes, format_):
    if not format_.has_nan:
        return codes
    return np.where(encoding.is_nan(codes, format_), encoding.nan_code(format_), codes)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_wide_formats_agree_with_numpy(name):
    format_ = format_named(name)
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2**64, 20000, dtype=np.uint64)
    codes = codes.astype(encoding.code_dtype(format_))
    values = oracle_values(format_, codes)
    np.testing.assert_array_equal(encoding.decode(codes, format_), values)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(encoding.round_values(values[numbers], format_), codes[numbers])


def test_rounds_float64_to_float32_as_numpy_does():
    rng = np.random.default_rng(2)
    doubles = rng.integers(0, 2**64, 200000, dtype=np.uint64).view(np.float64)
    doubles = np.concatenate([doubles[~np.isnan(doubles)], rng.standard_normal(50000) * 2.0 ** rng.integers(-150, 128, 50000)])
    with np.errstate(over="ignore", under="ignore"):
        want = doubles.astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(encoding.round_values(doubles, format_named("float32")), want)


def test_tfloat32_is_stored_as_float32_with_ten_fraction_bits():
    tf32 = format_named("tf32")
    codes = encoding.round_values(np.array([1024.5, 1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 3.5e38]), tf32)
    assert codes.dtype == np.uint32
    assert not (codes & 0x1FFF).any()
    assert encoding.decode(codes, tf32).tolist() == [1024.0, 1 + 2.0**-10, 1.0, 1 + 2.0**-9, np.inf]


@pytest.mark.parametrize("format_", [f for f in TABLE if not f.is_integer and not f.is_scale], ids=ids)
def test_table_agrees_with_ml_dtypes_finfo(format_):
    if format_.storage:
        return
    info = ml_dtypes.finfo(encoding.storage_dtype(format_))
    assert float(info.max) == format_.max_finite
    assert float(info.smallest_normal) == format_.min_normal
    assert float(info.smallest_subnormal) == format_.min_subnormal
    assert info.nmant == format_.trailing_significand_bits
    assert info.bits == format_.bits


@pytest.mark.parametrize(
    ("name", "limit"),
    [("fp64", 2**53), ("fp32", 2**24), ("tf32", 2048), ("half", 2048), ("bf16", 256), ("e4m3", 16), ("e4m3fnuz", 16),
     ("e5m2", 8), ("e5m2fnuz", 8), ("e2m3", 7), ("e3m2", 8), ("fp4", 4), ("int8", 127), ("int32", 2**31 - 1)],
)
def test_exact_integer_limit(name, limit):
    assert format_named(name).exact_integer_limit == limit


def test_exact_integer_limit_is_the_limit():
    """Every integer up to it is a number of the format, and the next one is not (or is out of range)."""
    for format_ in SMALL_FLOATS:
        if format_.is_scale:
            continue
        limit = format_.exact_integer_limit
        integers = np.arange(limit + 2)
        back = encoding.decode(encoding.round_integers(integers, 0, format_), format_)
        assert np.array_equal(back[:-1], integers[:-1])
        assert back[-1] != integers[-1]


def test_rounds_integers_beyond_float64_once():
    """2^60 + 2^7 is a tie in float32's last bit only through a double rounding: it lies above the tie."""
    near_tie = 2**60 + 2**36 + 1
    code = encoding.round_integers(np.array([near_tie]), 0, format_named("float32"))
    assert encoding.decode(code, format_named("float32"))[0] == 2.0**60 + 2.0**37
    huge = np.array([near_tie << 100, -(near_tie << 100)], object)
    codes = encoding.round_integers(huge, -100, format_named("float32"))
    assert encoding.decode(codes, format_named("float32")).tolist() == [2.0**60 + 2.0**37, -(2.0**60) - 2.0**37]


def test_integer_overflow_is_refused_unless_saturating():
    int8 = format_named("int8")
    with pytest.raises(UsageError, match="does not fit int8"):
        encoding.round_integers(np.array([128]), 0, int8)
    codes = encoding.round_integers(np.array([128, -128, -129, 127]), 0, int8, saturate=True)
    assert codes.view(np.int8).tolist() == [127, -128, -128, 127]


def test_saturation_replaces_infinity():
    half = format_named("half")
    assert encoding.decode(encoding.round_values(np.array([1e6, -np.inf]), half, saturate=True), half).tolist() == [65504.0, -65504.0]


@pytest.mark.parametrize("format_", [f for f in SMALL if not f.is_scale], ids=ids)
def test_ulp_distance_counts_the_numbers_between(format_):
    codes = all_codes(format_)
    codes = codes[~encoding.is_nan(codes, format_)]
    values = encoding.decode(codes, format_)
    order = np.argsort(values, kind="stable")
    codes, values = codes[order], values[order]
    steps = encoding.ulp_distance(codes[1:], codes[:-1], format_)
    assert np.array_equal(steps, (np.diff(values) != 0).astype(np.uint64)) or format_.has_infinity
    rank = np.unique(values, return_inverse=True)[1].ravel()
    assert np.array_equal(encoding.ulp_distance(codes, codes[:1].repeat(len(codes)), format_), rank - rank[0])


def test_ulp_distance_spans_all_of_float64():
    codes = np.array([-np.finfo(np.float64).max, np.finfo(np.float64).max]).view(np.uint64)
    distance = encoding.ulp_distance(codes[:1], codes[1:], format_named("float64"))[0]
    assert int(distance) == 2 * 0x7FEFFFFFFFFFFFFF


def test_nan_is_refused_where_there_is_none():
    with pytest.raises(UsageError, match="NaN cannot be encoded in float4_e2m1fn"):
        encoding.round_values(np.array([np.nan]), format_named("fp4"))


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_infinities_saturate_to_the_largest_numbers(name):
    format_ = format_named(name)
    codes = encoding.round_values(np.array([np.inf, -np.inf, 1.0]), format_, saturate=True)
    assert encoding.decode(codes, format_).tolist() == [format_.max_finite, -format_.max_finite, 1.0]


def test_half_precision_by_its_bits_is_half_precision():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    for some in (finite, every, finite.reshape(-1, 2)[::3, 1], finite[:0], finite[:1].reshape(())):
        wanted = some.astype(np.float32)
        assert np.array_equal(half_values(some).view(np.uint32), wanted.view(np.uint32))


def test_half_precision_keeps_its_subnormals_on_a_processor_that_flushes_them():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    every = np.arange(1 << 10, dtype=np.uint16).view(np.float16)
    wanted = every.astype(np.float64)
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush")
    try:
        found = half_values(every)
    finally:
        torch.set_flush_denormal(False)
    assert np.array_equal(found, wanted)
