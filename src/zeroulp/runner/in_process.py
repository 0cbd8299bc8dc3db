"""The kernel in our own process: the default from Python, and for debugging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.runner.base import Call, Executor, map_memory

if TYPE_CHECKING:
    import contextlib

    from zeroulp.kernels import Kernel
    from zeroulp.kernels.device import Returned
    from zeroulp.memory import Region


class InProcess:
    """
    Calls the kernel directly. A crash is ours too, and no deadline can be kept.

    Args:
        kernel: The candidate.
        size_bytes: Size of the block that holds operands and output.
    """

    isolation = "none"

    def __init__(self, kernel: Kernel, size_bytes: int) -> None:
        host = map_memory(-1, size_bytes)  # takes no memory until it is used
        self.framework = kernel.framework
        self._executor = Executor(kernel, host)
        self.block: Any = host if self._executor.resident is None else self._executor.resident

    def call(self, call: Call) -> Returned:
        """Call the kernel."""
        return self._executor.call(call)

    def recall(self, number: int, output: Region, *, copy: bool = True) -> Returned:
        """What the result of an earlier call looks like now; see `Runner`."""
        return self._executor.recall(number, output, copy=copy)

    def mark(self, number: int, output: Region) -> str | None:
        """Its fingerprint; see `Runner`."""
        return self._executor.mark(number, output)

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Where the block is worked on; see `Runner`."""
        return self._executor.guarded()

    def versions(self) -> dict[str, str]:
        """Versions of the framework."""
        return self._executor.versions()

    def close(self) -> None:
        """Nothing to give back: the block goes with its last view, which the kernel may hold."""
