"""
A process that checks shapes of a grid, one at a time, with a `Session` of its own.

It gets descriptors for two pipes, then the request, then shapes; it says now and then which trial it
is at, and sends the report of each shape whole. It ends when its parent is gone, or on SIGTERM,
and ends the kernel's worker with itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.checks.grid_shape import check_shape
from zeroulp.checks.session import Session
from zeroulp.errors import UsageError
from zeroulp.kernels.frameworks import device_named
from zeroulp.problem import Matmul
from zeroulp.runner.messages import Channel

if TYPE_CHECKING:
    from types import FrameType

_SAY_EVERY = 0.2  # seconds


def main(argv: list[str] | None = None) -> None:
    """Check shapes until the parent is gone."""
    signal.signal(signal.SIGTERM, _interrupt)
    channel = Channel(*(int(text) for text in (sys.argv[1:] if argv is None else argv)))
    with contextlib.suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        request = channel.receive()
        kernel = request["kernel"]
        where = {name: request[name] for name in ("isolation", "deadline_seconds")}
        if request["isolation"] == "process":  # else the kernel's module comes first, as anywhere
            with contextlib.suppress(UsageError):
                device_named(kernel["device"], kernel["framework"], np.zeros(64, np.uint8))
        with Session(kernel.pop("target"), **kernel, **where) as session:
            problem = Matmul.from_dict(request["problem"])
            said = 0.0

            def progress(done: int, total: int, _: str) -> None:
                nonlocal said
                if time.monotonic() - said > _SAY_EVERY:
                    said = time.monotonic()
                    channel.send({"trial": done, "trials": total, "has_loaded": session.has_loaded})

            while True:
                message = channel.receive()
                session.share = message["share"]
                here = problem.replace(**message["sizes"])
                answer: dict[str, Any]
                try:
                    answer = {
                        "checked": check_shape(session, here, request["seed"], request["options"], progress).to_dict()
                    }
                except Exception as error:  # noqa: BLE001  (a fault of ours, which is the parent's to tell)
                    answer = {"fault": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
                channel.send(answer)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # the end is not interrupted again
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)  # as a kernel's worker does: the candidate's exit handlers have nothing to say here
