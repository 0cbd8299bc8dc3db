"""
What a number format is, and the table of those we know.

A binary floating-point format is a handful of integers: the width of the exponent field, the
number of trailing significand bits, the bias, and which codes are special. Everything else
(``precision``, ``emin``, the largest finite value, the exact integer range) is derived.

``precision`` counts the implicit bit: 11 for float16, 24 for float32.

References:
    IEEE 754-2019, clause 3. OCP 8-bit Floating Point Specification 1.0; OCP Microscaling
    Formats (MX) 1.0. Names are spelled as ml_dtypes spells them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from zeroulp.errors import UnknownNameError


class Specials(Enum):
    """Which codes do not stand for a finite number."""

    IEEE = "infinities and NaNs in the largest exponent"
    NAN_ONLY = "NaN where all exponent and significand bits are one; no infinity"
    NAN_AT_NEGATIVE_ZERO = "one NaN, at the code of negative zero; no infinity, no negative zero"
    NONE = "every code is finite"


@dataclass(frozen=True)
class Format:
    """
    A number format: floating point, or two's complement where ``is_integer``.

    Args:
        name: Canonical name.
        exponent_bits: Width of the exponent field; 0 for integers.
        trailing_significand_bits: Stored significand bits, ``precision - 1``.
        bias: What is subtracted from the exponent field.
        specials: Which codes are infinities or NaN.
        storage: Name of the format its elements are stored as, where that is another one.
        is_integer: Two's complement instead of floating point.
        is_signed: Whether there is a sign bit.
        aliases: Other names accepted at the boundary.
    """

    name: str
    exponent_bits: int
    trailing_significand_bits: int
    bias: int
    specials: Specials
    storage: str = ""
    is_integer: bool = False
    is_signed: bool = True
    aliases: tuple[str, ...] = ()

    @cached_property
    def bits(self) -> int:
        """Width of an encoding, in bits (19 for tfloat32, whatever it is stored in)."""
        return int(self.is_signed) + self.exponent_bits + self.trailing_significand_bits

    @cached_property
    def storage_name(self) -> str:
        """Name of the format that arrays of this one are stored in."""
        return self.storage or self.name

    @cached_property
    def precision(self) -> int:
        """Significand bits including the implicit one (for integers: bits of the magnitude)."""
        return self.trailing_significand_bits + (0 if self.is_integer else 1)

    @cached_property
    def is_scale(self) -> bool:
        """Whether it holds powers of two only: no zero, no sign."""
        return not self.is_signed and not self.is_integer

    @cached_property
    def has_infinity(self) -> bool:
        """Whether it has infinities."""
        return self.specials is Specials.IEEE and not self.is_integer

    @cached_property
    def has_nan(self) -> bool:
        """Whether it has a NaN."""
        return self.specials is not Specials.NONE

    @cached_property
    def has_negative_zero(self) -> bool:
        """Whether zero has a sign."""
        return not self.is_integer and self.is_signed and self.specials is not Specials.NAN_AT_NEGATIVE_ZERO

    @cached_property
    def emin(self) -> int:
        """Exponent of the smallest normal number."""
        if self.is_integer:
            return 0
        return -self.bias if self.is_scale else 1 - self.bias

    @cached_property
    def emax(self) -> int:
        """Exponent of the largest finite number."""
        if self.is_integer:
            return self.trailing_significand_bits - 1
        top = (1 << self.exponent_bits) - 1 - self.bias
        reserved = self.specials is Specials.IEEE or self.is_scale
        return top - int(reserved)

    @cached_property
    def quantum_exponent_min(self) -> int:
        """Exponent of the smallest positive number (of the subnormals, where there are any)."""
        return self.emin - self.trailing_significand_bits if not self.is_integer else 0

    @cached_property
    def max_significand(self) -> int:
        """Significand of the largest finite number, as an integer of ``precision`` bits."""
        full = (1 << self.precision) - 1
        takes_top_code = self.specials is Specials.NAN_ONLY and not self.is_scale
        return full - int(takes_top_code)

    @cached_property
    def max_finite(self) -> float:
        """Largest finite number."""
        if self.is_integer:
            return float(self.max_significand)
        return float(self.max_significand) * 2.0 ** (self.emax - self.trailing_significand_bits)

    @cached_property
    def min_normal(self) -> float:
        """Smallest positive normal number."""
        return 2.0**self.emin

    @cached_property
    def min_subnormal(self) -> float:
        """Smallest positive number."""
        return 2.0**self.quantum_exponent_min

    @cached_property
    def exact_integer_limit(self) -> int:
        """Largest L such that every integer of magnitude 0 to L is a number of this format."""
        if self.is_integer:
            return self.max_significand
        return int(min(2**self.precision, self.max_finite))

    def __str__(self) -> str:
        return self.name


def _float(name: str, exponent: int, significand: int, bias: int, specials: Specials, *aliases: str) -> Format:
    return Format(name, exponent, significand, bias, specials, aliases=aliases)


_IEEE, _FN, _FNUZ, _NONE = Specials

TABLE: tuple[Format, ...] = (
    _float("float64", 11, 52, 1023, _IEEE, "fp64", "f64", "double"),
    _float("float32", 8, 23, 127, _IEEE, "fp32", "f32", "single", "float"),
    Format("tfloat32", 8, 10, 127, _IEEE, storage="float32", aliases=("tf32", "xf32")),
    _float("float16", 5, 10, 15, _IEEE, "fp16", "f16", "half"),
    _float("bfloat16", 8, 7, 127, _IEEE, "bf16"),
    _float("float8_e4m3fn", 4, 3, 7, _FN, "e4m3", "e4m3fn", "fp8_e4m3", "float8_e4m3"),
    _float("float8_e4m3fnuz", 4, 3, 8, _FNUZ, "e4m3fnuz"),
    _float("float8_e5m2", 5, 2, 15, _IEEE, "e5m2", "fp8_e5m2"),
    _float("float8_e5m2fnuz", 5, 2, 16, _FNUZ, "e5m2fnuz"),
    _float("float6_e2m3fn", 2, 3, 1, _NONE, "e2m3", "fp6_e2m3"),
    _float("float6_e3m2fn", 3, 2, 3, _NONE, "e3m2", "fp6_e3m2"),
    _float("float4_e2m1fn", 2, 1, 1, _NONE, "e2m1", "fp4", "fp4_e2m1"),
    Format("float8_e8m0fnu", 8, 0, 127, _FN, is_signed=False, aliases=("e8m0",)),
    Format("int8", 0, 7, 0, _NONE, is_integer=True, aliases=("i8", "s8")),
    Format("int32", 0, 31, 0, _NONE, is_integer=True, aliases=("i32", "s32")),
)

PLAIN: tuple[Format, ...] = (
    Format("int64", 0, 63, 0, _NONE, is_integer=True),
    Format("bool", 0, 1, 0, _NONE, is_signed=False, is_integer=True),
)
"""What indices and truth values are stored in: no formats to compute in."""

BY_NAME = {format_.name: format_ for format_ in (*TABLE, *PLAIN)}
_BY_ALIAS = {alias: format_ for format_ in TABLE for alias in (format_.name, *format_.aliases)}


def format_named(name: str | Format) -> Format:
    """
    The format called *name*, or one of its aliases (``fp16``, ``half``, ``bf16``, ``e4m3``).

    Raises:
        UnknownNameError: If there is none; the message lists close names.

    Examples:
        >>> format_named("half").precision
        11
    """
    if isinstance(name, Format):
        return name
    found = _BY_ALIAS.get(str(name).strip().lower())
    if found is None:
        raise UnknownNameError("format", name, _BY_ALIAS)
    return found
