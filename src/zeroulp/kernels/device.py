"""
Where a kernel finds its operands: in the host's block of memory, or in one like it on a device.

The device's block is laid out like the host's, byte for byte. Where it is *resident*, inputs are
drawn and results verified in it; else the regions in use go up before a call and come down
afterwards, and everything is looked at on the host.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from zeroulp import memory
from zeroulp.encoding import bits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.encoding import Array
    from zeroulp.memory import Region

_NEAR = 64  # bytes between regions that are copied along


@dataclass(frozen=True)
class Returned:
    """
    What a call gave back.

    Args:
        dtype: Name of the result's dtype.
        shape: Its shape.
        codes: Its encodings, where the block is: a private copy, or the result itself where it is too large for
            one; None unless dtype and shape are as they should be.
        seconds: Wall time of the call.
    """

    dtype: str
    shape: tuple[int, ...]
    codes: Any
    seconds: float


class Device(Protocol):
    """Memory that a kernel works on. What goes wrong on it is the kernel's doing: KernelRaisedError."""

    @property
    def resident(self) -> Any:
        """The block on the device, where inputs can be drawn and results verified; None: only on the host."""
        ...

    def share(self) -> str:
        """The resident block in words that `adopt` understands, in another process. Raises RuntimeError."""
        ...

    def adopt(self, text: str) -> None:
        """Make the block of another process the resident one. Raises RuntimeError if that cannot be."""
        ...

    def describe(self, result: Any, output: Region, seconds: float, *, copy: bool = True) -> Returned:
        """A result as plain facts, with its encodings beside the resident block: a copy, or the result itself."""
        ...

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Where the resident block is worked on: errors that come up are those of the kernel before."""
        ...

    def upload(self, regions: Sequence[Region]) -> None:
        """Bring these regions there as they are on the host, guards included."""
        ...

    def download(self, regions: Sequence[Region]) -> None:
        """Bring them back."""
        ...

    def view(self, region: Region) -> Any:
        """The region's array, as the kernel gets it."""
        ...

    def spoil(self, size_bytes: int, code: int, width: int) -> None:
        """
        Leave *code* in memory of this size that was just given back, so that an allocator hands it out next.

        A kernel that forgets to write part of an output it allocated then shows it.
        """
        ...

    def active(self) -> contextlib.AbstractContextManager[None]:
        """Where the kernel is called: a context in which this is the current device."""
        ...

    def wait(self) -> None:
        """Until what the kernel put in order is done; what it put elsewhere is not waited for."""
        ...

    def accept(self, result: Any) -> Any:
        """What the kernel returned; None if it is no array. Raises KernelResultError if it is not on the device."""
        ...

    def read(self, result: Any) -> Array:
        """An accepted result as a host array, as it is now."""
        ...

    def versions(self) -> dict[str, str]:
        """What it is, and which driver runs it."""
        ...


class Host:
    """
    The block itself.

    Args:
        block: Its bytes.
    """

    def __init__(self, block: Array) -> None:
        self._block = block

    @property
    def resident(self) -> Any:
        """The host's block is worked on as it is."""
        return None

    def share(self) -> str:
        """The host's block is shared otherwise."""
        raise RuntimeError("the host's memory is shared through a file")

    def adopt(self, text: str) -> None:
        """The host's block is shared otherwise."""
        raise RuntimeError(f"the host's memory is shared through a file, not by {text!r}")

    def describe(self, result: Any, output: Region, seconds: float, *, copy: bool = True) -> Returned:
        """A result as plain facts, with its encodings (a copy of them) where dtype and shape are right."""
        name, shape = result.dtype.name, tuple(int(extent) for extent in result.shape)
        if not result.dtype.isnative:
            name = result.dtype.str
        codes = None
        if name == output.dtype.name and shape == output.shape:
            codes = bits_of(np.array(result, order="C") if copy else result)
        return Returned(name, shape, codes, seconds)

    def guarded(self) -> contextlib.AbstractContextManager[None]:
        """Nothing to guard."""
        return contextlib.nullcontext()

    def upload(self, regions: Sequence[Region]) -> None:
        """They are there."""

    def download(self, regions: Sequence[Region]) -> None:
        """They are here."""

    def view(self, region: Region) -> Array:
        """The region's array, which shares memory with the block."""
        array: Array = memory.view(self._block, region)
        return array

    def spoil(self, size_bytes: int, code: int, width: int) -> None:
        """Leave *code* in memory just given back; see `Device.spoil`."""
        spoiled = np.full(max(1, size_bytes // width), code, np.dtype(f"u{width}"))
        bits_of(spoiled)
        del spoiled

    def active(self) -> contextlib.AbstractContextManager[None]:
        """Nothing to prepare."""
        return contextlib.nullcontext()

    def wait(self) -> None:
        """A call has ended when it returns."""

    def accept(self, result: Any) -> Any:
        """Kernels on the host return host arrays."""
        return result

    def read(self, result: Any) -> Array:
        """It is a host array."""
        array: Array = result
        return array

    def versions(self) -> dict[str, str]:
        """The host is described elsewhere."""
        return {}


def spans(regions: Sequence[Region]) -> list[tuple[int, int]]:
    """First and last-plus-one bytes of the regions, neighbours taken together."""
    found: list[tuple[int, int]] = []
    for low, high in sorted((region.low, region.high) for region in regions):
        if found and low - found[-1][1] < _NEAR:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found
