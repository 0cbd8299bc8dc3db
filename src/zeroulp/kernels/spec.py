"""Which kernel is meant and how it is to be called, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.encoding import Array
    from zeroulp.kernels.device import Device


@dataclass(frozen=True)
class KernelSpec:
    """
    Which kernel, and how to call it.

    Args:
        target: ``file.py:function``, ``package.module:function`` or ``library.so:symbol``; for a
            function given in Python, how it would be written, or what it is called.
        framework: What it eats: ``"numpy"``, ``"torch"``, ``"c"``; None: found from its module.
        signature: Of a C symbol; see `zeroulp.kernels.signature`, and `linear_library` beside it.
        destination_passing: Whether it writes into a last argument instead of returning.
        device: Where its arrays live: ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
    """

    target: str
    framework: str | None = None
    signature: str | None = None
    destination_passing: bool = False
    device: str = "cpu"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for messages and reports."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> KernelSpec:
        """The spec that `to_dict` described. Raises TypeError if it is none."""
        spec = cls(**data)
        texts = [spec.target, spec.device, *(text for text in (spec.framework, spec.signature) if text is not None)]
        if not all(isinstance(text, str) for text in texts) or not isinstance(spec.destination_passing, bool):
            raise TypeError(f"no kernel is described by {data}")
        return spec


class Kernel(Protocol):
    """A candidate, ready to be called on host arrays, or on those of a device."""

    framework: str

    def for_problem(self, problem: Any) -> Kernel:
        """
        The same candidate, loaded already, for another problem.

        Raises:
            UsageError: If it cannot be called for that.
        """
        ...

    def attach(self, block: Array) -> Device | None:
        """
        Get ready for arrays in *block* (bytes).

        Returns:
            The device that the kernel works on, with a copy of the block; None: it works on the block itself.

        Raises:
            UsageError: If there is no such device.
        """
        ...

    def __call__(self, operands: Sequence[Any], out: Any) -> Any:
        """
        Call it once.

        Args:
            operands: Arrays in the order of the problem's operands, on the host or on the attached device;
                shared, not copied.
            out: Where to write, under destination passing (and for C); else None.

        Returns:
            What it returned: on the host, seen as a host array that shares its memory; on a device, what the
            device can read. *out* if it wrote there.

        Raises:
            KernelError: If it raised, or returned no array.
        """
        ...
