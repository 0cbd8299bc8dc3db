"""
The contract: what a correct kernel promises beyond the formula.

Each clause is a word from a short list with a safe default. A certificate names the clause it
leans on, and a report states them all, so that nobody is accused of breaking a promise that
was not made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zeroulp.errors import ProblemError, UnknownNameError
from zeroulp.formats import BY_NAME

if TYPE_CHECKING:
    from zeroulp.formats import Format

CLAUSES: dict[str, tuple[str, ...]] = {
    "accumulate": ("any", "float16", "float32", "float64", "int32"),
    "rounding": ("ties-to-even", "ties-either"),
    "subnormals": ("either", "preserve", "flush"),
    "signed_zero": ("either", "strict"),
    "nonfinite": ("propagate", "ieee", "ignore"),
}

_ACCUMULATOR_BITS = {"float16": 11, "float32": 24, "float64": 53, "int32": 31}
_NARROW_PRODUCT_BITS = 14  # what float32 sums keep where 8-bit operands are multiplied (Ada, Hopper)


@dataclass(frozen=True, kw_only=True)
class Contract:
    """
    The clauses of a contract.

    Args:
        accumulate: The least precise accumulator allowed, followed by one rounding to the
            output; ``"any"`` allows one as precise as the output, and partial sums stored in it.
        accumulator_precision: Significand bits that sums keep, where the safe value for the
            operands is not the one promised (14 for 8-bit floating-point operands, whose
            products some units align to 13 fraction bits; else that of ``accumulate``). It names
            no range: sums in float64 with 24 bits or fewer need have that of float32 alone.
        rounding: What happens halfway between two outputs.
        subnormals: ``"preserve"``: subnormal operands and results are numbers like others;
            ``"flush"``: they count as zero; ``"either"``: each result may be one or the other.
        signed_zero: Whether the sign of a zero counts.
        nonfinite: Where NaN and infinities go. ``"ieee"``: exactly where IEEE arithmetic puts
            them; ``"propagate"``: the same, but NaN may stand where an infinity is due (that of an
            overflow too), as compensated sums and operands split into parts give; ``"ignore"``:
            not tested.
        saturate: What overflow gives. False: infinity (NaN in formats without one); True: the
            largest finite number; None: False for outputs of 16 bits or more, and either of
            them for narrower ones, whose conversions in use do one or the other.

    References:
        IEEE 754-2019, clauses 6.1, 6.2, 7.4 and 7.5. OCP 8-bit Floating Point Specification
        (OFP8), revision 1.0, section 5.3 (saturating and other conversions).
    """

    accumulate: str = "float32"
    accumulator_precision: int | None = None
    rounding: str = "ties-to-even"
    subnormals: str = "either"
    signed_zero: str = "either"
    nonfinite: str = "propagate"
    saturate: bool | None = None

    def __post_init__(self) -> None:
        for clause, words in CLAUSES.items():
            word = getattr(self, clause)
            if word not in words:
                raise UnknownNameError(f"value for the clause {clause}", word, words)
        bits = self.accumulator_precision
        if bits is not None and not (isinstance(bits, int) and 1 <= bits <= 53):
            raise ProblemError(
                f"accumulator_precision={bits!r} is no number of significand bits",
                do="pass an integer from 1 to 53, or leave it out",
            )
        if self.saturate is not None and not isinstance(self.saturate, bool):
            raise ProblemError(
                f"saturate={self.saturate!r} is neither True, False nor None",
                do="pass True if overflow gives the largest finite number, False if it gives infinity, or leave it out",
            )

    def on_overflow(self, out: Format) -> str:
        """``"infinity"``, ``"saturate"`` or ``"either"``: what a result beyond the range of *out* becomes."""
        if self.saturate is None:
            return "either" if out.bits <= 8 else "infinity"
        return "saturate" if self.saturate else "infinity"

    def sum_bits(self, a: Format, b: Format, out: Format) -> int:
        """Significand bits that every partial sum is sure to keep, for these formats."""
        declared = _ACCUMULATOR_BITS.get(self.accumulate, out.precision)
        if self.accumulator_precision is not None:
            return min(declared, self.accumulator_precision)
        if _is_narrow(a) and _is_narrow(b) and self.accumulate in ("any", "float32"):
            return min(declared, _NARROW_PRODUCT_BITS)
        return declared

    def sum_range(self, out: Format) -> Format:
        """The format whose range sums are sure to have: *accumulator_precision* names their bits, and no range."""
        if self.accumulate == "any":
            return out
        narrow = self.accumulate == "float64" and (self.accumulator_precision or 53) <= _ACCUMULATOR_BITS["float32"]
        return BY_NAME["float32" if narrow else self.accumulate]

    def sentence(self) -> str:
        """The clauses about precision, in words."""
        if self.accumulate == "any":
            sums = "sums in any format as precise as the output"
        else:
            sums = f"sums in {self.accumulate}, one rounding"
        ties = "ties to even" if self.rounding == "ties-to-even" else "ties either way"
        return f"{sums}, {ties}"


def _is_narrow(format_: Format) -> bool:
    return format_.bits <= 8 and not format_.is_integer
