"""
Sizes of many shapes as people write them: ``64,128``, ``64,128x64x1024``, or a file with one shape a line.

A shape is m, n and k. A file holds, all its lines in one form: three numbers; comma-separated
values under a header that names m, n and k in any order; or JSON Lines, each an object with
"m", "n" and "k", or a list of three numbers. What follows a ``#`` in the first two forms is a comment.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zeroulp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NAMES = ("m", "n", "k")
_EXAMPLE = "for example --grid 64,128,256 (all three of m, n and k) or --grid 64,128x64x1024,2048 (m x n x k)"
_LARGEST = 2**31 - 1


class Sizes(NamedTuple):
    """
    The sizes of one shape.

    Examples:
        >>> str(Sizes(64, 64, 128))
        '64x64x128'
    """

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return "x".join(map(str, self))


def parse_grid(text: str) -> tuple[Sizes, ...]:
    """
    Every m with every n and every k.

    Args:
        text: One list of sizes for all three, or one list for each, with an ``x`` between them.

    Returns:
        The shapes, each once; k varies fastest.

    Raises:
        UsageError: If *text* is of neither form.

    Examples:
        >>> [str(sizes) for sizes in parse_grid("64,65x8x32")]
        ['64x8x32', '65x8x32']
        >>> len(parse_grid("64,128,256"))
        27
    """
    axes = [_axis(part, text) for part in re.split("[xX]", text)]
    if len(axes) not in (1, 3):
        what = f"the grid {text!r} has {len(axes)} lists of sizes"
        raise UsageError(what, why="one makes sense, or three", do=_EXAMPLE)
    return _each_once(itertools.starmap(Sizes, itertools.product(*(axes if len(axes) == 3 else axes * 3))))


def parse_shape(text: str) -> Sizes:
    """
    The shape written as ``64x64x128``.

    Raises:
        UsageError: If *text* is not three sizes.
    """
    try:
        return _sizes(re.split("[xX]", text))
    except ValueError as error:
        do = "write m, n and k, for example 64x64x128"
        raise UsageError(f"{text!r} is no shape", why=str(error), do=do) from None


def read_shapes(path: str | Path) -> tuple[Sizes, ...]:
    """
    The shapes that a file lists, in its order, each once; see the module for its form.

    Raises:
        UsageError: If the file cannot be read, holds none, or a line is no shape; it names the line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read", why=str(error), do="name a file of shapes, one a line") from error
    return parse_shapes(text, source=str(path))


def parse_shapes(text: str, *, source: str = "shapes") -> tuple[Sizes, ...]:
    r"""
    The shapes that a text lists, one a line.

    Args:
        text: What a file of shapes holds; see the module for its form.
        source: What to call it in errors.

    Raises:
        UsageError: If it holds none, or a line is no shape; it names the line.

    Examples:
        >>> parse_shapes("# decode\n1 4096 4096\n")
        (Sizes(m=1, n=4096, k=4096),)
    """
    lines = [(number, _bare(line)) for number, line in enumerate(re.split("\r\n|\n|\r", text), 1)]
    lines = [(number, line) for number, line in lines if line]
    found: list[Sizes] = []
    read: Callable[[str], Sizes] = _plain
    for i, (number, line) in enumerate(lines):
        try:
            if i == 0 and line[0] in "{[":
                read = _from_json
            elif i == 0 and re.match("[A-Za-z\"']", line):
                read = _reader_under(line)
                continue
            found.append(read(line))
        except ValueError as error:
            do = "write three numbers, m n k; or CSV under a header m,n,k; or JSON Lines"
            raise UsageError(f"{line[:60]!r} is no shape", where=f"{source}:{number}", why=str(error), do=do) from None
    if not found:
        raise UsageError(f"{source} holds no shape", do="write one on each line: m n k")
    return _each_once(found)


def _axis(part: str, whole: str) -> list[int]:
    try:
        return [_size(word) for word in part.split(",")]
    except ValueError as error:
        raise UsageError(f"{whole!r} is no grid of sizes", why=str(error), do=_EXAMPLE) from None


def _bare(line: str) -> str:
    """Without its comment."""
    return line.partition("#")[0].strip()


def _plain(line: str) -> Sizes:
    return _sizes([word for word in re.split(r"[\s,;xX]+", line) if word])


def _from_json(line: str) -> Sizes:
    try:
        data: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON, and the lines before are") from None
    if isinstance(data, dict):
        _check_names(list(data))
        data = [data[name] for name in _NAMES]
    if not isinstance(data, list):
        raise ValueError("it is neither an object nor a list")  # noqa: TRY004  (what a line holds, not our types)
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in data):
        raise ValueError("sizes are whole numbers")
    return _sizes([str(size) for size in data])


def _reader_under(header: str) -> Callable[[str], Sizes]:
    names = [name.strip().lower() for name in _cells(header)]
    _check_names(names)
    places = [names.index(name) for name in _NAMES]

    def read(line: str) -> Sizes:
        cells = _cells(line)
        if len(cells) != len(names):
            raise ValueError(f"it has {len(cells)} values, and the header {len(names)}")
        return _sizes([cells[place] for place in places])

    return read


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line], skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"it is no CSV: {error}") from None


def _check_names(names: Sequence[str]) -> None:
    if sorted(names) != sorted(_NAMES):
        raise ValueError(f"it names {', '.join(names) or 'nothing'} where m, n and k are asked for")


def _sizes(words: Sequence[str]) -> Sizes:
    if len(words) != 3:
        raise ValueError(f"it has {len(words)} number{'s' if len(words) != 1 else ''}, not three")
    return Sizes(*map(_size, words))


def _size(word: str) -> int:
    word = word.strip()
    if not re.fullmatch("[0-9]{1,10}", word) or int(word) > _LARGEST:
        raise ValueError(f"{word!r} is no size: a whole number, 0 or more")
    return int(word)


def _each_once(shapes: Any) -> tuple[Sizes, ...]:
    return tuple(dict.fromkeys(shapes))
