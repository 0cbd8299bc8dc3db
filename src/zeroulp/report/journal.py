"""
The file of a grid: JSON Lines, a header and then the report of each shape, written as soon as it is known.

A line that was cut short by an interrupt is the last one; it is dropped, and its shape is checked again.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from zeroulp.errors import ReportFileError, UsageError
from zeroulp.report.codec import SCHEMA_VERSION, from_json
from zeroulp.report.grid import GridHeader, GridReport, ShapeResult

try:
    import fcntl
except ImportError:  # not on Windows, where two commands may then write into one file
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from zeroulp.report.model import Report
    from zeroulp.sizes import Sizes

_BEGINNING = b'{"schema_version":'  # of a header that was cut short
_DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, UsageError)


class Journal(Protocol):
    """Where the lines of a grid go."""

    seed: str | None
    done: int

    def begin(self, header: GridHeader) -> list[ShapeResult]:
        """Take the *header*. Returns what is done already."""
        ...

    def add(self, report: dict[str, Any]) -> None:
        """Keep the report of one more shape, as plain data."""
        ...


class StreamJournal:
    """
    Lines that are handed on, and cannot be resumed.

    Args:
        write: Takes one line at a time, with its end.

    Attributes:
        seed: None: the grid has a seed of its own.
        done: Shapes whose reports were handed on.
    """

    seed: str | None = None

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self.done = 0

    def begin(self, header: GridHeader) -> list[ShapeResult]:
        """Hand on the header. Nothing is done already."""
        self._write(_line(header.to_dict()))
        return []

    def add(self, report: dict[str, Any]) -> None:
        """Hand on the report."""
        self._write(_line(report))
        self.done += 1


class FileJournal:
    """
    A file that is written line by line, and read again when the grid is resumed.

    Nothing is written before the first shape is done.

    Args:
        path: The file. It is made if it is not there.

    Attributes:
        seed: The seed of the grid that the file holds; None if it holds none yet.
        done: Shapes whose reports the file holds.

    Raises:
        ReportFileError: If it holds anything but the lines of a grid.
        UsageError: If it cannot be written, or another process is writing it.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._is_new = not Path(path).exists()
        self._header = ""
        try:
            self._file: BinaryIO = Path(path).open("a+b", buffering=0)  # noqa: SIM115  (closed in __exit__)
        except OSError as error:
            raise UsageError(f"{path} cannot be written", why=str(error), do="choose another file") from error
        try:
            self._lock()
            self._lines, self._end = _lines_of(self._path, self._read())
        except BaseException:
            self._file.close()
            raise
        self.seed: str | None = str(self._lines[0].get("seed")) if self._lines else None
        self.done = max(0, len(self._lines) - 1)

    def __enter__(self) -> FileJournal:  # noqa: PYI034  (Self is not in typing before 3.11)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_new and not self._end:
            with contextlib.suppress(OSError):
                Path(self._path).unlink()
        self._file.close()

    def begin(self, header: GridHeader) -> list[ShapeResult]:
        """
        Take the *header*.

        Returns:
            The shapes that are done already.

        Raises:
            ReportFileError: If the file holds another grid, or is damaged.
        """
        if not self._lines:
            self._header = _line(header.to_dict())
            self._file.truncate(self._end)
            return []
        differences = header.differences(self._lines[0])
        if differences:
            raise ReportFileError(
                f"{self._path} holds another grid, which this command does not go on with",
                where="; ".join(differences),
                do="give the command that began it, name another file, or remove this one to start anew",
            )
        results = _results(self._path, self._lines, header.shapes)
        self._file.truncate(self._end)
        self._lines, self.done = [], len(results)
        return results

    def add(self, report: dict[str, Any]) -> None:
        """Append the report whole, or not at all."""
        data = (self._header + _line(report)).encode()
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            if isinstance(error, OSError):
                do = "make room; the same command goes on from there"
                raise UsageError(f"{self._path} cannot be written", why=str(error), do=do) from error
            raise
        self._end += len(data)
        self._header = ""
        self.done += 1

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            do = "wait for it, or name another file"
            raise UsageError(f"{self._path} is being written by another check", do=do) from None
        except OSError:  # a file system without locks
            pass

    def _read(self) -> bytes:
        self._file.seek(0)
        return self._file.read()


def holds_grid(text: str) -> bool:
    """Whether *text* is the JSON Lines of a grid, and not another report."""
    try:
        first = json.loads(text.partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.get("kind") == "grid"


def grid_from_jsonl(text: str, *, source: str = "report") -> GridReport:
    """
    The report of a grid that is in a file, all of it or what is done.

    Args:
        text: JSON Lines.
        source: What to call it in errors.

    Raises:
        ReportFileError: If it is no such file, is damaged, or holds no shape yet.
    """
    lines, _ = _lines_of(source, text.encode())
    if not lines:
        raise _no_grid(source)
    header = _header_of(source, lines)
    results = _results(source, lines, header.shapes)
    if not results:
        raise ReportFileError(f"{source} holds the report of no shape yet", do="run the check that began it again")
    return GridReport(header, tuple(results), len(results))


def shape_from_jsonl(text: str, sizes: Sizes | None = None, *, source: str = "report") -> Report:
    """
    The whole report of one shape of a grid.

    Args:
        text: JSON Lines.
        sizes: Of which shape; None: the first with the verdict of the whole.
        source: What to call it in errors.

    Raises:
        ReportFileError: If it is no such file, is damaged, or does not hold that shape.
    """
    grid = grid_from_jsonl(text, source=source)
    wanted = grid.telling.sizes if sizes is None else sizes
    lines, _ = _lines_of(source, text.encode())
    for number, data in enumerate(lines[1:], 2):
        if ShapeResult.of(data).sizes == wanted:
            return from_json(json.dumps(data), source=f"{source}:{number}")
    state = "was not checked yet" if wanted in grid.header.shapes else "is not in this grid"
    example = f"one of those that were is {grid.telling.sizes}, {grid.telling.verdict.value}"
    raise ReportFileError(f"the shape {wanted} {state}", where=source, do=f"choose another; {example}")


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, allow_nan=False, default=float, separators=(",", ":")) + "\n"


def _lines_of(source: str, content: bytes) -> tuple[list[dict[str, Any]], int]:
    """The lines of a grid, and the bytes that they take; a last line that was cut short is none of them."""
    lines: list[dict[str, Any]] = []
    end = 0
    pieces = content.split(b"\n")
    for number, piece in enumerate(pieces[:-1], 1):
        try:
            data = json.loads(piece)
            if not isinstance(data, dict):
                raise TypeError("it is no object")  # noqa: TRY301
        except (ValueError, TypeError, RecursionError) as error:
            if number == 1:
                raise _no_grid(source) from error
            if not any(pieces[number:]):
                break
            raise _damaged(source, number, error) from error
        if number == 1:
            _check_kind(source, data)
        lines.append(data)
        end += len(piece) + 1
    if not lines and content.strip() and not content.startswith(_BEGINNING):
        raise _no_grid(source)
    return lines, end


def _check_kind(source: str, first: dict[str, Any]) -> None:
    if first.get("kind") != "grid":
        raise _no_grid(source)
    if first.get("schema_version") != SCHEMA_VERSION:
        why = f"its schema_version is {first.get('schema_version')!r}"
        do = "go on with the version of zeroulp that wrote it"
        raise ReportFileError(f"{source} is no report of schema version {SCHEMA_VERSION}", why=why, do=do)


def _no_grid(source: str) -> ReportFileError:
    do = "name another file; this one is left as it is"
    return ReportFileError(f"{source} is not the file of a grid", why="its first line is not that of one", do=do)


def _header_of(source: str, lines: list[dict[str, Any]]) -> GridHeader:
    try:
        return GridHeader.from_dict(lines[0])
    except _DAMAGE as error:
        raise _damaged(source, 1, error) from error


def _results(source: str, lines: list[dict[str, Any]], shapes: tuple[Sizes, ...]) -> list[ShapeResult]:
    """One for each shape that is done, in the order of *shapes*."""
    planned = set(shapes)
    found: dict[Sizes, ShapeResult] = {}
    for number, data in enumerate(lines[1:], 2):
        try:
            result = ShapeResult.of(data)
            if result.sizes not in planned:
                raise ValueError(f"the shape {result.sizes} is not one of those in the header")
        except _DAMAGE as error:
            raise _damaged(source, number, error) from error
        found[result.sizes] = result
    return [found[sizes] for sizes in shapes if sizes in found]


def _damaged(source: str, number: int, error: BaseException) -> ReportFileError:
    why = f"{type(error).__name__}: {error}"
    do = "remove this line, and its shape is checked again; or name another file" if number > 1 else "name another file"
    return ReportFileError(f"{source} is damaged", where=f"{source}:{number}", why=why, do=do)
