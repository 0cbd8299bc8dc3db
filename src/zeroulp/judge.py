"""
Encodings compared with encodings.

Two results agree at a position if their bits agree, with two classes made by name: all NaNs are
one, and the zeros are one unless the contract says ``signed_zero="strict"``. Nothing else is
forgiven, and no tolerance enters. Where the reference gives a range instead of bits, the result
lies in it or it does not.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.encoding import Array
    from zeroulp.formats import Format
    from zeroulp.reference import Expected


@dataclass(frozen=True)
class Value:
    """One number said in three ways: decimal, hexadecimal (lossless), and its bits."""

    decimal: str
    hexadecimal: str
    bits: str

    @classmethod
    def of(cls, code: Any, format_: Format) -> Value:
        """The number that *code* stands for."""
        codes = np.asarray([code], encoding.code_dtype(format_))
        number = float(encoding.decode(codes, format_)[0])
        text = str(int(number)) if number.is_integer() and abs(number) < 1e16 else repr(number)
        sign = "-" if number == 0 and np.signbit(number) else ""
        hexadecimal = re.sub(r"\.?0*p", "p", number.hex())  # 0x1.f80...0p+5 is 0x1.f8p+5
        return cls(sign + text, hexadecimal, f"0x{int(code):0{codes.dtype.itemsize * 2}x}")


@dataclass(frozen=True)
class Matched:
    """Every compared position agreed."""

    compared: int
    elements: int


@dataclass(frozen=True)
class Differs:
    """
    Some positions did not agree.

    Args:
        first: Index of the first one, in row-major order.
        expected: What should stand there.
        actual: What does.
        ulps: How many numbers apart they are; None where one is NaN.
        differing: How many positions differ.
        compared: How many were compared.
        elements: How many there are.
        low: Smallest index of a differing position, per axis.
        high: Largest index, per axis (inclusive).
        nans: How many of them are NaN where a number is expected.
        places: (count, axes) indices of some of them, the first and the last among them and the others
            spread over all, in row-major order. To look at them more closely; in no report.
    """

    first: tuple[int, ...]
    expected: Value
    actual: Value
    ulps: int | None
    differing: int
    compared: int
    elements: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    nans: int
    places: Array | None = field(default=None, compare=False, repr=False)


Outcome = Matched | Differs

_PLACES, _PARTS = 256, 4096  # differences whose places are kept, and parts of a result that have their own until then


def same(left: Array, right: Array, format_: Format, *, zero_sign: Array | bool = False) -> NDArray[np.bool_]:
    """Where two encodings agree; *zero_sign*: where the sign of a zero counts."""
    equal = np.asarray(left == right)
    if equal.all():
        return equal
    both_nan = encoding.is_nan(left, format_) & encoding.is_nan(right, format_)
    equal = equal | both_nan
    if format_.has_negative_zero:
        magnitude = left.dtype.type((1 << (left.dtype.itemsize * 8 - 1)) - 1)
        if format_.bits < 8:
            magnitude = left.dtype.type((1 << (format_.bits - 1)) - 1)
        zeros = ((left & magnitude) == 0) & ((right & magnitude) == 0)
        equal = equal | (zeros & ~np.asarray(zero_sign))
    return equal


def within(actual: Array, low: Array, high: Array, format_: Format) -> NDArray[np.bool_]:
    """Where a result is a number from *low* to *high*, in the order of the number line; both zeros are one."""
    place = encoding.ordinals(actual, format_)
    inside = (encoding.ordinals(low, format_) <= place) & (place <= encoding.ordinals(high, format_))
    return np.asarray(inside & ~encoding.is_nan(actual, format_))


def differing(actual: Array, expected: Expected, format_: Format) -> NDArray[np.bool_]:
    """Which compared positions differ, as a mask of the output's shape."""
    if expected.low is not None and expected.high is not None:
        outside = ~within(actual, expected.low, expected.high, format_)
        return outside if expected.compared is None else outside & expected.compared
    sign: Array | bool = False if expected.zero_sign is None else expected.zero_sign
    agree = same(actual, expected.codes, format_, zero_sign=sign)
    for other in expected.also:
        agree = agree | same(actual, other, format_, zero_sign=sign)
    return ~agree if expected.compared is None else ~agree & expected.compared


def judge(actual: Array, expected: Expected, format_: Format) -> Outcome:
    """
    Compare a result with what every correct kernel must return.

    Args:
        actual: (*batch, m, n) encodings of the kernel's result.
        expected: The reference's answer for the same inputs.
        format_: The output's format.

    Returns:
        `Matched`, or `Differs` with the first difference in row-major order.
    """
    wrong = differing(actual, expected, format_)
    compared = wrong.size if expected.compared is None else int(np.count_nonzero(expected.compared))
    tally = Tally(format_, actual.shape, compared)
    if wrong.any():
        tally.add(np.nonzero(wrong), actual[wrong], expected.codes[wrong])
    return tally.outcome()


class Tally:
    """
    Differences, gathered part by part.

    Args:
        format_: The output's format.
        shape: Its shape.
        compared: How many positions are compared; default: all.
    """

    def __init__(self, format_: Format, shape: tuple[int, ...], compared: int | None = None) -> None:
        self._format, self._elements = format_, math.prod(shape)
        self._compared = self._elements if compared is None else compared
        self._found: list[Differs] = []
        self._places: list[Array] = []

    def add(self, places: tuple[Array, ...], actual: Array, expected: Array) -> None:
        """
        Positions that do not agree.

        Args:
            places: Their indices along each axis, in row-major order.
            actual: (count,) encodings that stand there.
            expected: (count,) encodings that should.
        """
        format_ = self._format
        nans = encoding.is_nan(actual, format_) & ~encoding.is_nan(expected, format_)
        codes = actual[:1], expected[:1]
        either_nan = any(encoding.is_nan(code, format_)[0] for code in codes)
        self._found.append(
            Differs(
                first=tuple(int(axis[0]) for axis in places),
                expected=Value.of(codes[1][0], format_),
                actual=Value.of(codes[0][0], format_),
                ulps=None if either_nan else int(encoding.ulp_distance(*codes, format_)[0]),
                differing=len(actual),
                compared=self._compared,
                elements=self._elements,
                low=tuple(int(axis.min()) for axis in places),
                high=tuple(int(axis.max()) for axis in places),
                nans=int(np.count_nonzero(nans)),
            )
        )
        self._places.append(np.stack([axis[some_of(np.arange(len(actual)), _PLACES)] for axis in places], axis=-1))
        if len(self._places) > _PARTS:
            self._places = [self._some_places(_PARTS)]

    @property
    def is_wrong(self) -> bool:
        """Whether there was a difference."""
        return bool(self._found)

    def outcome(self) -> Outcome:
        """What came of it."""
        if not self._found:
            return Matched(self._compared, self._elements)
        return replace(
            min(self._found, key=lambda part: part.first),
            differing=sum(part.differing for part in self._found),
            low=tuple(map(min, zip(*(part.low for part in self._found), strict=True))),
            high=tuple(map(max, zip(*(part.high for part in self._found), strict=True))),
            nans=sum(part.nans for part in self._found),
            places=self._some_places(_PLACES),
        )

    def _some_places(self, most: int) -> Array:
        places = np.concatenate(self._places)
        return some_of(places[np.lexsort(places.T[::-1])], most)


def some_of(rows: Array, most: int) -> Array:
    """
    At most so many *rows* of an array in their order: the first, the last, and others spread over all.

    Steps are multiples of the golden ratio modulo their number, which keep no step with rows and
    columns of a matrix.
    """
    if len(rows) <= most:
        return rows
    steps = np.arange(1, max(1, most - 1)) * ((5**0.5 - 1) / 2) % 1
    inner = (steps * len(rows)).astype(np.int64)
    chosen: Array = rows[np.unique([0, *inner, len(rows) - 1][:most])]
    return chosen
