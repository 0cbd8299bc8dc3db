"""
Array libraries at the boundary: host arrays in, host arrays out, memory shared; or arrays on a device.

The only file that knows frameworks. One is used if the user's own kernel uses it. Another one is
an entry in `FRAMEWORKS`, with a `Device` of its own if its arrays may live on one.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import importlib
import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from zeroulp.arrays import arrays_of
from zeroulp.errors import KernelRaisedError, KernelResultError, UsageError
from zeroulp.kernels.detect import framework_of
from zeroulp.kernels.device import Returned, spans
from zeroulp.kernels.python import call_guarded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zeroulp.encoding import Array
    from zeroulp.kernels.device import Device
    from zeroulp.memory import Region


@dataclass(frozen=True)
class Framework:
    """
    How arrays cross the boundary to one library and back.

    Args:
        name: Its name, which is that of its top module.
        to: A host array as one of its arrays, sharing memory (but see *constant*).
        back: One of its arrays as a host array, sharing memory; None if it is none of its arrays.
        attach: A device by its name, with a copy of this block on it; raises UsageError if there is no
            such device. None: its arrays live on the host alone.
        constant: Whether its arrays cannot be written into; then *to* copies.
    """

    name: str
    to: Callable[[Array], Any]
    back: Callable[[Any], Array | None]
    attach: Callable[[str, Array], Device] | None = None
    constant: bool = False


def _numpy_back(result: Any) -> Array | None:
    return np.asarray(result) if isinstance(result, np.ndarray) else None


# dtypes that numpy has no name for cross as integers of the same width
_TORCH_CARRIERS = {
    "bfloat16": ("int16", np.int16),
    "float8_e4m3fn": ("uint8", np.uint8),
    "float8_e4m3fnuz": ("uint8", np.uint8),
    "float8_e5m2": ("uint8", np.uint8),
    "float8_e5m2fnuz": ("uint8", np.uint8),
}


def _torch_to(array: Array) -> Any:
    torch = importlib.import_module("torch")
    name, dtype = array.dtype.name, _torch_dtype(array.dtype.name)
    if name in _TORCH_CARRIERS:
        return torch.from_numpy(array.view(_TORCH_CARRIERS[name][1])).view(dtype)
    return torch.from_numpy(array)


def _torch_dtype(name: str) -> Any:
    torch = importlib.import_module("torch")
    if not hasattr(torch, name):
        raise UsageError(f"PyTorch has no dtype for {name}", do="check such a kernel on NumPy arrays")
    return getattr(torch, name)


def _torch_back(result: Any) -> Array | None:
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
    if name in _TORCH_CARRIERS:
        carrier = np.asarray(result.view(getattr(torch, _TORCH_CARRIERS[name][0])).numpy())
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


def _jax_to(array: Array) -> Any:
    """A copy: JAX takes an array for a constant, and our buffers are filled again."""
    numpy = importlib.import_module("jax.numpy")
    try:
        copied = numpy.array(array)
    except (TypeError, RuntimeError) as error:
        do = "check such a kernel on NumPy arrays"
        raise UsageError(f"JAX has no dtype for {array.dtype}", why=_first_line(error), do=do) from error
    if copied.dtype != array.dtype:
        do = 'set jax.config.update("jax_enable_x64", True) where the kernel is defined'
        raise UsageError(f"JAX makes {copied.dtype} of {array.dtype}", why="64-bit numbers are off", do=do)
    return copied


def _jax_back(result: Any) -> Array | None:
    jax = importlib.import_module("jax")
    if not isinstance(result, (jax.Array, np.ndarray)):
        return None
    return np.asarray(call_guarded(np.asarray, result))  # waits; what went wrong in between comes up now


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


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

    def describe(self, result: Any, output: Region, seconds: float) -> Returned:
        """A result as plain facts, with a copy of its encodings on the device; made in the order of the stream."""
        name, shape = str(result.dtype).removeprefix("torch."), tuple(result.shape)
        codes = None
        if name == output.dtype.name and shape == output.shape and result.layout == self._torch.strided:
            arrays = arrays_of(self._block)
            codes = self._do(lambda: arrays.codes(arrays.copy(result)))
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
        typed = self._block.view(_torch_dtype(region.dtype.name))
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
        host = _torch_back(self._do(result.cpu))
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


def _torch_attach(name: str, block: Array) -> Device:
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
        return TorchDevice(torch, torch.device("cuda", number), block)
    except RuntimeError as error:  # no memory, or a process in which a kernel broke the device
        why = str(error).strip().partition("\n")[0]
        do = "free memory on it; after an illegal access by a kernel, start a new process (isolation='process')"
        raise UsageError(f"the device {name!r} cannot be used", why=why, do=do) from error


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


FRAMEWORKS: dict[str, Framework] = {
    "numpy": Framework("numpy", lambda array: array, _numpy_back),
    "torch": Framework("torch", _torch_to, _torch_back, _torch_attach),
    "jax": Framework("jax", _jax_to, _jax_back, constant=True),
}


def device_named(name: str, framework: str | None, block: Array) -> Device | None:
    """
    A device of its own for arrays in a copy of *block*; None for ``"cpu"``.

    Args:
        name: Of the device.
        framework: Whose arrays live there; None: of the first framework that has devices.
        block: The host's block.

    Raises:
        UsageError: If there is no such device, or the framework has none.
    """
    able = [other for other in FRAMEWORKS.values() if other.attach is not None]
    chosen = framework_named(framework) if framework else able[0]
    if name == "cpu" or chosen.attach is None:
        return None
    return chosen.attach(name, block)


def framework_named(name: str) -> Framework:
    """The framework called *name*. Raises UsageError if it is not supported."""
    if name not in FRAMEWORKS:
        raise UsageError(
            f"framework {name!r} is not supported",
            do=f"supported: {', '.join(FRAMEWORKS)}; for a C library give its path as library.so:symbol",
        )
    return FRAMEWORKS[name]


def framework_for(name: str | None, function: Callable[..., Any], device: str) -> Framework:
    """
    The framework for a function's arrays on *device*: the one named, else what the function uses.

    Raises:
        UsageError: If it is not supported, or its arrays never live on such a device.
    """
    framework = framework_named(name or framework_of(function))
    if device == "cpu" or framework.attach is not None:
        return framework
    able = [other.name for other in FRAMEWORKS.values() if other.attach is not None]
    if name is None:  # it names no library, as lambda a, b: a @ b
        return FRAMEWORKS[able[0]]
    raise UsageError(f"{name} has no arrays on {device!r}", do=f"choose framework {' or '.join(able)}, or device 'cpu'")


def versions(framework: str) -> dict[str, str]:
    """Versions of the framework and of what it runs on."""
    found: dict[str, str] = {}
    for name in (framework, "triton"):
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "__version__"):
            found[name] = str(module.__version__)
    return found
