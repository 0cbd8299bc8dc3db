"""The only place that knows about terminals: tables, colour, a progress bar, files written whole."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_COLOURS = {"CORRECT": "32", "INCORRECT": "31", "INCONCLUSIVE": "33", "BROKEN": "31"}
_PATIENCE_SECONDS = 1.0


def show(text: str, *, to_stderr: bool = False) -> None:
    """Print a text; the verdict at its start in colour, on a terminal."""
    stream = sys.stderr if to_stderr else sys.stdout
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    if word in _COLOURS and stream.isatty() and "NO_COLOR" not in os.environ:
        text = text.replace(word, f"\033[1;{_COLOURS[word]}m{word}\033[0m", 1)
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:  # the reader has seen enough; the exit status still holds
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows in aligned columns."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    rule = ["-" * width for width in widths]
    aligned = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [head, rule, *rows]]
    return "\n".join("  ".join(cells).rstrip() for cells in aligned) + "\n"


def write_whole(path: str, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written", why=str(error), do="choose a directory that exists") from error


def check_writable(path: str) -> None:
    """Refuse a path that could not be written in the end, before the work is done."""
    directory = Path(path).parent
    if not directory.is_dir():
        why = f"there is no directory {directory}"
        raise UsageError(f"{path} cannot be written", why=why, do="make it, or choose another one")
    if Path(path).is_dir():
        raise UsageError(f"{path} cannot be written", why="it is a directory", do="name a file in it")
    if not os.access(directory, os.W_OK):
        why = f"the directory {directory} is not writable"
        raise UsageError(f"{path} cannot be written", why=why, do="choose another one")


class Progress:
    """
    A progress bar on a terminal for anything that takes more than a second; silent elsewhere.

    Args:
        title: What is going on.
        line_every: Where there is no bar: a line on stderr each so many seconds; default: none.
        estimates: Whether the time left is told with every step, and not worked out from their number.
    """

    def __init__(self, title: str, *, line_every: float | None = None, estimates: bool = False) -> None:
        self._estimates = estimates
        self._title = title
        self._started = self._said = time.monotonic()
        self._line_every = line_every
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:  # noqa: PYI034  (Self is not in typing before 3.11)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int, what: str, *, left: float | None = None) -> None:
        """Show that *done* of *total* steps are done, and what is next; *left*: an estimate in seconds."""
        if self._bar is None:
            waiting = time.monotonic() - self._started
            if waiting < _PATIENCE_SECONDS or not sys.stderr.isatty() or not self._start(total):
                self._say(done, total, what, left)
                return
        if self._estimates:
            what = f"{done} of {total}{_left(left)}; now {what}"
        self._bar.update(self._task, completed=done, description=f"{self._title}: {what}")

    def _say(self, done: int, total: int, what: str, left: float | None) -> None:
        now = time.monotonic()
        if self._line_every is None or now - self._said < self._line_every or not (done or self._estimates):
            return
        self._said = now
        if not self._estimates:
            left = (now - self._started) / done * (total - done)
        show(f"{self._title}: {done} of {total}{_left(left)}; now {what}\n", to_stderr=True)

    def _start(self, total: int) -> bool:
        try:
            from rich.console import Console  # noqa: PLC0415
            from rich.progress import BarColumn, TextColumn  # noqa: PLC0415
            from rich.progress import Progress as Bar  # noqa: PLC0415
        except ImportError:
            return False
        columns = [BarColumn(20), TextColumn("{task.description}")] if self._estimates else []
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(self._title, total=total)
        self._bar.start()
        return True


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", about {_duration(seconds)} left"


def _duration(seconds: float) -> str:
    """A time to come, roughly."""
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
