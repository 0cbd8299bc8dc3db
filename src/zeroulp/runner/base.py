"""What a runner does, and what a call gives back."""

from __future__ import annotations

import contextlib
import mmap
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zeroulp.arrays.fingerprint import fingerprint
from zeroulp.kernels.device import Host, Returned
from zeroulp.kernels.frameworks import versions
from zeroulp.kernels.held import is_held_elsewhere

if TYPE_CHECKING:
    from zeroulp.encoding import Array
    from zeroulp.kernels import Kernel
    from zeroulp.memory import Region


SMALL_BYTES = 2**20
"""Blocks up to here stay on the host, also for a kernel of a device: it takes less time to look at them there."""

_LATEST = 2  # results that can be recalled in any case: the last one, and that of the call before


@dataclass(frozen=True)
class Call:
    """
    One call of the kernel.

    Args:
        number: Under which its result is remembered.
        operands: Where the inputs lie, in the order of the kernel's arguments.
        output: What the result should be; where it is written, under destination passing.
        writes: Whether the kernel writes into ``output`` instead of returning an array.
        poison: Encoding to leave in freed memory before the call.
        keep: Whether its result can be recalled ever after, and not just until the call after the next.
        in_place: Whether its result is looked at where it is, until the next call: it is too large for copies.
        watched: If so, the earlier call whose result is still looked at; it is given up if nobody else holds it.
    """

    number: int
    operands: tuple[Region, ...]
    output: Region
    writes: bool
    poison: int
    keep: bool = False
    in_place: bool = False
    watched: int | None = None


class Runner(Protocol):
    """Runs one kernel over one block of memory (bytes, of some array library) that both sides see."""

    block: Any
    isolation: str
    framework: str

    def call(self, call: Call) -> Returned:
        """Call the kernel. Raises KernelError if it broke."""
        ...

    def recall(self, number: int, output: Region, *, copy: bool = True) -> Returned:
        """What the result of an earlier call looks like now; without a *copy* only until the next call or question."""
        ...

    def mark(self, number: int, output: Region) -> str | None:
        """The fingerprint of the same; None if that result was given up, empty if it has another dtype or shape."""
        ...

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Where the block is worked on. Raises KernelError if a device reports what the kernel broke."""
        ...

    def versions(self) -> dict[str, str]:
        """Versions of the framework where the kernel runs."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


def map_memory(descriptor: int, size_bytes: int) -> Array:
    """
    Page-aligned memory as bytes: that behind *descriptor*, or fresh if it is -1.

    Raises:
        MemoryError: If there is not so much.
    """
    try:
        block: Array = np.frombuffer(mmap.mmap(descriptor, max(size_bytes, 1)), np.uint8)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"operands, output and guards take {size_bytes / 2**30:,.1f} GiB: {error}") from error
    return block


class Executor:
    """
    Calls a kernel on regions of a block and remembers the results; both runners are built on it.

    Args:
        kernel: The candidate.
        block: The host's block.
        shared: A block on a device that another process shares, in its words; empty: the device's
            own, if there is one; None: everything goes through the host's block.
    """

    def __init__(self, kernel: Kernel, block: Array, shared: str | None = "") -> None:
        self._kernel = kernel
        self._host = Host(block)
        self._device = kernel.attach(block) or self._host
        self.resident: Any = self._find_resident(shared)
        self._results: dict[int, Any] = {}
        self._kept: set[int] = set()
        self._latest: Call | None = None

    def _find_resident(self, shared: str | None) -> Any:
        """The device's block, if inputs and results are to stay there."""
        if shared is None or (not shared and len(self._host.block) <= SMALL_BYTES):
            return None
        if shared:
            try:
                self._device.adopt(shared)
            except (AttributeError, RuntimeError):
                return None
        return getattr(self._device, "resident", None)

    def call(self, call: Call) -> Returned:
        """Call the kernel; see `Runner.call`."""
        device, regions = self._device, [*call.operands, *([call.output] if call.writes else [])]
        self._latest = call
        if call.in_place:
            self._give_up_all_but(call.watched)
        if self.resident is None:
            device.upload(regions)
        operands = [device.view(region) for region in call.operands]
        out = device.view(call.output) if call.writes else None
        if out is None:
            width = call.output.dtype.itemsize
            device.spoil(int(np.prod(call.output.shape)) * width, call.poison, width)
        start = time.perf_counter()
        result = self._kernel(operands, out)
        device.wait()
        seconds = time.perf_counter() - start
        self._results[call.number] = result
        if call.keep:
            self._kept.add(call.number)
        for number in [n for n in list(self._results)[:-_LATEST] if n not in self._kept]:
            del self._results[number]
        returned = self._described(result, call.output, seconds)
        if self.resident is None:
            device.download(regions)
        return returned

    def recall(self, number: int, output: Region, *, copy: bool = True) -> Returned:
        """The same result, read once more; see `Runner.recall`."""
        return self._described(self._results[number], output, 0.0, copy=copy)

    def mark(self, number: int, output: Region) -> str | None:
        """The fingerprint of a result as it is now; see `Runner.mark`."""
        if number not in self._results:
            return None
        codes = self.recall(number, output, copy=False).codes
        return "" if codes is None else fingerprint(codes)

    @property
    def in_output(self) -> bool:
        """Whether the latest result is looked at in the output, in the block that all see."""
        call = self._latest
        shared = self.resident is not None or self._device is self._host
        return call is not None and call.in_place and call.writes and shared

    def _give_up_all_but(self, watched: int | None) -> None:
        """Let go of results that nobody else holds, and of all others but one."""
        for number in list(self._results):
            box = [self._results.pop(number)]
            if number == watched and is_held_elsewhere(box):
                self._results[number] = box[0]

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Where its block is worked on: what goes wrong on a device now is the doing of the kernel before."""
        return contextlib.nullcontext() if self.resident is None else self._device.guarded()

    def wait(self) -> None:
        """Until the device has done what was asked of it."""
        self._device.wait()

    def _described(self, result: Any, output: Region, seconds: float, *, copy: bool = True) -> Returned:
        copy = copy and (self._latest is None or not self._latest.in_place)
        if self.resident is not None:
            return self._device.describe(result, output, seconds, copy=copy)
        return self._host.describe(self._device.read(result), output, seconds, copy=copy)

    def versions(self) -> dict[str, str]:
        """Versions of the framework, and of the device if there is one."""
        return {**versions(self._kernel.framework), **self._device.versions()}
