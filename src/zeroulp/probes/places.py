"""
Where an element stands: which axis of a stored operand is k, and tables along an axis.

An operand is drawn a few rows at a time, by whichever array library; what a probe says of an
element is a function of its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.draw import Part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.draw import Seed
    from zeroulp.encoding import Array
    from zeroulp.probes.base import Elements, Probe, Settings
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape


def axis_of_k(problem: Matmul, name: str) -> int:
    """The axis along k of a or b as it is stored: -1 or -2."""
    if name == "a":
        return -2 if problem.transpose_a else -1
    return -1 if problem.transpose_b else -2


def elements_of(problem: Matmul, probe: Probe, settings: Settings, seed: Seed, name: str) -> Elements:
    """How elements of any operand follow from their places; those of c and bias are small integers."""
    if name in ("a", "b") or getattr(probe, "draws_epilogue", False):
        return probe.elements(problem, settings, seed, name)
    numbers, most = seed.field(name), probe.family(problem, settings).lattices()[name].magnitude
    if getattr(probe, "nonnegative", False) or not most:
        return lambda part: numbers.below(most + 1, part)
    return numbers.all_signed(most)


def draw_all(
    problem: Matmul, probe: Probe, settings: Settings, seed: Seed, shapes: Mapping[str, Shape]
) -> dict[str, Array]:
    """All operands in quanta, on the host, in the *shapes* that are given by name."""
    return {
        name: elements_of(problem, probe, settings, seed, name)(Part.whole(shape)).reshape(shape)
        for name, shape in shapes.items()
    }


def looked_up(table: Array, part: Part, axis: int) -> Any:
    """Entries of a host's *table* for the place of each element along *axis*; broadcastable to (rows, columns)."""
    there = part.arrays.table(table)
    if axis == -1:
        return (there if part.columns is None else there[part.columns])[None, :]
    low = part.start % max(1, part.shape[-2])
    if part.rows is None and low + part.count <= part.shape[-2]:
        return there[low : low + part.count][:, None]
    return there[part.coordinate(axis)]


def moved_to(table: Array, part: Part, axis: int, elements: Elements) -> Any:
    """The elements that stand at ``table[i]`` along *axis*, in place of those at i."""
    there = part.arrays.table(table)
    if axis == -1:
        if part.columns is not None:
            return elements(part.at(columns=there[part.columns]))
        return part.arrays.columns(elements(part), there)
    numbers, extent = part.numbers(), part.shape[-2]
    within = numbers % extent
    return elements(part.at(numbers - within + there[within]))
