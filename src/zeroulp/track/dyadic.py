"""Tensors of float64 looked at as integers times powers of two."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from zeroulp.formats import format_named
from zeroulp.track.arithmetic import STORAGES
from zeroulp.track.backend import torch

if TYPE_CHECKING:
    from zeroulp.formats import Format

NEUTRAL = 1 << 20
"""Exponent of the quantum of zeros alone: a zero is a multiple of everything."""

FORMATS = {getattr(torch, name): format_named(name) for name in STORAGES}
"""The formats that a program may name, by their PyTorch types; float64 stands for the one that it does not name."""

_SIGNIFICAND = 53
_SAMPLE = 1 << 10
_BLOCK = 1 << 16  # elements that stay in a cache
_FAR = 500  # exponents that are scaled without leaving float64, but for numbers that are as large


def power(exponent: int) -> float:
    """2.0**exponent, within the range of float64."""
    return math.ldexp(1.0, max(-1074, min(1023, exponent)))


def low_exponents(values: Any) -> Any:
    """
    The exponent of the lowest bit that is set, for every element (int64); `NEUTRAL` for 0 and what is not finite.

    Args:
        values: float64, any shape.
    """
    significand, exponent = torch.frexp(values)
    integers = significand.abs_().mul_(2.0**_SIGNIFICAND).to(torch.int64)
    trailing = torch.frexp((integers & -integers).to(torch.float64))[1] - 1
    plain = torch.isfinite(values) & (values != 0)
    return torch.where(plain, (exponent - _SIGNIFICAND + trailing).to(torch.int64), NEUTRAL)


def quantum_exponent(values: Any) -> int:
    """Exponent of the largest power of two that divides all finite elements; `NEUTRAL` if there is none but 0."""
    if values.numel() <= _SAMPLE:
        return int(low_exponents(values).min()) if values.numel() else NEUTRAL
    flat = values.reshape(-1)
    found = int(low_exponents(flat[:: -(-flat.numel() // _SAMPLE)]).min())
    blocks = flat.split(_BLOCK)
    if found == NEUTRAL and not largest(flat):
        return NEUTRAL
    if -_FAR < found <= 0:  # scaled up, nothing is lost
        scratch = torch.empty(min(_BLOCK, flat.numel()), dtype=flat.dtype, device=flat.device)
        if all(_divides(found, block, scratch[: len(block)]) for block in blocks):
            return found  # that of a sample divides all
    return min(int(low_exponents(block).min()) for block in blocks)


def _divides(exponent: int, values: Any, scratch: Any) -> bool:
    """Whether a power of two divides all elements; no if one is not finite."""
    scaled = torch.mul(values, 2.0**-exponent, out=scratch) if exponent else values
    return largest(torch.frac(scaled, out=scratch)) == 0


def largest(values: Any) -> float:
    """The largest modulus, NaN if there is one; 0 if there are no elements."""
    if not values.numel():
        return 0.0
    least, most = torch.aminmax(values)
    return max(-float(least), float(most))


def odd_parts(values: Any) -> Any:
    """|value| divided by its largest power of two: an odd integer, or 0; for what is not finite, itself."""
    exponents = low_exponents(values)
    plain = exponents < NEUTRAL
    return torch.where(plain, torch.ldexp(values.abs(), torch.where(plain, -exponents, 0)), values.abs())


def scalar_quantum(value: float) -> int:
    """`quantum_exponent` of one number."""
    if value == 0 or not math.isfinite(value):
        return NEUTRAL
    numerator, denominator = value.as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def is_power(value: float) -> bool:
    """Whether a number is a power of two, with either sign."""
    return value != 0 and math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5


def dtype_of(format_: Format) -> Any:
    """The PyTorch type of this format."""
    return getattr(torch, format_.name)


def rounded(values: Any, format_: Format) -> Any:
    """Elements rounded once to nearest, ties to even, to a format; as float64."""
    return values.to(dtype_of(format_)).to(torch.float64)


def rounded_scalar(value: float, format_: Format) -> float:
    """`rounded` for one number."""
    return float(torch.tensor(value, dtype=torch.float64).to(dtype_of(format_)))
