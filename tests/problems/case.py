"""A shipped problem, kernels of other structures that are right, and faults of its own kind."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp import Linear


@dataclass(frozen=True)
class Case:
    """Kernels take and return NumPy arrays; each is known by what it is called here."""

    problem: Linear
    right: dict
    wrong: dict


def before(kernel, **changes):
    """The kernel on operands that were changed: each change is a function of one operand, named by its place."""

    def changed(*operands):
        operands = [x.copy() for x in operands]
        for place, change in changes.items():
            operands[int(place[1:])] = change(operands[int(place[1:])])
        return kernel(*operands)

    return changed


def put(value, *place):
    """A change that sets a part to a value."""

    def change(x):
        x[place] = value
        return x

    return change


def after(kernel, change):
    """The kernel with its result changed."""
    return lambda *operands: change(kernel(*operands))
