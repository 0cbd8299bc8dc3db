"""
Certificates: when no summation order can change a bit of a result.

**The any-order theorem.** Let every product be a multiple of a quantum q, and let the sum S of
the moduli of all terms be at most N q with N = 2**p. Evaluate the sum by any tree, with or
without fused multiply-add, in formats of at least p significant bits whose range holds q and
S. Every node is the sum of a subset of the terms: a multiple of q of modulus at most S, hence
representable, hence not rounded. All orders give the same bits.

**The round-once theorem.** If the sums are exact in that way in the accumulator and are then
converted once to a narrower output, the result is the exact sum rounded once.

**The bounded theorem** foretells no bits. On any numbers, a kernel whose sums keep p bits lies
within eta / (1 - eta) S of the exact result, eta = 3 n 2**-p, n the roundings that a term may
pass through, S the sum of the moduli of the terms; one more rounding takes it to the output. Two
units in the last of p bits cover any rounding of a sum, to nearest or not; three cover units
that align groups of four or more terms and truncate them too (`docs/exactness.md`).

A `Certificate` is one of these three, with its numbers, for one problem and one family of inputs.
That of the first two is tight: N + 1 quanta are no number of p bits, so a sum of them rounds, up or down as the
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
from zeroulp.lattice import Family, Lattice, below_range, dyadic, exceeds, power

if TYPE_CHECKING:
    from zeroulp.problem import Matmul

__all__ = ["Certificate", "Family", "Lattice", "budget", "certify", "dyadic", "product_lattice"]

VERIFICATION_MISS = 2.0**-60
"""Largest probability, in one trial, that the verification of a result takes a wrong one for a right one."""

ERROR_PER_ROUNDING = 3
"""In 2**-p of the sum of |terms|: 1 to nearest, 2 in any direction, 3 where groups are aligned and truncated."""

_FURTHER_ROUNDINGS = 8  # beside k: alpha, beta and bias, and operands multiplied in parts

_DIRECT_CONVERSION_BITS = 24  # wider sums may reach a 16-bit output by way of float32: two roundings


@dataclass(frozen=True)
class Certificate:
    """
    The proof obligation of a trial, with its numbers.

    Args:
        holds: Whether every correct kernel must return the same bits (or lie within the bound).
        theorem: ``"any-order"``: no step rounds; ``"round-once"``: only the last one does;
            ``"bounded"``: any may, and the result lies between two given numbers; ``"tracked"``:
            what is compared was found exact, operation by operation (see `zeroulp.track`); ``"alike"``: that
            was found of other inputs drawn in the same way, all of them, and the result has the bits that
            the reference itself returns for these; ``"nearest"``: what is compared was found exact in the
            same way, and is the multiple of the quantum that is nearest to every correct result.
        declared: Whether it leans on the accumulator that the contract declares.
        clause: What the contract says of sums, as far as it leans on that.
        precision: Significand bits p that every partial sum keeps by that clause.
        budget: N, the largest sum of moduli allowed, in quanta.
        largest_sum: S, the largest sum of moduli that can occur, in quanta. Python integer.
        quantum_exponent: Base-2 exponent of the quantum.
        masked: Whether it holds at just the positions whose sum is within the budget.
        roundings: n, how many roundings a term may pass through; 0 where bits are foretold.
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
    roundings: int = 0
    reason: str = ""
    remedy: str = ""

    @property
    def relative_error(self) -> float:
        """How far a correct kernel's sums may lie from the exact result, relative to the sum of |terms|."""
        eta = ERROR_PER_ROUNDING * self.roundings * 2.0**-self.precision
        return eta / (1 - eta) if eta < 1 else float("inf")

    def sentence(self) -> str:
        """The proof in one line, or why there is none."""
        if not self.holds:
            return self.reason
        if self.theorem == "bounded":
            bound = f"{self.roundings:,} roundings to {self.precision} bits ({self.clause})"
            far = f"within {self.relative_error:.1e} of the sum of |terms|"
            return f"no equal bits, but a range: {bound} keep every order {far}, then one rounding"
        if self.theorem in {"tracked", "alike"}:
            return self._tracked()
        if self.theorem == "nearest":
            return self._nearest()
        quantum = f"quantum {power(self.quantum_exponent)}"
        if self.masked:
            head = f"only sums of |terms| <= N = {self.budget:,} are compared"
        else:
            head = f"sum of |terms| <= {self.largest_sum:,} <= N = {self.budget:,}"
        if self.theorem == "any-order":
            return f"{head} ({self.precision} bits), {quantum}: any order, any accumulator the contract allows"
        return f"{head} ({self.precision} bits, {self.clause}), {quantum}: any order, then one rounding"

    def _tracked(self) -> str:
        left_out = "; what is not exact is not compared" if self.masked else ""
        like = "the reference's own bits, on inputs drawn like some that were " if self.theorem == "alike" else ""
        return (
            f"{like}followed through the reference, sums of |terms| reach {self.largest_sum:,} quanta, and "
            f"{self.precision} bits hold them ({self.clause}): any order, any split{left_out}"
        )

    def _nearest(self) -> str:
        left_out = "; what is not exact is not compared" if self.masked else ""
        return (
            f"the nearest multiple of {power(self.quantum_exponent)}: followed through the "
            f"reference, sums of |terms| reach {self.largest_sum:,} of {self.budget:,} quanta, and an algorithm that "
            f"sums other products is off by less than half a quantum{left_out}"
        )


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
    size = min(family.terms, problem.k) * family.largest_product
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
    if family.bounded:
        return _certify_bound(problem, family, declared=declared)
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


def _certify_bound(problem: Matmul, family: Family, *, declared: bool) -> Certificate:
    """Whether the bound for any numbers means something, and operands and sums stay in range."""
    terms, quantum = _all_terms(problem, family)
    largest = sum(size << (exponent - quantum) for size, exponent in terms)
    _, bits, clause = budget(problem, declared=declared)
    roundings = problem.k + _FURTHER_ROUNDINGS
    reason, remedy = _misfits(problem, family, keep=problem.subnormals == "preserve")
    before = problem.k * family.largest_product, family.a.exponent + family.b.exponent
    for format_ in [] if reason else _stores(problem):
        for size, exponent in ((largest, quantum), before):
            if exceeds(size, exponent + 2, format_):
                reason = f"sums can come near {format_.max_finite:g}, the largest finite number of {format_}"
                remedy = "fewer terms, or a wider output"
    if not reason and 2 * ERROR_PER_ROUNDING * roundings >= 2**bits:
        lost = f"{roundings:,} roundings to {bits} bits ({clause})"
        reason, remedy = f"{lost} could lose all of a sum: its bound would say nothing", "fewer terms, or wider sums"
    return Certificate(
        holds=not reason,
        theorem="bounded",
        declared=declared,
        clause=clause,
        precision=bits,
        budget=2**bits,
        largest_sum=largest,
        quantum_exponent=quantum,
        roundings=roundings,
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


def _misfits(problem: Matmul, family: Family, *, keep: bool) -> tuple[str, str]:
    """Which operand's elements are no numbers of its format, and what would mend it; empty if all are."""
    formats = {operand.name: operand.format for operand in problem.operands}
    spreads = family.spreads()
    for name, lattice in family.lattices().items():
        misfit = lattice.misfit(formats[name], allow_subnormals=keep, spread=spreads[name])
        factor, shift = dyadic(problem.alpha) if name in ("a", "b") else (1, 0)
        if not misfit and shift and abs(factor) == 1:  # a kernel may scale an operand by alpha before it multiplies
            scaled = replace(lattice, exponent=lattice.exponent + shift)
            misfit = scaled.misfit(formats[name], allow_subnormals=keep, spread=spreads[name])
        if misfit:
            what = f"{name} would hold multiples of {power(lattice.exponent)} up to {lattice.magnitude} of them, but"
            return f"{what} {misfit[0]}", misfit[1]
    return "", ""


def _obstacle(problem: Matmul, family: Family, n: int, total: tuple[int, int], clause: str) -> tuple[str, str]:
    """The first obligation that is not met, and what would meet it; *total*: S and its quantum's exponent."""
    keep = problem.subnormals == "preserve" or family.beyond == "subnormals"
    largest, quantum = total
    spreads = family.spreads()
    if family.bias is not None and family.rows:
        return "a bias cannot follow powers of two along the rows", "rows of one scale"
    reason, remedy = _misfits(problem, family, keep=keep)
    if reason:
        return reason, remedy
    single = product_lattice(problem, replace(family, terms=1))[0] if family.masked else largest
    if single > n:
        return (
            f"the sum of |terms| can reach {largest:,} quanta and only {n:,} are sure to be exact ({clause})",
            _smaller_sum(problem),
        )
    reach = min(largest, n) if family.masked else largest
    before = min(family.terms, problem.k) * family.largest_product
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
    below = below_range(exponent - spread, least, format_, keep=keep) if size else None
    below = (f"the quantum {below[0]}", below[1]) if below else None
    above = None
    if exceeds(size, exponent + spread, format_):
        above = f"sums can exceed {format_.max_finite:g}, the largest finite number of {format_}", "scale it down"
    return below, above


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
        stores.append(problem.contract.sum_range(problem.out_format))
    return stores
