"""How long the sums of a program are, told by the reference itself: it adds up units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp.draw import Seed
from zeroulp.sample.recipe import WIDE, weighted
from zeroulp.sample.tensors import as_tensors
from zeroulp.sample.tuning import Units
from zeroulp.track import Program, native
from zeroulp.track.arithmetic import arithmetic_of
from zeroulp.track.dyadic import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroulp.problem import Tensor

_CONTRACT = {"storage": "float32", "accumulate": "float32", "accumulator_bits": None, "refactored": True}


def terms_of(
    reference: Callable[..., Any], operands: Sequence[Tensor], contract: dict[str, Any], seed: int, trial: int
) -> Units | None:
    """
    What sums of units leave of the bits; a guess, where a program does more than to add and to multiply.

    Args:
        reference: A function of PyTorch tensors, called with the operands in order.
        operands: What it takes.
        contract: Keywords for `zeroulp.track.track`.
        seed: Of the trial; likewise *trial*.
        trial: What indices and masks are drawn by.

    Returns:
        None if the reference cannot be run in the contract's formats, if it returns integers, or if what sums keep
        may be rounded in the end.
    """
    words = {**_CONTRACT, **contract}
    bits, refactored = words["accumulator_bits"], words["refactored"]
    arithmetic = arithmetic_of(words["storage"], words["accumulate"], bits, refactored=refactored)
    drawn = {drawing.tensor.name: drawing for drawing in WIDE.strategy(operands, WIDE.setting).drawings}
    source = Seed(seed, trial)
    values = {t.name: np.ones(t.shape) if t.number_format else drawn[t.name].values(source) for t in operands}
    units = as_tensors(operands, values)
    try:
        found = native(Program.of(reference, units, arithmetic)) or []
    except Exception:  # noqa: BLE001  (it is tracked next, and what is wrong is said then)
        return None
    named = [FORMATS.get(tensor.dtype) for tensor in found]
    formats = [format_ for format_ in named if format_ is not None]
    if not found or len(formats) < len(found) or not all(tensor.numel() for tensor in found):
        return None
    terms = max(float(tensor.abs().amax()) for tensor in found)
    budget = min(arithmetic.sum_bits(format_) for format_ in formats)
    if not 1 <= terms < math.inf or min(format_.precision for format_ in formats) < budget:
        return None
    room = math.log2(min(format_.max_finite for format_ in formats))
    return Units(math.log2(terms), budget, room, weighted(operands))
