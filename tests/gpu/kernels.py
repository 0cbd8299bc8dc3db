"""Kernels for the tests on a GPU; a worker finds them by this file."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

SIDE = []


def right(a, b):
    return torch.matmul(a, b)


def right_into(a, b, out):
    out.copy_(torch.matmul(a, b))


def scaled(a, b, out_dtype):
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=out_dtype)


def scaled_to_bfloat16(a, b):
    return scaled(a, b, torch.bfloat16)


def scaled_to_float32(a, b):
    return scaled(a, b, torch.float32)


@triton.jit
def unmasked_kernel(a_ptr, b_ptr, c_ptr, k, n, BLOCK_K: tl.constexpr):
    """One output per program; loads up to a multiple of BLOCK_K."""
    row, col = tl.program_id(0), tl.program_id(1)
    total = 0.0
    for start in range(0, k, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + row * k + ks, mask=ks < k, other=0.0)
        b = tl.load(b_ptr + ks * n + col)
        total += tl.sum(a.to(tl.float32) * b.to(tl.float32))
    tl.store(c_ptr + row * n + col, total.to(c_ptr.dtype.element_ty))


def unmasked_tail(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    unmasked_kernel[m, n](a, b, c, k, n, BLOCK_K=32)
    return c


@triton.jit
def store_kernel(c_ptr, index):
    tl.store(c_ptr + index, 0.0)


def one_past_the_end(a, b, out):
    out.copy_(torch.matmul(a, b))
    store_kernel[1,](out, out.numel())


def one_before_the_start_of_b(a, b):
    result = torch.matmul(a, b)
    store_kernel[1,](b, -1)
    return result


@triton.jit
def far_kernel(a_ptr, c_ptr, far):
    tl.store(c_ptr, tl.load(a_ptr + far))


def illegal_access(a, b):
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    far_kernel[1,](a, c, 1 << 44)
    return c


def last_row_unwritten(a, b):
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    torch.matmul(a[:-1], b, out=c[:-1])
    return c


def last_row_unwritten_into(a, b, out):
    torch.matmul(a[:-1], b, out=out[:-1])


def no_wait(a, b):
    """Launches on a stream of its own, behind some 50 ms of other work, and returns at once."""
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    no_wait_into(a, b, c)
    return c


def no_wait_into(a, b, out):
    SIDE[:] = SIDE or [torch.cuda.Stream(a.device)]
    with torch.cuda.stream(SIDE[0]):
        torch.cuda._sleep(100_000_000)
        torch.matmul(a, b, out=out)


def waits(a, b):
    """Launches on a stream of its own and makes the caller's stream wait for it."""
    here, side = torch.cuda.current_stream(a.device), torch.cuda.Stream(a.device)
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    side.wait_stream(here)
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        torch.matmul(a, b, out=c)
    here.wait_stream(side)
    return c


def leaves_its_stream_current(a, b):
    """Right in the order of the stream that it was called on."""
    side = torch.cuda.Stream(a.device)
    result = torch.matmul(a, b)
    torch.cuda.set_stream(side)
    return result


def to_the_host(a, b):
    return torch.matmul(a, b).cpu()


def changes_a(a, b):
    result = torch.matmul(a, b)
    a[0, 0] = 0
    return result
