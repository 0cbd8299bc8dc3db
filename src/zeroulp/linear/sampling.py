"""
Drawings of the operands: signed whole numbers, some of them zero, the same bits everywhere.

A `Recipe` says how large and how dense they are. Whether a drawing is exact is not known here: it is followed through
the reference, and the recipe chosen by what came of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.draw import Part
from zeroulp.encoding import storage_dtype
from zeroulp.formats import BY_NAME

if TYPE_CHECKING:
    from zeroulp.draw import Seed, Stream
    from zeroulp.encoding import Array
    from zeroulp.problem import Linear, Tensor

RECIPES = ("dense", "sparse", "wide", "distinct")
_CANDIDATES = 64


@dataclass(frozen=True)
class Recipe:
    """
    How operands are drawn.

    Args:
        name: ``"dense"``: whole numbers other than 0; ``"sparse"``: many zeros among them; ``"wide"``: one operand of
            large numbers, the others of 1 and -1; ``"distinct"``: inputs of numbers that are all different.
        magnitude: Numbers reach from -magnitude to magnitude, as far as the format has them.
        density: Share of elements that are not 0.
        operand: The one that is wide.
    """

    name: str
    magnitude: int = 1
    density: float = 1.0
    operand: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers that size it, for a report."""
        return {"magnitude": self.magnitude, "density": self.density, "operand": self.operand}

    @classmethod
    def of(cls, name: str, settings: dict[str, Any]) -> Recipe:
        """The recipe that a report tells of. Raises TypeError or ValueError if it is none."""
        recipe = cls(name, **settings)
        if name not in RECIPES or not 1 <= int(recipe.magnitude) <= 2**30 or not 0 < float(recipe.density) <= 1:
            raise ValueError(f"no recipe is described by {name}, {settings}")
        return recipe


def draw(problem: Linear, recipe: Recipe, seed: Seed) -> dict[str, Array]:
    """
    All operands: stored arrays of their shapes, by name.

    Exactness:
        Every number is a whole one that its format holds.
    """
    return {tensor.name: _drawn(tensor, recipe, seed).reshape(tensor.shape) for tensor in problem.tensors}


def _drawn(tensor: Tensor, recipe: Recipe, seed: Seed) -> Array:
    dtype, field, part = storage_dtype(BY_NAME[tensor.format]), seed.field(tensor.name), Part.whole((tensor.size,))
    if tensor.role == "mask":
        return np.asarray(field.chosen(0.5, part)).astype(dtype)
    if tensor.below is not None:
        if tensor.distinct:
            return seed.stream(tensor.name).permutation(tensor.below)[: tensor.size].astype(dtype)
        return np.asarray(field.below(tensor.below, part)).astype(dtype)
    limit = BY_NAME[tensor.format].exact_integer_limit
    if recipe.name == "distinct" and tensor.role == "input" and tensor.size <= 2 * limit:
        return (seed.stream(tensor.name).permutation(tensor.size) - tensor.size // 2).astype(dtype)
    is_large = recipe.name in ("dense", "sparse") or recipe.operand == tensor.name
    numbers = field.signed(min(limit, recipe.magnitude if is_large else 1), part)
    if recipe.density < 1 and tensor.role != "scalar":
        numbers = numbers * seed.field(f"{tensor.name} kept").chosen(recipe.density, part)
    return np.asarray(numbers).astype(dtype)


def changed(values: dict[str, Array], name: str, stream: Stream) -> dict[str, Array]:
    """
    The same but for two elements of one operand that are exchanged, or one that has its sign changed.

    Args:
        values: All operands.
        name: Of that operand.
        stream: Where the places come from.
    """
    array = values[name].copy()
    flat = array.reshape(-1)
    half = flat.size // 2
    places = half + stream.below(flat.size - half, (_CANDIDATES,))
    pairs = ((i, j) for i in places.tolist() for j in places.tolist() if flat[i] != flat[j])
    one, other = next(pairs, (-1, -1))
    if one >= 0:
        flat[[one, other]] = flat[[other, one]]
    elif flat.dtype == np.bool_:
        flat[places[0]] = ~flat[places[0]]
    elif not np.issubdtype(flat.dtype, np.integer):  # indices that are all the same stay as they are
        flat[places[0]] = -flat[places[0]]
    return {**values, name: array}
