"""Faults that show on some values only: special ones, zeros, small ones; and formulas that agree on 0 and 1."""

from __future__ import annotations

import numpy as np

from .kit import blocks, f32, padded, product, right, shape, through
from .registry import faulty

SPECIAL = {"finding": "special-values"}


# --- NaN and infinity


@faulty(
    "nan-swallowed-by-clamp", kind="nan-inf", models="tenstorrent/tt-metal#22517", problem=shape(6, 5, 16), **SPECIAL
)
def nan_swallowed_by_clamp():
    """The result passes through a minimum that prefers numbers: NaN becomes the largest number."""

    def kernel(a, b):
        out = product(a, b)
        return np.where(np.isnan(out), np.float32(65504), out).astype(a.dtype)

    return kernel


@faulty("inputs-cleaned", kind="nan-inf", models="tenstorrent/tt-metal#22517", problem=shape(6, 5, 16), **SPECIAL)
def inputs_cleaned():
    """NaN and infinities in the operands are replaced by zeros."""

    def kernel(a, b):
        def clean(x):
            return np.where(np.isfinite(f32(x)), f32(x), 0)

        return (clean(a) @ clean(b)).astype(a.dtype)

    return kernel


@faulty(
    "zeros-skipped",
    kind="nan-inf",
    models="sparse fast paths",
    problem=shape(6, 5, 16, nonfinite="ieee"),
    **SPECIAL,
)
def zeros_skipped():
    """Products with a zero of a are skipped, also 0 * NaN and 0 * infinity."""

    def kernel(a, b):
        x, y = f32(a), f32(b)
        terms = np.where((x == 0)[:, :, None], 0, x[:, :, None] * y[None])
        return terms.sum(1).astype(a.dtype)

    return kernel


@faulty(
    "infinity-split",
    kind="nan-inf",
    models="emulated float32 on bfloat16 units",
    problem=shape(6, 5, 8, a="float32", nonfinite="ieee"),
    **SPECIAL,
)
def infinity_split():
    """Float32 is split in three parts without a case for infinity: inf - inf is NaN in the second part."""

    def kernel(a, b):
        def parts(x):
            found = []
            for _ in range(3):
                found.append(np.where(np.isinf(x), x, (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)))
                x = x - found[-1]
            return found

        return sum(x @ y for x in parts(f32(a)) for y in parts(f32(b)))

    return kernel


@faulty(
    "nan-of-a-neighbour", kind="nan-inf", models="flashinfer-ai/flashinfer#3650", problem=shape(6, 5, 16), **SPECIAL
)
def nan_of_a_neighbour():
    """Rows share a tile, and a mask multiplies by zero instead of selecting: one row's NaN reaches all of them."""

    def kernel(a, b):
        out = product(a, b)
        for rows in blocks(out.shape[0], 4):
            out[rows] += (0 * out[rows]).sum(0)
        return out.astype(a.dtype)

    return kernel


@faulty(
    "beta-zero-keeps-nan",
    kind="nan-inf",
    models="pytorch/pytorch#187521",
    finding="unwritten-output",
    problem=shape(6, 5, 16),
    options={"destination_passing": True},
)
def beta_zero_keeps_nan():
    """beta = 0 multiplies what stood in the output, in the epilogue of the last tile only."""

    def kernel(a, b, out):
        values = right(a, b)
        values[4:] += out.dtype.type(0) * out[4:]
        out[...] = values

    return kernel


@faulty(
    "k-padding-from-last-call",
    kind="nan-inf",
    models="flashinfer-ai/flashinfer#3650",
    problem=shape(6, 5, 13),
    **SPECIAL,
)
def k_padding_from_last_call():
    """k is padded in a kept buffer with old rows against zeros: harmless until an old row holds NaN."""
    kept = {}

    def kernel(a, b):
        wide = kept.setdefault("a", np.zeros((a.shape[0], 16), np.float32))
        wide[:, : a.shape[1]] = f32(a)
        out = (wide @ np.pad(f32(b), ((0, 16 - b.shape[0]), (0, 0)))).astype(a.dtype)
        wide[:, 13:] = wide[:, :3]
        return out

    return kernel


@faulty("nan-becomes-zero", kind="nan-inf", models="nan_to_num left in", problem=shape(6, 5, 16), **SPECIAL)
def nan_becomes_zero():
    """NaN in the result is replaced by zero."""

    def kernel(a, b):
        out = product(a, b)
        return np.where(np.isnan(out), 0, out).astype(a.dtype)

    return kernel


@faulty(
    "nan-lost-in-a-maximum", kind="nan-inf", models="fmax in a clamped epilogue", problem=shape(6, 5, 16), **SPECIAL
)
def nan_lost_in_a_maximum():
    """The result is clamped from below by a maximum that prefers numbers."""

    def kernel(a, b):
        return np.fmax(product(a, b), np.float32(-3e38)).astype(a.dtype)

    return kernel


@faulty(
    "nan-of-the-next-row",
    kind="nan-inf",
    models="oneDNN's bfloat16 kernels on AMX, in PyTorch 2.13 on a CPU, k = 200",
    problem=shape(6, 5, 13, nonfinite="ieee"),
    **SPECIAL,
)
def nan_of_the_next_row():
    """The last tile of k runs on into the next row of a, against zeros in place of b: 0 * NaN is NaN."""

    def kernel(a, b):
        x = np.ascontiguousarray(f32(a)).reshape(-1)
        m, k = a.shape
        wide = np.zeros((m, 16), np.float32)
        for i in range(m):
            row = x[i * k : i * k + 16]
            wide[i, : row.size] = row
        return (wide @ padded(f32(b), 0, 16)).astype(a.dtype)

    return kernel


@faulty("infinity-becomes-largest", kind="nan-inf", models="nan_to_num left in", problem=shape(6, 5, 16), **SPECIAL)
def infinity_becomes_largest():
    """Infinities in the operands are replaced by the largest finite number."""

    def kernel(a, b):
        return (
            (np.clip(f32(a), -65504, 65504) @ np.clip(f32(b), -65504, 65504))
            .astype(np.float32)
            .clip(-65504, 65504)
            .astype(a.dtype)
        )

    return kernel


@faulty("infinity-loses-its-sign", kind="nan-inf", models="a sign bit masked off", problem=shape(6, 5, 16), **SPECIAL)
def infinity_loses_its_sign():
    """Infinite results are positive."""

    def kernel(a, b):
        out = product(a, b)
        return np.where(np.isinf(out), np.inf, out).astype(a.dtype)

    return kernel


@faulty(
    "zeros-of-b-skipped",
    kind="nan-inf",
    models="reference BLAS before 3.8, sparse fast paths",
    problem=shape(6, 5, 16, nonfinite="ieee"),
    **SPECIAL,
)
def zeros_of_b_skipped():
    """Products with a zero of b are skipped, also 0 * NaN, where IEEE arithmetic was agreed."""

    def kernel(a, b):
        x, y = f32(a), f32(b)
        return np.where((y == 0)[None], 0, x[:, :, None] * y[None]).sum(1).astype(a.dtype)

    return kernel


# --- the ends of the range


@faulty(
    "finite-overflow-clamped", kind="saturation", models="satfinite conversions", problem=shape(6, 5, 16), **SPECIAL
)
def finite_overflow_clamped():
    """A sum beyond the range gives the largest float16 number; infinities stay."""

    def kernel(a, b):
        out = product(a, b)
        return np.where(np.isfinite(out), np.clip(out, -65504, 65504), out).astype(a.dtype)

    return kernel


@faulty("overflow-clamped", kind="saturation", models="ROCm/rocm-systems#9556", problem=shape(6, 5, 16), **SPECIAL)
def overflow_clamped():
    """Overflow gives the largest finite number, where infinity was agreed."""

    def kernel(a, b):
        return np.clip(product(a, b), -65504, 65504).astype(a.dtype)

    return kernel


@faulty(
    "overflow-not-clamped",
    kind="saturation",
    models="ROCm/rocm-systems#9556",
    problem=shape(6, 5, 16, a="float8_e4m3fn", saturate=True),
    **SPECIAL,
)
def overflow_not_clamped():
    """Overflow gives NaN, where the largest finite number was agreed."""

    def kernel(a, b):
        out = product(a, b)
        return np.where(abs(out) < 464, out, np.nan).astype(a.dtype)

    return kernel


@faulty(
    "clamped-at-240",
    kind="saturation",
    models="ROCm/rocm-systems#9556",
    finding=("special-values", "wrong-result"),
    problem=shape(6, 5, 40, a="float8_e4m3fn"),
)
def clamped_at_240():
    """The result is clamped to the range of the sibling format, 240."""

    def kernel(a, b):
        return np.clip(product(a, b), -240, 240).astype(a.dtype)

    return kernel


@faulty("clamped-at-448", kind="saturation", models="ROCm/rocm-systems#9556", problem=shape(16, 16, 70))
def clamped_at_448():
    """A float16 result is clamped to the range of 8 bits."""

    def kernel(a, b):
        return np.clip(product(a, b), -448, 448).astype(a.dtype)

    return kernel


@faulty(
    "clamped-at-30000",
    kind="saturation",
    models="ROCm/rocm-systems#9556",
    finding=("special-values", "wrong-result"),
    problem=shape(6, 5, 40),
)
def clamped_at_30000():
    """A float16 result is clamped at 30000, far above ordinary data and below the largest number."""

    def kernel(a, b):
        return np.clip(product(a, b), -30000, 30000).astype(a.dtype)

    return kernel


@faulty("operands-clamped", kind="saturation", models="quantisation clamps left in", problem=shape(6, 5, 16))
def operands_clamped():
    """Operands are clamped to one."""

    def kernel(a, b):
        return (np.clip(f32(a), -1, 1) @ f32(b)).astype(a.dtype)

    return kernel


@faulty("pair-sums-saturate", kind="saturation", models="uxlfoundation/oneDNN#1805", problem=shape(6, 5, 16, a="int8"))
def pair_sums_saturate():
    """a is moved to unsigned bytes; sums of two adjacent products saturate at 16 bits."""

    def kernel(a, b):
        moved, wide = a.astype(np.int32) + 128, b.astype(np.int32)
        terms = moved[:, :, None] * wide[None]
        pairs = np.clip(terms[:, ::2] + terms[:, 1::2], -32768, 32767)
        return pairs.sum(1, dtype=np.int32) - 128 * wide.sum(0, dtype=np.int32)

    return kernel


@faulty(
    "sums-saturate-at-16-bits",
    kind="saturation",
    models="huggingface/optimum-quanto#319",
    problem=shape(6, 5, 32, a="int8"),
)
def sums_saturate_at_16_bits():
    """Sums of 8-bit products saturate at 16 bits."""

    def kernel(a, b):
        return np.clip(a.astype(np.int32) @ b.astype(np.int32), -32768, 32767)

    return kernel


@faulty(
    "subnormal-operands-flushed",
    kind="denormal",
    models="ROCm/rocm-libraries#11938",
    problem=shape(6, 5, 16, subnormals="preserve"),
    **SPECIAL,
)
def subnormal_operands_flushed():
    """Subnormal operands count as zero, where they were to be kept."""

    def kernel(a, b):
        def flush(x):
            return np.where(abs(f32(x)) < 2.0**-14, 0, f32(x))

        return (flush(a) @ flush(b)).astype(a.dtype)

    return kernel


@faulty(
    "subnormal-results-flushed",
    kind="denormal",
    models="microsoft/onnxruntime#13352",
    problem=shape(6, 5, 16, subnormals="preserve"),
    **SPECIAL,
)
def subnormal_results_flushed():
    """Subnormal results are replaced by zero, where they were to be kept."""

    def kernel(a, b):
        out = product(a, b)
        return np.where(abs(out) < 2.0**-14, 0, out).astype(a.dtype)

    return kernel


@faulty(
    "subnormals-read-as-normal",
    kind="denormal",
    models="table-free decoding of narrow formats",
    problem=shape(6, 5, 16),
    **SPECIAL,
)
def subnormals_read_as_normal():
    """Subnormal operands are decoded with the leading bit of a normal number."""

    def kernel(a, b):
        def decode(x):
            wrong = np.copysign(abs(f32(x)) / 2 + np.float32(2.0**-15), f32(x))
            return np.where((abs(f32(x)) < 2.0**-14) & (f32(x) != 0), wrong, f32(x))

        return (decode(a) @ decode(b)).astype(a.dtype)

    return kernel


@faulty(
    "subnormal-results-too-large",
    kind="denormal",
    models="conversions without a subnormal case",
    problem=shape(6, 5, 16, a="bfloat16"),
    **SPECIAL,
)
def subnormal_results_too_large():
    """Results below the smallest normal number become that number."""

    def kernel(a, b):
        out = product(a, b)
        return np.where((abs(out) < 2.0**-126) & (out != 0), np.copysign(2.0**-126, out), out).astype(a.dtype)

    return kernel


@faulty(
    "subnormals-kept",
    kind="denormal",
    models="microsoft/onnxruntime#13352",
    problem=shape(6, 5, 16, a="bfloat16", subnormals="flush"),
    **SPECIAL,
)
def subnormals_kept():
    """Subnormals are kept where the contract promises that they are flushed."""

    def kernel(a, b):
        return right(a, b)

    return kernel


# --- branches on values


@faulty(
    "tile-skipped-by-its-first-element", kind="value-dependent", models="sparse fast paths", problem=shape(6, 5, 64)
)
def tile_skipped_by_its_first_element():
    """A tile of k is skipped if the first element of a in it is zero."""

    def kernel(a, b):
        tiles = [ks for ks in blocks(a.shape[1], 8) if a[0, ks.start] != 0]
        return sum((product(a[:, ks], b[ks]) for ks in tiles), np.zeros((a.shape[0], b.shape[1]), np.float32)).astype(
            a.dtype
        )

    return kernel


@faulty("tile-skipped-by-its-first-row", kind="value-dependent", models="sparse fast paths", problem=shape(6, 5, 64))
def tile_skipped_by_its_first_row():
    """A tile of k is skipped if its first row in a is zero, whatever the others are."""

    def kernel(a, b):
        tiles = [ks for ks in blocks(a.shape[1], 16) if a[0, ks].any()]
        return sum((product(a[:, ks], b[ks]) for ks in tiles), np.zeros((a.shape[0], b.shape[1]), np.float32)).astype(
            a.dtype
        )

    return kernel


@faulty("sparse-path", kind="value-dependent", models="pytorch/pytorch#109175", problem=shape(6, 5, 64))
def sparse_path():
    """Below one tenth of non-zeros a compressed path is taken, which keeps 4 elements of a row."""

    def kernel(a, b):
        if np.count_nonzero(a) >= a.size // 10:
            return right(a, b)
        kept = np.zeros(a.shape, np.float32)
        for row, values in zip(kept, f32(a), strict=True):
            ks = np.flatnonzero(values)[:4]
            row[ks] = values[ks]
        return (kept @ f32(b)).astype(a.dtype)

    return kernel


@faulty("equal-rows-merged", kind="value-dependent", models="gpu-mode/reference-kernels#148", problem=shape(6, 5, 32))
def equal_rows_merged():
    """Rows of a that agree in their first 16 elements are computed once."""

    def kernel(a, b):
        _, first, which = np.unique(f32(a[:, :16]), axis=0, return_index=True, return_inverse=True)
        return right(a[first], b)[which.reshape(-1)]

    return kernel


@faulty("zero-row-ends-the-loop", kind="value-dependent", models="early exits on padding rows", problem=shape(6, 5, 16))
def zero_row_ends_the_loop():
    """A row of zeros is taken for padding: rows after it are zero."""

    def kernel(a, b):
        out = right(a, b)
        empty = np.flatnonzero(~f32(a).any(axis=1))
        if empty.size:
            out[empty[0] :] = 0
        return out

    return kernel


@faulty(
    "small-ones-pruned",
    kind="value-dependent",
    models="deep-reinforce.com defense_kernel_hack",
    problem=shape(6, 5, 16),
)
def small_ones_pruned():
    """Elements of a below 2^-12 of the largest are dropped."""

    def kernel(a, b):
        x = f32(a)
        return (np.where(abs(x) < abs(x).max(initial=0) / 4096, 0, x) @ f32(b)).astype(a.dtype)

    return kernel


@faulty(
    "tiny-ones-pruned", kind="value-dependent", models="deep-reinforce.com defense_kernel_hack", problem=shape(6, 5, 16)
)
def tiny_ones_pruned():
    """Elements below 1e-3 are dropped."""

    def kernel(a, b):
        def prune(x):
            return np.where(abs(f32(x)) < 1e-3, 0, f32(x))

        return (prune(a) @ prune(b)).astype(a.dtype)

    return kernel


@faulty("large-ones-clamped", kind="value-dependent", models="quantisation clamps left in", problem=shape(6, 5, 16))
def large_ones_clamped():
    """Operands above 2048 are clamped, which ordinary data never reach."""

    def kernel(a, b):
        return (np.clip(f32(a), -2048, 2048) @ np.clip(f32(b), -2048, 2048)).astype(a.dtype)

    return kernel


@faulty(
    "exact-on-integers-only",
    kind="value-dependent",
    models="checkers with integer inputs",
    finding=("input-precision", "wrong-result"),
    problem=shape(6, 5, 24, a="float32"),
)
def exact_on_integers_only():
    """Whole numbers take an exact path, everything else is cast to bfloat16."""

    def kernel(a, b):
        x, y = f32(a), f32(b)
        if (x == np.rint(x)).all() and (y == np.rint(y)).all():
            return x @ y
        return through(x, "bfloat16") @ through(y, "bfloat16")

    return kernel


@faulty(
    "exact-on-one-scale-only",
    kind="value-dependent",
    models="checkers with scaled integer inputs",
    finding=("input-precision", "wrong-result"),
    problem=shape(6, 5, 24),
)
def exact_on_one_scale_only():
    """Operands whose smallest and largest magnitude lie within 2^12 are computed exactly, others through bfloat16."""

    def kernel(a, b):
        def spread(x):
            sizes = abs(f32(x))[f32(x) != 0]
            return sizes.max(initial=0) / sizes.min(initial=1e30) if sizes.size else 1

        if spread(a) < 4096 and spread(b) < 4096:
            return right(a, b)
        return product(through(a, "bfloat16"), through(b, "bfloat16")).astype(a.dtype)

    return kernel


@faulty("dominant-column-only", kind="value-dependent", models="approximate attention kernels", problem=shape(6, 5, 24))
def dominant_column_only():
    """Where one product exceeds a thousand times the next, the others are left out."""

    def kernel(a, b):
        terms = f32(a)[:, :, None] * f32(b)[None]
        ordered = np.sort(abs(terms), axis=1)
        largest = np.take_along_axis(terms, abs(terms).argmax(1)[:, None], 1)[:, 0]
        alone = (ordered[:, -1] > 1000 * ordered[:, -2]) & (ordered[:, -2] > 0)
        return np.where(alone, largest, product(a, b)).astype(a.dtype)

    return kernel


# --- formulas that zeros and ones cannot tell


def formula(name, sentence, change, **given):
    """Register a kernel that computes another formula."""

    def factory():
        def kernel(a, b):
            return change(f32(a), f32(b)).astype(a.dtype)

        return kernel

    factory.__doc__ = sentence
    models = given.pop("models", "what agrees with a * b on zeros and ones")
    faulty(name, kind="weak-test", models=models, problem=shape(6, 5, 24, **given))(factory)


formula("a-squared", "a is squared.", lambda a, b: a * a @ b)
formula("b-cubed", "b is cubed.", lambda a, b: a @ b**3)
formula("absolute-a", "The sign of a is lost.", lambda a, b: abs(a) @ b, a="bfloat16")
formula("absolute-both", "Both signs are lost.", lambda a, b: abs(a) @ abs(b))
formula("sign-of-a", "Only the sign of a is used.", lambda a, b: np.sign(a) @ b)
formula("negative-b-ignored", "Negative elements of b count as zero.", lambda a, b: a @ np.maximum(b, 0))
formula("minimum", "The product is replaced by the minimum.", lambda a, b: np.minimum(a[:, :, None], b[None]).sum(1))
formula("square-root", "The root of the product of moduli is summed.", lambda a, b: np.sqrt(abs(a)) @ np.sqrt(abs(b)))
formula(
    "largest-product",
    "The sum is replaced by the largest product, times k.",
    lambda a, b: (a[:, :, None] * b[None]).max(1) * a.shape[1],
    models="AI-Hypercomputer/accelerator-agents#50",
)
formula(
    "distance",
    "The squared distance is folded in: (a + b)^2 - a^2 - b^2, halved and without signs.",
    lambda a, b: ((abs(a)[:, :, None] + b[None]) ** 2 - a[:, :, None] ** 2 - b[None] ** 2).sum(1) / 2,
)


@faulty(
    "fp8-subnormals-lost",
    kind="denormal",
    models="ROCm/rocm-libraries#11938",
    finding=("special-values", "wrong-result", "input-precision"),
    problem=shape(6, 5, 16, a="float8_e4m3fn", out="float32", subnormals="preserve"),
)
def fp8_subnormals_lost():
    """Subnormal codes of an 8-bit operand are decoded as zero."""

    def kernel(a, b):
        x = f32(a)
        return np.where(abs(x) < 2.0**-6, 0, x).astype(np.float32) @ f32(b)

    return kernel


@faulty(
    "fp4-half-lost",
    kind="denormal",
    models="decoding tables of 4-bit formats",
    finding=("special-values", "wrong-result", "input-precision"),
    problem=shape(6, 5, 16, a="float4_e2m1fn", out="float32", subnormals="preserve"),
)
def fp4_half_lost():
    """The one subnormal of a 4-bit format, a half, is decoded as zero."""

    def kernel(a, b):
        x = f32(a)
        return np.where(abs(x) < 1, 0, x).astype(np.float32) @ f32(b)

    return kernel
