"""
Bits and values: decode, round, encode, and the distance between two encodings.

An *encoding* is an unsigned integer array holding the bits of each element; a *value* is what
the bits stand for. Rounding happens once, from an exact value (an integer times a power of
two, or a float64), by integer arithmetic on the significand: no floating-point operation here
rounds.

References:
    IEEE 754-2019, clauses 3.4, 4.3 and 7.4 (rounding after which overflow is decided).
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from zeroulp.errors import UsageError
from zeroulp.formats import BY_NAME, Format, Specials

Array: TypeAlias = NDArray[Any]

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_CHUNK = 1 << 20  # elements rounded at a time: the temporaries stay in cache and bounded


def storage_dtype(format_: Format) -> np.dtype[Any]:
    """The numpy (or ml_dtypes) dtype that arrays of this format have."""
    return dtype_named(format_.storage_name)


@functools.cache
def dtype_named(name: str) -> np.dtype[Any]:
    """The numpy (or ml_dtypes) dtype with this *name*."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def format_of_dtype(dtype: Any) -> Format | None:
    """The format whose arrays have *dtype*, or None if it is none of ours."""
    return BY_NAME.get(np.dtype(dtype).name)


def code_dtype(format_: Format) -> np.dtype[Any]:
    """The unsigned dtype of encodings: as wide as a stored element."""
    return np.dtype(_UNSIGNED[storage_dtype(format_).itemsize * 8])


def bits_of(array: Array) -> Array:
    """The encodings of a stored array: same shape, no copy."""
    return array.view(_UNSIGNED[array.dtype.itemsize * 8])


def array_of(codes: Array, format_: Format) -> Array:
    """The stored array with these encodings: same shape, no copy."""
    return codes.view(storage_dtype(format_))


def decode(codes: Array, format_: Format) -> NDArray[np.float64]:
    """
    The values of *codes*, exactly, as float64.

    Exactness:
        float64 holds every value of every format of the table, so nothing rounds.
    """
    codes = np.asarray(codes)
    if format_.storage:
        return decode(codes, BY_NAME[format_.storage])
    if format_.is_integer:
        signed = codes.view(np.dtype(f"i{codes.dtype.itemsize}"))
        return signed.astype(np.float64)
    if format_.name == "float64":
        return codes.view(np.float64)
    wide = codes.astype(np.int64)
    t = format_.trailing_significand_bits
    trailing = wide & ((1 << t) - 1)
    field = (wide >> t) & ((1 << format_.exponent_bits) - 1)
    normal = np.ones(field.shape, bool) if format_.is_scale else field > 0
    significand = trailing + np.where(normal, 1 << t, 0)
    exponent = np.where(normal, field - format_.bias, format_.emin) - t
    values: NDArray[np.float64] = np.ldexp(significand.astype(np.float64), exponent.astype(np.int32))
    values = np.where(_is_infinite(field, trailing, format_), np.inf, values)
    if format_.is_signed:
        values = np.where((wide >> (format_.bits - 1)) & 1 == 1, -values, values)
    return np.where(is_nan(codes, format_), np.nan, values)


def is_nan(codes: Array, format_: Format) -> NDArray[np.bool_]:
    """Which encodings are NaN, whatever the payload."""
    if format_.storage:
        return is_nan(codes, BY_NAME[format_.storage])
    if not format_.has_nan:
        return np.zeros(np.shape(codes), bool)
    one = codes.dtype.type
    if format_.specials is Specials.NAN_AT_NEGATIVE_ZERO:
        return np.asarray(codes == one(1 << (format_.bits - 1)))
    magnitude = codes & one((1 << (format_.bits - int(format_.is_signed))) - 1)
    if format_.specials is Specials.NAN_ONLY:
        return np.asarray(magnitude == one((1 << (format_.bits - int(format_.is_signed))) - 1))
    return np.asarray(magnitude > one(((1 << format_.exponent_bits) - 1) << format_.trailing_significand_bits))


def _is_infinite(field: Array, trailing: Array, format_: Format) -> Array:
    if not format_.has_infinity:
        return np.zeros(np.shape(field), bool)
    return np.asarray((field == (1 << format_.exponent_bits) - 1) & (trailing == 0))


def nan_code(format_: Format) -> int:
    """One encoding of NaN (quiet). Raises ValueError if the format has none."""
    if format_.storage:
        return nan_code(BY_NAME[format_.storage])
    if format_.specials is Specials.IEEE and not format_.is_integer:
        return (((1 << format_.exponent_bits) - 1) << format_.trailing_significand_bits) | (
            1 << (format_.trailing_significand_bits - 1)
        )
    if format_.specials is Specials.NAN_ONLY:
        return int((1 << (format_.bits - int(format_.is_signed))) - 1)
    if format_.specials is Specials.NAN_AT_NEGATIVE_ZERO:
        return int(1 << (format_.bits - 1))
    raise ValueError(f"{format_} has no NaN")


def negative_zero(format_: Format) -> int:
    """The encoding of -0. Raises ValueError if the format has none."""
    if not format_.has_negative_zero:
        raise ValueError(f"{format_} has no negative zero")
    return 1 << ((BY_NAME[format_.storage].bits if format_.storage else format_.bits) - 1)


def round_values(values: Array, format_: Format, *, saturate: bool = False) -> Array:
    """
    Encode float64 *values*, each rounded once, ties to even.

    Args:
        values: Numbers of any shape; converted to float64 first (exact for our formats).
        format_: The target.
        saturate: Whether what overflows becomes the largest finite number.

    Returns:
        Encodings, same shape.

    Examples:
        >>> from zeroulp.formats import format_named
        >>> decode(round_values(np.array([2049.0]), format_named("float16")), format_named("float16"))
        array([2048.])
    """
    values = np.asarray(values, np.float64)
    fraction, exponent = np.frexp(values)
    finite = np.isfinite(values)
    magnitude = np.ldexp(np.abs(np.where(finite, fraction, 0.0)), 53).astype(np.uint64)
    codes = _in_chunks(np.signbit(values), magnitude, exponent.astype(np.int64) - 53, format_, saturate)
    if finite.all():
        return codes
    positive = _stored(_overflow_code(format_, negative=False, saturate=saturate), format_)
    negative = _stored(_overflow_code(format_, negative=True, saturate=saturate), format_)
    codes = np.where(np.isinf(values), np.where(values < 0, negative, positive), codes)
    if np.isnan(values).any():
        if not format_.has_nan:
            raise UsageError(f"NaN cannot be encoded in {format_}", why="every code of it is a finite number")
        codes = np.where(np.isnan(values), nan_code(format_), codes)
    return codes.astype(code_dtype(format_))


def round_integers(integers: Array, exponent: int | Array, format_: Format, *, saturate: bool = False) -> Array:
    """
    Encode ``integers * 2**exponent``, each rounded once, ties to even.

    Args:
        integers: int64 array (magnitudes below 2^63), or an object array of Python integers.
        exponent: Power of two that the elements are multiplied by: one for all, or one for each.
        format_: The target.
        saturate: Whether what overflows becomes the largest finite number.

    Exactness:
        The input is exact, so this is the only rounding: the round-once theorem's last step.
    """
    integers = np.asarray(integers)
    if integers.dtype == object:
        return _round_object(integers, int(exponent), format_, saturate=saturate)
    integers = integers.astype(np.int64, copy=False)
    exponents = np.asarray(exponent, np.int64)
    if exponents.ndim:
        exponents = np.ascontiguousarray(np.broadcast_to(exponents, integers.shape))
    magnitude = np.abs(integers).astype(np.uint64)
    if _all_representable(magnitude, exponents, format_):
        values = np.ldexp(integers.astype(np.float64), exponents.astype(np.int32))
        return bits_of(values.astype(storage_dtype(format_)))
    if not exponents.ndim:
        exponents = exponents.reshape(1)
    return _in_chunks(integers < 0, magnitude, exponents, format_, saturate)


def _all_representable(magnitude: Array, exponents: int | Array, format_: Format) -> bool:
    """Whether every number is a normal one of the format (or zero), so that a plain cast encodes it."""
    if format_.is_integer or format_.is_scale or not magnitude.size:
        return False
    lowest, highest = int(np.min(exponents)), int(np.max(exponents))
    if lowest < format_.emin or highest > 900:
        return False
    largest = int(magnitude.max())
    return largest <= 2**format_.precision and largest * 2.0**highest <= format_.max_finite


def _round_object(integers: Array, exponent: int, format_: Format, *, saturate: bool) -> Array:
    """Python integers of any size: cut to 62 bits with a sticky last bit, which no rounding can tell apart."""

    def cut(value: int) -> tuple[int, int]:
        excess = max(0, abs(value).bit_length() - 62)
        head, lost = abs(value) >> excess, abs(value) & ((1 << excess) - 1)
        return head | int(lost != 0), exponent + excess

    flat = [cut(int(value)) for value in integers.ravel()]
    magnitude = np.array([head for head, _ in flat], np.uint64).reshape(integers.shape)
    exponents = np.array([e for _, e in flat], np.int64).reshape(integers.shape)
    negative = np.array([int(value) < 0 for value in integers.ravel()], bool).reshape(integers.shape)
    return _in_chunks(negative, magnitude, exponents, format_, saturate)


def _in_chunks(negative: Array, magnitude: Array, exponent: Array, format_: Format, saturate: bool) -> Array:  # noqa: FBT001
    shape = magnitude.shape
    codes = np.empty(magnitude.size, code_dtype(format_))
    negative, magnitude = negative.ravel(), magnitude.ravel()
    per_element = exponent.size != 1 or exponent.shape == shape
    exponent = exponent.ravel()
    for start in range(0, codes.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        e = exponent[part] if per_element else exponent
        codes[part] = _round(negative[part], magnitude[part], e, format_, saturate=saturate)
    return codes.reshape(shape)


def _round(negative: Array, magnitude: Array, exponent: Array, format_: Format, *, saturate: bool) -> Array:
    """Encode (-1)^negative * magnitude * 2^exponent; 0 <= magnitude <= 2^63."""
    t = format_.trailing_significand_bits
    length = _bit_length(magnitude)
    leading = length + exponent - 1  # floor(log2(|value|)) where magnitude > 0
    quantum = np.maximum(leading, format_.emin) - t if not format_.is_integer else np.zeros_like(leading)
    shift = quantum - exponent  # bits to drop; negative: room to spare
    down = np.clip(shift, 0, 63).astype(np.uint64)
    up = np.clip(-shift, 0, 63).astype(np.uint64)
    kept = magnitude >> down
    remainder = magnitude - (kept << down)
    twice = remainder << np.uint64(1)
    unit = np.left_shift(np.uint64(1), down)
    odd = (kept & np.uint64(1)).astype(bool)
    round_up = (shift > 0) & (shift < 64) & ((twice > unit) | ((twice == unit) & odd))
    kept = np.where(shift >= 64, np.uint64(0), kept)
    kept = (kept + round_up.astype(np.uint64)) << up
    overflow = _overflows(kept, quantum, up, length, format_)
    if format_.is_integer:
        return _integer_codes(negative, kept, overflow, format_, saturate=saturate)
    codes = _float_codes(kept, quantum, format_)
    if format_.is_signed:
        codes |= negative.astype(np.uint64) << np.uint64(format_.bits - 1)
    zero = magnitude == 0
    if format_.is_scale:
        codes = np.where(zero | negative | (leading < format_.emin), np.uint64(nan_code(format_)), codes)
    elif not format_.has_negative_zero:
        codes = np.where(kept == 0, np.uint64(0), codes)
    if overflow.any():
        positive = np.uint64(_overflow_code(format_, negative=False, saturate=saturate))
        minus = np.uint64(_overflow_code(format_, negative=True, saturate=saturate))
        codes = np.where(overflow, np.where(negative, minus, positive), codes)
    return np.asarray(_stored(codes, format_).astype(code_dtype(format_)))


def _stored(codes: Any, format_: Format) -> Any:
    """Codes of the format itself, moved to where its storage format keeps them."""
    if not format_.storage:
        return codes
    shift = BY_NAME[format_.storage].bits - format_.bits
    return codes << (shift if isinstance(codes, int) else np.uint64(shift))


def _bit_length(magnitude: Array) -> Array:
    """Bits of each magnitude; the float64 exponent is off by one at most, and then corrected."""
    length = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
    too_long = (length > 0) & (np.right_shift(magnitude, np.clip(length - 1, 0, 63).astype(np.uint64)) == 0)
    return np.asarray(length - too_long)


def _overflows(kept: Array, quantum: Array, up: Array, length: Array, format_: Format) -> Array:
    """Which rounded magnitudes lie above the largest finite one (of integers: of the negative ones)."""
    if format_.is_integer:
        return np.asarray((kept > np.uint64(format_.max_significand + 1)) | (length + up.astype(np.int64) > 63))
    top = format_.emax - format_.trailing_significand_bits
    beyond = (quantum > top) | ((quantum == top) & (kept > np.uint64(format_.max_significand)))
    return np.asarray(beyond & (kept > 0))


def _float_codes(kept: Array, quantum: Array, format_: Format) -> Array:
    """Codes without sign; a carry out of the significand moves into the exponent by itself."""
    t = format_.trailing_significand_bits
    smallest_field = 0 if format_.is_scale else 1
    field = np.clip(quantum + t - format_.emin + smallest_field, 0, (1 << format_.exponent_bits) - 1)
    hidden = np.uint64(1 << t)
    normal = kept >= hidden
    base = np.where(normal, field.astype(np.uint64) << np.uint64(t), np.uint64(0))
    return np.asarray(base + np.where(normal, kept - hidden, kept))


def _integer_codes(negative: Array, kept: Array, overflow: Array, format_: Format, *, saturate: bool) -> Array:
    limit = np.int64(format_.max_significand)
    signed = kept.astype(np.int64) * np.where(negative, -1, 1)
    low = -limit - 1
    overflow = overflow | (~negative & (kept == np.uint64(limit + 1)))
    if overflow.any() and not saturate:
        raise UsageError(
            f"a value does not fit {format_}",
            why=f"integers above {limit} wrap or saturate, by no common rule",
            do="declare saturate=True, or choose a wider output format",
        )
    signed = np.where(overflow, np.where(negative, low, limit), signed)
    return np.asarray(signed.astype(np.dtype(f"i{code_dtype(format_).itemsize}")).view(code_dtype(format_)))


def _overflow_code(format_: Format, *, negative: bool, saturate: bool) -> int:
    """What overflow gives: infinity, else NaN, else (or when saturating) the largest finite number."""
    if format_.is_integer:
        return int(format_.max_significand + int(negative))
    t, sign = format_.trailing_significand_bits, int(negative) << (format_.bits - 1)
    largest = ((format_.emax + format_.bias) << t) | (format_.max_significand & ((1 << t) - 1))
    if saturate or format_.specials is Specials.NONE:
        return largest | sign
    if format_.has_infinity:
        return (((1 << format_.exponent_bits) - 1) << t) | sign
    if format_.specials is Specials.NAN_ONLY and not format_.is_scale:
        return nan_code(format_) | sign
    return nan_code(format_)


def ordinals(codes: Array, format_: Format) -> NDArray[np.int64]:
    """
    Each encoding's place on the number line: consecutive numbers are one apart, both zeros are 0.

    NaN has no place; what stands there means nothing.
    """
    if format_.is_integer:
        return codes.view(np.dtype(f"i{codes.dtype.itemsize}")).astype(np.int64)
    width = BY_NAME[format_.storage].bits if format_.storage else format_.bits
    if not format_.is_signed:
        return codes.astype(np.int64)
    magnitude = (codes & codes.dtype.type((1 << (width - 1)) - 1)).astype(np.int64)
    negative = (codes >> codes.dtype.type(width - 1)).astype(bool)
    return np.asarray(np.where(negative, -magnitude, magnitude))


def ulp_distance(actual: Array, expected: Array, format_: Format) -> NDArray[np.uint64]:
    """
    How many numbers of the format lie between two encodings, plus one (0: same value).

    Both zeros count as one number. Undefined for NaN.

    Returns:
        uint64 array, in units in the last place of *format_* (a count, not a value).
    """
    a, b = ordinals(actual, format_), ordinals(expected, format_)
    low, high = np.minimum(a, b), np.maximum(a, b)
    with np.errstate(over="ignore"):  # the difference of two's complements, modulo 2^64
        return np.asarray(high.view(np.uint64) - low.view(np.uint64))
