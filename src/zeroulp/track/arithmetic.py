"""What a correct kernel computes with: how its intermediates are stored, and how precise its sums are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeroulp.errors import ProblemError, UnknownNameError
from zeroulp.formats import Format, format_named

if TYPE_CHECKING:
    from collections.abc import Iterable

STORAGES = ("float32", "float16", "bfloat16")
SUMS = ("any", "float16", "float32", "float64")
MOST_BITS = 52
"""Bits of a sum that the tracker, which computes in float64, can tell from one bit more."""

_NARROW = 16  # bits of an output that wider sums may reach by way of float32, which would round twice

FLOAT32, FLOAT64 = format_named("float32"), format_named("float64")


@dataclass(frozen=True)
class Arithmetic:
    """
    The clauses of a contract that decide what is exact.

    Args:
        storage: Format of every tensor that the reference gives no format of its own.
        accumulate: Format that sums are kept in at least; None: the format of the tensor that they
            end up in, partial sums being stored there too.
        bits: Significand bits that every partial sum keeps, at most those of that format; None: all of them.
        refactored: Whether a kernel may merge operations (see `zeroulp.track`), or computes each by itself.
    """

    storage: Format
    accumulate: Format | None
    bits: int | None = None
    refactored: bool = True

    def sums(self, out: Format) -> Format:
        """The least format in which a sum that ends up in *out* may be kept on the way."""
        return self.accumulate or (FLOAT32 if out is FLOAT64 else out)

    def sum_bits(self, out: Format) -> int:
        """Significand bits p such that a sum of |terms| of at most 2**p quanta is exact in every order."""
        precision = self.sums(out).precision
        if out.bits <= _NARROW:
            precision = min(precision, FLOAT32.precision)
        return min(MOST_BITS, precision if self.bits is None else min(precision, self.bits))

    def divides_in(self, out: Format) -> tuple[Format, ...]:
        """Formats in which a kernel may divide."""
        sums = self.sums(out)
        return (FLOAT32,) if sums.precision >= FLOAT32.precision else (FLOAT32, sums)

    def sentence(self) -> str:
        """The clauses, in words."""
        sums = "any format as precise as what they are stored in" if self.accumulate is None else str(self.accumulate)
        bits = "" if self.bits is None else f" with {self.bits} significant bits"
        return f"tensors stored in {self.storage}, sums in {sums}{bits}"


def arithmetic_of(storage: str | Format, accumulate: str, bits: int | None, *, refactored: bool) -> Arithmetic:
    """
    The clauses from their words.

    Raises:
        UnknownNameError: If a word is none of `STORAGES` or `SUMS`.
        ProblemError: If *bits* is no number of significand bits.
    """
    found = format_named(storage)
    if found.name not in STORAGES:
        raise UnknownNameError("format of intermediates", found.name, STORAGES)
    if accumulate not in SUMS:
        raise UnknownNameError("value for the clause accumulate", accumulate, SUMS)
    if bits is not None and not (isinstance(bits, int) and 1 <= bits <= FLOAT64.precision):
        raise ProblemError(
            f"accumulator_bits={bits!r} is no number of significand bits",
            do="pass an integer from 1 to 53, or leave it out",
        )
    return Arithmetic(found, None if accumulate == "any" else format_named(accumulate), bits, refactored)


def promoted(formats: Iterable[Format]) -> Format | None:
    """
    The format of a result of operands in these formats, as PyTorch promotes them; None if there are none.

    Examples:
        >>> promoted([format_named("float16"), format_named("bfloat16")]).name
        'float32'
    """
    result: Format | None = None
    for format_ in formats:
        if result is None or format_.name == result.name:
            result = format_
        elif {format_.bits, result.bits} == {16}:
            result = FLOAT32
        else:
            result = max(result, format_, key=lambda f: f.bits)
    return result
