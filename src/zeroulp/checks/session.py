"""A kernel loaded once, and run on any number of problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.checks import footprint
from zeroulp.checks.target import can_be_found, spec_of
from zeroulp.errors import UsageError
from zeroulp.kernels import load, wrap
from zeroulp.kernels.load import is_library
from zeroulp.kernels.torch_device import available_on
from zeroulp.problem import Linear
from zeroulp.runner import InProcess, Runner, WorkerProcess, start_worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from zeroulp.kernels import Kernel
    from zeroulp.problem import Problem


_OPTIONS = ("framework", "device", "signature", "destination_passing", "isolation", "deadline_seconds")


def session_options(options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options of a check that a `Session` takes, taken out of *options*."""
    return {name: options.pop(name) for name in _OPTIONS if name in options}


class Session:
    """
    A kernel, and the process that it runs in, from its first problem to the last.

    It is loaded when it is first needed. A kernel that broke is loaded again, in a new process
    under ``isolation="process"``, before its next problem.

    Args:
        kernel: As for `zeroulp.check`, and so are the others.
        framework: ``"numpy"`` or ``"torch"``.
        device: Where its arrays live.
        signature: Of a C symbol.
        destination_passing: Whether it writes into its last argument.
        isolation: ``"none"`` or ``"process"``.
        deadline_seconds: Longest time of one call.

    Attributes:
        share: How many sessions work at once: each may take so small a part of the memory that there is.

    Raises:
        UsageError: If *kernel* is neither a function nor a target.
    """

    share = 1

    def __init__(
        self,
        kernel: Callable[..., Any] | str,
        *,
        framework: str | None = None,
        device: str = "cpu",
        signature: str | None = None,
        destination_passing: bool = False,
        isolation: str = "none",
        deadline_seconds: float = 60.0,
    ) -> None:
        self.spec = spec_of(kernel, framework, signature, destination_passing=destination_passing, device=device)
        self.function = kernel if callable(kernel) else None
        self.isolation, self.deadline_seconds = isolation, deadline_seconds
        self.has_loaded = False
        self._kernel: Kernel | None = None
        self._worker: WorkerProcess | None = None

    def __enter__(self) -> Session:  # noqa: PYI034  (Self is not in typing before 3.11)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    def runner(self, problem: Problem, size_bytes: int, workspace: int | None = None) -> Runner:
        """
        Where the kernel runs on *problem*; runners given out before are used no more.

        Args:
            problem: What it computes.
            size_bytes: Size of the block that holds operands and output.
            workspace: Bytes that verification may use; None: as many as usual.

        Raises:
            UsageError: If the kernel does not exist, or cannot be run so.
            KernelError: If loading it broke.
            MemoryError: If there is not so much memory.
        """
        if isinstance(problem, Linear):
            problem = problem.bare()
        needed = footprint.footprint_of(
            problem, size_bytes, writes=self.writes, isolation=self.isolation, workspace=workspace
        )
        available = self._available()
        footprint.refuse_what_cannot_fit(needed, None if available is None else available // self.share)
        if self.isolation == "process":
            return self._runner_in_worker(problem, size_bytes)
        if self.isolation != "none":
            raise UsageError(f"isolation {self.isolation!r} is not available", do="choose 'none' or 'process'")
        if self._kernel is not None:
            self._kernel = self._kernel.for_problem(problem)
        elif self.function is None:
            self._kernel = load(self.spec, problem)
        else:
            self._kernel = wrap(self.function, self.spec, problem)
        self.has_loaded = True
        return InProcess(self._kernel, size_bytes)

    def _available(self) -> int | None:
        """Bytes for the next problem where the kernel's arrays live, those of the problem before among them."""
        if self.spec.device != "cpu":
            return None if self._worker is not None else available_on(self.spec.device)
        there = footprint.available_bytes()
        return None if there is None else there + (self._worker.size_bytes if self._worker is not None else 0)

    @property
    def writes(self) -> bool:
        """Whether the kernel writes into its last argument."""
        return self.spec.destination_passing or is_library(self.spec.target)

    def discard(self) -> None:
        """End its process, forget the kernel. The next problem begins anew."""
        worker, self._worker, self._kernel = self._worker, None, None
        if worker is not None:
            worker.close()

    def _runner_in_worker(self, problem: Problem, size_bytes: int) -> Runner:
        if self._worker is not None:
            self._worker.turn_to(problem, size_bytes)
            return self._worker
        if self.function is not None and not can_be_found(self.function):
            raise UsageError(
                f"the function {self.spec.target.rpartition(':')[2]} cannot be handed to a worker process",
                why="the worker imports the kernel by name: it stands at the top of a file, or in a class",
                do="define it so, pass 'file.py:function', or leave isolation at 'none'",
            )
        self._worker = start_worker(self.spec, problem, size_bytes, self.deadline_seconds)
        self.has_loaded = True
        return self._worker
