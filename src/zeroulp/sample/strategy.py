"""A strategy: how all operands of a kernel are drawn together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zeroulp.draw import Seed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zeroulp.sample.coverage import Coverage
    from zeroulp.sample.drawing import Drawing


@dataclass(frozen=True)
class Strategy:
    """
    How all operands of a kernel are drawn.

    Args:
        name: Of the recipe that it was made by.
        purpose: What it shows that others do not.
        drawings: One for each operand, in the order of the reference's arguments.
        coverage: What a tracked run on one trial of it saw; None: it was not run.
        trial: The number of that trial.
        settings: The numbers that size it, as `zeroulp.sample.strategy_of` takes them.
    """

    name: str
    purpose: str
    drawings: tuple[Drawing, ...]
    coverage: Coverage | None = None
    trial: int = 0
    settings: dict[str, Any] = field(default_factory=dict)

    def values(self, seed: int, trial: int) -> dict[str, NDArray[Any]]:
        """
        The operands of one trial.

        Args:
            seed: Of the check, 64 bits.
            trial: Its number.

        Returns:
            By name, in order: float64, each element exactly a number of the operand's format; int64 of indices and
            of integer formats; bool of masks. The same bits for the same numbers, on every machine.

        Exactness:
            Coverage is of the trial that was tracked. Others have as many non-zeros of as large a magnitude, in
            other places; what is exact in one of them a tracked run of that one says.
        """
        drawn = Seed(seed, trial)
        return {drawing.tensor.name: drawing.values(drawn) for drawing in self.drawings}
