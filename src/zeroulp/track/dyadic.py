"""Tensors of float64 looked at as integers times powers of two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.arrays import HOST
from zeroulp.formats import format_named
from zeroulp.track.arithmetic import STORAGES
from zeroulp.track.backend import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.formats import Format

NEUTRAL = 1 << 20
"""Exponent of the quantum of zeros alone: a zero is a multiple of everything."""

FORMATS = {getattr(torch, name): format_named(name) for name in STORAGES}
"""The formats that a program may name, by their PyTorch types; float64 stands for the one that it does not name."""

_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}
_SIGNIFICAND = 53
_SAMPLE = 1 << 10
_ROW = 1 << 6  # elements of a row that is worth a call
BLOCK = 1 << 15
"""Elements that stay in a cache."""

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
    return quantum_within(values, lambda _: math.inf)[0]


@dataclass(frozen=True)
class Aside:
    """
    What is made of the moduli of a tensor while they are at hand for something else.

    Args:
        take: Takes those of one block after the other, flat, in memory that is used again.
        size: Elements of a block.
        row: How many elements, one after the other, make a row of which the sum alone is asked for; 0: no such sums.
        give: Takes the sums of all rows.
    """

    take: Callable[[Any], None]
    size: int
    row: int = 0
    give: Callable[[Any], None] | None = None


def quantum_within(values: Any, limit: Callable[[int], float], aside: Aside | None = None) -> tuple[int, bool]:
    """
    The quantum and the range of elements, looked at once.

    Args:
        values: float64, any shape.
        limit: What no modulus may exceed, given the exponent; positive, infinite if that is not asked.
        aside: Gets all moduli, or none.

    Returns:
        `quantum_exponent`, and whether all elements are numbers of at most that modulus.
    """
    if values.numel() <= _SAMPLE:
        found = int(low_exponents(values).min()) if values.numel() else NEUTRAL
        return found, largest(values) <= limit(found)
    flat = values.reshape(-1)
    found = int(low_exponents(flat[:: -(-flat.numel() // _SAMPLE)]).min())
    if found == NEUTRAL and not largest(flat):
        return NEUTRAL, True
    if -_FAR < found <= 0 and (within := _multiples(flat, found, limit(found), aside)) is not None:
        return found, within  # what divides a sample divides all
    found = min(int(low_exponents(block).min()) for block in flat.split(BLOCK))
    return found, largest(flat) <= limit(found)


def _multiples(flat: Any, exponent: int, limit: float, aside: Aside | None) -> bool | None:
    """
    Whether all elements are within a limit; None unless a power of two divides all of them.

    Exactness:
        Scaled up nothing is lost, and a fraction is +0 or has a bit that is set. Nothing is lost of squares either that
        a limit above 2**-500 would be exceeded by, and a rounded sum of them is at least half of the true one.
    """
    found = _looked_over(flat, exponent, aside)
    if found is not None:
        return None if found[0] else found[1] <= limit
    size = aside.size if aside else BLOCK
    scratch = torch.empty(min(size, flat.numel()), dtype=flat.dtype, device=flat.device)
    fraction, within = scratch.view(torch.int64), True
    left = seen = torch.zeros_like(fraction)  # all bits of all fractions
    for block in flat.split(size):
        if (n := len(block)) < len(scratch):
            scratch, fraction, left = scratch[:n], fraction[:n], left[:n]
        whole = torch.abs(block, out=scratch) if aside else block
        if aside:
            aside.take(whole)
        if within and limit < math.inf:
            within = float(torch.dot(whole, whole)) <= limit * limit / 2 or largest(whole) <= limit
        torch.frac(torch.mul(whole, 2.0**-exponent, out=scratch) if exponent else whole, out=scratch)
        left.bitwise_or_(fraction)
    return None if bool(seen.any()) else within


def _looked_over(flat: Any, exponent: int, aside: Aside | None) -> tuple[bool, float] | None:
    """Whether there is a fraction, and the largest modulus, in one pass; None where there is no such way."""
    plain = flat.device.type == "cpu" and flat.dtype == torch.float64 and flat.is_contiguous()
    if not plain or flat.is_neg() or flat.requires_grad or (aside and (aside.give is None or aside.row < _ROW)):
        return None
    row = aside.row if aside else flat.numel()
    found = HOST.fused.look_over(flat.numpy().reshape(-1, row), 2.0**-exponent, add_up=aside is not None)
    if found is None:
        return None
    if aside and aside.give:
        aside.give(torch.from_numpy(found[2]))
    return found[0], found[1]


def largest(values: Any) -> float:
    """The largest modulus, NaN if there is one; 0 if there are no elements."""
    if not values.numel():
        return 0.0
    if values.numel() <= BLOCK and values.is_floating_point():  # in a cache two passes take less than one for both
        return max(-float(values.amin()), float(values.amax()))
    least, most = torch.aminmax(values)
    return max(-float(least), float(most))


def most(moduli: Any) -> float:
    """The largest of numbers none of which is negative, NaN if there is one; 0 if there are none."""
    return float(moduli.amax()) if moduli.numel() else 0.0


def equal(a: Any, b: Any) -> bool:
    """Whether tensors of one shape and type hold the same numbers; NaN equals nothing."""
    if a.device.type == b.device.type == "cpu" and a.dtype == torch.float64 and not (a.is_neg() or b.is_neg()):
        return bool(np.array_equal(a.numpy(), b.numpy()))  # which takes half the time
    return bool(torch.equal(a, b))


def unwritten(like: Any, dtype: Any) -> Any:
    """Contiguous memory for a large tensor that nobody resizes: NumPy is given it in larger pages than PyTorch is."""
    if like.device.type != "cpu":
        return torch.empty(like.shape, dtype=dtype, device=like.device)
    return torch.from_numpy(np.empty(like.shape, dtype=_NUMPY[dtype]))


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
