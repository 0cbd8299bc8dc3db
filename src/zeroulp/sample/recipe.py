"""Recipes: how operands of each role are drawn together, and the settings that make a program use its bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zeroulp.sample.drawing import Drawing, Kind
from zeroulp.sample.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zeroulp.problem import Tensor

TERMS = (0.0, 64.0, 16.0, 8.0, 4.0, 2.0, 1.0, 1 / 4, 1 / 16)
"""Non-zeros in a row of a weight, from as many as there are (0) to fewer than one."""

_NEVER = 1 << 30


@dataclass(frozen=True)
class Setting:
    """
    What is tuned.

    Args:
        terms: Index into `TERMS`: how many non-zeros a row of a weight has.
        every: Of so many elements of an input one is not zero.
        magnitude: Largest modulus of inputs and biases.
        step: Odd number that inputs and biases are multiples of.
    """

    terms: int = 0
    every: int = 1
    magnitude: int = 1
    step: int = 1


@dataclass(frozen=True)
class Recipe:
    """
    How operands of each role are drawn.

    Args:
        name: For reports.
        purpose: What it shows that others do not.
        inputs: Kind of inputs, scalars and biases.
        weights: Kind of weights whose rows are longer than 1.
        setting: Where tuning starts.
        unique: Whether indices occur once.
        lone: Whether biases are left out, so that a sum may be a single product.
        fills: Whether magnitudes are raised until the bits of sums are used.
    """

    name: str
    purpose: str
    inputs: Kind = Kind.SIGNED
    weights: Kind = Kind.SIGNED
    setting: Setting = Setting()
    unique: bool = False
    lone: bool = False
    fills: bool = True

    def strategy(self, operands: Sequence[Tensor], setting: Setting) -> Strategy:
        """The strategy of one setting."""
        return Strategy(self.name, self.purpose, tuple(self._drawing(tensor, setting) for tensor in operands))

    def _drawing(self, tensor: Tensor, setting: Setting) -> Drawing:
        if tensor.role in {"index", "mask"}:
            return Drawing(tensor, unique=self.unique)
        if row_length(tensor) > 1:
            return Drawing(tensor, self.weights, every=_sparsity(tensor, setting.terms))
        every = setting.every if tensor.shape else 1
        if tensor.role == "weight" and self.lone:
            return Drawing(tensor, every=_NEVER)
        magnitude = setting.magnitude
        if self.inputs is Kind.DISTINCT:
            return Drawing(tensor, self.inputs, magnitude if magnitude > 1 else 0, step=setting.step)
        return Drawing(tensor, self.inputs, magnitude, every, setting.step)

    def multiples(self, step: int) -> Recipe:
        """The same, of multiples of an odd number."""
        purpose = "quotients of averages are exact"
        return replace(self, name=f"{self.name}, multiples", purpose=purpose, setting=replace(self.setting, step=step))

    def apart(self) -> Recipe:
        """The same with indices that occur once."""
        return replace(self, name=f"{self.name}, no index twice", unique=True)


def row_length(tensor: Tensor) -> int:
    """
    How many elements of a weight meet in one sum, at least: a row of it, or a column, whichever is shorter.

    1 of a bias or a scale, whatever its shape, and of what is no weight.
    """
    if tensor.role != "weight" or not tensor.shape:
        return 1
    return max(1, min(tensor.size // max(1, tensor.shape[0]), tensor.size // max(1, tensor.shape[-1])))


def _sparsity(tensor: Tensor, terms: int) -> int:
    wanted = TERMS[terms]
    return 1 if not wanted else max(1, round(row_length(tensor) / wanted))


_LONE = TERMS.index(1.0)

SIGNED = Recipe("signed", "dense sums of both signs")
NONNEGATIVE = Recipe("nonnegative", "nothing is cut off by relu and its like", Kind.NONNEGATIVE, Kind.NONNEGATIVE)
SPARSE = Recipe("sparse", "few terms: deep programs stay within the bits", setting=Setting(TERMS.index(4.0)))
SPARSE_NONNEGATIVE = replace(
    NONNEGATIVE, name="sparse nonnegative", purpose="few terms, none cut off", setting=Setting(TERMS.index(4.0))
)
SINGLE = Recipe(
    "single",
    "one product behind each element: constants of many bits stay exact",
    Kind.POWERS,
    setting=Setting(_LONE),
    lone=True,
    fills=False,
)
SINGLE_NONNEGATIVE = replace(
    NONNEGATIVE,
    name="single nonnegative",
    purpose="one product behind each element, none cut off",
    setting=Setting(_LONE),
    lone=True,
    fills=False,
)
DISTINCT = Recipe("distinct", "no ties where places are chosen", Kind.DISTINCT, setting=Setting(_LONE), fills=False)
POWERS = Recipe("powers", "products of many factors cost no bits", Kind.POWERS, setting=Setting(_LONE), fills=False)
