"""
Special values, one kind in each trial: NaN, infinities, overflow, subnormal operands, subnormal results.

What becomes of them does not depend on the order of a sum, but partly on the algorithm and the
hardware: each kind has a clause of the contract that says what is allowed. NaN and infinities
stand at a few places among ±1; sums that overflow have terms of one sign; subnormal numbers
appear in single products, so that nothing else happens to them.

A kernel that clamps, that multiplies padding by what lies beside it, that skips or adds a foreign
product where a NaN stands, that decodes subnormal numbers wrongly, returns what no clause allows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.exactness import Family, Lattice, dyadic
from zeroulp.formats import format_named
from zeroulp.probes import sizing
from zeroulp.probes.base import Options, Settings, register
from zeroulp.probes.places import axis_of_k, looked_up
from zeroulp.probes.pool import pool_of, pooled, with_pool

if TYPE_CHECKING:
    from zeroulp.draw import Field, Part, Seed
    from zeroulp.formats import Format
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape

_EPILOGUE = 1
_MOST = 3  # special elements in each operand
_SPREAD = 4  # sums that overflow are 2**4 times one that reaches between a quarter and a half of the range
_TERMS = 16  # of a sum that overflows
_SPLIT_BITS = 7  # bits below 2**emin that the first part of an operand split into bfloat16 or TF32 parts still holds

NONFINITE, OVERFLOW, SUBNORMALS = "nonfinite", "saturate", "subnormals"
CLAUSE = {
    "nan": NONFINITE,
    "infinity": NONFINITE,
    "overflow": OVERFLOW,
    "subnormal operands": SUBNORMALS,
    "subnormal results": SUBNORMALS,
}
"""The kinds of trial, and the clause that says what is allowed."""

_TURNS = ("overflow", "nan", "subnormal operands", "infinity", "subnormal results")
# NaN and infinities are followed by numbers among which no NaN is allowed: what a kernel keeps of them shows


@register
class Specials:
    """NaN; infinities; sums beyond the output's range; subnormal operands; subnormal results."""

    name = "specials"
    purpose = "NaN, infinities, overflow, subnormals: propagation, clamping, flushing, padding that is multiplied"
    sees = ("nan-inf", "saturation", "denormal")

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """One of each kind that the formats have, the sums determine and the contract does not ignore."""
        absent = self.left_out(problem)
        make = {
            "nan": _among_units,
            "infinity": _among_units,
            "overflow": _overflow,
            "subnormal operands": _subnormal_operands,
            "subnormal results": _subnormal_results,
        }
        kinds = [kind for kind in _TURNS if kind not in absent]
        if not options.declared:
            kinds = [kind for kind in kinds if CLAUSE[kind] == NONFINITE]
        found = [(kind, make[kind](problem)) for kind in kinds]
        return [{"kind": kind, **settings} for kind, settings in found if settings]

    def left_out(self, problem: Matmul) -> dict[str, str]:
        """The kinds that a check of *problem* has no trial of, each with the reason."""
        reasons = {kind: _reason(problem, kind) for kind in CLAUSE}
        return {kind: reason for kind, reason in reasons.items() if reason}

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """Units where NaN, infinities or overflow are meant; single products where subnormal numbers are."""
        a = Lattice(2 ** int(settings.get("a_width", 1)) - 1, int(settings["a_exponent"]))
        b = Lattice(2 ** int(settings.get("b_width", 1)) - 1, int(settings["b_exponent"]))
        terms = 1 if "lone" in settings else int(settings.get("terms", problem.k))
        clause = CLAUSE[str(settings["kind"])]
        if clause == NONFINITE:
            return sizing.family(problem, a, b, terms, epilogue=_EPILOGUE)
        beyond = "overflow" if clause == OVERFLOW else "subnormals"
        return replace(sizing.family(problem, a, b, terms, epilogue=0), beyond=beyond)

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """Every element but the special ones: ±1, one sign for each row and column, or single products."""
        clause, numbers = CLAUSE[str(settings["kind"])], seed.field(name)
        if clause == SUBNORMALS:
            width = int(settings[f"{name}_width"])
            signs, high = seed.field(f"signs of {name}"), seed.field(f"high bits of {name}")
            single = lambda part: _integers(numbers, high, width, part) * (1 - 2 * signs.below(2, part))  # noqa: E731
            pool = pool_of(problem, settings, seed)
            return _keep_one(problem, single, seed) if name == "a" else pooled(problem, single, pool)
        along_k = axis_of_k(problem, name)
        if clause == OVERFLOW:
            across = (1 - 2 * seed.stream(name).below(2, (problem.m if name == "a" else problem.n,))).astype(np.int32)
            drawn: Elements = lambda part: looked_up(across, part, -3 - along_k) + 0 * numbers.below(1, part)  # noqa: E731
        else:
            drawn = numbers.all_signed(1)
        if name == "b":
            drawn = pooled(problem, drawn, pool_of(problem, settings, seed))
            drawn = sizing.keep_block(problem, drawn, seed, 0, int(settings.get("terms", problem.k)))
        if clause == NONFINITE and problem.nonfinite == "ieee":
            drawn = _zeros_against_specials(problem, settings, seed, name, drawn)
        return drawn

    def overlay(
        self, problem: Matmul, settings: Settings, seed: Seed, name: str, shape: Shape
    ) -> list[tuple[tuple[int, ...], int]]:
        """NaN or infinities at their places."""
        kind, format_ = str(settings["kind"]), problem.a_format if name == "a" else problem.b_format
        if CLAUSE[kind] != NONFINITE:
            return []
        places = _places(problem, settings, seed, name, shape)
        values = (np.nan, np.nan) if kind == "nan" else (np.inf, -np.inf)
        codes = encoding.round_values(np.resize(values, len(places)), format_)
        return [(place, int(code)) for place, code in zip(places, codes, strict=True)]

    def signs_of_zeros(self, settings: Settings, seed: Seed, name: str) -> Field | None:
        """Zeros of either sign among single products."""
        there = name == "a" and CLAUSE[str(settings["kind"])] == SUBNORMALS
        return seed.field("signs of zeros") if there else None

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """None is claimed."""
        del problem, settings
        return 0.0


def _reason(problem: Matmul, kind: str) -> str:
    """Why there is no trial of this kind; empty if there is one."""
    formats = {"a": problem.a_format, "b": problem.b_format, "the output": problem.out_format}
    if any(format_.is_integer for format_ in formats.values()):
        return "integers have none"
    clause, exponent = CLAUSE[kind], dyadic(problem.alpha)[0]
    if exponent == 0:
        return "alpha = 0 leaves the product out"
    if clause == NONFINITE and problem.nonfinite == "ignore":
        return "the contract ignores them (nonfinite='ignore')"
    lacking = [format_ for format_ in formats.values() if clause == NONFINITE and _lacks(format_, kind)]
    if lacking:
        return f"{lacking[0]} has none"
    if kind == "overflow":
        if problem.accumulate == "any":
            return "sums may be stored in the output's format (accumulate='any')"
        if problem.accumulator_precision is not None:
            return "the contract names the bits of sums and not their range (accumulator_precision)"
        narrow = problem.out_format.bits <= 16 and problem.accumulate == "float64"  # by way of float32, perhaps
        before_alpha = max(0, -dyadic(problem.alpha)[1])
        sums = format_named("float32" if narrow else problem.accumulate)
        if sums.emax <= problem.out_format.emax + _SPREAD + before_alpha:
            return f"sums in {problem.accumulate} have the same range as {problem.out_format} results"
        if not _overflow(problem):
            return f"no sum of these operands is far beyond the range of {problem.out_format}"
    if clause == SUBNORMALS:
        if abs(problem.alpha) != 1:
            return f"alpha = {problem.alpha:g} may meet them before or after the sum"
        if kind == "subnormal results" and not _subnormal_results(problem):
            return f"no product of normal operands is a subnormal {problem.out_format} number"
        if kind == "subnormal operands" and not _subnormal_operands(problem):
            return "no product with one is sure to be exact"
    return ""


def _lacks(format_: Format, kind: str) -> bool:
    return not (format_.has_nan if kind == "nan" else format_.has_infinity)


# --- sizes


def _among_units(problem: Matmul) -> Settings:
    """±1 times powers of two that put their sums into the range; as many terms as the budget holds."""
    room = sizing.room_for_products(problem, declared=True, epilogue=_EPILOGUE)
    terms = min(problem.k, max(1, room))
    reach = terms * max(1, abs(dyadic(problem.alpha)[0])) + sizing.epilogue_size(problem, _EPILOGUE)
    a, b = sizing.place(problem, (1, 1), (0, 0), reach)
    return {"a_exponent": a, "b_exponent": b, "terms": terms}


def _overflow(problem: Matmul) -> Settings:
    """
    Sums of one sign between a quarter and half of the largest number, times 2**4 in half of the rows.

    (In half of the columns where there is a bias, which cannot follow the rows.) The others are
    2**-4 times as large.
    """
    along = "rows" if problem.bias is None else "columns"
    j, i = dyadic(problem.alpha)
    terms = max(1, min(problem.k, _TERMS))
    total = math.floor(math.log2(problem.out_format.max_finite / 2 / (terms * abs(j)))) - i
    spread = {"a": _SPREAD if along == "rows" else 0, "b": _SPREAD if along == "columns" else 0}
    ranges = {}
    for name, format_ in (("a", problem.a_format), ("b", problem.b_format)):
        low, high = _normal_exponents(format_, 1)
        ranges[name] = low + spread[name] + max(0, -i), high - spread[name] - max(0, i)  # also scaled by alpha
    a, b = _split(total, ranges["a"], ranges["b"])
    if a + b != total or any(low > high for low, high in ranges.values()):
        return {}
    return with_pool(problem, {"a_exponent": a, "b_exponent": b, "terms": terms, along: _SPREAD, "extremes": True})


def _subnormal_operands(problem: Matmul) -> Settings:
    """
    A subnormal a against a normal b at half of the k, a normal a against a subnormal b at the others.

    Both halves have the same quantum, so that factors of 2**±inner along k turn one into the other.
    """
    widths = {name: _subnormal_width(problem, format_) for name, format_ in _factors(problem)}
    lowest = {name: format_.emin - widths[name] for name, format_ in _factors(problem)}
    normal = {name: _normal_exponents(format_, widths[name]) for name, format_ in _factors(problem)}
    low = max(lowest["a"] + normal["b"][0], lowest["b"] + normal["a"][0], _finest(problem))
    high = min(lowest["a"] + normal["b"][1], lowest["b"] + normal["a"][1])
    sums = sum(widths.values())
    high = min(high, math.floor(math.log2(min(f.max_finite for f in _stores(problem)))) - sums)
    wished = max(low, *(f.emin for f in _stores(problem)))
    total = high if high < wished else (wished + high) // 2
    total -= (total - lowest["a"] - lowest["b"]) % 2
    inner = (total - lowest["a"] - lowest["b"]) // 2
    if total < low or inner <= 0:
        return {}
    exponents: Settings = {"a_exponent": lowest["a"] + inner, "b_exponent": lowest["b"] + inner}
    found: Settings = {"a_width": widths["a"], "b_width": widths["b"], "inner": inner, "extremes": True, "lone": "a"}
    return with_pool(problem, exponents | found)


def _subnormal_results(problem: Matmul) -> Settings:
    """Products of a normal a and powers of two that lie below the output's smallest normal number."""
    a, b, out = problem.a_format, problem.b_format, problem.out_format
    total = max(_finest(problem), out.quantum_exponent_min - 2, a.emin + b.emin)
    width = min(_significant(problem, a), out.emin - total)
    if width < 1:
        return {}
    exponents = _split(total, _normal_exponents(a, width), _normal_exponents(b, 1))
    if sum(exponents) != total:
        return {}
    a_exponent, b_exponent = exponents
    widths: Settings = {"a_exponent": a_exponent, "b_exponent": b_exponent, "a_width": width, "b_width": 1, "lone": "a"}
    return with_pool(problem, widths)


def _factors(problem: Matmul) -> tuple[tuple[str, Format], ...]:
    return ("a", problem.a_format), ("b", problem.b_format)


def _stores(problem: Matmul) -> list[Format]:
    """The output's format, and the one that sums are sure to be held in."""
    return [problem.out_format, problem.contract.sum_range(problem.out_format)]


def _finest(problem: Matmul) -> int:
    """Exponent of the smallest number that sums of every allowed kind hold, subnormal ones among them."""
    out, sums = _stores(problem)
    by_way_of_float32 = [format_named("float32")] if sums.name == "float64" and out.bits <= 16 else []
    return max(format_.quantum_exponent_min for format_ in [sums, *by_way_of_float32])


def _subnormal_width(problem: Matmul, format_: Format) -> int:
    """Significant bits of subnormal operands: all that every way to split one keeps, and half of the budget."""
    bits = format_.trailing_significand_bits
    if format_.storage_name in ("float32", "float64") and problem.subnormals != "preserve":
        bits = min(bits, _SPLIT_BITS)
    room = sizing.room_for_products(problem, declared=True, epilogue=0)
    return max(1, min(bits, (max(room, 2).bit_length() - 1) // 2))


def _significant(problem: Matmul, format_: Format) -> int:
    """Significant bits of a normal operand that is multiplied by a power of two, within the same limits."""
    bits = format_.precision if 2**format_.precision - 1 <= format_.exact_integer_limit else format_.precision - 1
    if format_.storage_name in ("float32", "float64") and problem.subnormals != "preserve":
        bits = min(bits, _SPLIT_BITS + 1)
    room = sizing.room_for_products(problem, declared=True, epilogue=0)
    return max(1, min(bits, max(room, 2).bit_length() - 1))


def _normal_exponents(format_: Format, width: int) -> tuple[int, int]:
    """Smallest and largest exponent with which all integers of *width* bits are normal numbers of the format."""
    return format_.emin, math.frexp(format_.max_finite / (2**width - 1))[1] - 1


def _split(total: int, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Two exponents within these ranges that add up to *total*, as far as there are any."""
    first = max(a[0], min(a[1], total // 2))
    second = max(b[0], min(b[1], total - first))
    return max(a[0], min(a[1], total - second)), second


# --- elements


def _integers(numbers: Field, high: Field, width: int, part: Part) -> Any:
    """1 to 2**width - 1."""
    low = numbers.below((1 << min(width, 30)) - 1, part) + 1
    if width <= 30:
        return low
    wide = part.arrays.cast(high.below(1 << (width - 30), part), "int64")
    return (wide << 30) + part.arrays.cast(low, "int64")


def _keep_one(problem: Matmul, elements: Elements, seed: Seed) -> Elements:
    """One non-zero in each row of a: which k it is goes through a random order of all."""
    if not problem.k:
        return elements
    along_k = axis_of_k(problem, "a")
    own = seed.stream("order of k").permutation(problem.k)[np.arange(problem.m) % problem.k]

    def lone(part: Part) -> Any:
        kept = looked_up(own, part, -3 - along_k) % part.shape[along_k]
        return elements(part) * (part.coordinate(along_k) == kept)

    return lone


# --- places


def _places(problem: Matmul, settings: Settings, seed: Seed, name: str, shape: Shape) -> list[tuple[int, ...]]:
    """
    Where NaN or infinities stand: in at most a third of the rows of a and of the columns of b.

    Along k they stand first, last and somewhere, where products are not zero; never in the
    first row or in two adjacent ones, so that what runs on from the row before shows. A matrix of
    one row (column) has infinities in the other operand alone, so that numbers remain.
    """
    terms = int(settings.get("terms", problem.k))
    kept = np.arange(problem.k)
    if terms < problem.k:
        kept = np.sort(seed.shared("partition of k").permutation(problem.k)[:terms])
    other, along_k = {"a": problem.n, "b": problem.m}[name], axis_of_k(problem, name)
    across = -3 - along_k
    lines = math.prod(shape[:-2]) * shape[across]  # rows of a, or columns of b, of all of the batch
    only = settings["kind"] == "infinity" and lines == 1 and other > 1
    if only or not lines or not problem.k:
        return []
    stream = seed.stream(f"special places of {name}")
    line = np.zeros(1, np.int64)
    if lines > 1:
        line = np.arange(1 + (int(stream.below(2, (1,))[0]) if lines > 2 else 0), lines, 2)
        line = line[stream.permutation(line.size)[: min(_MOST, max(1, lines // 3))]]
    ks = kept[[0, -1, int(stream.below(len(kept), (1,))[0])]][: len(line)] % shape[along_k]
    index = list(np.unravel_index(line // shape[across], shape[:-2] or (1,)))[: len(shape) - 2]
    last = (ks, line % shape[across]) if along_k == -2 else (line % shape[across], ks)
    return [tuple(int(i) for i in place) for place in zip(*index, *last, strict=True)]


def _zeros_against_specials(
    problem: Matmul, settings: Settings, seed: Seed, name: str, elements: Elements
) -> Elements:
    """Zeros in some rows of a (columns of b) at every k where the other operand is special: 0 * NaN is NaN."""
    other = "b" if name == "a" else "a"
    shape = next(operand.shape for operand in problem.operands if operand.name == other)
    along_k, extent = axis_of_k(problem, name), problem.m if name == "a" else problem.n
    against = np.zeros(problem.k, bool)
    against[[place[axis_of_k(problem, other)] for place in _places(problem, settings, seed, other, shape)]] = True
    chosen = seed.stream(f"zeros of {name}").permutation(extent) < (extent + 1) // 2

    def zeroed(part: Part) -> Any:
        return elements(part) * ~(looked_up(against, part, along_k) & looked_up(chosen, part, -3 - along_k))

    return zeroed
