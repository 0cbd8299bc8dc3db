"""
An ordinary tiled Triton matmul on torch tensors: correct.

One program computes one BLOCK_M x BLOCK_N tile of c. Every load and the store carry a mask, so m, n and k may
be ragged, and strides are passed, so a and b may be transposed or padded. Sums are float32 (float64 for
float64, int32 for int8), stored with one rounding to the output format: that of a, except float32 for 8-bit
floats and int32 for int8.

Two choices keep the sums that precise. input_precision="ieee" stops tl.dot from cutting float32 operands to
TF32. And 8-bit floats are widened to float16, which holds each of them exactly, since the FP8 tensor cores of
some GPUs keep only 14 bits of a sum.

Without a GPU the kernel runs on the CPU, in Triton's interpreter. Its conversions of bfloat16 and 8-bit
floats are wrong for some codes (subnormals, NaN, ties), so there torch converts, before and after the kernel.

    zeroulp check examples/correct/triton_matmul.py:matmul -m 64 -n 64 -k 257 --a float16
"""

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read by triton.jit

import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    WIDEN: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    # int64: rows * stride_am can pass 2**31 elements
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    ks = tl.arange(0, BLOCK_K).to(tl.int64)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACCUMULATOR)
    for k_start in range(0, k, BLOCK_K):
        a_ks = k_start + ks[None, :]
        b_ks = k_start + ks[:, None]
        a = tl.load(a_ptr + rows * stride_am + a_ks * stride_ak, mask=(rows < m) & (a_ks < k), other=0.0)
        b = tl.load(b_ptr + b_ks * stride_bk + cols * stride_bn, mask=(b_ks < k) & (cols < n), other=0.0)
        if WIDEN:
            a = a.to(tl.float16)
            b = b.to(tl.float16)
        accumulator = tl.dot(a, b, accumulator, input_precision="ieee", out_dtype=ACCUMULATOR)
    c = accumulator.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows * stride_cm + cols * stride_cn, c, mask=(rows < m) & (cols < n))


def output_dtype(operand: torch.dtype) -> torch.dtype:
    if operand in FLOAT8:
        return torch.float32
    return torch.int32 if operand == torch.int8 else operand


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product of a: (m, k) and b: (k, n), both of one format."""
    out = output_dtype(a.dtype)
    if INTERPRETED and a.dtype in (torch.bfloat16, *FLOAT8):
        return launch(a.to(torch.float32), b.to(torch.float32), torch.float32).to(out)  # widening is exact
    return launch(a, b, out)


def launch(a: torch.Tensor, b: torch.Tensor, out: torch.dtype) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=out, device=a.device)
    if c.numel() == 0:
        return c
    block_m, block_n, block_k = 64, 64, 32
    matmul_kernel[triton.cdiv(m, block_m), triton.cdiv(n, block_n)](
        a,
        b,
        c,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        *c.stride(),
        WIDEN=a.dtype in FLOAT8,
        ACCUMULATOR={torch.float64: tl.float64, torch.int32: tl.int32}.get(out, tl.float32),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
    )
    return c
