"""Faults of scales, alpha, beta, bias and what is fused behind the product."""

from __future__ import annotations

import numpy as np

from .kit import blocks, f32, partials, product, shape
from .registry import faulty

SHAPE = (6, 5, 16)


def epilogue(name, models, sentence, formula, problem=None, **given):
    """Register a kernel that returns *formula* of the product and the further operands."""

    def factory():
        def kernel(a, b, *rest):
            return formula(product(a, b), *(f32(x) for x in rest)).astype(a.dtype)

        return kernel

    factory.__doc__ = sentence
    faulty(name, kind="scale-epilogue", models=models, problem=problem or shape(*SHAPE, **given))(factory)


epilogue(
    "alpha-twice",
    "NVIDIA/cutlass#423",
    "alpha is applied by the product and again by the reduction of split-K.",
    lambda ab: 4 * ab,
    alpha=2,
)
epilogue(
    "beta-twice",
    "NVIDIA/cutlass#423",
    "beta is applied by the product and again by the reduction.",
    lambda ab, c: ab + c / 4,
    beta=0.5,
)
epilogue(
    "alpha-on-c-too",
    "NVIDIA/cutlass#423",
    "alpha multiplies the sum of product and c.",
    lambda ab, c: 2 * (ab + c),
    alpha=2,
    beta=1,
)
epilogue(
    "alpha-ignored",
    "NVIDIA/cutlass#423",
    "alpha is read from the host where a device pointer was passed: 1.",
    lambda ab: ab,
    alpha=-2,
)
epilogue(
    "beta-as-integer",
    "uxlfoundation/oneDNN#5912",
    "beta passes through an integer: one half is zero.",
    lambda ab, c: ab + 0 * c,
    beta=0.5,
)
epilogue(
    "c-transposed",
    "uxlfoundation/oneDNN#5912",
    "A square c is read transposed.",
    lambda ab, c: ab + c.T,
    problem=shape(6, 6, 16, beta=1),
)
epilogue(
    "bias-along-rows",
    "NVIDIA/cutlass#1145",
    "The bias is added along the rows where the output is square.",
    lambda ab, bias: ab + bias[:, None],
    problem=shape(6, 6, 16, bias="float16"),
)
epilogue(
    "bias-left-out",
    "pytorch/pytorch#116769",
    "The bias of the last 4 columns is left out.",
    lambda ab, bias: ab + np.where(np.arange(bias.size) < bias.size - 4, bias, 0),
    problem=shape(6, 12, 16, bias="float16"),
)
epilogue(
    "bias-before-alpha",
    "NVIDIA/cutlass#423",
    "The bias is added before alpha is applied.",
    lambda ab, bias: 2 * (ab + bias),
    alpha=2,
    bias="float32",
)
epilogue(
    "c-on-the-first-tile",
    "uxlfoundation/oneDNN#5912",
    "c is added in the first tile of 16 columns only.",
    lambda ab, c: ab + np.where(np.arange(c.shape[1]) < 16, c, 0),
    problem=shape(6, 20, 16, beta=1),
)
epilogue(
    "relu-left-in",
    "facebookexperimental/triton#2860",
    "The activation of the fused kernel is left in.",
    lambda ab: np.maximum(ab, 0),
)
epilogue(
    "clamped-at-six",
    "ONNX clip fused into the product",
    "A clamp of the fused kernel is left in.",
    lambda ab, c: np.clip(ab + c, -6, 6),
    beta=1,
)


@faulty(
    "bias-in-every-split", kind="scale-epilogue", models="NVIDIA/cutlass#423", problem=shape(6, 5, 32, bias="float16")
)
def bias_in_every_split():
    """Each of two splits adds the bias."""

    def kernel(a, b, bias):
        return sum(part + f32(bias) for part in partials(a, b, 2)).astype(a.dtype)

    return kernel


@faulty(
    "reciprocal-of-alpha",
    kind="scale-epilogue",
    models="scales stored as reciprocals",
    finding=("wrong-result", "precision-below-contract", "rounding", "input-precision"),
    problem=shape(6, 5, 16, a="float32", alpha=3),
)
def reciprocal_of_alpha():
    """alpha = 3 is stored as the float16 nearest to 1/3, and divided by."""

    def kernel(a, b):
        return product(a, b) / np.float32(np.float16(1 / 3))

    return kernel


def _scaled_blocks(a, step):
    """a's blocks of k, each scaled to at most 1 by a power of two, and the scales."""
    for ks in blocks(a.shape[1], step):
        scale = np.exp2(np.ceil(np.log2(np.maximum(abs(f32(a[:, ks])).max(initial=0), 1e-30)))).astype(np.float32)
        yield ks, f32(a[:, ks]) / scale, scale


@faulty(
    "scale-shared-by-blocks",
    kind="scale-epilogue",
    models="sgl-project/sglang#39626",
    finding=("wrong-result", "input-precision"),
    problem=shape(6, 5, 64),
)
def scale_shared_by_blocks():
    """Blocks of 32 have a scale each, and the kernel's block of 64 applies the first one to both."""

    def kernel(a, b):
        parts = list(_scaled_blocks(a, 32))
        scales = [parts[i // 2 * 2][2] for i in range(len(parts))]
        return sum(scale * (x @ f32(b[ks])) for (ks, x, _), scale in zip(parts, scales, strict=True)).astype(a.dtype)

    return kernel


@faulty("last-scale-not-applied", kind="scale-epilogue", models="pytorch/FBGEMM#6159", problem=shape(6, 5, 40))
def last_scale_not_applied():
    """The scale of the last, shorter block is not applied."""

    def kernel(a, b):
        parts = _scaled_blocks(a, 32)
        return sum((x @ f32(b[ks])) * (scale if ks.stop % 32 == 0 else 1) for ks, x, scale in parts).astype(a.dtype)

    return kernel


@faulty(
    "scale-along-the-wrong-axis",
    kind="scale-epilogue",
    models="sgl-project/sglang#39626",
    finding=("wrong-result", "input-precision"),
    problem=shape(8, 8, 16),
)
def scale_along_the_wrong_axis():
    """Rows of a are scaled by powers of two before the product, and columns are scaled back."""

    def kernel(a, b):
        scale = np.exp2(np.floor(np.log2(np.maximum(abs(f32(a)).sum(1), 1e-30)))).astype(np.float32)
        return ((f32(a) / scale[:, None] @ f32(b)) * scale[: b.shape[1]]).astype(a.dtype)

    return kernel


@faulty(
    "accumulates-into-c-twice",
    kind="scale-epilogue",
    models="facebookexperimental/triton#2860",
    problem=shape(6, 5, 32, beta=1),
)
def accumulates_into_c_twice():
    """Split-K starts every split from c."""

    def kernel(a, b, c):
        first, second = partials(a, b, 2)
        return (first + f32(c) + second + f32(c)).astype(a.dtype)

    return kernel


@faulty(
    "epilogue-only-when-small",
    kind="scale-epilogue",
    models="uxlfoundation/oneDNN#5912",
    problem=shape(6, 40, 16, bias="float32"),
)
def epilogue_only_when_small():
    """From 33 columns on another layout is chosen, for which the bias is taken from its start for every tile."""

    def kernel(a, b, bias):
        j = np.arange(b.shape[1])
        return (product(a, b) + f32(bias)[j % 32 if b.shape[1] > 32 else j]).astype(a.dtype)

    return kernel


epilogue(
    "alpha-of-a-tenth-ignored",
    "facebookexperimental/triton#2860",
    "A scale that is no power of two, as attention has it, is not applied.",
    lambda ab: ab,
    alpha=0.1,
)
