"""Recipes: how operands of each role are drawn together, and the settings that make a program use its bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zeroulp.sample.drawing import Drawing, Kind
from zeroulp.sample.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zeroulp.problem import Tensor

TERMS = (0.0, 64.0, 16.0, 8.0, 4.0, 2.0, 1.0, 1 / 4, 1 / 16)
"""Non-zeros in a row of a weight, from as many as there are (0) to fewer than one."""

LARGEST_STEP = 1 << 12
"""Odd numbers that operands are multiples of are no larger."""

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
        operand: Of a recipe that is wide: the one operand that has this magnitude, others having 1; empty: none.
    """

    terms: int = 0
    every: int = 1
    magnitude: int = 1
    step: int = 1
    operand: str = ""

    def __post_init__(self) -> None:
        limits = {"terms": len(TERMS) - 1, "every": 1 << 30, "magnitude": 1 << 30, "step": LARGEST_STEP}
        for name, most in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not (name != "terms") <= value <= most:
                raise ValueError(f"{name}={value!r} is no setting of a recipe")
        if not self.step % 2 or not isinstance(self.operand, str):
            raise ValueError(f"step={self.step!r} and operand={self.operand!r} are no settings of a recipe")


@dataclass(frozen=True)
class Recipe:
    """
    How operands of each role are drawn.

    Args:
        name: For reports: letters and underscores.
        purpose: What it shows that others do not.
        inputs: Kind of inputs, scalars and biases.
        weights: Kind of weights whose rows are longer than 1.
        setting: Where tuning starts.
        unique: Whether indices occur once.
        lone: Whether biases are left out, so that a sum may be a single product.
        fills: Whether magnitudes are raised until the bits of sums are used.
        wide: Whether that is done to one operand at a time.
    """

    name: str
    purpose: str
    inputs: Kind = Kind.SIGNED
    weights: Kind = Kind.SIGNED
    setting: Setting = Setting()
    unique: bool = False
    lone: bool = False
    fills: bool = True
    wide: bool = False

    def strategy(self, operands: Sequence[Tensor], setting: Setting, trial: int = 0) -> Strategy:
        """The strategy of one setting; *trial*: the one that is tracked."""
        drawings = tuple(self._drawing(tensor, setting) for tensor in operands)
        return Strategy(self.name, self.purpose, drawings, trial=trial, settings=dict(vars(setting)))

    def _drawing(self, tensor: Tensor, setting: Setting) -> Drawing:
        if tensor.role in {"index", "mask"}:
            return Drawing(tensor, unique=self.unique)
        alone = setting.operand == tensor.name
        if row_length(tensor) > 1:
            magnitude = setting.magnitude if alone else 1
            return Drawing(tensor, self.weights, magnitude, every=_sparsity(tensor, setting.terms))
        every = setting.every if tensor.shape else 1
        if tensor.role == "weight" and self.lone:
            return Drawing(tensor, every=_NEVER)
        magnitude = setting.magnitude if alone or not self.wide else 1
        if self.inputs is Kind.DISTINCT:
            return Drawing(tensor, self.inputs, magnitude if magnitude > 1 else 0, step=setting.step)
        return Drawing(tensor, self.inputs, magnitude, every, setting.step)

    def multiples(self, step: int) -> Recipe:
        """The same, of multiples of an odd number."""
        purpose = "quotients of averages are exact"
        return replace(self, name=f"{self.name}_multiples", purpose=purpose, setting=replace(self.setting, step=step))

    def apart(self) -> Recipe:
        """The same with indices that occur once."""
        return replace(self, name=f"{self.name}_apart", unique=True)


def row_length(tensor: Tensor) -> int:
    """
    How many elements of a weight meet in one sum, at least: a row of it, or a column, whichever is shorter.

    1 of a bias or a scale, whatever its shape, and of what is no weight.
    """
    if tensor.role != "weight" or not tensor.shape:
        return 1
    return max(1, min(tensor.size // max(1, tensor.shape[0]), tensor.size // max(1, tensor.shape[-1])))


def weighted(operands: Sequence[Tensor]) -> bool:
    """Whether there are weights whose rows are summed over."""
    return any(row_length(tensor) > 1 for tensor in operands)


def _sparsity(tensor: Tensor, terms: int) -> int:
    wanted = TERMS[terms]
    return 1 if not wanted else max(1, round(row_length(tensor) / wanted))


_LONE = TERMS.index(1.0)

WIDE = Recipe(
    "wide", "no term is zero, all bits of one operand", Kind.NONZERO, Kind.NONZERO, fills=False, wide=True
)
WIDE_NONNEGATIVE = replace(WIDE, name="wide_nonnegative", inputs=Kind.NONNEGATIVE, weights=Kind.NONNEGATIVE)
SIGNED = Recipe("signed", "dense sums of both signs")
TERNARY = replace(SIGNED, name="ternary", purpose="zeros and equal numbers, where numbers are compared", fills=False)
NONNEGATIVE = Recipe("nonnegative", "nothing is cut off by relu and its like", Kind.NONNEGATIVE, Kind.NONNEGATIVE)
SPARSE = Recipe("sparse", "few terms: deep programs stay within the bits", setting=Setting(TERMS.index(4.0)))
SPARSE_NONNEGATIVE = replace(
    NONNEGATIVE, name="sparse_nonnegative", purpose="few terms, none cut off", setting=Setting(TERMS.index(4.0))
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
    name="single_nonnegative",
    purpose="one product behind each element, none cut off",
    setting=Setting(_LONE),
    lone=True,
    fills=False,
)
DISTINCT = Recipe("distinct", "no ties where places are chosen", Kind.DISTINCT, setting=Setting(_LONE), fills=False)
POWERS = Recipe("powers", "products of many factors cost no bits", Kind.POWERS, setting=Setting(_LONE), fills=False)

_DENSE = (WIDE, WIDE_NONNEGATIVE, SIGNED, TERNARY, NONNEGATIVE, DISTINCT, POWERS)
_FEW = (SPARSE, SPARSE_NONNEGATIVE, SINGLE, SINGLE_NONNEGATIVE)
_VARIANTS = [v for one in (*_DENSE, *_FEW) for v in (one, one.apart(), one.multiples(1), one.multiples(1).apart())]
BY_NAME = {recipe.name: recipe for recipe in _VARIANTS}
"""All recipes, as strategies are called."""


def strategy_of(name: str, settings: Mapping[str, Any], operands: Sequence[Tensor]) -> Strategy:
    """
    The strategy that was called this.

    Args:
        name: `Strategy.name`.
        settings: `Strategy.settings`.
        operands: What the kernel takes, in order.

    Raises:
        ValueError: If there is none such for these operands; TypeError: if that are no settings.
    """
    recipe, setting = BY_NAME.get(name), Setting(**settings)
    names = [tensor.name for tensor in operands if tensor.number_format is not None]
    if recipe is None or setting.operand not in ("", *names) or (setting.operand and not recipe.wide):
        raise ValueError(f"no operands are drawn by {name}, {dict(settings)}")
    return recipe.strategy(operands, setting)
