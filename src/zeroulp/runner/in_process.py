"""The kernel in our own process: the default from Python, and for debugging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroulp.runner.base import Call, Executor, Returned, map_memory

if TYPE_CHECKING:
    from zeroulp.encoding import Array
    from zeroulp.kernels import Kernel
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
        self.block: Array = map_memory(-1, size_bytes)
        self.framework = kernel.framework
        self._executor = Executor(kernel, self.block)

    def call(self, call: Call) -> Returned:
        """Call the kernel."""
        return self._executor.call(call)

    def recall(self, number: int, output: Region) -> Returned:
        """What the result of an earlier call looks like now."""
        return self._executor.recall(number, output)

    def versions(self) -> dict[str, str]:
        """Versions of the framework."""
        return self._executor.versions()

    def close(self) -> None:
        """Nothing to give back: the block goes with its last view, which the kernel may hold."""
