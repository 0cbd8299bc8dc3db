"""How the elements of one operand are drawn: integers times a power of two, every one a number of its format."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.draw import Part
from zeroulp.sample.pattern import latin, residues

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.draw import Seed
    from zeroulp.formats import Format
    from zeroulp.problem import Tensor

_WHOLE = 1 << 24  # numbers that are all different are drawn from no more than so many


class Kind(enum.Enum):
    """What numbers an operand is made of."""

    SIGNED = "integers of both signs"
    NONZERO = "integers of both signs, none zero"
    NONNEGATIVE = "integers, none negative"
    DISTINCT = "integers, no two equal"
    POWERS = "powers of two of both signs"


@dataclass(frozen=True)
class Drawing:
    """
    How one operand is drawn. Of an index or a mask *unique* alone matters.

    Args:
        tensor: The operand.
        kind: Of numbers.
        magnitude: Largest modulus of the integers; largest modulus of the exponent of powers; of DISTINCT ones: how
            many different numbers there are at most, 0 for as many as the format has.
        every: Of so many elements one is not zero (of POWERS: not 1 or -1), spread evenly over rows and columns; 1:
            all of them, zero being as likely as any other number (of NONZERO: all of them).
        step: Odd number that all integers are multiplied with.
        unique: Whether an index occurs once along each axis, where there are enough.
    """

    tensor: Tensor
    kind: Kind = Kind.SIGNED
    magnitude: int = 1
    every: int = 1
    step: int = 1
    unique: bool = False

    @property
    def step_kept(self) -> int:
        """*step* where the format has room for it, else 1."""
        format_ = self.tensor.number_format
        return self.step if format_ is not None and self.step <= format_.exact_integer_limit else 1

    @property
    def largest(self) -> int:
        """Largest modulus in steps: *magnitude*, or what the format has room for."""
        format_ = self.tensor.number_format
        limit = format_.exact_integer_limit // self.step_kept if format_ is not None else 1
        return max(1, min(self.magnitude or limit, limit, 1 << 30))

    def values(self, seed: Seed) -> NDArray[Any]:
        """
        The elements for one trial.

        Returns:
            The operand's shape: float64, each a number of the format; int64 of an index or an integer format; bool of
            a mask. The same bits on every machine.
        """
        tensor = self.tensor
        shape = tensor.shape or (1,)
        if not tensor.size:
            drawn: NDArray[Any] = np.zeros(shape)
        elif tensor.role == "mask":
            drawn = seed.field(tensor.name).chosen(0.5, Part.whole(shape))
        elif tensor.role == "index":
            drawn = self._index(seed, shape)
        else:
            drawn = self._numbers(seed, shape, tensor.number_format)
        made = np.asarray(drawn, self.dtype, order="C")
        return (made if made.flags.writeable else made.copy()).reshape(tensor.shape)

    @property
    def dtype(self) -> Any:
        """NumPy's type of `values`."""
        format_ = self.tensor.number_format
        if format_ is None:
            return np.bool_ if self.tensor.role == "mask" else np.int64
        return np.int64 if format_.is_integer else np.float64

    def _index(self, seed: Seed, shape: tuple[int, ...]) -> NDArray[Any]:
        below = self.tensor.below
        assert below is not None
        if self.unique or self.tensor.distinct:
            return latin(seed.stream(self.tensor.name), shape, below)
        return np.asarray(seed.field(self.tensor.name).below(below, Part.whole(shape)))

    def _numbers(self, seed: Seed, shape: tuple[int, ...], format_: Format | None) -> NDArray[Any]:
        assert format_ is not None
        name, part = self.tensor.name, Part.whole(shape)
        if self.kind is Kind.POWERS or format_.is_scale:
            return self._powers(seed, shape, format_)
        if self.kind is Kind.DISTINCT:
            room = min(2 * self.largest + 1, _WHOLE)
            count = min(room, self.magnitude or room, max(self.tensor.size, *shape))
            return (latin(seed.stream(name), shape, count) - count // 2) * float(self.step_kept)
        signed, most = self.kind is not Kind.NONNEGATIVE, self.largest
        field = seed.field(name)
        if self.every > 1 or self.kind is Kind.NONZERO:
            numbers = field.signed(most, part) if signed else field.below(most, part) + 1
            numbers = numbers.reshape(shape)
            if self.every > 1:
                numbers = np.where(residues(seed.stream(f"{name} places"), shape, self.every) == 0, numbers, 0)
        else:
            numbers = field.below(2 * most + 1, part) - most if signed else field.below(most + 1, part)
        if not self.tensor.shape:
            numbers = np.where(numbers == 0, 1, numbers)  # a scalar that is 0 hides all else
        drawn: NDArray[Any] = numbers.astype(np.float64)
        return drawn if self.step_kept == 1 else drawn * self.step_kept

    def _powers(self, seed: Seed, shape: tuple[int, ...], format_: Format) -> NDArray[Any]:
        name, part = self.tensor.name, Part.whole(shape)
        reach = min(self.magnitude, 8)
        exponents = seed.field(f"{name} exponents").below(2 * reach + 1, part).reshape(shape).astype(np.int64) - reach
        if self.every > 1:
            exponents = np.where(residues(seed.stream(f"{name} places"), shape, self.every) == 0, exponents, 0)
        exponents = np.clip(exponents, format_.emin, format_.emax)
        signs = 1 if format_.is_scale else seed.field(name).signed(1, part).reshape(shape)
        return np.asarray(signs * np.ldexp(1.0, exponents))
