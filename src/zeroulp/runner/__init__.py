"""
Where the kernel runs: in this process, or in a worker of its own.

Both sides agree on regions of one block of memory and on plain messages. The expected values
never go near a runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroulp.kernels.device import Returned
from zeroulp.runner.base import Runner
from zeroulp.runner.in_process import InProcess
from zeroulp.runner.process import WorkerProcess

if TYPE_CHECKING:
    from zeroulp.kernels import KernelSpec
    from zeroulp.problem import Problem

__all__ = ["InProcess", "Returned", "Runner", "WorkerProcess", "start_worker"]


def start_worker(spec: KernelSpec, problem: Problem, size_bytes: int, deadline_seconds: float) -> WorkerProcess:
    """A worker that has loaded the kernel and shares a block of *size_bytes* with us."""
    return WorkerProcess(spec, problem, size_bytes, deadline_seconds)
