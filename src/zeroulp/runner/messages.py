"""Messages between the two processes: one line of JSON each, plain data in both directions."""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any

from zeroulp.memory import Region
from zeroulp.runner.base import Call


class Channel:
    """
    Two pipe ends, one to read lines from and one to write them to.

    Args:
        read: File descriptor to read from.
        write: File descriptor to write to.
    """

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._pending = b""

    def send(self, message: dict[str, Any]) -> None:
        """Send one message. Raises BrokenPipeError if nobody reads any more."""
        line = json.dumps(message, default=float) + "\n"  # numpy's numbers are none to json
        data = memoryview(line.encode())
        while data:
            data = data[os.write(self._write, data) :]

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """
        The next message.

        Raises:
            EOFError: If the other side is gone.
            TimeoutError: If none came within *seconds*.
            ValueError: If what came is no message.
        """
        end = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._pending:
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._read], [], [], left)[0]:
                raise TimeoutError
            data = os.read(self._read, 1 << 16)
            if not data:
                raise EOFError
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError(message)  # noqa: TRY004  (a malformed value, not a wrong type of ours)
        return message

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read)
        os.close(self._write)


def call_to_data(call: Call) -> dict[str, Any]:
    """A call as plain data."""
    return {**vars(call), "operands": [vars(region) for region in call.operands], "output": vars(call.output)}


def call_from_data(data: dict[str, Any]) -> Call:
    """The call that `call_to_data` described."""
    operands = tuple(Region.from_dict(region) for region in data["operands"])
    return Call(**{**data, "operands": operands, "output": Region.from_dict(data["output"])})
