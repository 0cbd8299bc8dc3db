"""
A fingerprint of an array's bits, in place of a copy where that would be too large.

References:
    J. Black, S. Halevi, H. Krawczyk, T. Krovetz, P. Rogaway, *UMAC: Fast and Secure Message
    Authentication*, CRYPTO 1999: the family NH, whose collisions do not depend on how two
    messages differ. A plain weighted sum of words has blind spots: two signs in high halves.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.arrays import HOST, arrays_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zeroulp.encoding import Array

PUBLIC_KEY = 0x9F3C1D5A7B20E846
_CHUNK = 1 << 16  # words of 32 bits that are hashed to 64 bits
_ALIGNED = 8  # bytes
_PIECE = 1 << 24  # bytes that are made contiguous at a time
_NOTHING = np.empty(0, np.uint8)


def fingerprint(array: Any, key: int = PUBLIC_KEY) -> str:
    """
    A hash of the bits of an array, the same for the same bits in row-major order, whatever the strides.

    Args:
        array: Of any array library; nothing but a few MiB is copied.
        key: 64 bits. Who knows it can make two arrays that agree.

    Exactness:
        Arrays of one shape with the same bits agree. Two that differ do so too, but for a chance of
        2^-32 over keys that have nothing to do with them; the same number in every library.
    """
    return fingerprints([(array, key)])[0]


def fingerprints(keyed: Sequence[tuple[Any, int]]) -> list[str]:
    """
    Those of several arrays, each with its key; see `fingerprint`. A device is waited for once.

    Args:
        keyed: Arrays of one library, and keys.
    """
    parts = [[_sums(piece, key) for piece in _pieces_of(array)] for array, key in keyed]
    on_host = iter(_brought([part for pieces in parts for both in pieces for part in both]))
    found = []
    for (_, key), pieces in zip(keyed, parts, strict=True):
        hashed = hashlib.blake2b(digest_size=16)
        for _ in pieces:
            hashed.update(next(on_host).tobytes())
            hashed.update(_sums_on_host(next(on_host), key))
        found.append(hashed.hexdigest())
    return found


def _pieces_of(array: Any) -> Iterator[Any]:
    return _pieces(array) if _fused(array) is None else iter([array])


def _brought(parts: list[Any]) -> list[Array]:
    """All of them on the host, in one copy; what is there already stays as it is."""
    there = [part for part in parts if not isinstance(part, np.ndarray) and part.numel()]
    if not there:
        return [part if isinstance(part, np.ndarray) else _NOTHING for part in parts]
    torch = importlib.import_module("torch")
    raw = [part.view(torch.uint8) for part in there]
    whole = arrays_of(raw[0]).to_host(torch.cat(raw) if len(raw) > 1 else raw[0])
    cut = iter(np.split(whole, np.cumsum([len(part) for part in raw])[:-1]))
    return [part if isinstance(part, np.ndarray) else next(cut) if part.numel() else _NOTHING for part in parts]


def _fused(array: Any) -> Any:
    """What takes all chunks at once, in one pass, if no piece ends within a chunk; else None."""
    arrays = arrays_of(array)
    if arrays.name == "numpy" or arrays.fused is None or not array.ndim or not len(array):
        return None
    if not array.is_contiguous() or array.data_ptr() % _ALIGNED:
        return None
    entry = math.prod(array.shape[1:]) * array.dtype.itemsize
    return arrays.fused if entry <= _PIECE and _step(entry) * entry % (4 * _CHUNK) == 0 else None


def _step(entry: int) -> int:
    """How many entries make a piece: a power of two, so that pieces of the usual sizes are whole chunks."""
    return 1 << ((_PIECE // max(1, entry)).bit_length() - 1)


def _pieces(array: Any) -> Iterator[Any]:
    """Parts of an array, consecutive in row-major order, cut by its shape alone."""
    if not array.ndim:
        array = array.reshape(1)
    if not len(array):
        return
    entry = math.prod(array.shape[1:]) * array.dtype.itemsize
    if array.ndim > 1 and entry > _PIECE:
        for part in array:
            yield from _pieces(part)
        return
    step = _step(entry)
    for low in range(0, len(array), step):
        yield array[low : low + step]


def _sums(piece: Any, key: int) -> tuple[Any, Any]:
    """NH of each whole chunk of words, where they lie, and the bytes that are left (on the host none)."""
    arrays = arrays_of(piece)
    if arrays.name == "numpy":
        return np.frombuffer(_sums_on_host(piece, key), np.uint8), _NOTHING
    torch = importlib.import_module("torch")
    whole = piece.numel() > 1 and piece.is_contiguous() and piece.data_ptr() % _ALIGNED == 0  # one may have any stride
    dense = piece if whole else arrays.copy(piece)
    raw = dense.reshape(-1).view(torch.uint8)
    chunks = raw.numel() // (4 * _CHUNK)
    rest = raw[chunks * 4 * _CHUNK :]
    rest = rest if whole else arrays.copy(rest)  # and not the whole copy with it
    if not chunks:
        return _NOTHING, rest
    words = raw[: chunks * 4 * _CHUNK].view(torch.int32).reshape(chunks, _CHUNK)
    keys = arrays.table(_signed_keys(key))
    fused = _fused(piece)
    found = None if fused is None else fused.chunk_sums(words, keys)
    if found is not None:
        return found, rest
    mixed = (words + keys).to(torch.int64).bitwise_and_(2**32 - 1)
    return (mixed[:, : _CHUNK // 2] * mixed[:, _CHUNK // 2 :]).sum(-1), rest


def _sums_on_host(piece: Array, key: int) -> bytes:
    raw = np.ascontiguousarray(piece).reshape(-1).view(np.uint8)
    rest = raw.size % 8
    words, keys = raw[: raw.size - rest].view("<u4"), _keys(key)
    chunks = words.size // _CHUNK
    fused = HOST.fused.chunk_sums(words[: chunks * _CHUNK].reshape(-1, _CHUNK), keys)
    found = []
    for start in range(0 if fused is None else chunks * _CHUNK, words.size, _CHUNK):
        part = words[start : start + _CHUNK]
        mixed, half = part + keys[: part.size], part.size // 2
        found.append(np.dot(mixed[:half].astype(np.uint64), mixed[half:].astype(np.uint64)))
    sums = np.array(found, "<u8").tobytes() + raw[raw.size - rest :].tobytes()
    return sums if fused is None else fused.astype("<u8").tobytes() + sums


@functools.lru_cache(maxsize=4)
def _keys(key: int) -> Array:
    return HOST.words(key, 0, _CHUNK)


@functools.lru_cache(maxsize=4)
def _signed_keys(key: int) -> Array:
    return _keys(key).view(np.int32)
