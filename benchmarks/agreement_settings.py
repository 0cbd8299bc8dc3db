"""Ways in which PyTorch can be told to run a program: threads, libraries, compilers, on the CPU or a device."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Setting:
    """
    How a program is run. Products in TensorFloat-32 are off, and so is NNPACK, whose convolutions are Winograd's.

    Args:
        name: In the table.
        device: ``"cpu"`` or ``"cuda"``.
        threads: On the CPU.
        one_dnn: Whether oneDNN takes part on the CPU.
        cudnn: Whether cuDNN takes part.
        benchmark: Whether cuDNN takes the fastest of its algorithms, whichever that is.
        lt: Whether products go to cuBLASLt.
        narrow: Whether cuBLAS may keep sums of float16 and bfloat16 in these formats: a kernel that promises
            ``accumulate="any"`` alone.
        compiler: ``"inductor"``; ``"triton"``: it writes matrix products in Triton too; empty: none.
    """

    name: str
    device: str = "cpu"
    threads: int = 1
    one_dnn: bool = True
    cudnn: bool = True
    benchmark: bool = False
    lt: bool = False
    narrow: bool = False
    compiler: str = ""

    @contextlib.contextmanager
    def active(self, storage: str) -> Iterator[None]:
        """PyTorch as this setting says; numbers that a program gives no format are stored in *storage*."""
        torch.set_num_threads(self.threads)
        torch.backends.nnpack.set_flags(False)
        torch.backends.mkldnn.set_flags(self.one_dnn)
        torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark = self.cudnn, self.benchmark
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = self.narrow
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = self.narrow
        where: Any = contextlib.nullcontext()
        if self.device != "cpu":
            where = torch.device(self.device)
            torch.backends.cuda.preferred_blas_library("cublaslt" if self.lt else "cublas")
            with contextlib.suppress(AttributeError, RuntimeError):  # of older PyTorch
                torch.backends.cuda.matmul.allow_fp16_accumulation = self.narrow
        default = torch.get_default_dtype()
        torch.set_default_dtype(getattr(torch, storage))
        try:
            with where:
                yield
        finally:
            torch.set_default_dtype(default)
            torch.set_num_threads(1)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function as the compiler of this setting makes it, at its first call; without one, as it is."""
        if not self.compiler:
            return function
        torch._dynamo.reset()  # noqa: SLF001
        torch._dynamo.utils.counters.clear()  # noqa: SLF001
        options: dict[str, Any] = {}
        if self.compiler == "triton":
            options = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
        compiled: Callable[..., Any] = torch.compile(function, dynamic=False, options=options)
        return compiled

    def look_at_compiler(self) -> None:
        """Raise RuntimeError if it has compiled nothing since `compiled`: then PyTorch ran it as ever."""
        if self.compiler and not torch._dynamo.utils.counters["stats"]["unique_graphs"]:  # noqa: SLF001
            raise RuntimeError("nothing was compiled")


def settings(device: str, *, compilers: bool, triton: bool = False) -> tuple[list[Setting], list[Setting]]:
    """Those of a device: without a compiler, and with one."""
    if device == "cpu":
        plain = [
            Setting(f"{threads} thread{'s' * (threads > 1)}, oneDNN {word}", "cpu", threads, one_dnn)
            for one_dnn, word in ((True, "on"), (False, "off"))
            for threads in (1, 2)
        ]
        return plain, [Setting("Inductor, 1 thread", compiler="inductor")] if compilers else []
    plain = [
        Setting("cuDNN, cuBLAS", device),
        Setting("cuDNN benchmark, cuBLASLt", device, benchmark=True, lt=True),
        Setting("cuDNN off, cuBLAS", device, cudnn=False),
        Setting("cuDNN, cuBLAS, narrow sums", device, narrow=True),
        Setting("cuDNN off, cuBLASLt, narrow sums", device, cudnn=False, lt=True, narrow=True),
    ]
    made = [Setting("Inductor", device, compiler="inductor")] if compilers else []
    made += [Setting("Inductor, products in Triton", device, compiler="triton")] if triton else []
    return plain, made
