"""Work on the blocks of an array, on all cores that this process may use: numpy lets go of Python's lock."""

from __future__ import annotations

import functools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FEWEST, _MOST = 4, 16
"""Cores from which on it helps: each operation hands Python's lock to and fro. And threads at most."""

_WORTH = 1 << 19  # elements for a thread
_NAME = "zeroulp"

Item = TypeVar("Item")
Found = TypeVar("Found")


def spread(work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """
    What *work* makes of each item, in their order.

    Args:
        work: A function that many threads may call at once.
        items: What it is called with.
    """

    def quietly(item: Item) -> Found:
        with np.errstate(invalid="ignore", over="ignore"):  # a wrong result may hold anything
            return work(item)

    todo = list(items)
    if len(todo) < 2 or _threads() < _FEWEST:
        return [quietly(item) for item in todo]
    return list(_pool(os.getpid()).map(quietly, todo))


def spread_over(work: Callable[[int, int], Found], count: int, elements: int) -> list[Found]:
    """
    What *work* makes of the numbers from 0 to *count* - 1, in as many ranges as there are threads.

    Args:
        work: A function of the first and last-plus-one, compiled: it lets go of Python's lock throughout.
        count: How many.
        elements: That it has to look at; few are not worth a thread.
    """
    parts = min(_threads(), count, elements // _WORTH)
    if parts < 2 or threading.current_thread().name.startswith(_NAME):  # a thread that waits for others holds one up
        return [work(0, count)]
    bounds = [count * i // parts for i in range(parts + 1)]
    return list(_pool(os.getpid()).map(work, bounds[:-1], bounds[1:]))


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _threads() -> int:
    """As many as there are cores, or as OMP_NUM_THREADS says."""
    wished = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), _MOST, max(1, int(wished)) if wished.isdecimal() else _MOST)


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this *process*: a fork has none of them."""
    del process
    return ThreadPoolExecutor(_threads(), thread_name_prefix=_NAME)
