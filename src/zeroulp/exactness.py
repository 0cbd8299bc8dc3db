"""
Certificates: when no summation order can change a bit of a result.

**The any-order theorem.** Let every product be a multiple of a quantum q, and let the sum S of
the moduli of all terms be at most N q with N = 2**p. Evaluate the sum by any tree, with or
without fused multiply-add, in formats of at least p significant bits whose range holds q and
S. Every node is the sum of a subset of the terms: a multiple of q of modulus at most S, hence
representable, hence not rounded. All orders give the same bits.

**The round-once theorem.** If the sums are exact in that way in the accumulator and are then
converted once to a narrower output, the result is the exact sum rounded once.

A `Certificate` is one of these two, with its numbers, for one problem and one family of inputs.
It is tight: N + 1 quanta are no number of p bits, so a sum of them rounds, up or down as the
kernel does it; and with N + 2 two orders can differ under ties to even alone.

References:
    N. Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., chapter 4.
    M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, *Numerical behavior of NVIDIA tensor cores*,
    PeerJ CS 7:e330, 2021 (units that align and truncate: exact in the same budget).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zeroulp.formats import Format, format_named

if TYPE_CHECKING:
    from zeroulp.problem import Matmul

_WIDER = "choose a wider format for it"
_DIRECT_CONVERSION_BITS = 24  # wider sums may reach a 16-bit output by way of float32: two roundings


@dataclass(frozen=True)
class Lattice:
    """
    What one operand's elements are: integers of modulus at most *magnitude*, times 2**exponent.

    Args:
        magnitude: Largest modulus, in quanta.
        exponent: Base-2 exponent of the quantum.
        least: Smallest modulus other than 0, in quanta.
        bits: Significant bits that an element has at most, where *magnitude* has more; None: as many as there are.
        to_lowest: Whether the largest modulus occurs with a minus sign only, as -128 does in 8 bits.
    """

    magnitude: int
    exponent: int = 0
    least: int = 1
    bits: int | None = None
    to_lowest: bool = False

    def misfit(self, format_: Format, *, allow_subnormals: bool, spread: int = 0) -> tuple[str, str] | None:
        """
        Why some such number is not one of *format_*, and the remedy; None if all are.

        Args:
            format_: The operand's format.
            allow_subnormals: Whether subnormal numbers count as its own.
            spread: Numbers may be multiplied by powers of two from 2**-spread to 2**spread.
        """
        if self.magnitude == 0:
            return None
        if format_.is_integer:
            most = format_.max_significand + int(self.to_lowest and self.exponent == 0)
            fits = spread == 0 <= self.exponent and self.magnitude << max(self.exponent, 0) <= most
            return None if fits else (f"{format_} holds whole numbers up to {format_.max_significand}", _WIDER)
        if self.magnitude > 2**format_.precision and (self.bits is None or self.bits > format_.precision):
            missed = f"so the first integer it misses is {2**format_.precision + 1}"
            return f"{format_} has {format_.precision} significant bits, {missed}", _WIDER
        if _exceeds(self.magnitude, self.exponent + spread, format_):
            return f"the largest finite number of {format_} is {format_.max_finite:g}", _WIDER
        return _below_range(self.exponent - spread, self.least, format_, keep=allow_subnormals)


@dataclass(frozen=True)
class Family:
    """
    What a probe promises about its inputs.

    Args:
        a: Elements of a.
        b: Elements of b.
        terms: How many products of one output can be non-zero (at most k).
        c: Elements of c, where there is one.
        bias: Elements of the bias, where there is one.
        masked: Whether positions whose sum exceeds the budget are left out of the comparison.
        rows: Row i of a (and of c) is multiplied by 2**r_i, with |r_i| at most this.
        columns: Column j of b (and of c and bias) is multiplied by 2**c_j, likewise.
        inner: Column k of a is multiplied by 2**t_k and row k of b by 2**-t_k, likewise.
        beyond: Where a clause of the contract settles the result in place of the theorems:
            ``"overflow"``: sums may exceed the output's range, not the accumulator's;
            ``"subnormals"``: operands and results may be subnormal. Empty: nowhere.
    """

    a: Lattice
    b: Lattice
    terms: int
    c: Lattice | None = None
    bias: Lattice | None = None
    masked: bool = False
    rows: int = 0
    columns: int = 0
    inner: int = 0
    beyond: str = ""

    def spreads(self) -> dict[str, int]:
        """By how many binary places each operand, and the output, can be shifted in either direction."""
        rows, columns, inner = self.rows, self.columns, self.inner
        out = rows + columns
        return {"a": rows + inner, "b": columns + inner, "c": out, "bias": columns, "out": out}

    def lattices(self) -> dict[str, Lattice]:
        """The operands that there are, by name."""
        named = {"a": self.a, "b": self.b, "c": self.c, "bias": self.bias}
        return {name: lattice for name, lattice in named.items() if lattice is not None}


@dataclass(frozen=True)
class Certificate:
    """
    The proof obligation of a trial, with its numbers.

    Args:
        holds: Whether every correct kernel must return the same bits.
        theorem: ``"any-order"``: no step rounds; ``"round-once"``: only the last one does.
        declared: Whether it leans on the accumulator that the contract declares.
        clause: What the contract says of sums, as far as it leans on that.
        precision: Significand bits p that every partial sum keeps by that clause.
        budget: N, the largest sum of moduli allowed, in quanta.
        largest_sum: S, the largest sum of moduli that can occur, in quanta. Python integer.
        quantum_exponent: Base-2 exponent of the quantum.
        masked: Whether it holds at just the positions whose sum is within the budget.
        reason: Why it does not hold; empty if it does.
        remedy: What would make it hold; empty if it does.
    """

    holds: bool
    theorem: str
    declared: bool
    clause: str
    precision: int
    budget: int
    largest_sum: int
    quantum_exponent: int
    masked: bool = False
    reason: str = ""
    remedy: str = ""

    def sentence(self) -> str:
        """The proof in one line, or why there is none."""
        if not self.holds:
            return self.reason
        quantum = f"quantum {_power(self.quantum_exponent)}"
        if self.masked:
            head = f"only sums of |terms| <= N = {self.budget:,} are compared"
        else:
            head = f"sum of |terms| <= {self.largest_sum:,} <= N = {self.budget:,}"
        if self.theorem == "any-order":
            return f"{head} ({self.precision} bits), {quantum}: any order, any accumulator the contract allows"
        return f"{head} ({self.precision} bits, {self.clause}), {quantum}: any order, then one rounding"


def _power(exponent: int) -> str:
    return "1" if exponent == 0 else f"2^{exponent}"


def dyadic(value: float) -> tuple[int, int]:
    """The odd integer j and the exponent i with ``value == j * 2**i`` (0, 0 for zero)."""
    numerator, denominator = value.as_integer_ratio()
    if numerator == 0:
        return 0, 0
    trailing = (numerator & -numerator).bit_length() - 1
    return numerator >> trailing, trailing - (denominator.bit_length() - 1)


def budget(problem: Matmul, *, declared: bool) -> tuple[int, int, str]:
    """
    N, its significand bits, and the clause it leans on.

    Args:
        problem: Formats and contract.
        declared: Whether to lean on the accumulator that the contract declares; otherwise only
            on what ``accumulate="any"`` says, partial sums being stored in the output format.
    """
    out = problem.out_format
    sums = problem.contract.sum_bits(problem.a_format, problem.b_format, out)
    if problem.accumulate in ("int32", "float64") and not out.is_integer and out.bits <= 16:
        sums = min(sums, _DIRECT_CONVERSION_BITS)
    if not declared or problem.accumulate == "any":
        bits = min(sums, out.precision)
        return _largest(bits, out), bits, f"partial sums stored in {out}"
    return _largest(sums, out), sums, f"accumulate={problem.accumulate!r}"


def _largest(bits: int, out: Format) -> int:
    """2**bits quanta, or what lies between the smallest normal and the largest number of the output."""
    if out.is_integer:
        return min((1 << bits) - 1, out.max_significand)
    normals = out.emax - out.emin
    return min(1 << bits, (out.max_significand << normals) >> out.trailing_significand_bits)


def product_lattice(problem: Matmul, family: Family) -> tuple[int, int]:
    """
    The largest |alpha| * sum of |products| and the exponent of the quantum it is counted in.

    Returns:
        (size in quanta, base-2 exponent); alpha = j * 2**i contributes |j| to the size and i
        to the exponent.
    """
    j, i = dyadic(problem.alpha)
    size = min(family.terms, problem.k) * family.a.magnitude * family.b.magnitude
    return size * max(abs(j), 1), family.a.exponent + family.b.exponent + i


def certify(problem: Matmul, family: Family, *, declared: bool) -> Certificate:
    """
    Decide whether *family* determines the result of *problem* in every order.

    Args:
        problem: Sizes, formats, epilogue and contract.
        family: What the inputs are.
        declared: Whether the certificate may lean on the declared accumulator (a masked
            family never does: its positions are chosen by the output's budget).

    Returns:
        A certificate; ``holds`` is its answer.

    Exactness:
        Holds if S <= N, the quantum and S lie in the range of the accumulator and the output,
        and every operand is representable. All of it is integer arithmetic.

    Examples:
        >>> from zeroulp.problem import Matmul
        >>> p = Matmul(m=1, n=1, k=2048, a="float16")
        >>> certify(p, Family(Lattice(1), Lattice(1), terms=2048), declared=False).holds
        True
        >>> certify(p.replace(k=2049), Family(Lattice(1), Lattice(1), terms=2049), declared=False).holds
        False
    """
    terms, quantum = _all_terms(problem, family)
    largest = sum(size << (exponent - quantum) for size, exponent in terms)
    needed = largest > budget(problem, declared=False)[0] and not family.masked
    declared = declared and (needed or bool(family.beyond))  # lean on no more than is needed
    n, bits, clause = budget(problem, declared=declared)
    reason, remedy = _obstacle(problem, family, n, (largest, quantum), clause)
    if family.beyond and not declared:
        reason, remedy = "results beyond the output's range need the range of the declared accumulator", ""
    return Certificate(
        holds=not reason,
        theorem="round-once" if declared else "any-order",
        declared=declared,
        clause=clause,
        precision=bits,
        budget=n,
        largest_sum=largest,
        quantum_exponent=quantum,
        masked=family.masked,
        reason=reason,
        remedy=remedy,
    )


def _all_terms(problem: Matmul, family: Family) -> tuple[list[tuple[int, int]], int]:
    """(size, exponent) of product, beta * c and bias, and the exponent of their common quantum."""
    terms = [product_lattice(problem, family)]
    if family.c is not None:
        j, i = dyadic(problem.beta)
        terms.append((abs(j) * family.c.magnitude, family.c.exponent + i))
    if family.bias is not None:
        terms.append((family.bias.magnitude, family.bias.exponent))
    return terms, min(exponent for _, exponent in terms)


def _obstacle(problem: Matmul, family: Family, n: int, total: tuple[int, int], clause: str) -> tuple[str, str]:
    """The first obligation that is not met, and what would meet it; *total*: S and its quantum's exponent."""
    keep = problem.subnormals == "preserve" or family.beyond == "subnormals"
    largest, quantum = total
    formats = {operand.name: operand.format for operand in problem.operands}
    spreads = family.spreads()
    if family.bias is not None and family.rows:
        return "a bias cannot follow powers of two along the rows", "rows of one scale"
    for name, lattice in family.lattices().items():
        misfit = lattice.misfit(formats[name], allow_subnormals=keep, spread=spreads[name])
        if misfit:
            what = f"{name} would hold multiples of {_power(lattice.exponent)} up to {lattice.magnitude} of them, but"
            return f"{what} {misfit[0]}", misfit[1]
    single = product_lattice(problem, replace(family, terms=1))[0] if family.masked else largest
    if single > n:
        return (
            f"the sum of |terms| can reach {largest:,} quanta and only {n:,} are sure to be exact ({clause})",
            _smaller_sum(problem),
        )
    reach = min(largest, n) if family.masked else largest
    before = min(family.terms, problem.k) * family.a.magnitude * family.b.magnitude
    before = min(before, n) if family.masked else before
    stages = [(reach, quantum), (before, family.a.exponent + family.b.exponent)]  # with and without the epilogue
    lone = min(family.terms, problem.k) == 1 and family.c is None and family.bias is None
    least = family.a.least * family.b.least if lone else 1
    for i, format_ in enumerate(_stores(problem)):
        beyond = family.beyond if i == 0 and problem.accumulate != "any" else ""  # of the output, which rounds once
        for size, exponent in stages:
            below, above = _out_of_range(size, exponent, format_, least=least, spread=spreads["out"], keep=keep)
            trouble = (below if beyond != "subnormals" else None) or (above if beyond != "overflow" else None)
            if trouble:
                return trouble
    return "", ""


def _out_of_range(
    size: int, exponent: int, format_: Format, *, least: int, spread: int, keep: bool
) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """
    Why sums of *least* to *size* quanta of 2**exponent leave the range of *format_* below, and above, and the remedy.

    The quantum may be multiplied by powers of two from 2**-spread to 2**spread. None if they stay.
    """
    below = _below_range(exponent - spread, least, format_, keep=keep) if size else None
    below = (f"the quantum {below[0]}", below[1]) if below else None
    above = None
    if _exceeds(size, exponent + spread, format_):
        above = f"sums can exceed {format_.max_finite:g}, the largest finite number of {format_}", "scale it down"
    return below, above


def _exceeds(size: int, exponent: int, format_: Format) -> bool:
    """Whether size * 2**exponent is larger than the largest finite number of *format_*, in whole numbers."""
    quantum = 0 if format_.is_integer else format_.emax - format_.trailing_significand_bits
    if exponent >= quantum:
        return size << (exponent - quantum) > format_.max_significand
    return size > format_.max_significand << (quantum - exponent)


def _below_range(exponent: int, least: int, format_: Format, *, keep: bool) -> tuple[str, str] | None:
    """
    Why multiples of 2**exponent, *least* of them or more, are not all sure to be kept, and the remedy.

    They are if even the smallest is a normal number; or, where subnormal numbers are kept, if
    2**exponent is a number of the format.
    """
    if format_.is_integer:
        return None if exponent >= 0 else (f"{_power(exponent)} is no whole number, as {format_} needs", _WIDER)
    smallest = exponent + least.bit_length() - 1
    if smallest >= format_.emin or (keep and exponent >= format_.quantum_exponent_min):
        return None
    if keep:
        lowest = f"2^{format_.quantum_exponent_min}, the smallest number of {format_}"
        return f"{_power(exponent)} lies below {lowest}", _WIDER
    remedy = "subnormals='preserve' would allow smaller quanta"
    return f"{_power(smallest)} lies below 2^{format_.emin}, the smallest normal number of {format_}", remedy


def _smaller_sum(problem: Matmul) -> str:
    for name in ("alpha", "beta"):
        j, _ = dyadic(getattr(problem, name))
        if abs(j) > 1:
            return (
                f"{name}={getattr(problem, name)!r} has {abs(j).bit_length()} significant bits of its own: "
                f"pass a power of two, or declare a wider accumulator"
            )
    return "fewer or smaller terms, or a wider accumulator"


def _stores(problem: Matmul) -> list[Format]:
    """Formats in which a sum may be stored: the output, and the accumulator where it is narrower."""
    stores = [problem.out_format]
    if problem.accumulate == "float16":
        stores.append(format_named("float16"))
    elif problem.accumulate in ("float32", "float64") and not problem.out_format.is_integer:
        stores.append(format_named(problem.accumulate))
    return stores
