"""
What inputs are, for a proof about them: integers of bounded modulus, times a power of two.

Whether such numbers are of a format is decided here; what follows for their sums, in `exactness`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zeroulp.formats import Format

_WIDER = "choose a wider format for it"


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
        if exceeds(self.magnitude, self.exponent + spread, format_):
            return f"the largest finite number of {format_} is {format_.max_finite:g}", _WIDER
        return below_range(self.exponent - spread, self.least, format_, keep=allow_subnormals)


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
        bounded: Whether they are any numbers, for which a bound is proved and no bits.
        product: Largest modulus of a product in quanta, where it is less than that of the largest
            elements; 0: it is not.
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
    bounded: bool = False
    product: int = 0
    rows: int = 0
    columns: int = 0
    inner: int = 0
    beyond: str = ""

    @property
    def largest_product(self) -> int:
        """Largest modulus of a product, in quanta."""
        return self.product or self.a.magnitude * self.b.magnitude

    def spreads(self) -> dict[str, int]:
        """By how many binary places each operand, and the output, can be shifted in either direction."""
        rows, columns, inner = self.rows, self.columns, self.inner
        out = rows + columns
        return {"a": rows + inner, "b": columns + inner, "c": out, "bias": columns, "out": out}

    def lattices(self) -> dict[str, Lattice]:
        """The operands that there are, by name."""
        named = {"a": self.a, "b": self.b, "c": self.c, "bias": self.bias}
        return {name: lattice for name, lattice in named.items() if lattice is not None}


def power(exponent: int) -> str:
    """A power of two, as it is written."""
    return "1" if exponent == 0 else f"2^{exponent}"


def dyadic(value: float) -> tuple[int, int]:
    """The odd integer j and the exponent i with ``value == j * 2**i`` (0, 0 for zero)."""
    numerator, denominator = value.as_integer_ratio()
    if numerator == 0:
        return 0, 0
    trailing = (numerator & -numerator).bit_length() - 1
    return numerator >> trailing, trailing - (denominator.bit_length() - 1)


def exceeds(size: int, exponent: int, format_: Format) -> bool:
    """Whether size * 2**exponent is larger than the largest finite number of *format_*, in whole numbers."""
    quantum = 0 if format_.is_integer else format_.emax - format_.trailing_significand_bits
    if exponent >= quantum:
        return size << (exponent - quantum) > format_.max_significand
    return size > format_.max_significand << (quantum - exponent)


def below_range(exponent: int, least: int, format_: Format, *, keep: bool) -> tuple[str, str] | None:
    """
    Why multiples of 2**exponent, *least* of them or more, are not all sure to be kept, and the remedy.

    They are if even the smallest is a normal number; or, where subnormal numbers are kept, if
    2**exponent is a number of the format.
    """
    if format_.is_integer:
        return None if exponent >= 0 else (f"{power(exponent)} is no whole number, as {format_} needs", _WIDER)
    smallest = exponent + least.bit_length() - 1
    if smallest >= format_.emin or (keep and exponent >= format_.quantum_exponent_min):
        return None
    if keep:
        lowest = f"2^{format_.quantum_exponent_min}, the smallest number of {format_}"
        return f"{power(exponent)} lies below {lowest}", _WIDER
    remedy = "subnormals='preserve' would allow smaller quanta"
    return f"{power(smallest)} lies below 2^{format_.emin}, the smallest normal number of {format_}", remedy
