"""
The kernel in a worker process: crashes, hangs and exits end the worker, not the check.

Arrays go through shared memory, everything else through two pipes as lines of JSON. What the
candidate prints goes to a log that is shown if it breaks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zeroulp import memory
from zeroulp.arrays import arrays_of
from zeroulp.errors import (
    KernelCrashedError,
    KernelError,
    KernelRaisedError,
    KernelResultError,
    KernelTimedOutError,
    UsageError,
)
from zeroulp.kernels.device import Returned
from zeroulp.kernels.frameworks import device_named
from zeroulp.kernels.load import is_library
from zeroulp.kernels.python import printable
from zeroulp.problem.layout import Layout
from zeroulp.runner.base import SMALL_BYTES, Call, map_memory
from zeroulp.runner.messages import Channel, call_to_data

if TYPE_CHECKING:
    from zeroulp.encoding import Array
    from zeroulp.kernels import KernelSpec
    from zeroulp.kernels.device import Device
    from zeroulp.memory import Region
    from zeroulp.problem import Problem

_LOG_TAIL_BYTES = 4000
_LOADING_SECONDS = 120.0  # importing a framework takes its time
_LOOK_SECONDS = 0.2  # how often a silent worker is looked at: a child of its own may hold its pipe open
_DYING_SECONDS = 1.0  # from a closed pipe to the end of the process
_ERRORS: dict[str, type[KernelError]] = {kind.code: kind for kind in (KernelRaisedError, KernelResultError)}


class WorkerProcess:
    """
    A worker with the kernel loaded.

    Args:
        spec: Which kernel.
        problem: What it computes.
        size_bytes: Size of the block for operands and output; room for a copy of the result is added.
        deadline_seconds: Longest time a call may take.

    Raises:
        UsageError: If the kernel does not exist.
        KernelError: If loading it broke.
    """

    isolation = "process"
    framework = ""
    _device: Device | None = None
    _latest: Call | None = None

    def __init__(self, spec: KernelSpec, problem: Problem, size_bytes: int, deadline_seconds: float) -> None:
        if not deadline_seconds > 0:
            raise UsageError(f"a deadline of {deadline_seconds:g} s", do="pass a positive number of seconds")
        self._spec = spec
        self._landing, size = self._arranged(problem, size_bytes)
        self.size_bytes = size
        self._deadline = deadline_seconds
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close)
        self._shared = _shared_file(size)
        try:
            self.block: Any = map_memory(self._shared, size)
            self._start(size)
        except BaseException:
            os.close(self._shared)
            self._log.close()
            raise
        try:
            with contextlib.suppress(BrokenPipeError):  # it died at once, as the answer will tell
                self._channel.send({"kernel": spec.to_dict(), "problem": problem.to_dict()})
            answer = self._share({})  # it loads while we look for a device, which may import as much
            self.framework = str(answer.get("framework", "unknown"))
        except BaseException:
            self.close()
            raise

    def _start(self, size: int) -> None:
        to_worker, from_worker = os.pipe(), os.pipe()
        theirs = [to_worker[0], from_worker[1], self._shared]
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "zeroulp.runner.worker", *map(str, theirs), str(size)],
            pass_fds=theirs,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        os.close(to_worker[0])
        os.close(from_worker[1])
        self._channel = Channel(from_worker[0], to_worker[1])

    def turn_to(self, problem: Problem, size_bytes: int) -> None:
        """
        Get ready for another problem, with the kernel as it is loaded and a block of another size.

        Raises:
            KernelError: If the worker has ended.
            MemoryError: If there is not so much memory.
        """
        self._landing, size = self._arranged(problem, size_bytes)
        if size > self.size_bytes:  # never smaller: a kernel that looks at old operands is wrong, and must not crash
            _resize(self._shared, size)
            self.size_bytes = size
        self._ask({"do": "turn", "problem": problem.to_dict()}, self._deadline)
        self._device = None  # its block is given back on both sides before another one is made
        self.block = map_memory(self._shared, size)
        self._share({"do": "share", "size": size})

    def _arranged(self, problem: Problem, size_bytes: int) -> tuple[Region, int]:
        """Where results are copied to, and the bytes of all; on a device only those that are not looked at in place."""
        landing, size = _landing(problem, size_bytes)
        writes = self._spec.destination_passing or is_library(self._spec.target)
        self._on_device_bytes = size_bytes if writes and not memory.is_copied(problem.output) else size
        return landing, size

    def _share(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send *message* with a block on the kernel's device, where there is one; go by what the worker can do."""
        device, shared = _on_device(self._spec, self.block[: self._on_device_bytes])
        answer = self._ask({**message, "shared": shared}, max(self._deadline, _LOADING_SECONDS))
        if device is not None and answer.get("resident") is True:
            self._device, self.block = device, device.resident
        return answer

    def call(self, call: Call) -> Returned:
        """Call the kernel; see `zeroulp.runner.base.Runner`."""
        self._latest = call
        message = {"do": "call", "call": call_to_data(call), "landing": self._landing.to_dict()}
        return self._returned(self._ask(message, self._deadline))

    def recall(self, number: int, output: Region, *, copy: bool = True) -> Returned:
        """What the result of an earlier call looks like now; see `Runner`."""
        del output
        message = {"do": "recall", "number": number, "landing": self._landing.to_dict()}
        return self._returned(self._ask(message, self._deadline), copy=copy)

    def mark(self, number: int, output: Region) -> str | None:
        """Its fingerprint; see `Runner`."""
        del output
        answer = self._ask({"do": "mark", "number": number, "landing": self._landing.to_dict()}, self._deadline)
        mark = answer.get("mark")
        return None if mark is None else str(mark)

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Where the block is worked on; see `Runner`."""
        return contextlib.nullcontext() if self._device is None else self._device.guarded()

    def versions(self) -> dict[str, str]:
        """Versions of the framework, where the kernel runs."""
        return {str(k): str(v) for k, v in self._ask({"do": "versions"}, self._deadline).items()}

    def close(self) -> None:
        """End the worker and all that it started."""
        _kill(self._process)
        self._process.wait()
        self._channel.close()
        os.close(self._shared)
        self._log.close()

    def _returned(self, answer: dict[str, Any], *, copy: bool = True) -> Returned:
        try:
            name, shape, seconds = str(answer["dtype"]), tuple(map(int, answer["shape"])), float(answer["seconds"])
            delivered, in_output = answer["delivered"] is True, answer["in_output"] is True
        except (KeyError, TypeError, ValueError):
            raise self._babbled() from None
        codes = None
        if delivered:
            arrays, latest = arrays_of(self.block), self._latest
            in_place = latest is not None and latest.in_place
            written = latest is not None and in_place and latest.writes and in_output
            result = memory.view(self.block, latest.output if latest is not None and written else self._landing)
            codes = arrays.codes(arrays.copy(result) if copy and not in_place else result)
        return Returned(name, shape, codes, seconds)

    def _ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        if self._device is not None:
            self._device.wait()  # the worker's stream does not wait for what was asked for on ours
        try:
            self._channel.send(message)
            answer = self._receive(seconds)
        except TimeoutError:
            _kill(self._process)
            doing = "running" if self.framework else "being loaded"
            raise KernelTimedOutError(
                f"the kernel was still {doing} after {seconds:g} s",
                log=self._log_tail(),
                do="pass a longer deadline if it is only slow",
            ) from None
        except (EOFError, BrokenPipeError):
            raise self._crashed() from None
        except ValueError:
            raise self._babbled() from None
        if "error" not in answer:
            return answer
        self._raise(answer)
        raise AssertionError("unreachable")

    def _receive(self, seconds: float) -> dict[str, Any]:
        """The answer. Raises TimeoutError, or EOFError if the worker has died, whoever holds its pipe."""
        end = time.monotonic() + seconds
        while True:
            ended = self._process.poll() is not None
            left = max(0.0, end - time.monotonic())
            try:
                return self._channel.receive(0.0 if ended else min(_LOOK_SECONDS, left))
            except TimeoutError:
                if ended:
                    raise EOFError from None
                if not left:
                    raise

    def _raise(self, answer: dict[str, Any]) -> None:
        text = {name: printable(str(answer.get(name, ""))) for name in ("what", "where", "why", "do", "log")}
        if answer["error"] == "kernel":
            kind = _ERRORS.get(str(answer.get("code")), KernelError)
            raise kind(text["what"], log=text["log"] or self._log_tail(), why=text["why"], do=text["do"])
        raise UsageError(text["what"], where=text["where"], why=text["why"], do=text["do"])

    def _crashed(self) -> KernelCrashedError:
        try:
            status = self._process.wait(_DYING_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(self._process)
            return KernelCrashedError("the kernel closed its process's pipes", log=self._log_tail())
        if status == -signal.SIGKILL:
            why = "the system may have run out of memory, unless something else killed it"
            return KernelCrashedError("the kernel's process died of SIGKILL", log=self._log_tail(), why=why)
        if status < 0:
            what = f"the kernel's process died of {signal_name(-status)}"
        else:
            when = "in the middle of a call" if self.framework else "while the kernel was being loaded"
            what = f"the kernel's process ended with exit status {status} {when}"
        return KernelCrashedError(what, log=self._log_tail())

    def _babbled(self) -> KernelCrashedError:
        _kill(self._process)
        return KernelCrashedError("the kernel's process sent something that is no message", log=self._log_tail())

    def _log_tail(self) -> str:
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - _LOG_TAIL_BYTES))
        return printable(self._log.read().decode(errors="replace").replace("\r\n", "\n")).strip()


def _landing(problem: Problem, size_bytes: int) -> tuple[Region, int]:
    """Where results of *problem* are copied to, behind a block of *size_bytes*, and the bytes of both."""
    regions, extra = memory.arrange([(problem.output, Layout("landing"))])
    base = -(-size_bytes // 64) * 64
    return _shifted(regions[0], base), base + extra


def _on_device(spec: KernelSpec, block: Array) -> tuple[Device | None, str | None]:
    """A block on the kernel's device, and the words by which a worker finds it; None where there is none to share."""
    if spec.device == "cpu" or is_library(spec.target) or len(block) <= SMALL_BYTES:
        return None, None
    try:
        device = device_named(spec.device, spec.framework, block)
        return (None, None) if device is None else (device, device.share())
    except (AttributeError, RuntimeError, UsageError):  # no memory to share; that there is no device the worker says
        return None, None


def _shifted(region: Region, by: int) -> Region:
    moved = {name: getattr(region, name) + by for name in ("start", "low", "high")}
    return type(region).from_dict({**region.to_dict(), **moved})


def _shared_file(size: int) -> int:
    """A descriptor of anonymous memory that a child process can map too."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("zeroulp")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    _resize(descriptor, size)
    return descriptor


def _resize(descriptor: int, size: int) -> None:
    """Make it so many bytes. Raises MemoryError if there are not so many."""
    try:
        os.ftruncate(descriptor, size)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"operands, output and guards take {size / 2**30:,.1f} GiB: {error}") from error


def signal_name(number: int) -> str:
    """What a signal is called."""
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the worker's process group: the worker, if it still runs, and what it started, which may outlive it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS has no permission to kill the dead
        os.killpg(process.pid, signal.SIGKILL)
