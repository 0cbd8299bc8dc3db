"""Correct kernels: every order, format, accumulator and way of calling that keeps the contract."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .kit import NARROW, blocks, cut, f32, f64, in_steps, padded, partials, product, right, shape, through
from .registry import correct

WRITES = {"destination_passing": True}


def plain(name, models, sentence, kernel, problem, **more):
    """Register a kernel without state."""

    def factory():
        def fresh(*operands):
            return kernel(*operands)

        return fresh

    factory.__doc__ = sentence
    correct(name, models=models, problem=problem, **more)(factory)


def result(a):
    """The usual output type: that of a, or float32 for 8 bits."""
    return a.dtype if a.dtype.itemsize > 1 else np.dtype(np.float32)


# --- orders of summation


def along(ks, a, b, work=np.float32):
    """Product after product, in the order *ks*."""
    total = np.zeros((*a.shape[:-1], b.shape[-1]), work)
    wide_a, wide_b = a.astype(work), b.astype(work)
    for k in ks:
        total = total + wide_a[..., k, None] * wide_b[..., k, None, :]
    return total


def pairwise(a, b):
    leaves = [f32(a)[:, k, None] * f32(b)[None, k] for k in range(a.shape[1])]
    while len(leaves) > 1:
        leaves = [sum(leaves[i : i + 2]) for i in range(0, len(leaves), 2)]
    return leaves[0].astype(result(a))


def fused(a, b):
    """Fused multiply-add: one rounding for product and sum."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (f64(total) + f64(a)[:, k, None] * f64(b)[None, k]).astype(np.float32)
    return total.astype(result(a))


def compensated(a, b):
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    lost = np.zeros_like(total)
    for k in range(a.shape[1]):
        y = f32(a)[:, k, None] * f32(b)[None, k] - lost
        new = total + y
        total, lost = new, (new - total) - y
    return total.astype(result(a))


def two_sum(a, b):
    """Neumaier's sum: the error terms are added at the end."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    errors = np.zeros_like(total)
    for k in range(a.shape[1]):
        y = f32(a)[:, k, None] * f32(b)[None, k]
        new = total + y
        virtual = new - total
        errors = errors + ((total - (new - virtual)) + (y - virtual))
        total = new
    return (total + errors).astype(result(a))


def stream_k(a, b):
    """Workers share the k ranges of all tiles evenly; a tile's parts are fixed up in float32."""
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    tiles = [(i, j) for i in blocks(m, 4) for j in blocks(n, 4)]
    out = np.zeros((m, n), np.float32)
    share = -(-len(tiles) * k // 3)
    for worker in range(3):
        for t, (i, j) in enumerate(tiles):
            start, stop = max(worker * share, t * k) - t * k, min((worker + 1) * share, (t + 1) * k) - t * k
            if start < stop:
                out[i, j] += product(a[i, start:stop], b[start:stop, j])
    return out.astype(result(a))


for _format in ("float16", "bfloat16"):
    plain(
        f"sequential-{_format}",
        "a plain loop",
        "k from first to last.",
        lambda a, b: along(range(a.shape[1]), a, b).astype(a.dtype),
        shape(6, 5, 37, a=_format),
    )
    plain(
        f"reversed-{_format}",
        "a plain loop",
        "k from last to first.",
        lambda a, b: along(range(a.shape[1])[::-1], a, b).astype(a.dtype),
        shape(6, 5, 37, a=_format),
    )
    plain(f"pairwise-{_format}", "tree reductions", "A binary tree.", pairwise, shape(6, 5, 37, a=_format))
    plain(
        f"split-k-{_format}",
        "split-K with a float32 workspace",
        "Five splits, reduced from the last.",
        lambda a, b: sum(partials(a, b, 5)[::-1]).astype(a.dtype),
        shape(6, 5, 37, a=_format),
    )
plain(
    "sequential-float32",
    "a plain loop",
    "k from first to last.",
    lambda a, b: along(range(a.shape[1]), a, b),
    shape(6, 5, 37, a="float32"),
)
plain(
    "interleaved",
    "vectorised dot products",
    "Eight accumulators, one for each residue of k.",
    lambda a, b: sum(product(a[:, r::8], b[r::8]) for r in range(8)).astype(a.dtype),
    shape(6, 5, 37),
)
plain("fused", "scalar FMA chains", "One rounding for product and sum.", fused, shape(6, 5, 37))
plain("fused-bfloat16", "AVX512 VDPBF16PS", "One rounding for product and sum.", fused, shape(6, 5, 37, a="bfloat16"))
plain("compensated", "Kahan 1965", "Kahan's compensated sum.", compensated, shape(6, 5, 37))
plain("two-sum", "Neumaier 1974", "Error terms added at the end.", two_sum, shape(6, 5, 37, a="bfloat16"))
plain("stream-k", "stream-K with a float32 fix-up", "Tiles shared by workers.", stream_k, shape(9, 10, 24))
plain(
    "float64-inside",
    "wider accumulators",
    "Sums in float64.",
    lambda a, b: (f64(a) @ f64(b)).astype(np.float32).astype(a.dtype),
    shape(6, 5, 37, a="bfloat16"),
)
plain("float64-blas", "DGEMM", "NumPy's own.", lambda a, b: a @ b, shape(6, 5, 37, a="float64"))
plain("float32-blas", "SGEMM", "NumPy's own.", lambda a, b: a @ b, shape(6, 5, 37, a="float32"))
plain(
    "einsum",
    "numpy.einsum",
    "Without BLAS.",
    lambda a, b: np.einsum("ik,kj->ij", f32(a), f32(b)).astype(a.dtype),
    shape(6, 5, 37),
)
plain("long-sums", "large K", "k beyond what float16 counts.", right, shape(3, 4, 5000))


@correct("atomics-in-random-order", models="atomic adds in float32", problem=shape(6, 5, 64))
def atomics_in_random_order():
    """Partial sums arrive in another order at each call."""
    rng = np.random.default_rng(11)

    def kernel(a, b):
        parts = partials(a, b, 8)
        return sum(parts[i] for i in rng.permutation(8)).astype(a.dtype)

    return kernel


@correct("random-order-every-call", models="schedulers that race", problem=shape(6, 5, 37, a="bfloat16"))
def random_order_every_call():
    """k in another order at each call."""
    rng = np.random.default_rng(12)

    def kernel(a, b):
        return along(rng.permutation(a.shape[1]), a, b).astype(a.dtype)

    return kernel


# --- units that align and truncate


def exponent(x):
    """floor(log2 |x|); far below everything for zero."""
    return np.where(x == 0, -2000.0, np.frexp(x)[1] - 1.0)


def aligned(a, b, *, step, fraction_bits, keep, start=None, floor=False):
    """
    A matrix unit: each step aligns *step* products and the accumulator to the largest exponent,
    cuts them to *fraction_bits*, adds them exactly, and normalises by *keep*.
    """
    x, y = f64(a), f64(b)
    ex, ey = exponent(x), exponent(y)
    total = np.zeros((a.shape[0], b.shape[1])) if start is None else start
    for ks in blocks(a.shape[1], step):
        terms = x[:, ks, None] * y[None, ks]
        terms = np.concatenate([terms, total[:, None]], axis=1)
        sizes = np.concatenate([ex[:, ks, None] + ey[None, ks], exponent(total)[:, None]], axis=1)
        unit = np.exp2(np.maximum(sizes.max(1, keepdims=True), -1000) - fraction_bits)
        total = keep(((np.floor if floor else np.trunc)(terms / unit) * unit).sum(1))
    return total


def truncated(bits):
    """Normalise towards zero to *bits*."""

    def keep(x):
        ulp = np.exp2(np.maximum(exponent(x), -1000) - bits + 1)
        return np.trunc(x / ulp) * ulp

    return keep


def nearest(bits):
    """Normalise to *bits*, ties to even."""

    def keep(x):
        ulp = np.exp2(np.maximum(exponent(x), -1000) - bits + 1)
        return np.rint(x / ulp) * ulp

    return keep


def unit(name, sentence, problem, **model):
    plain(
        f"unit-{name}",
        "matrix units that align and truncate",
        sentence,
        lambda a, b: aligned(a, b, **model).astype(np.float32).astype(result(a)),
        problem,
    )


unit("volta", "4 products, 23 fraction bits.", shape(5, 6, 37), step=4, fraction_bits=23, keep=truncated(24))
unit("turing", "8 products, 24 fraction bits.", shape(5, 6, 37), step=8, fraction_bits=24, keep=truncated(24))
unit(
    "ampere-bfloat16",
    "8 products, 24 fraction bits.",
    shape(5, 6, 70, a="bfloat16"),
    step=8,
    fraction_bits=24,
    keep=truncated(24),
)
unit(
    "ampere-tf32",
    "4 products of TF32 operands.",
    shape(5, 6, 37, a="tfloat32"),
    step=4,
    fraction_bits=24,
    keep=truncated(24),
)
unit("hopper", "16 products, 25 fraction bits.", shape(5, 6, 70), step=16, fraction_bits=25, keep=truncated(24))
unit(
    "hopper-long",
    "16 products, 25 fraction bits, a long sum.",
    shape(4, 4, 600),
    step=16,
    fraction_bits=25,
    keep=truncated(24),
)
unit(
    "ada-fp8",
    "16 products of 8 bits, 13 fraction bits, sums of 14.",
    shape(5, 6, 70, a="float8_e4m3fn", out="float32"),
    step=16,
    fraction_bits=13,
    keep=truncated(14),
)
unit(
    "hopper-fp8",
    "32 products of 8 bits, 13 fraction bits, sums of 14.",
    shape(5, 6, 140, a="float8_e4m3fn", out="float32"),
    step=32,
    fraction_bits=13,
    keep=truncated(14),
)
unit(
    "hopper-fp8-e5m2",
    "The same unit with two formats.",
    shape(5, 6, 70, a="float8_e4m3fn", b="float8_e5m2", out="float32"),
    step=32,
    fraction_bits=13,
    keep=truncated(14),
)
unit(
    "blackwell-fp8",
    "32 products of 8 bits, 25 fraction bits.",
    shape(5, 6, 140, a="float8_e4m3fn", out="float32", accumulator_precision=24),
    step=32,
    fraction_bits=25,
    keep=truncated(24),
)
unit(
    "cdna3",
    "8 products, floors instead of truncation.",
    shape(5, 6, 70),
    step=8,
    fraction_bits=24,
    keep=nearest(24),
    floor=True,
)
unit(
    "cdna3-fp8",
    "16 products of 8 bits, 24 fraction bits.",
    shape(5, 6, 70, a="float8_e4m3fnuz", out="float32"),
    step=16,
    fraction_bits=24,
    keep=nearest(24),
    floor=True,
)
unit(
    "half-accumulator",
    "4 products into a float16 accumulator, as declared.",
    shape(5, 6, 70, accumulate="float16"),
    step=4,
    fraction_bits=23,
    keep=nearest(11),
)


def promoted(a, b):
    """Sums of 14 bits within windows of 128, float32 over them."""
    windows = (
        aligned(a[:, ks], b[ks], step=32, fraction_bits=13, keep=truncated(14)) for ks in blocks(a.shape[1], 128)
    )
    return sum(f32(window) for window in windows)


def without_subnormals(a, b):
    """CDNA2: subnormal operands and results are zero; pairs of products are added in float32."""

    def flush(x, least=2.0**-14):
        return np.where(abs(f32(x)) < least, np.float32(0), f32(x))

    x, y = padded(flush(a), 1, 4), padded(flush(b), 0, 4)
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for ks in blocks(x.shape[1], 4):
        t = x[:, ks, None] * y[None, ks]
        total = total + ((t[:, 0] + t[:, 1]) + (t[:, 2] + t[:, 3]))
    return flush(total).astype(a.dtype)


def flushing_chain(a, b):
    """AMX, AVX512: an FMA chain that takes and gives zeros for subnormals of bfloat16 and float32."""

    def flush(x):
        return np.where(abs(x) < 2.0**-126, np.float32(0), x)

    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = flush((f64(total) + f64(flush(f32(a)))[:, k, None] * f64(flush(f32(b)))[None, k]).astype(np.float32))
    return flush(total).astype(a.dtype)


plain(
    "promoted-fp8",
    "DeepGEMM",
    "8-bit products promoted every 128.",
    promoted,
    shape(5, 6, 300, a="float8_e4m3fn", out="float32"),
)
plain(
    "without-subnormals",
    "CDNA2",
    "Subnormals are flushed, as the default contract allows.",
    without_subnormals,
    shape(5, 6, 37),
)
plain(
    "flush-as-promised",
    "CDNA2",
    "Subnormals are flushed, as this contract says.",
    without_subnormals,
    shape(5, 6, 37, subnormals="flush"),
)
plain("flushing-chain", "Intel AMX", "Flushing FMA chain.", flushing_chain, shape(5, 6, 37, a="bfloat16"))
plain(
    "sums-towards-zero",
    "units that truncate their sums",
    "Each sum is rounded towards zero to 24 bits.",
    lambda a, b: aligned(a, b, step=1, fraction_bits=60, keep=truncated(24)).astype(np.float32).astype(a.dtype),
    shape(5, 6, 37),
)
plain(
    "fma-float64",
    "DMMA",
    "A float64 FMA chain.",
    lambda a, b: along(range(a.shape[1]), a, b, np.float64),
    shape(5, 6, 37, a="float64"),
)


# --- emulations of wide formats by narrow ones


def slices(x, count, *, cutting):
    """Float32 as a sum of bfloat16 parts, cut or rounded to nearest."""
    parts = []
    for _ in range(count):
        parts.append(cut(x, 16) if cutting else through(x, "bfloat16"))
        x = x - parts[-1]
    return parts


def scaled_rows(a, b):
    scale = np.exp2(np.rint(np.log2(abs(f32(a)).max(1, keepdims=True) + np.float32(2.0**-20)))).astype(np.float32)
    return (scale * (f32(a) / scale @ f32(b))).astype(a.dtype)


def nine_products(a, b, *, cutting, order):
    parts = [slices(f32(x), 3, cutting=cutting)[::order] for x in (a, b)]
    return sum(x @ y for x in parts[0] for y in parts[1])


plain(
    "nine-bfloat16-products",
    "emulated float32 on bfloat16 units",
    "Three cut parts of each operand, nine products.",
    lambda a, b: nine_products(a, b, cutting=True, order=1),
    shape(5, 6, 20, a="float32"),
)
plain(
    "nine-bfloat16-products-nearest",
    "emulated float32 on bfloat16 units",
    "Three parts of each operand rounded to nearest, nine products.",
    lambda a, b: nine_products(a, b, cutting=False, order=1),
    shape(5, 6, 20, a="float32"),
)
plain(
    "nine-bfloat16-products-small-first",
    "emulated float32 on bfloat16 units",
    "The same, smallest products first.",
    lambda a, b: nine_products(a, b, cutting=True, order=-1),
    shape(5, 6, 20, a="float32"),
)
plain(
    "scaled-rows",
    "block scaling by powers of two",
    "Rows scaled by powers of two and scaled back.",
    lambda a, b: (
        (s := np.exp2(np.rint(np.log2(abs(f32(a)).max(1, keepdims=True) + np.float32(2.0**-20)))).astype(np.float32))
        * ((f32(a) / s) @ f32(b))
    ).astype(a.dtype),
    shape(5, 6, 37),
)
plain(
    "strassen-in-float64",
    "Strassen 1969",
    "One level, with sums wide enough to be exact.",
    lambda a, b: strassen(f64(a), f64(b)).astype(np.float32).astype(a.dtype),
    shape(6, 6, 20, nonfinite="ignore"),
)


def strassen(a, b):
    def quarters(x):
        i, j = x.shape[0] // 2, x.shape[1] // 2
        return x[:i, :j], x[:i, j:], x[i:, :j], x[i:, j:]

    a11, a12, a21, a22 = quarters(a)
    b11, b12, b21, b22 = quarters(b)
    p1, p2, p3, p4 = (a11 + a22) @ (b11 + b22), (a21 + a22) @ b11, a11 @ (b12 - b22), a22 @ (b21 - b11)
    p5, p6, p7 = (a11 + a12) @ b22, (a21 - a11) @ (b11 + b12), (a12 - a22) @ (b21 + b22)
    return np.block([[p1 + p4 - p5 + p7, p3 + p5], [p2 + p4, p1 - p2 + p3 + p6]])


# --- what looser contracts allow


def in_output_format(a, b):
    """Split-K added in the output's format."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for part in partials(a, b, 6):
        total = (f32(total) + part).astype(a.dtype)
    return total


def half_away(a, b):
    """Ties away from zero."""
    exact = product(a, b)
    step = np.exp2(np.maximum(np.frexp(exact)[1] - 11, -24)).astype(np.float32)
    return (np.copysign(np.floor(abs(exact) / step + np.float32(0.5)), exact) * step).astype(a.dtype)


for _format in ("float16", "bfloat16"):
    plain(
        f"partials-in-{_format}",
        "split-K in the output's format",
        "Legal where any accumulator is.",
        in_output_format,
        shape(6, 5, 64, a=_format, accumulate="any"),
    )
plain(
    "sums-in-float16-declared",
    "HGEMM",
    "A float16 accumulator, declared.",
    lambda a, b: in_steps(a, b, 4, lambda total: through(total, "float16")).astype(a.dtype),
    shape(6, 5, 64, accumulate="float16"),
)
plain(
    "ties-away",
    "conversions that round ties away",
    "Legal where ties may go either way.",
    half_away,
    shape(12, 12, 24, rounding="ties-either"),
)
plain(
    "negative-zeros",
    "sums that start from -0",
    "Zeros come out negative.",
    lambda a, b: np.where((out := right(a, b)) == 0, a.dtype.type(-0.0), out),
    shape(9, 9, 12),
)
plain(
    "clamped-as-agreed",
    "saturating 8-bit outputs",
    "Overflow gives the largest number, as agreed.",
    lambda a, b: np.clip(product(a, b), -448, 448).astype(a.dtype),
    shape(6, 5, 40, a="float8_e4m3fn", saturate=True),
)


def flushed(x, smallest):
    """Numbers below the smallest normal one count as zero."""
    return np.where(abs(f32(x)) < smallest, np.float32(0), f32(x))


plain(
    "small-operands-flushed",
    "units that read subnormals as zero",
    "Subnormal operands count as zero, results are kept: legal by default.",
    lambda a, b: (flushed(a, 2.0**-14) @ flushed(b, 2.0**-14)).astype(a.dtype),
    shape(6, 5, 16),
)
plain(
    "small-results-flushed",
    "conversions that flush",
    "Subnormal results are zero, operands are kept: legal by default.",
    lambda a, b: flushed(product(a, b), 2.0**-14).astype(a.dtype),
    shape(6, 5, 16),
)
plain(
    "clamped-by-the-conversion",
    "satfinite conversions to 8 bits",
    "Overflow gives the largest number: legal by default for outputs of 8 bits.",
    lambda a, b: np.clip(product(a, b), -448, 448).astype(a.dtype),
    shape(6, 5, 40, a="float8_e4m3fn"),
)
plain(
    "clamped-by-the-conversion-e5m2",
    "satfinite conversions to 8 bits",
    "The same, infinities too.",
    lambda a, b: np.clip(product(a, b), -57344, 57344).astype(a.dtype),
    shape(6, 5, 40, a="float8_e5m2"),
)
plain(
    "nan-where-infinity-is-due",
    "compensated sums, operands split into parts",
    "The correction of an infinite sum is NaN: legal by default.",
    lambda a, b: ((out := product(a, b)) + (out - out)).astype(a.dtype),
    shape(6, 5, 16),
)


# --- formats


plain(
    "int8",
    "integer dot products",
    "Sums in 32-bit integers.",
    lambda a, b: a.astype(np.int32) @ b.astype(np.int32),
    shape(6, 5, 70, a="int8"),
)
plain(
    "int8-in-fours",
    "four-way dot products",
    "Four products at a time.",
    lambda a, b: sum(a[:, ks].astype(np.int32) @ b[ks].astype(np.int32) for ks in blocks(a.shape[1], 4)),
    shape(6, 5, 70, a="int8"),
)
plain(
    "int8-in-float32",
    "integers below 2^24 in float32",
    "Sums in float32, all of them below 2^24.",
    lambda a, b: product(a, b).astype(np.int32),
    shape(6, 5, 200, a="int8"),
)
plain(
    "fp8-out",
    "8-bit outputs",
    "One rounding to 8 bits.",
    lambda a, b: product(a, b).astype(a.dtype),
    shape(6, 5, 24, a="float8_e4m3fn"),
)
plain(
    "mixed-fp8",
    "mixed 8-bit operands",
    "e4m3 times e5m2.",
    product,
    shape(6, 5, 24, a="float8_e4m3fn", b="float8_e5m2", out="float32"),
)
plain(
    "wide-output",
    "float32 outputs of 16-bit operands",
    "No final rounding.",
    product,
    shape(6, 5, 37, a="bfloat16", out="float32"),
)
plain(
    "bfloat16-out-of-float32",
    "narrow outputs",
    "One rounding to bfloat16.",
    lambda a, b: product(a, b).astype(NARROW["bfloat16"]),
    shape(6, 5, 37, a="float32", out="bfloat16"),
)


# --- layouts, batches, ways of calling


plain("batch", "batched products", "Two batch dimensions.", right, shape(4, 5, 18, batch=(2, 3)))
plain(
    "transposed",
    "transposed operands",
    "Both operands transposed.",
    lambda a, b: right(a.T, b.T),
    shape(4, 5, 18, transpose_a=True, transpose_b=True),
)
plain(
    "batch-transposed",
    "transposed operands",
    "A batch with b transposed.",
    lambda a, b: right(a, np.swapaxes(b, -1, -2)),
    shape(4, 5, 18, batch=(3,), transpose_b=True, layouts="any"),
)
plain("any-layout", "strided operands", "Any strides.", right, shape(6, 5, 37, layouts="any"))
plain(
    "padded-sizes",
    "padding to tiles",
    "All sizes padded with zeros to 16, and cut off again.",
    lambda a, b: right(padded(padded(a, 0, 16), 1, 16), padded(padded(b, 0, 16), 1, 16))[: a.shape[0], : b.shape[1]],
    shape(6, 5, 37),
)
plain(
    "column-major-result",
    "Fortran order",
    "The result is stored by columns.",
    lambda a, b: np.asfortranarray(right(a, b)),
    shape(6, 5, 37),
)
plain(
    "one-row",
    "matrix times vector",
    "A single row.",
    lambda a, b: (f32(a[0]) @ f32(b))[None].astype(a.dtype),
    shape(1, 9, 70),
)
plain("empty-sum", "k = 0", "Zeros where there is nothing to add.", right, shape(4, 5, 0))
plain("one-product", "k = 1", "An outer product.", lambda a, b: (f32(a) * f32(b)).astype(a.dtype), shape(4, 5, 1))


@correct("destination", models="kernels that write", problem=shape(6, 5, 37, layouts="any"), options=WRITES)
def destination():
    """Writes into its last argument, whatever its strides."""

    def kernel(a, b, out):
        out[...] = right(a, b)

    return kernel


@correct("written-twice", models="split-K into the output", problem=shape(6, 5, 37, a="float32"), options=WRITES)
def written_twice():
    """The output is zeroed, then added to."""

    def kernel(a, b, out):
        out[...] = 0
        for part in partials(a, b, 3):
            out[...] += part

    return kernel


@correct("threads", models="kernels on several cores", problem=shape(12, 5, 24), options=WRITES)
def threads():
    """Rows are computed by two threads, which are waited for."""

    def kernel(a, b, out):
        def rows(part):
            out[part] = right(a[part], b)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(rows, blocks(out.shape[0], 4)))

    return kernel


@correct("remembered-by-whole-content", models="memoisation that looks at everything", problem=shape(6, 5, 16))
def remembered_by_whole_content():
    """Results are kept by a hash of all operands: no use, and right."""
    kept = {}

    def kernel(a, b):
        key = hashlib.sha256(a.tobytes() + b.tobytes()).digest()
        if key not in kept:
            kept[key] = right(a, b)
        return kept[key].copy()

    return kernel


@correct("workspace-zeroed", models="kept workspaces", problem=shape(6, 5, 32))
def workspace_zeroed():
    """A workspace is kept between calls and cleared at the start of each."""
    workspace = np.empty((2, 6, 5), np.float32)

    def kernel(a, b):
        workspace[...] = 0
        for slot, part in zip(workspace, partials(a, b, 2), strict=True):
            slot[...] += part
        return workspace.sum(0).astype(a.dtype)

    return kernel


# --- epilogues


plain(
    "alpha-beta",
    "BLAS",
    "alpha and beta in float32.",
    lambda a, b, c: (np.float32(0.5) * product(a, b) - 2 * f32(c)).astype(a.dtype),
    shape(6, 5, 24, alpha=0.5, beta=-2),
)
plain(
    "bias-first",
    "accumulators that start from the bias",
    "The bias is the accumulator's first value.",
    lambda a, b, bias: (
        aligned(
            a,
            b,
            step=16,
            fraction_bits=25,
            keep=truncated(24),
            start=np.broadcast_to(f64(bias), (a.shape[0], b.shape[1])),
        )
        .astype(np.float32)
        .astype(a.dtype)
    ),
    shape(6, 5, 24, bias="float16"),
)
plain(
    "c-first",
    "accumulators that start from c",
    "c is the accumulator's first value.",
    lambda a, b, c: (f32(c) + product(a, b)).astype(a.dtype),
    shape(6, 5, 24, a="bfloat16", beta=1),
)
plain(
    "bias-by-one-split",
    "split-K with a bias",
    "One of the splits adds the bias.",
    lambda a, b, bias: ((x := partials(a, b, 3))[0] + (x[1] + f32(bias)) + x[2]).astype(a.dtype),
    shape(6, 5, 24, bias="float32"),
)
