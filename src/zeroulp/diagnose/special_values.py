"""
What a kernel does with special values, from its result in a trial of the probe `specials`.

Two questions: which clause describes a wrong result, and what is seen where the contract allows
more than one result. No verdict depends on either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.judge import Value, same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroulp.encoding import Array
    from zeroulp.problem import Matmul

_OPERANDS, _RESULTS = "subnormal operands", "subnormal results"
_WORDS = {"nan": "a NaN", "infinity": "an infinity"}


@dataclass(frozen=True)
class SpecialCase:
    """
    A result in a trial of special values.

    Args:
        problem: The problem.
        kind: Of the trial: ``"nan"``, ``"infinity"``, ``"overflow"``, ``"subnormal operands"`` or
            ``"subnormal results"``.
        codes: Encodings of a and b, in their full shapes.
        expected: Encodings of the result under the strictest clauses: infinities where sums are
            infinite, subnormal numbers kept; and where sums overflow the largest finite number
            of their sign.
        actual: Encodings that the kernel returned.
        wrong: Where they are none of those that the contract allows.
        numbers: Of the rows and columns, where they are some of a larger result; None: all there are.
    """

    problem: Matmul
    kind: str
    codes: Mapping[str, Array]
    expected: Array
    actual: Array
    wrong: Array
    numbers: tuple[Array, Array] | None = None

    @property
    def wanted(self) -> Array:
        """The values of *expected*."""
        return encoding.decode(self.expected, self.problem.out_format)

    @property
    def returned(self) -> Array:
        """The values of *actual*."""
        return encoding.decode(self.actual, self.problem.out_format)

    @property
    def at_limit(self) -> Array:
        """Where the kernel returned the largest finite number, of either sign."""
        return np.asarray(np.abs(self.returned) == self.problem.out_format.max_finite)


def explain_special(case: SpecialCase) -> str:
    """What goes wrong at most of the wrong outputs, in a clause; one is always found."""
    ways = {"nan": _wrong_nonfinite, "infinity": _wrong_nonfinite, "overflow": _wrong_overflow}
    tell = ways.get(case.kind, _wrong_subnormal)
    found = [(int(np.count_nonzero(where & case.wrong)), clause) for where, clause in tell(case)]
    return max(found, key=lambda item: item[0])[1]  # of equal ones the first


def what_is_seen(case: SpecialCase) -> str:
    """What the kernel does, in a word: see `zeroulp.report.model.Report.special_values`."""
    wanted, returned = case.wanted, case.returned
    if case.kind == "nan":
        return "propagates"
    if case.kind in ("infinity", "overflow"):
        here = np.isinf(wanted) if case.kind == "infinity" else _overflows(case)
        words = {"infinity": np.isinf(returned), "nan": np.isnan(returned), "largest": case.at_limit}
    else:
        here = wanted != 0
        words = {"kept": returned != 0, "zero": returned == 0}
    seen = [word for word, where in words.items() if (where & here).any()]
    return seen[0] if len(seen) == 1 else "mixed" if seen else ""


def _overflows(case: SpecialCase) -> Array:
    """Where the sum is beyond the range."""
    return np.asarray(np.abs(case.wanted) == case.problem.out_format.max_finite)


def _wrong_nonfinite(case: SpecialCase) -> Iterator[tuple[Array, str]]:
    """Outputs in classes that share no position, each with its clause."""
    wanted, returned = case.wanted, case.returned
    finite, source = np.isfinite(wanted), _source(case)
    numbers = np.isfinite(returned)
    leak = f"lets {_WORDS[case.kind]} reach outputs of other rows and columns"
    yield finite & np.isnan(returned), leak if case.kind == "nan" else f"{leak}, as NaN"
    yield finite & np.isinf(returned), leak if case.kind == "infinity" else f"{leak}, as infinity"
    yield np.isnan(wanted) & numbers, f"returns numbers where {source} must give NaN"
    yield np.isnan(wanted) & np.isinf(returned), f"returns infinity where {source} must give NaN"
    infinite = np.isinf(wanted)
    yield infinite & np.isinf(returned), "returns an infinity of the wrong sign"
    yield infinite & np.isnan(returned), "returns NaN where the sum is infinite, which nonfinite='ieee' forbids"
    clamps = _clamps(case, infinite & numbers)
    plain = f"returns numbers where {source} must give infinity"
    yield infinite & numbers, f"{clamps} where the sum is infinite" if clamps else plain
    yield finite & numbers, f"is wrong where no {_WORDS[case.kind].split()[-1]} enters the sum"


def _clamps(case: SpecialCase, where: Array) -> str:
    """At which number, if the wrong outputs here are all that one with the sign that is due; else an empty string."""
    here = where & case.wrong
    returned = case.returned[here]
    sizes = np.unique(np.abs(returned))
    if sizes.size != 1 or sizes[0] == 0 or (np.signbit(returned) != np.signbit(case.wanted[here])).any():
        return ""
    format_ = case.problem.out_format
    return f"clamps at {Value.of(encoding.round_values(sizes, format_)[0], format_).decimal}"


def _wrong_overflow(case: SpecialCase) -> Iterator[tuple[Array, str]]:
    wanted, returned, format_ = case.wanted, case.returned, case.problem.out_format
    beyond = _overflows(case)
    asked = {
        "infinity": "to infinity" if format_.has_infinity else "to NaN",
        "saturate": "and saturate=True asks for the largest number",
        "either": "",
    }[case.problem.contract.on_overflow(format_)]
    overflow = f"overflows {asked}".rstrip() if asked.startswith("to") else f"overflows, {asked}".rstrip(", ")
    opposite = np.signbit(returned) != np.signbit(wanted)
    yield beyond & np.isinf(returned) & opposite, "returns an infinity of the wrong sign where the sum overflows"
    yield beyond & np.isinf(returned) & ~opposite, f"returns infinity where the sum {overflow}"
    yield beyond & np.isnan(returned), f"returns NaN where the sum {overflow}"
    finite = beyond & np.isfinite(returned)
    yield finite, f"{_clamps(case, finite) or 'returns numbers'} where the sum {overflow}"
    yield ~beyond & ~np.isfinite(returned), "overflows where the sum is in range"
    yield ~beyond & np.isfinite(returned), "is wrong where the sum is in range and others overflow"


def _wrong_subnormal(case: SpecialCase) -> Iterator[tuple[Array, str]]:
    kept = same(case.actual, case.expected, case.problem.out_format)
    zero = case.returned == 0
    clause = f"which subnormals={case.problem.subnormals!r} forbids"
    if case.kind == _RESULTS:
        yield zero & ~kept, f"flushes subnormal results to zero, {clause}"
        yield kept, f"keeps subnormal results, {clause}"
        yield ~zero & ~kept, "gets subnormal results wrong"
        return
    yield zero & ~kept, f"counts subnormal operands as zero, {clause}"
    yield kept, f"keeps subnormal operands, {clause}"
    bad = case.wrong & ~zero & ~kept
    names = [name for name in ("a", "b") if (bad & _has_subnormals(case, name)).any()]
    yield bad, f"gets subnormal elements of {' and '.join(names)} wrong" if names else "gets single products wrong"


def _has_subnormals(case: SpecialCase, name: str) -> Array:
    """Which outputs have a product with a subnormal factor from this operand, and no other product."""
    problem = case.problem
    value = {
        "a": encoding.decode(case.codes["a"], problem.a_format),
        "b": encoding.decode(case.codes["b"], problem.b_format),
    }
    value["a"] = np.swapaxes(value["a"], -1, -2) if problem.transpose_a else value["a"]
    value["b"] = np.swapaxes(value["b"], -1, -2) if problem.transpose_b else value["b"]
    smallest = (problem.a_format if name == "a" else problem.b_format).min_normal
    factors = {key: (x != 0).astype(np.float64) for key, x in value.items()}
    factors[name] = factors[name] * (np.abs(value[name]) < smallest)
    return np.asarray(np.matmul(factors["a"], factors["b"]) > 0)


def _source(case: SpecialCase) -> str:
    """Which special elements the wrong outputs have in their row or column, in words."""
    word = _WORDS[case.kind]
    problem = case.problem
    special = {
        name: ~np.isfinite(encoding.decode(case.codes[name], format_))
        for name, format_ in (("a", problem.a_format), ("b", problem.b_format))
    }
    rows = np.asarray(special["a"].any(axis=-2 if problem.transpose_a else -1))
    columns = np.asarray(special["b"].any(axis=-1 if problem.transpose_b else -2))
    places = np.nonzero(case.wrong)
    if problem.batch or not len(places[0]):
        return f"{word} of a or b"
    names = case.numbers or tuple(np.arange(extent) for extent in case.wrong.shape)
    for axis, (name, line, hit) in enumerate((("a", "row", rows), ("b", "column", columns))):
        if hit[places[axis]].all():
            return f"{word} in {_listed(names[axis][np.unique(places[axis])], line)} of {name}"
    return f"{word} of a or b"


def _listed(lines: Array, word: str) -> str:
    if lines.size == 1:
        return f"{word} {lines[0]}"
    if lines.size > 3:
        return f"{lines.size} {word}s"
    return f"{word}s {', '.join(map(str, lines[:-1]))} and {lines[-1]}"
