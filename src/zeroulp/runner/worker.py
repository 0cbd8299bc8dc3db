"""
The worker: the process in which the candidate runs.

It gets descriptors for two pipes and for the shared block, loads the kernel, and answers calls.
It knows the inputs and nothing else: expected values and verdict stay with the parent.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from zeroulp import memory
from zeroulp.arrays import arrays_of
from zeroulp.errors import KernelError, UsageError, ZeroulpError
from zeroulp.kernels import KernelSpec, load
from zeroulp.memory import Region
from zeroulp.problem import problem_from_dict
from zeroulp.runner.base import Executor, map_memory
from zeroulp.runner.messages import Channel, call_from_data

if TYPE_CHECKING:
    from zeroulp.kernels.device import Returned


def main(argv: list[str] | None = None) -> int:
    """Serve until told to stop, or until the parent is gone."""
    read, write, block, size = (int(text) for text in (sys.argv[1:] if argv is None else argv))
    channel = Channel(read, write)
    shared = map_memory(block, size)
    kernel: Any = None
    executor: Any = None
    answer: dict[str, Any]
    first = channel.receive()
    try:
        kernel = load(KernelSpec.from_dict(first["kernel"]), problem_from_dict(first["problem"]))
    except ZeroulpError as error:
        channel.receive()
        channel.send(_failure(error))
        return 0
    try:
        executor = Executor(kernel, shared, channel.receive()["shared"])
    except ZeroulpError as error:
        channel.send(_failure(error))
        return 0
    channel.send({"framework": kernel.framework, "resident": executor.resident is not None})
    place: Any = shared if executor.resident is None else executor.resident
    while True:
        try:
            message = channel.receive()
        except EOFError:
            return 0
        if message["do"] == "stop":
            return 0
        try:
            if message["do"] == "turn":
                kernel = kernel.for_problem(problem_from_dict(message["problem"]))
                executor = place = None  # with what they hold on a device
                answer = {}
            elif message["do"] == "share":
                shared = map_memory(block, message["size"])
                executor = Executor(kernel, shared, message["shared"])
                answer = {"resident": executor.resident is not None}
                place = shared if executor.resident is None else executor.resident
            else:
                with executor.guarded():
                    answer = _answer(executor, place, message)
            channel.send(answer)
        except ZeroulpError as error:
            channel.send(_failure(error))


def _answer(executor: Executor, block: Any, message: dict[str, Any]) -> dict[str, Any]:
    if message["do"] == "versions":
        return executor.versions()
    landing = Region.from_dict(message["landing"])
    if message["do"] == "mark":
        return {"mark": executor.mark(message["number"], landing)}
    if message["do"] == "call":
        returned = executor.call(call_from_data(message["call"]))
    else:
        returned = executor.recall(message["number"], landing, copy=False)
    if returned.codes is not None and not executor.in_output:
        arrays_of(block).codes(memory.view(block, landing))[...] = returned.codes
        executor.wait()
    return {**_in_words(returned), "in_output": executor.in_output}


def _in_words(returned: Returned) -> dict[str, Any]:
    """All but the result, which is where the parent looks for it."""
    return {
        "dtype": returned.dtype,
        "shape": list(returned.shape),
        "delivered": returned.codes is not None,
        "seconds": returned.seconds,
    }


def _failure(error: ZeroulpError) -> dict[str, Any]:
    kind = "kernel" if isinstance(error, KernelError) else "usage" if isinstance(error, UsageError) else "other"
    return {
        "error": kind,
        "code": error.code,
        "what": error.what,
        "where": error.where,
        "why": error.why,
        "do": error.do,
        "log": getattr(error, "log", ""),
    }


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # the candidate's exit handlers have nothing to say here
