"""
Random numbers whose bits are the same everywhere: a counter, hashed.

Word *i* of a stream is half of ``splitmix64(key + i // 2 * golden)``; the key is a hash of the
check's seed and of what the stream is for. Only integer arithmetic modulo 2^64 is used, so another
machine, numpy version or array library draws the same inputs from the same seed. Any word can be
had without those before it: matrices are drawn a few rows at a time, or just the rows asked for.

References:
    G. Steele, D. Lea, C. Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.arrays import HOST, Arrays
from zeroulp.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Part:
    """
    Some rows and columns of a matrix, or of a batch of them with its leading axes flattened.

    Args:
        shape: (*batch, rows, columns), or (columns,), of the whole.
        start: The first row, where they are consecutive.
        count: How many rows.
        rows: (count,) int64, their numbers where they are not consecutive.
        columns: int64 numbers of the columns; None: all of them.
        arrays: The library to draw with.
    """

    shape: tuple[int, ...]
    start: int
    count: int
    rows: Any = None
    columns: Any = None
    arrays: Arrays = HOST

    @classmethod
    def whole(cls, shape: tuple[int, ...], arrays: Arrays = HOST) -> Part:
        """All rows and columns."""
        return cls(shape, 0, math.prod(shape[:-1]), arrays=arrays)

    def between(self, start: int, stop: int) -> Part:
        """The rows from *start* to *stop* - 1."""
        return replace(self, start=start, count=stop - start, rows=None)

    def at(self, rows: Any = None, columns: Any = None) -> Part:
        """Other rows, or other columns, in any order and as often as wished."""
        other = self if rows is None else replace(self, start=0, count=len(rows), rows=rows)
        return other if columns is None else replace(other, columns=columns)

    @property
    def width(self) -> int:
        """How many columns."""
        return self.shape[-1] if self.columns is None else len(self.columns)

    def numbers(self) -> Any:
        """(count,) numbers of the rows."""
        return self.arrays.arange(self.start, self.start + self.count) if self.rows is None else self.rows

    def coordinate(self, axis: int) -> Any:
        """The index along *axis* (-2 or -1), broadcastable to (count, columns)."""
        if axis == -1:
            return (self.arrays.arange(0, self.shape[-1]) if self.columns is None else self.columns)[None, :]
        return (self.numbers() % self.shape[-2])[:, None]


class Stream:
    """An endless sequence of random 32-bit words, from a 64-bit key."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._used = 0

    def words(self, count: int) -> NDArray[np.uint32]:
        """The next *count* words."""
        first, self._used = self._used, self._used + count + count % 2
        return np.asarray(HOST.words(self._key, first, count))

    def below(self, bound: int, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Integers from 0 to *bound* - 1 (bound at most 2^31), uniform to within 2^-32 each."""
        return HOST.below(self.words(math.prod(shape)), bound).reshape(shape)

    def permutation(self, count: int) -> NDArray[np.int64]:
        """A random order of 0 to *count* - 1."""
        high, low = self.words(count).astype(np.uint64), self.words(count).astype(np.uint64)
        return np.argsort((high << np.uint64(32)) | low)  # numbers of 64 bits: hardly ever are two the same

    def chosen(self, probability: float, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """True with this *probability* (to within 2^-32), independently."""
        return HOST.is_below(self.words(math.prod(shape)), _threshold(probability)).reshape(shape)


class Field:
    """
    A number for every element of a matrix: element e of it from word e of a stream.

    Args:
        key: Of the stream.
    """

    def __init__(self, key: int) -> None:
        self._key = key

    def _places(self, part: Part) -> Any:
        """Numbers of the words of a part: the first and how many, or whole rows and their width, or an array."""
        width = part.shape[-1]
        if part.columns is None:
            return (part.start * width, part.count * width) if part.rows is None else (part.rows, width)
        return part.numbers()[:, None] * width + part.coordinate(-1)

    def _integers(self, bound: int, part: Part, *, signed: bool) -> Any:
        drawn = part.arrays.integers(self._key, self._places(part), bound, signed=signed)
        return drawn.reshape(part.count, part.width)

    def below(self, bound: int, part: Part) -> Any:
        """(rows, columns) integers from 0 to *bound* - 1 (bound at most 2^31), uniform to within 2^-32 each."""
        return self._integers(bound, part, signed=False)

    def signed(self, magnitude: int, part: Part) -> Any:
        """(rows, columns) integers from {±1, ..., ±magnitude}, no zero, uniform."""
        return self._integers(2 * magnitude, part, signed=True)

    def all_signed(self, magnitude: int) -> Uniform:
        """The same of a whole matrix, part by part."""
        return Uniform(self, magnitude)

    def words(self, part: Part) -> Any:
        """(rows x columns,) words of consecutive rows."""
        assert part.rows is part.columns is None, "whole rows, one after the other"
        return part.arrays.words(self._key, *self._places(part))

    def chosen(self, probability: float, part: Part) -> Any:
        """(rows, columns): True with this *probability* (to within 2^-32), independently."""
        places, arrays = self._places(part), part.arrays
        words = arrays.integers(self._key, places, 1 << 32)
        return arrays.is_below(words, _threshold(probability)).reshape(part.count, part.width)


@dataclass(frozen=True)
class Uniform:
    """
    Elements that are independent, from {±1, ..., ±magnitude}: words that a library may turn into encodings at once.

    Args:
        field: Where they come from.
        magnitude: The largest.
    """

    field: Field
    magnitude: int

    def __call__(self, part: Part) -> Any:
        """(rows, columns) integers."""
        return self.field.signed(self.magnitude, part)


def _threshold(probability: float) -> int:
    return min(round(probability * 2**32), 2**32 - 1)


@dataclass(frozen=True)
class Seed:
    """
    Where a trial's numbers come from.

    Args:
        check: The check's seed, 64 bits.
        trial: The trial's number within the check.
    """

    check: int
    trial: int

    def stream(self, label: str) -> Stream:
        """The trial's own stream for *label*."""
        return Stream(_hash(self.check, f"trial {self.trial} {label}"))

    def field(self, label: str) -> Field:
        """The trial's own numbers for the elements of the matrix called *label*."""
        return Field(_hash(self.check, f"trial {self.trial} {label}"))

    def shared(self, label: str) -> Stream:
        """A stream that all trials of the check have in common."""
        return Stream(_hash(self.check, f"shared {label}"))


def _hash(seed: int, label: str) -> int:
    digest = hashlib.blake2b(label.encode(), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little")


def fresh_seed() -> int:
    """A seed from the operating system that nobody could know beforehand."""
    return secrets.randbits(64)


def check_seed(value: Any) -> int:
    """*value* as a seed: an integer of 64 bits, or its text in decimal or hexadecimal."""
    try:
        seed = int(value, 0) if isinstance(value, str) else int(value)
    except (TypeError, ValueError):
        seed = -1
    if not 0 <= seed < 2**64:
        raise UsageError(f"seed {value!r} is no integer from 0 to 2^64 - 1", do="leave it out to draw a fresh one")
    return seed
