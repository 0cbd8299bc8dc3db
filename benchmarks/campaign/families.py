"""
Families of correct kernels: which problems each may be asked, and how it sums.

A family draws only what the contract allows: sums of at least the promised bits, over a range that
holds the output's; partial sums in the output's format where ``accumulate="any"`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.campaign.rounding import Arithmetic
from benchmarks.campaign.sums import DEALS, ORDERS, Sum
from benchmarks.campaign.units import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable

_HALVES = ("float16", "bfloat16")
_FP8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
_NARROWER = ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
_FLOATS = ("float32", "float16", "bfloat16", "tfloat32", "float64", *_FP8, *_NARROWER)
_IN_FLOAT16_RANGE = ("float16", *_FP8, *_NARROWER)
_OUTS = ("float32", *_HALVES, "float64", *_FP8, *_NARROWER)


@dataclass(frozen=True)
class Sketch:
    """
    What a family's problems and kernels are.

    Args:
        kernel: (chooser, problem) to an order, an arithmetic, and further arguments of `Kernel`; None: no such kernel.
        formats: chooser to the formats of a, b and out.
        accumulators: chooser and formats to ``accumulate`` and ``accumulator_precision``.
        subnormals: Clauses that the family can keep.
        keeps_zero_signs: Whether the signs of its zeros are those of IEEE 754 to nearest.
        keeps_infinities: Whether infinities come through its sums as IEEE 754 has it.
        longest: Products of all outputs that keep a call short.
    """

    kernel: Callable
    formats: Callable
    accumulators: Callable
    subnormals: tuple[str, ...] = ("either", "preserve", "flush")
    keeps_zero_signs: bool = True
    keeps_infinities: bool = True
    longest: int = 120_000


def any_formats(choose):
    """Formats of every kind; mostly alike, at times mixed."""
    a = choose.of((*_FLOATS, *_HALVES, "float32", "int8"))
    if a == "int8":
        return a, choose.of((a, a, a, "int32")), choose.of(("", "", "int8", "float32", "float16", "int32"))
    b = choose.of((a, a, a, a, choose.of(_FLOATS)))
    return a, b, choose.of(("", "", "float32", choose.of(_OUTS)))


def half_formats(choose):
    """16-bit operands and TF32."""
    a = choose.of((*_HALVES, *_HALVES, "tfloat32"))
    return a, a, choose.of(("", "float32", "", *_HALVES))


def fp8_formats(choose):
    """FP8 operands, of one kind or two."""
    a = choose.of(_FP8)
    others = [name for name in _FP8 if name.endswith("fnuz") == a.endswith("fnuz")]
    return a, choose.of((a, *others)), choose.of(("float32", *_HALVES, *_FP8))


def any_accumulator(choose, a, b, _out):
    """Every clause about sums that the formats may have."""
    if "int" in a:
        return choose.of(("", "any", "float32")), None
    clauses = ["", "", "float32", "any", "any", "float64"]
    if {a, b} <= set(_IN_FLOAT16_RANGE):
        clauses.append("float16")
    return choose.of(clauses), choose.of((None, None, None, None, 24, 14, 11, 20))


def plain_accumulator(choose, *_formats):
    """What FP32 sums promise by default, or less."""
    return choose.of(("", "float32", "any")), None


def any_only(*_choose_and_formats):
    """Only that sums are as precise as the output."""
    return "any", None


def bits_needed(problem):
    """Significant bits that the contract promises of sums."""
    bits = problem.contract.sum_bits(problem.a_format, problem.b_format, problem.out_format)
    return min(bits, problem.out_format.precision) if problem.accumulate == "any" else bits


def arithmetics(problem):
    """Accumulators that keep the contract, the plainest first."""
    needed, out = bits_needed(problem), problem.out_format
    if problem.a_format.is_integer and problem.b_format.is_integer:
        return [Arithmetic("int32"), Arithmetic("float64", 53)]
    found = [Arithmetic("float64", 53)]
    in_single = out.name != "float64"  # its range is wider
    if needed <= 24 and in_single:
        found.insert(0, Arithmetic("float32"))
    short = problem.accumulate == "float16" or (problem.accumulate == "any" and out.name in _IN_FLOAT16_RANGE)
    if needed <= 11 and short:
        found.append(Arithmetic("float16", 11))
    return found


def _order(**fixed):
    """A family with one order of summation, and any accumulator."""

    def kernel(choose, problem):
        chosen = {name: value(choose, problem) if callable(value) else value for name, value in fixed.items()}
        return Sum(**chosen, seed=choose.whole(0, 999)), choose.of(arithmetics(problem)), {}

    return kernel


def _pieces(choose, problem):
    return choose.whole(2, max(2, min(problem.k, choose.of((2, 4, 9, 64)))))


def _deal(choose, _problem):
    return choose.of(DEALS)


def _any_order(choose, _problem):
    return choose.of(ORDERS)


def _stored(_choose, problem):
    return problem.out


def blas(choose, problem):
    """The machine's BLAS, in a format that holds the operands too."""
    widest = max(problem.a_format.precision, problem.b_format.precision)
    fitting = [found for found in arithmetics(problem) if found.dtype.itemsize >= 4 and found.bits >= widest]
    return Sum(inner="blas"), choose.of(fitting), {}


def directed(choose, problem):
    """Sums of exactly the promised bits, rounded in any direction."""
    needed = bits_needed(problem)
    if problem.out == "float64" or problem.a_format.is_integer:
        return None
    mode = choose.of(("zero", "nearest", "up", "down", "stochastic"))
    if problem.signed_zero == "strict" and mode == "down":
        mode = "up"
    order = Sum(_pieces(choose, problem), inner=choose.of(ORDERS), outer=choose.of(ORDERS), seed=choose.whole(0, 99))
    return order, Arithmetic("bits", needed, mode), {}


def flushing(choose, problem):
    """Sums and conversions that know no subnormal numbers, as on CDNA2 and AMX."""
    plain = arithmetics(problem)[0]
    arithmetic = Arithmetic(plain.name, plain.bits, flush=plain.name != "int32")
    order = Sum(choose.of((1, 2, 16)), choose.of(DEALS), inner=choose.of(("sequential", "pairwise")))
    flush = "both" if problem.subnormals == "flush" else choose.of(("both", "inputs", "results"))
    return order, arithmetic, {"flush": flush}


def promoting(choose, problem):
    """FP8 sums of 14 bits over a window of k, added up in float32."""
    if bits_needed(problem) > 14:
        return None
    return Sum(_pieces(choose, problem), window=14, outer=choose.of(ORDERS)), Arithmetic("float32"), {}


def _unit(name):
    def kernel(_choose, problem):
        unit, needed = UNITS[name], bits_needed(problem)
        fraction = unit.fraction_bits + 1 if unit.fraction_bits else unit.precision
        if needed > min(unit.precision, fraction) or problem.out == "float64":
            return None
        bits = unit.precision
        if bits == 11 and problem.out != "float16":
            return None
        return unit, Arithmetic("float16", 11) if bits == 11 else Arithmetic("float32"), {}

    return kernel


def _sketch(kernel, formats=any_formats, accumulators=any_accumulator, **more):
    return Sketch(kernel, formats, accumulators, **more)


_SLOW = {"longest": 30_000}
_COMPENSATED = {**_SLOW, "keeps_infinities": False}

FAMILIES: dict[str, Sketch] = {
    "NumPy's BLAS": _sketch(blas),
    "sequential": _sketch(_order()),
    "reversed": _sketch(_order(inner="reversed")),
    "random order": _sketch(_order(inner="random")),
    "atomics, another order each call": _sketch(
        _order(pieces=_pieces, deal="random", inner="random", outer="random", varies=True)
    ),
    "pairwise": _sketch(_order(inner="pairwise")),
    "random tree": _sketch(_order(inner="tree")),
    "blocks of k": _sketch(_order(pieces=_pieces, deal=_deal)),
    "split-K": _sketch(_order(pieces=_pieces, deal=_deal, inner=_any_order, outer=_any_order)),
    "split-K, partial sums in the output's format": _sketch(
        _order(pieces=_pieces, deal=_deal, inner=_any_order, outer=_any_order, stored=_stored), accumulators=any_only
    ),
    "fused multiply-add": _sketch(_order(pieces=_pieces, deal=_deal, fused=True), **_SLOW),
    "Kahan": _sketch(_order(compensation="kahan"), **_COMPENSATED),
    "Neumaier": _sketch(_order(compensation="neumaier"), **_COMPENSATED),
    "fewest bits promised, any rounding": _sketch(directed, **_SLOW),
    "subnormals flushed": _sketch(flushing, subnormals=("either", "flush"), **_SLOW),
    "FP8 sums of 14 bits, promoted": _sketch(promoting, fp8_formats, plain_accumulator, **_SLOW),
} | {
    f"unit: {name}": _sketch(
        _unit(name),
        fp8_formats if "FP8" in name else (lambda choose: choose.of((half_formats, fp8_formats))(choose)),
        any_only if "FP16" in name else plain_accumulator,
        **_SLOW,
    )
    for name in UNITS
}
