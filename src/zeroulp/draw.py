"""
Random numbers whose bits are the same everywhere: a counter, hashed.

Word *i* of a stream is ``splitmix64(key + i * golden)``; the key is a hash of the check's seed
and of what the stream is for. Only integer arithmetic modulo 2^64 is used, so another machine,
numpy version or array library draws the same inputs from the same seed.

References:
    G. Steele, D. Lea, C. Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_CHUNK = 1 << 16


class Stream:
    """An endless sequence of random 32-bit words, from a 64-bit key."""

    def __init__(self, key: int) -> None:
        self._key = np.uint64(key)
        self._used = 0

    def words(self, count: int) -> NDArray[np.uint32]:
        """The next *count* words."""
        pairs = (count + 1) // 2
        out = np.empty(pairs, np.uint64)
        for start in range(0, pairs, _CHUNK):
            stop = min(start + _CHUNK, pairs)
            counter = np.arange(self._used + start + 1, self._used + stop + 1, dtype=np.uint64)
            out[start:stop] = _splitmix64(self._key, counter)
        self._used += pairs
        return out.astype("<u8", copy=False).view("<u4")[:count]

    def below(self, bound: int, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Integers from 0 to *bound* - 1 (bound at most 2^31), uniform to within 2^-32 each."""
        words = self.words(math.prod(shape))
        if bound & (bound - 1) == 0:
            drawn = words >> np.uint32(32 - bound.bit_length() + 1) if bound > 1 else np.zeros_like(words)
        else:
            drawn = (words.astype(np.uint64) * np.uint64(bound)) >> np.uint64(32)
        return drawn.astype(np.int32).reshape(shape)

    def signed(self, magnitude: int, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Integers from {±1, ..., ±magnitude}, no zero, uniform."""
        drawn = self.below(2 * magnitude, shape)
        drawn -= magnitude
        drawn += (drawn >= 0).astype(np.int32)
        return drawn

    def chosen(self, probability: float, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """True with this *probability* (to within 2^-32), independently."""
        threshold = np.uint32(min(round(probability * 2**32), 2**32 - 1))
        return np.asarray(self.words(math.prod(shape)) < threshold).reshape(shape)

    def permutation(self, count: int) -> NDArray[np.int64]:
        """A random order of 0 to *count* - 1."""
        high, low = self.words(count).astype(np.uint64), self.words(count).astype(np.uint64)
        return np.argsort((high << np.uint64(32)) | low, kind="stable")


def _splitmix64(key: np.uint64, counter: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = counter * _GOLDEN
    z += key
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


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
