"""
The shapes beside a given one at which kernels go wrong.

Kernels work in tiles, load vectors and choose a path by the sizes; they are right where all sizes
are whole tiles, and wrong at a remainder, below one tile, at a single row. The neighbours are a
table: first each size alone with the others whole (a fast path may want all the others aligned),
then three kinds of size (an odd multiple of a power of two, a remainder, a small one) such that
any kind of one dimension meets any of another, as in a Latin square; and tall, flat and deep ones.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zeroulp.errors import ProblemError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.problem import Matmul

SHAPES = ("ragged", "ragged+empty")
"""What ``--shapes`` may say: the neighbours, or those and a sum of no terms."""

_TILES = (16, 32, 64, 128)
_MODERATE = 384  # three tiles of 128; kinds are combined at sizes no larger than this

# A kind of size: "=" whole tiles, "+1" and "-1" beside them, "*8" the largest odd multiple of 8,
# "p" and "q" primes, "<40" 40 or whatever is below the given size, "1" one.
_ALONE = (
    ("=", "=", "+1"),
    ("=", "-1", "="),
    ("+1", "=", "="),
    ("=", "=", "*8"),
    ("=", "*8", "="),
    ("*8", "=", "="),
    ("=", "=", "<13"),
    ("=", "<100", "="),
    ("<40", "=", "="),
    ("1", "=", "="),
    ("=", "1", "="),
    ("=", "=", "1"),
    ("*16", "<7", "<40"),  # tall
    ("<6", "*16", "*32"),  # flat
    ("<24", "<19", "*2"),  # deep
)
_TOGETHER = (
    ("-1", "+1", "-1"),
    ("*64", "*32", "*16"),
    ("<3", "<12", "<34"),
    ("*32", "p", "<7"),
    ("*4", "<34", "p"),
    ("p", "*64", "<8"),
    ("q", "<5", "*64"),
    ("<14", "*4", "q"),
    ("<63", "q", "*4"),
)


def ragged_shapes(problem: Matmul, most: int = 24, *, empty: bool = False) -> tuple[Matmul, ...]:
    """
    The given problem, and the neighbours at which a kernel that is right for it may be wrong.

    Args:
        problem: The given one. A size of 0 or 1 stays as it is: such a kernel is a special one.
        most: Neighbours, at most.
        empty: Whether k = 0 is one of them.

    Returns:
        The given problem first, then its neighbours, the cheapest first, each once. No size is
        more than one above the given one; only those of ``m``, ``n``, ``k`` that change alone
        come near large ones. With a batch, batches of 1 and 3 too.

    Raises:
        ProblemError: If *most* is no number of neighbours.

    Examples:
        >>> from zeroulp.problem import Matmul
        >>> [(p.m, p.n, p.k) for p in ragged_shapes(Matmul(256, 256, 256, a="half"), most=3)]
        [(256, 256, 256), (256, 255, 256), (256, 256, 257), (257, 256, 256)]
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 0:
        raise ProblemError(f"most={most!r} is no number of neighbours", do="pass 0 or more, or leave it out")
    wanted = [problem.replace(k=0)] if empty else []
    wanted += _neighbours(problem)
    found = [shape for shape in dict.fromkeys(map(_Hashed, wanted)) if shape.key != _Hashed(problem).key][:most]
    return (problem, *(shape.problem for shape in sorted(found, key=lambda shape: (shape.cost, shape.key))))


def shapes_named(name: str, problem: Matmul) -> tuple[Matmul, ...]:
    """The shapes that ``--shapes`` *name* means. Raises UnknownNameError if there are none so called."""
    if name not in SHAPES:
        raise UnknownNameError("set of shapes", name, SHAPES)
    return ragged_shapes(problem, empty=name == "ragged+empty")


def sizes_text(problem: Matmul) -> str:
    """The sizes, as ``256 x 256 x 255``; a batch comes first."""
    batch = "x".join(map(str, problem.batch))
    return (f"{batch} of " if batch else "") + f"{problem.m} x {problem.n} x {problem.k}"


def why_shape(given: Matmul, problem: Matmul) -> str:
    """
    What is special about the sizes of *problem* that *given* does not have.

    Examples:
        >>> from zeroulp.problem import Matmul
        >>> given = Matmul(256, 256, 256, a="half")
        >>> why_shape(given, given.replace(m=1, k=255))
        'm = 1, k one below a multiple of 128'
    """
    changed = [(name, getattr(given, name), getattr(problem, name)) for name in ("m", "n", "k")]
    texts = [_why_size(name, before, size) for name, before, size in changed if size != before]
    if problem.batch != given.batch:
        texts.append(f"a batch of {math.prod(problem.batch)}")
    if texts and min(problem.m, problem.n) > 1 and problem.m >= 16 * problem.n:
        texts.append("tall")
    if texts and min(problem.m, problem.n) > 1 and problem.n >= 16 * problem.m:
        texts.append("flat")
    return ", ".join(texts) or "the given shape"


def _why_size(name: str, given: int, size: int) -> str:
    if size < 2:
        return f"{name} = {size}"
    if size < 8:
        return f"{name} below 8"
    if 2 * size <= given and size < _TILES[-1]:
        return f"{name} below one tile of {next(tile for tile in _TILES if size < tile)}"
    for tile in reversed(_TILES):
        if (size + 1) % tile == 0:
            return f"{name} one below a multiple of {tile}"
        if (size - 1) % tile == 0:
            return f"{name} one above a multiple of {tile}"
    if _is_prime(size):
        return f"{name} a prime"
    power = size & -size
    if power >= _TILES[-1]:
        return f"{name} a multiple of {_TILES[-1]}"
    return f"{name} an odd multiple of {power}" if power > 1 else f"{name} odd"


class _Hashed:
    """A problem by its sizes: all neighbours agree in everything else, and layouts may be a mapping."""

    def __init__(self, problem: Matmul) -> None:
        self.problem = problem
        self.key = (*problem.batch, problem.m, problem.n, problem.k)
        self.cost = math.prod(max(size, 1) for size in self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hashed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _neighbours(problem: Matmul) -> list[Matmul]:
    """The most telling first; not yet without duplicates."""
    given = (problem.m, problem.n, problem.k)
    moderate = [min(size, _MODERATE) for size in given]
    found = []
    if problem.batch:
        found += [problem.replace(batch=_batch_of(count, problem.batch)) for count in (1, 3)]
    if given != tuple(map(_whole, given)):
        found.append(_with_sizes(problem, given, ("=", "=", "=")))
    found += [_with_sizes(problem, given, kinds) for kinds in _ALONE]
    for i, kinds in enumerate(_TOGETHER):
        batch = _batch_of((3, 1)[i % 2], problem.batch)
        found.append(_with_sizes(problem, moderate, kinds).replace(batch=batch))
    return found


def _batch_of(count: int, batch: Sequence[int]) -> tuple[int, ...]:
    """A batch of *count*, with as many axes as *batch*."""
    return tuple(count if i == len(batch) - 1 else 1 for i in range(len(batch)))


def _with_sizes(problem: Matmul, given: Sequence[int], kinds: Sequence[str]) -> Matmul:
    m, n, k = (_size(size, kind) for size, kind in zip(given, kinds, strict=True))
    return problem.replace(m=m, n=n, k=k)


def _size(given: int, kind: str) -> int:
    """The size of this *kind* beside the *given* one; between 1 and one above it."""
    whole = _whole(given)
    if given < 2 or kind == "1":
        return min(given, 1)
    if kind == "=":
        return whole
    if kind in ("+1", "-1"):
        return whole + int(kind)
    if kind in ("p", "q"):
        return _prime_up_to(whole * 4 // 5 if kind == "p" else whole * 3 // 5)
    number = int(kind[1:])
    return min(number, given - 1) if kind[0] == "<" else _odd_multiple(given, number)


def _whole(size: int) -> int:
    """*size* itself if it is below 16 or a multiple of it, else the largest whole number of tiles up to it."""
    if size < _TILES[0] or size % _TILES[0] == 0:
        return size
    tile = max(tile for tile in _TILES if tile <= size)
    return size // tile * tile


def _odd_multiple(size: int, power: int) -> int:
    """The largest odd multiple of *power* (or of a smaller power of two) that is not above *size*."""
    while power > size:
        power //= 2
    multiple = size // power
    return power * (multiple - 1 + multiple % 2)


def _prime_up_to(bound: int) -> int:
    """The largest prime that is not above *bound*; 1 if there is none."""
    return next((number for number in range(bound, 1, -1) if _is_prime(number)), 1)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))
