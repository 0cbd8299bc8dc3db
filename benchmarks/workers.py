"""Tasks in processes of their own: one that hangs is ended, one that breaks its process loses nothing but itself."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TICK = 0.5  # seconds between looks at the clock


@dataclass(frozen=True)
class Ended:
    """
    How a task ended.

    Args:
        task: Which.
        why: What went wrong; empty if nothing.
    """

    task: Any
    why: str = ""


@dataclass
class _Worker:
    """A process, and what it is at."""

    process: Any
    pipe: Any
    task: Any = None
    since: float = 0.0


@dataclass
class Workers:
    """
    Processes that work on tasks, and give back what these yield as soon as it is there.

    Args:
        function: Called with a task in another process; yields plain data. Found by its name there.
        count: How many processes.
        limit: Seconds after which a task is ended, and its process with it.
        deadline: Of `time.monotonic`: then no other task is begun, and those that run are ended; None: never.
    """

    function: Callable[[Any], Iterator[Any]]
    count: int
    limit: float
    deadline: float | None = None
    _workers: list[_Worker] = field(default_factory=list)

    def __enter__(self) -> Workers:  # noqa: PYI034
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            self._end(worker)

    def run(self, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Pairs of a task and a part of its result; at the end of a task `Ended` is the part."""
        left = deque(tasks)
        while left or any(worker.task is not None for worker in self._workers):
            if self.deadline is not None and time.monotonic() > self.deadline:
                yield from self._stopped(left)
                return
            self._begin(left)
            busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
            for pipe in wait(list(busy), TICK):
                yield from self._heard(busy[pipe])
            for worker in list(self._workers):
                if worker.task is not None and time.monotonic() - worker.since > self.limit:
                    self._end(worker)
                    yield worker.task, Ended(worker.task, f"it took more than {self.limit:.0f} s")

    def _begin(self, left: deque[Any]) -> None:
        """A task for every process that has none."""
        context = multiprocessing.get_context("spawn")
        idle = [worker for worker in self._workers if worker.task is None]
        while left and (idle or len(self._workers) < self.count):
            if idle:
                worker = idle.pop()
            else:
                here, there = context.Pipe()
                process = context.Process(target=_serve, args=(self.function, there), daemon=True)
                process.start()
                there.close()
                worker = _Worker(process, here)
                self._workers.append(worker)
            worker.task, worker.since = left.popleft(), time.monotonic()
            worker.pipe.send(worker.task)

    def _heard(self, worker: _Worker) -> Iterator[tuple[Any, Any]]:
        task = worker.task
        try:
            part = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            part = Ended(task, f"its process died, exit status {worker.process.exitcode}")
        if isinstance(part, Ended):
            worker.task = None
            if part.why:  # whatever else is wrong with it
                self._end(worker)
        yield task, part

    def _stopped(self, left: deque[Any]) -> Iterator[tuple[Any, Any]]:
        busy = [worker.task for worker in self._workers if worker.task is not None]
        for worker in list(self._workers):
            self._end(worker)
        for task in [*busy, *left]:
            yield task, Ended(task, "no time was left")

    def _end(self, worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        if worker in self._workers:
            self._workers.remove(worker)


def _serve(function: Callable[[Any], Iterator[Any]], pipe: Any) -> None:
    """What a process does: one task after the other, until there is nobody who asks."""
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            task = pipe.recv()
            why = ""
            try:
                for part in function(task):
                    pipe.send(part)
            except Exception as error:  # noqa: BLE001  (the others are to run too)
                why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            pipe.send(Ended(task, why))
    os._exit(0)  # what a device or a compiler left behind has no say
