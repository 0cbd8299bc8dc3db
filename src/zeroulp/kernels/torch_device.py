"""PyTorch's tensors as host arrays, and its CUDA devices."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import importlib
import pickle
import sys
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from zeroulp.arrays import arrays_of
from zeroulp.errors import KernelRaisedError, KernelResultError, UsageError
from zeroulp.kernels.device import Returned, spans
from zeroulp.kernels.python import call_guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zeroulp.encoding import Array
    from zeroulp.kernels.device import Device
    from zeroulp.memory import Region

# dtypes that numpy has no name for cross as integers of the same width
CARRIERS = {
    "bfloat16": ("int16", np.int16),
    "float8_e4m3fn": ("uint8", np.uint8),
    "float8_e4m3fnuz": ("uint8", np.uint8),
    "float8_e5m2": ("uint8", np.uint8),
    "float8_e5m2fnuz": ("uint8", np.uint8),
}


def torch_dtype(name: str) -> Any:
    """PyTorch's dtype of this name. Raises UsageError if there is none."""
    torch = importlib.import_module("torch")
    if not hasattr(torch, name):
        raise UsageError(f"PyTorch has no dtype for {name}", do="check such a kernel on NumPy arrays")
    return getattr(torch, name)


def torch_back(result: Any) -> Array | None:
    """A tensor on the CPU as a host array, sharing memory; None if it is none. Raises KernelResultError."""
    torch = importlib.import_module("torch")
    if not isinstance(result, torch.Tensor):
        return None
    result = result.detach()
    if result.device.type != "cpu":
        raise KernelResultError(
            f"the kernel returned a tensor on {result.device}",
            why="its inputs were on the CPU",
            do="return the result on the device of the inputs",
        )
    name = str(result.dtype).removeprefix("torch.")
    if name in CARRIERS:
        carrier = np.asarray(result.view(getattr(torch, CARRIERS[name][0])).numpy())
        stored: Array = carrier.view(np.dtype(getattr(ml_dtypes, name)))
        return stored
    try:
        return np.asarray(result.numpy())
    except (TypeError, RuntimeError) as error:  # dtypes and storages that numpy has no word for
        raise KernelResultError(
            f"the kernel returned a tensor of {result.dtype}, {result.layout}, which is no plain array",
            why=str(error),
            do="return a dense tensor of the output's dtype",
        ) from error


def is_shared_tensor(tensor: Any) -> bool:
    """Whether the memory of *tensor*, a detached one, is another's too; True for anything else, or if nobody says."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor) or not hasattr(torch._C, "_storage_Use_Count"):  # noqa: SLF001
        return True

    def count(one: Any) -> int:
        return int(torch._C._storage_Use_Count(one.untyped_storage()._cdata))  # noqa: SLF001

    foreign = tensor.device.type != "cpu" and not tensor.untyped_storage().resizable()  # numpy fixes it on the CPU
    return foreign or count(tensor) > count(torch.empty(1).detach())


class TorchDevice:
    """
    A CUDA device of PyTorch; see `Device`.

    Everything is done in the order of the stream that was current at the start. Nothing waits
    for other streams, so that work left there without a wait shows as a wrong result.

    Args:
        torch: The module.
        device: A ``torch.device`` with its number.
        block: The host's block.
    """

    def __init__(self, torch: Any, device: Any, block: Array) -> None:
        self._torch, self._device, self._host = torch, device, block
        self._stream = self._current_stream()
        self._own: Any = None

    @property
    def _block(self) -> Any:
        if self._own is None:
            size = -(-len(self._host) // 64) * 64
            self._own = self._do(self._torch.zeros, size, dtype=self._torch.uint8, device=self._device)
        return self._own

    @property
    def resident(self) -> Any:
        """The block on the device, which can be worked on there."""
        return self._block

    def share(self) -> str:
        """The block in words that `adopt` understands, in another process of this machine. Raises RuntimeError."""
        reductions = importlib.import_module("torch.multiprocessing.reductions")
        return base64.b64encode(pickle.dumps(reductions.reduce_tensor(self._block))).decode()

    def adopt(self, text: str) -> None:
        """Use the block of another process. Raises RuntimeError if the device does not share memory."""
        rebuild, arguments = pickle.loads(base64.b64decode(text))  # noqa: S301  (it comes from our own parent)
        self._own = rebuild(*arguments)

    def describe(self, result: Any, output: Region, seconds: float, *, copy: bool = True) -> Returned:
        """A result as plain facts, with its encodings on the device; copied in the order of the stream."""
        name, shape = str(result.dtype).removeprefix("torch."), tuple(result.shape)
        codes = None
        if name == output.dtype.name and shape == output.shape and result.layout == self._torch.strided:
            arrays = arrays_of(self._block)
            codes = self._do(lambda: arrays.codes(arrays.copy(result) if copy else result))
        return Returned(name, shape, codes, seconds)

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Its stream is the current one, and its errors are those of the kernel before."""
        with self.active():
            try:
                yield
            except self._torch.cuda.OutOfMemoryError as error:
                do = "free memory on the device, choose a smaller problem, or a smaller workspace"
                raise UsageError("the device has not enough memory for the check", why=str(error), do=do) from error
            except RuntimeError as error:
                text = str(error).strip().partition("\n")[0]
                raise KernelRaisedError(f"the device failed after the kernel was called: {text}") from error

    def upload(self, regions: Sequence[Region]) -> None:
        """Bring these regions there as they are on the host, guards included."""
        for low, high in spans(regions):
            self._do(self._block[low:high].copy_, self._torch.from_numpy(self._host[low:high]))

    def download(self, regions: Sequence[Region]) -> None:
        """Bring them back."""
        for low, high in spans(regions):
            self._do(self._torch.from_numpy(self._host[low:high]).copy_, self._block[low:high])

    def view(self, region: Region) -> Any:
        """A tensor that shares memory with the block on the device."""
        typed = self._block.view(torch_dtype(region.dtype.name))
        return self._torch.as_strided(typed, region.shape, region.strides, region.start // region.dtype.itemsize)

    def spoil(self, size_bytes: int, code: int, width: int) -> None:
        """Leave *code* in memory just given back: the caching allocator hands it out next."""
        value = int(np.array(code, f"u{width}").view(f"i{width}"))
        dtype = getattr(self._torch, f"int{8 * width}")
        self._do(self._torch.full, (size_bytes // width,), value, dtype=dtype, device=self._device)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Its device and its stream are the current ones, whatever the kernel makes of that."""
        context = self._enter()
        try:
            yield
        finally:
            with contextlib.suppress(RuntimeError):  # after an error on the device this fails too
                context.__exit__(None, None, None)

    def wait(self) -> None:
        """Until what is on the stream is done."""
        self._do(self._stream.synchronize)

    def accept(self, result: Any) -> Any:
        """A tensor as it is; None if it is no tensor. Raises KernelResultError if it is not on this device."""
        if not isinstance(result, self._torch.Tensor):
            return None
        if result.device != self._device:
            raise KernelResultError(
                f"the kernel returned a tensor on {result.device}",
                why=f"its inputs were on {self._device}",
                do="return the result on the device of the inputs",
            )
        return result.detach()

    def read(self, result: Any) -> Array:
        """A copy on the host, made in the order of the stream."""
        host = torch_back(self._do(result.cpu))
        assert host is not None, "it was a tensor before"
        return host

    def versions(self) -> dict[str, str]:
        """The GPU's name, its driver, and the CUDA that PyTorch was built with."""
        found = {"gpu": str(self._torch.cuda.get_device_name(self._device)), "driver": _nvidia_driver()}
        for name in ("cuda", "hip"):
            found[name] = str(getattr(self._torch.version, name, None) or "")
        return {name: text for name, text in found.items() if text}

    def _current_stream(self) -> Any:
        return self._torch.cuda.current_stream(self._device)

    def _enter(self) -> Any:
        context = self._torch.cuda.stream(self._stream)
        call_guarded(context.__enter__)
        return context

    def _do(self, work: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        """Work on the device, in the stream's order; errors that come up now are those of the kernel before."""
        with self.active():
            return call_guarded(work, *arguments, **keywords)


def attach(name: str, block: Array) -> Device:
    """The CUDA device called *name*, with a copy of *block*. Raises UsageError if it cannot be used."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        do = "install PyTorch with CUDA, or leave the device at 'cpu'"
        raise UsageError(f"device {name!r} without PyTorch", why=str(error), do=do) from error
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type != "cuda":
        raise UsageError(f"device {name!r} is not supported", do="choose 'cpu', 'cuda' or one by number, 'cuda:1'")
    try:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            built = torch.version.cuda or getattr(torch.version, "hip", None)
            why = f"PyTorch {torch.__version__} " + (f"sees {count} of them" if built else "is built for the CPU alone")
            raise UsageError(f"there is no device {name!r}", why=why, do="choose another, or leave the device at 'cpu'")
        number = torch.cuda.current_device() if device.index is None else device.index
        found = torch.device("cuda", number)
        torch.zeros(1, device=found)
        return TorchDevice(torch, found, block)
    except RuntimeError as error:  # no memory, or a process in which a kernel broke the device
        why = str(error).strip().partition("\n")[0]
        do = "free memory on it; after an illegal access by a kernel, start a new process (isolation='process')"
        raise UsageError(f"the device {name!r} cannot be used", why=why, do=do) from error


def available_on(name: str) -> int | None:
    """Bytes on the CUDA device called *name* that are free, or PyTorch's in this process; None: nobody knows."""
    torch: Any = sys.modules.get("torch")
    try:
        return int(torch.cuda.mem_get_info(name)[0] + torch.cuda.memory_reserved(name))
    except (AttributeError, RuntimeError, ValueError, AssertionError):  # no PyTorch yet, no device: said elsewhere
        return None


def _nvidia_driver() -> str:
    """Version of NVIDIA's driver, or nothing."""
    text = ctypes.create_string_buffer(96)
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(text, 96):
            return ""
        library.nvmlShutdown()
    except (OSError, AttributeError):
        return ""
    return text.value.decode(errors="replace")
