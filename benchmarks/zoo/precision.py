"""Faults of precision: accumulators, partial sums, operands, the final rounding."""

from __future__ import annotations

import numpy as np

from .kit import blocks, cut, f32, f64, in_steps, nearest_tf32, partials, product, right, shape, through
from .registry import faulty

BELOW = "precision-below-contract"
CUT = "input-precision"


# --- accumulators


@faulty(
    "accumulator-float16",
    kind="precision-acc",
    models="microsoft/onnxruntime#29611",
    finding=BELOW,
    problem=shape(8, 7, 40),
)
def accumulator_float16():
    """Every sum is rounded to float16."""

    def kernel(a, b):
        return in_steps(a, b, 1, lambda total: through(total, "float16")).astype(a.dtype)

    return kernel


@faulty(
    "accumulator-float16-by-16",
    kind="precision-acc",
    models="HGEMM kernels on half-precision matrix units",
    finding=BELOW,
    problem=shape(8, 7, 64),
)
def accumulator_float16_by_16():
    """A matrix instruction with a float16 accumulator: the sum is rounded every 16 products."""

    def kernel(a, b):
        return in_steps(a, b, 16, lambda total: through(total, "float16")).astype(a.dtype)

    return kernel


@faulty(
    "accumulator-float16-wide-output",
    kind="precision-acc",
    models="HGEMM kernels on half-precision matrix units",
    finding=BELOW,
    problem=shape(8, 7, 64, out="float32"),
)
def accumulator_float16_wide_output():
    """The output is float32 and the accumulator behind it float16."""

    def kernel(a, b):
        return in_steps(a, b, 16, lambda total: through(total, "float16"))

    return kernel


@faulty(
    "accumulator-bfloat16",
    kind="precision-acc",
    models="tenstorrent/tt-metal#9908",
    finding=BELOW,
    problem=shape(8, 7, 40, a="bfloat16"),
)
def accumulator_bfloat16():
    """Sums live in a bfloat16 register."""

    def kernel(a, b):
        return in_steps(a, b, 8, lambda total: through(total, "bfloat16")).astype(a.dtype)

    return kernel


@faulty(
    "accumulator-bfloat16-now-and-then",
    kind="precision-acc",
    models="tenstorrent/tt-metal#9908",
    finding=BELOW,
    problem=shape(8, 7, 96),
)
def accumulator_bfloat16_now_and_then():
    """The float32 accumulator is spilled as bfloat16 every 64 products."""

    def kernel(a, b):
        whole = a.shape[1] // 64 * 64
        return (through(product(a[:, :whole], b[:whole]), "bfloat16") + product(a[:, whole:], b[whole:])).astype(
            a.dtype
        )

    return kernel


@faulty(
    "blocks-in-float16",
    kind="precision-acc",
    models="microsoft/onnxruntime#29611",
    finding=BELOW,
    problem=shape(8, 7, 64),
)
def blocks_in_float16():
    """Sums within blocks of 32 are rounded to float16, those over blocks are float32."""

    def kernel(a, b):
        return sum(through(product(a[:, ks], b[ks]), "float16") for ks in blocks(a.shape[1], 32)).astype(a.dtype)

    return kernel


@faulty(
    "accumulator-overflows",
    kind="precision-acc",
    models="microsoft/onnxruntime#29611",
    finding=(BELOW, "wrong-result"),
    problem=shape(6, 5, 64, out="float32"),
)
def accumulator_overflows():
    """A float16 partial of a block of 32 overflows to infinity, although the total is float32."""

    def kernel(a, b):
        def block(ks):
            exact = product(a[:, ks], b[ks])
            return np.where(abs(exact) >= 65520, np.copysign(np.float32(np.inf), exact), exact)

        return sum(block(ks) for ks in blocks(a.shape[1], 32))

    return kernel


def integers_in_float():
    def kernel(a, b):
        total = np.zeros((a.shape[0], b.shape[1]), np.int32)
        for ks in blocks(a.shape[1], 32):
            step = a[:, ks].astype(np.int32) @ b[ks].astype(np.int32)
            total = (f32(total) + step.astype(np.float32)).astype(np.int32)
        return total

    return kernel


@faulty(
    "integer-sums-in-float",
    kind="precision-acc",
    models="ROCm/triton#958",
    finding=(BELOW, "wrong-result"),
    problem=shape(4, 3, 4608, a="int8"),
)
def integer_sums_in_float():
    """The integer accumulator is converted to float32 and back at each step: sums past 2^24 lose bits."""
    return integers_in_float()


@faulty(
    "integer-sums-in-float-short",
    kind="precision-acc",
    models="ROCm/triton#958",
    finding=(BELOW, "wrong-result"),
    problem=shape(4, 3, 1500, a="int8"),
)
def integer_sums_in_float_short():
    """The same where k lets sums pass 2^24 only if most products are near the largest, 127 * 127."""
    return integers_in_float()


@faulty(
    "integer-sums-in-16-bits",
    kind="precision-acc",
    models="huggingface/optimum-quanto#319",
    finding=(BELOW, "wrong-result"),
    problem=shape(4, 3, 64, a="int8"),
)
def integer_sums_in_16_bits():
    """Sums of 8-bit products are kept in 16 bits and wrap."""

    def kernel(a, b):
        return (a.astype(np.int32) @ b.astype(np.int32)).astype(np.int16).astype(np.int32)

    return kernel


@faulty(
    "float32-sums-for-float64",
    kind="precision-acc",
    models="apache/tvm#13847",
    finding=(BELOW, CUT),
    problem=shape(6, 5, 24, a="float64"),
)
def float32_sums_for_float64():
    """Products are float64, their sums float32."""

    def kernel(a, b):
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in range(a.shape[1]):
            total = (total + np.outer(a[:, k], b[k])).astype(np.float32)
        return total.astype(np.float64)

    return kernel


@faulty(
    "fp8-sums-of-14-bits",
    kind="precision-acc",
    models="deepseek-ai/DeepGEMM fast accumulation",
    finding=BELOW,
    problem=shape(6, 5, 300, a="float8_e4m3fn", out="float32", accumulator_precision=24),
)
def fp8_sums_of_14_bits():
    """Sums of 8-bit products keep 14 bits over all of k, where 24 are promised."""

    def kernel(a, b):
        return in_steps(a, b, 32, lambda total: cut(total, 10))

    return kernel


@faulty(
    "fp8-sums-in-float16",
    kind="precision-acc",
    models="Ada FP8 units with a float16 accumulator",
    finding=BELOW,
    problem=shape(6, 5, 300, a="float8_e4m3fn", out="float32"),
)
def fp8_sums_in_float16():
    """Sums of 8-bit products are rounded to float16 at each instruction of 32."""

    def kernel(a, b):
        return in_steps(a, b, 32, lambda total: through(total, "float16"))

    return kernel


@faulty(
    "transform-in-low-precision",
    kind="precision-acc",
    models="ROCm/rocm-libraries#3508",
    finding=(BELOW, CUT),
    problem=shape(8, 8, 16),
)
def transform_in_low_precision():
    """One level of Strassen's scheme, whose sums of operands are rounded to float16."""

    def kernel(a, b):
        def quarters(x):
            i, j = x.shape[0] // 2, x.shape[1] // 2
            return f32(x[:i, :j]), f32(x[:i, j:]), f32(x[i:, :j]), f32(x[i:, j:])

        def low(x):
            return through(x, "float16")

        a11, a12, a21, a22 = quarters(a)
        b11, b12, b21, b22 = quarters(b)
        p1, p2 = low(a11 + a22) @ low(b11 + b22), low(a21 + a22) @ b11
        p3, p4, p5 = a11 @ low(b12 - b22), a22 @ low(b21 - b11), low(a11 + a12) @ b22
        p6, p7 = low(a21 - a11) @ low(b11 + b12), low(a12 - a22) @ low(b21 + b22)
        return np.block([[p1 + p4 - p5 + p7, p3 + p5], [p2 + p4, p1 - p2 + p3 + p6]]).astype(a.dtype)

    return kernel


@faulty(
    "tf32-sums",
    kind="precision-acc",
    models="pytorch/pytorch#53635",
    finding=BELOW,
    problem=shape(6, 5, 48, a="float32"),
)
def tf32_sums():
    """The running sum is fed back through an operand and keeps 11 bits."""

    def kernel(a, b):
        return in_steps(a, b, 16, nearest_tf32)

    return kernel


@faulty(
    "products-rounded",
    kind="precision-acc",
    models="emulated half-precision multiply",
    finding=(BELOW, CUT),
    problem=shape(8, 7, 24, out="float32"),
)
def products_rounded():
    """Products are rounded to float16 before they are summed in float32."""

    def kernel(a, b):
        return sum(through(f32(a)[:, k, None] * f32(b)[None, k], "float16") for k in range(a.shape[1]))

    return kernel


@faulty(
    "centred-in-low-precision",
    kind="precision-acc",
    models="linkedin/Liger-Kernel#519",
    finding=(BELOW, "wrong-result", CUT),
    problem=shape(8, 7, 24),
)
def centred_in_low_precision():
    """The mean of each row is taken out before the product and put back after it, rounded to float16."""

    def kernel(a, b):
        mean = through(f32(a).mean(1, keepdims=True), "float16")
        return (through(f32(a) - mean, "float16") @ f32(b) + mean * f32(b).sum(0)).astype(a.dtype)

    return kernel


# --- partial sums in the output's format


@faulty(
    "split-k-in-float16",
    kind="precision-splitk",
    models="pytorch/pytorch#116870",
    finding=BELOW,
    problem=shape(8, 7, 64),
)
def split_k_in_float16():
    """Four partial sums are stored in float16 and added in float32."""

    def kernel(a, b):
        return sum(through(part, "float16") for part in partials(a, b, 4)).astype(a.dtype)

    return kernel


@faulty(
    "split-k-by-two-in-float16",
    kind="precision-splitk",
    models="pytorch/pytorch#116870",
    finding=BELOW,
    problem=shape(8, 7, 32),
)
def split_k_by_two_in_float16():
    """One of two partial sums waits in the float16 output."""

    def kernel(a, b):
        first, second = partials(a, b, 2)
        return (through(first, "float16") + second).astype(a.dtype)

    return kernel


@faulty(
    "split-k-in-bfloat16",
    kind="precision-splitk",
    models="modular/modular#7165",
    finding=BELOW,
    problem=shape(8, 7, 64, a="bfloat16"),
)
def split_k_in_bfloat16():
    """Partial sums are stored and reduced in bfloat16."""

    def kernel(a, b):
        total = np.float32(0)
        for part in partials(a, b, 4):
            total = through(total + through(part, "bfloat16"), "bfloat16")
        return total.astype(a.dtype)

    return kernel


@faulty(
    "atomics-in-float16",
    kind="precision-splitk",
    models="triton-lang/triton#2630",
    finding=BELOW,
    problem=shape(8, 7, 64),
)
def atomics_in_float16():
    """Partial sums are added atomically into a float16 output."""

    def kernel(a, b):
        total = np.float32(0)
        for part in partials(a, b, 8):
            total = through(total + through(part, "float16"), "float16")
        return total.astype(a.dtype)

    return kernel


@faulty(
    "stream-k-fix-up-in-bfloat16",
    kind="precision-splitk",
    models="NVIDIA/TransformerEngine#3440",
    finding=BELOW,
    problem=shape(16, 16, 64, a="bfloat16"),
)
def stream_k_fix_up_in_bfloat16():
    """Only tiles that two workers share have a partial sum in bfloat16."""

    def kernel(a, b):
        out = product(a, b)
        i, j = slice(8, 16), slice(0, 8)
        first = through(product(a[i, :40], b[:40, j]), "bfloat16")
        out[i, j] = first + product(a[i, 40:], b[40:, j])
        return out.astype(a.dtype)

    return kernel


@faulty(
    "split-k-above-256",
    kind="precision-splitk",
    models="NVIDIA/TransformerEngine#3440",
    finding=BELOW,
    problem=shape(8, 7, 320),
)
def split_k_above_256():
    """A heuristic splits k from 256 on, with float16 partials."""

    def kernel(a, b):
        if a.shape[1] <= 256:
            return right(a, b)
        return sum(through(part, "float16") for part in partials(a, b, 2)).astype(a.dtype)

    return kernel


@faulty(
    "split-k-in-fp8",
    kind="precision-splitk",
    models="modular/modular#7165",
    finding=BELOW,
    problem=shape(8, 7, 64, a="float8_e4m3fn"),
)
def split_k_in_fp8():
    """Partial sums are stored in the 8-bit output format."""

    def kernel(a, b):
        return sum(through(part, "e4m3") for part in partials(a, b, 2)).astype(a.dtype)

    return kernel


@faulty(
    "split-k-in-float16-wide-output",
    kind="precision-splitk",
    models="modular/modular#7165",
    finding=BELOW,
    problem=shape(8, 7, 64, out="float32"),
)
def split_k_in_float16_wide_output():
    """The workspace is float16, although operands' sums and the output are float32."""

    def kernel(a, b):
        return sum(through(part, "float16") for part in partials(a, b, 4))

    return kernel


@faulty(
    "reduced-in-bfloat16",
    kind="precision-splitk",
    models="modular/modular#7165",
    finding=BELOW,
    problem=shape(8, 7, 64, a="bfloat16", out="float32"),
)
def reduced_in_bfloat16():
    """Float32 partial sums are reduced by a kernel that works in bfloat16."""

    def kernel(a, b):
        total = np.float32(0)
        for part in partials(a, b, 4):
            total = through(total + part, "bfloat16")
        return total

    return kernel


# --- operands


def _cut_entry(name, models, sentence, change, *, a="float16", k=24, out=None):
    """Register a kernel whose operands pass through *change*."""

    def factory():
        def kernel(x, y):
            x, y = change(x, y)
            total = f64(x) @ f64(y) if a == "float64" else product(x, y)
            return total.astype(a if a in ("float64", "float32") else x_dtype(a))

        return kernel

    factory.__doc__ = sentence
    problem = shape(8, 7, k, a=a, **({"out": out} if out else {}))
    faulty(name, kind="precision-input", models=models, finding=CUT, problem=problem)(factory)


def x_dtype(name):
    from .kit import NARROW  # noqa: PLC0415

    return NARROW[name]


_cut_entry(
    "tf32-nearest",
    "pytorch/pytorch#53635",
    "Float32 operands are rounded to TF32.",
    lambda x, y: (nearest_tf32(x), nearest_tf32(y)),
    a="float32",
)
_cut_entry(
    "tf32-truncated-b",
    "pytorch/pytorch#61890",
    "The low 13 bits of a float32 b are dropped.",
    lambda x, y: (x, cut(y, 13)),
    a="float32",
)
_cut_entry(
    "float32-as-bfloat16",
    "deep-reinforce.com defense_kernel_hack",
    "Float32 operands are cast to bfloat16.",
    lambda x, y: (through(x, "bfloat16"), through(y, "bfloat16")),
    a="float32",
)
_cut_entry(
    "float32-as-float16",
    "wafer.ai reward-hacks-field-guide",
    "Float32 operands are cast to float16.",
    lambda x, y: (through(x, "float16"), through(y, "float16")),
    a="float32",
)
_cut_entry(
    "float16-as-bfloat16",
    "deep-reinforce.com defense_kernel_hack",
    "Float16 operands are cast to bfloat16.",
    lambda x, y: (through(x, "bfloat16"), through(y, "bfloat16")),
)
_cut_entry(
    "float16-weights-as-e4m3",
    "Kevin, arXiv 2507.11948",
    "The weights are kept in 8 bits.",
    lambda x, y: (x, through(y, "e4m3")),
)
_cut_entry(
    "bfloat16-as-e5m2",
    "wafer.ai reward-hacks-field-guide",
    "Activations in bfloat16 are cast to e5m2.",
    lambda x, y: (through(x, "e5m2"), y),
    a="bfloat16",
)
_cut_entry(
    "float64-as-float32",
    "apache/tvm#13847",
    "Float64 operands are cast to float32.",
    lambda x, y: (f32(x), f32(y)),
    a="float64",
)
_cut_entry(
    "lowest-bit-cleared",
    "a stuck bit of the significand",
    "The lowest bit of each element of a is lost.",
    lambda x, y: (cut(x, 14), y),
)


@faulty(
    "per-row-int8",
    kind="precision-input",
    models="deep-reinforce.com defense_kernel_hack",
    finding=(CUT, "wrong-result"),
    problem=shape(8, 7, 24),
)
def per_row_int8():
    """Each row of a is quantised to 8-bit integers by its largest element."""

    def kernel(a, b):
        scale = np.maximum(abs(f32(a)).max(1, keepdims=True), 1e-20) / 127
        return (np.rint(f32(a) / scale) * scale @ f32(b)).astype(a.dtype)

    return kernel


@faulty(
    "three-tf32-products",
    kind="precision-input",
    models="NVIDIA/cutlass 3xTF32 sold as float32",
    finding=(CUT, BELOW),
    problem=shape(8, 7, 8, a="float32"),
)
def three_tf32_products():
    """Float32 is split in two TF32 parts, and the product of the low parts is left out."""

    def kernel(a, b):
        ah, bh = nearest_tf32(a), nearest_tf32(b)
        al, bl = nearest_tf32(a - ah), nearest_tf32(b - bh)
        return ah @ bh + (ah @ bl + al @ bh)

    return kernel


@faulty(
    "two-bfloat16-parts",
    kind="precision-input",
    models="emulated float32 on bfloat16 units",
    finding=CUT,
    problem=shape(8, 7, 8, a="float32"),
)
def two_bfloat16_parts():
    """Float32 is split in two bfloat16 parts, where three are needed."""

    def kernel(a, b):
        def parts(x):
            high = through(x, "bfloat16")
            return high, through(x - high, "bfloat16")

        return sum(x @ y for x in parts(f32(a)) for y in parts(f32(b)))

    return kernel


@faulty(
    "too-few-slices",
    kind="precision-input",
    models="emulated float64 on 8-bit integer units",
    finding=CUT,
    problem=shape(6, 5, 8, a="float64"),
)
def too_few_slices():
    """Float64 operands are cut in slices that hold 46 of their 53 bits."""

    def kernel(a, b):
        def sliced(x):
            unit = np.exp2(np.ceil(np.log2(np.maximum(abs(x).max(), 1e-300))) - 46)
            return np.trunc(x / unit) * unit

        return sliced(a) @ sliced(b)

    return kernel


@faulty(
    "narrow-for-few-rows",
    kind="precision-input",
    models="wafer.ai reward-hacks-field-guide",
    finding=CUT,
    problem=shape(4, 7, 24),
)
def narrow_for_few_rows():
    """Up to 8 rows take a vector path that reads the weights as bfloat16."""

    def kernel(a, b):
        return product(a, through(b, "bfloat16") if a.shape[0] <= 8 else b).astype(a.dtype)

    return kernel


@faulty(
    "narrow-in-the-last-tile",
    kind="precision-input",
    models="Sakana AI CUDA Engineer",
    finding=(CUT, "wrong-result"),
    problem=shape(8, 7, 40),
)
def narrow_in_the_last_tile():
    """The remainder of k goes through bfloat16."""

    def kernel(a, b):
        whole = a.shape[1] // 32 * 32
        rest = product(through(a[:, whole:], "bfloat16"), b[whole:])
        return (product(a[:, :whole], b[:whole]) + rest).astype(a.dtype)

    return kernel


# --- the final rounding


def _rounding_entry(name, models, sentence, change, *, finding="rounding", a="float16", size=(16, 16), k=24, **more):
    def factory():
        def kernel(x, y):
            return change(product(x, y))

        return kernel

    factory.__doc__ = sentence
    faulty(name, kind="rounding", models=models, finding=finding, problem=shape(*size, k, a=a, **more))(factory)


def _unit(x):
    """The spacing of float16 around x."""
    return np.exp2(np.maximum(np.frexp(x)[1] - 11, -24)).astype(np.float32)


_rounding_entry(
    "truncated-float16",
    "NVIDIA/cutlass conversions",
    "The result is truncated towards zero.",
    lambda x: (np.trunc(x / _unit(x)) * _unit(x)).astype(np.float16),
)
_rounding_entry(
    "truncated-bfloat16",
    "software bfloat16 conversions",
    "The upper half of the float32 is stored.",
    lambda x: cut(x, 16).astype(x_dtype("bfloat16")),
    a="bfloat16",
)
_rounding_entry(
    "half-away-bfloat16",
    "ROCm/composable_kernel bfloat16 conversion",
    "0x8000 is added before the upper half is stored: ties go away from zero.",
    lambda x: cut((x.view(np.uint32) + np.uint32(0x8000)).view(np.float32), 16).astype(x_dtype("bfloat16")),
    a="bfloat16",
    size=(32, 32),
    k=12,
)
_rounding_entry(
    "half-away-float16",
    "ROCm/composable_kernel bfloat16 conversion",
    "Ties are rounded away from zero.",
    lambda x: (np.copysign(np.floor(abs(x) / _unit(x) + np.float32(0.5)), x) * _unit(x)).astype(np.float16),
    size=(32, 32),
    k=12,
)
_rounding_entry(
    "rounded-down",
    "directed rounding left switched on",
    "The result is rounded towards minus infinity.",
    lambda x: (np.floor(x / _unit(x)) * _unit(x)).astype(np.float16),
)
_rounding_entry(
    "rounded-twice",
    "outputs staged in another format",
    "The result is rounded to 13 bits, and then to 11: what the first makes a tie goes the wrong way.",
    lambda x: cut((x.view(np.uint32) + np.uint32(0x400)).view(np.float32), 11).astype(np.float16),
)
_rounding_entry(
    "through-bfloat16",
    "outputs staged in another format",
    "The result passes through bfloat16.",
    lambda x: through(x, "bfloat16").astype(np.float16),
    finding=("rounding", BELOW),
)
_rounding_entry(
    "rounded-to-odd",
    "rounding for a later second rounding",
    "The last bit is set where anything was cut off.",
    lambda x: (
        (cut(x, 13).view(np.uint32) | (((x.view(np.uint32) & 0x1FFF) != 0).astype(np.uint32) << 13))
        .view(np.float32)
        .astype(np.float16)
    ),
)


@faulty(
    "stochastic",
    kind="rounding",
    models="stochastic rounding left switched on",
    finding=("rounding", "nondeterministic"),
    problem=shape(16, 16, 24, a="bfloat16"),
)
def stochastic():
    """The result is rounded up or down at random."""
    rng = np.random.default_rng(9)

    def kernel(a, b):
        codes = product(a, b).view(np.uint32)
        noise = rng.integers(0, 1 << 16, codes.shape, dtype=np.uint32)
        return cut((codes + noise).view(np.float32), 16).astype(a.dtype)

    return kernel


@faulty(
    "bias-after-rounding",
    kind="rounding",
    models="epilogues in the output format",
    finding=("rounding", BELOW),
    problem=shape(16, 16, 24, bias="float16"),
)
def bias_after_rounding():
    """The product is rounded, the bias is added to it, and the sum is rounded again."""

    def kernel(a, b, bias):
        return right(a, b) + bias

    return kernel


# --- formats with the bits, but not the range


def range_entry(name, models, sentence, change, *, a, **more):
    def factory():
        def kernel(x, y):
            total = product(change(x), change(y))
            return total.astype(x.dtype if x.dtype.itemsize > 1 else np.float32)

        return kernel

    factory.__doc__ = sentence
    found = (CUT, "wrong-result", "special-values")
    faulty(name, kind="precision-input", models=models, finding=found, problem=shape(8, 7, 24, a=a, **more))(factory)


range_entry(
    "bfloat16-through-float16",
    "kernels for half-precision units fed with bfloat16",
    "Bfloat16 operands are cast to float16, which has all their bits and not their range.",
    lambda x: through(x, "float16"),
    a="bfloat16",
)
range_entry(
    "e5m2-through-e4m3",
    "Kevin, arXiv 2507.11948",
    "Operands in e5m2 are cast to e4m3, which has all their bits and not their range.",
    lambda x: through(x, "e4m3"),
    a="float8_e5m2",
    out="float32",
)
range_entry(
    "fp8-top-exponent-lost",
    "ROCm/rocm-systems#9556",
    "The largest exponent of e4m3fn is decoded as in the format that has infinities: numbers from 256 on are lost.",
    lambda x: np.clip(f32(x), -240, 240),
    a="float8_e4m3fn",
    out="float32",
)


@faulty(
    "minus-128-clamped",
    kind="precision-input",
    models="symmetric quantisation",
    finding=(CUT, "wrong-result"),
    problem=shape(8, 7, 24, a="int8"),
)
def minus_128_clamped():
    """The smallest 8-bit integer, -128, is taken for -127."""

    def kernel(a, b):
        return np.maximum(a.astype(np.int32), -127) @ b.astype(np.int32)

    return kernel


@faulty(
    "partials-in-the-range-of-float16",
    kind="precision-acc",
    models="microsoft/onnxruntime#29611",
    finding=(BELOW, "wrong-result", "special-values"),
    problem=shape(8, 7, 24, a="bfloat16"),
)
def partials_in_the_range_of_float16():
    """Sums of bfloat16 products become infinite where those of float16 would."""

    def kernel(a, b):
        exact = product(a, b)
        return np.where(abs(exact) >= 65520, np.copysign(np.float32(np.inf), exact), exact).astype(a.dtype)

    return kernel


def bits_entry(name, sentence, dropped, **problem):
    def factory():
        def kernel(a, b):
            total = in_steps(a, b, 8, lambda x: cut(x, dropped))
            return total if problem.get("out") == "float32" else total.astype(a.dtype)

        return kernel

    factory.__doc__ = sentence
    models = "units that keep fewer bits than float32"
    faulty(name, kind="precision-acc", models=models, finding=BELOW, problem=shape(8, 7, 64, **problem))(factory)


bits_entry("sums-of-23-bits", "Sums keep 23 bits, where float32 has 24.", 1, out="float32")
bits_entry("sums-of-22-bits", "Sums keep 22 bits, where float32 has 24.", 2, out="float32")
bits_entry("sums-of-22-bits-narrow-output", "Sums keep 22 bits, seen through an output of 8.", 2, a="bfloat16")
