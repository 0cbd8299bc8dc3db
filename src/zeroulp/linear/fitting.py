"""
What to draw for a problem: much of the output is to be exact, and to depend on it; all bits of sums are to be used.

A few recipes are followed through the reference on drawings of their own; those that compare most are kept. Then every
operand is redrawn alone, to see what changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from zeroulp.draw import Seed
from zeroulp.linear.following import Followed, examined, resolved_by, tensors_of, tracked_on
from zeroulp.linear.sampling import Recipe, draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from zeroulp.problem import Linear
    from zeroulp.track.grades import Operation

_MAGNITUDES = (15, 3, 1)
_DENSITIES = (1 / 4, 1 / 16, 1 / 64, 1 / 256)
_TRIES = 4  # of one recipe, with ever smaller numbers
_FIRST = 1 << 32  # numbers of drawings that are no trials
_REDRAWN = 2  # how often each operand is drawn anew
_AGAIN = 4  # drawings among which one that differs is looked for
_GOOD = 0.5  # of the largest share that a recipe reaches: what changes from drawing to drawing is a sample


@dataclass(frozen=True)
class Fit:
    """
    What is drawn, and what is known of the reference.

    Args:
        problem: With its output known.
        recipes: Those to draw trials from.
        live: For each operand the share of the exact elements that changed with it.
        vacuous: Why equal bits would say nothing: (reason, remedy) pairs; empty if they do say something.
        ended: Where exactness ended, and for how many elements: sentences, in the order of the operations.
        leans: What elements lean on beside sums and products.
        demoted: What the reference itself does otherwise, in a sentence; empty if nothing.
        unchecked: Why the reference could not check itself; empty if it could.
    """

    problem: Linear
    recipes: tuple[Recipe, ...]
    live: dict[str, float]
    vacuous: tuple[tuple[str, str], ...]
    ended: tuple[str, ...] = ()
    leans: tuple[str, ...] = ()
    demoted: str = ""
    unchecked: str = ""


@dataclass(frozen=True, eq=False)
class Tried:
    """
    A recipe, and what came of a drawing.

    Args:
        recipe: How it was drawn.
        followed: What every correct kernel returns.
        alive: Share of the elements that are compared, and another number in another drawing.
    """

    recipe: Recipe
    followed: Followed
    alive: float


@dataclass
class _Fitter:
    """Recipes tried, and what came of them."""

    problem: Linear
    seed: int
    device: str
    tried: list[Tried] = field(default_factory=list)
    drawings: int = 0

    def source(self) -> Seed:
        """For the next drawing."""
        self.drawings += 1
        return Seed(self.seed, _FIRST + self.drawings)

    def try_recipe(self, recipe: Recipe) -> Followed:
        """Follow one drawing, and see what is another number in the next one."""
        tracked = tracked_on(self.problem, draw(self.problem, recipe, self.source()))
        if not self.tried:
            self.problem = resolved_by(self.problem, tracked)
        followed = examined(self.problem, tracked, self.device)
        alive = 0.0
        if followed.share:
            program = followed.tracked.program
            other = program.plain(tensors_of(self.problem, draw(self.problem, recipe, self.source())))[0]
            values = followed.tracked.outputs[0].values
            if other.shape == values.shape:
                alive = float((np.asarray((other != values).cpu()) & followed.compared).mean())
        self.tried.append(Tried(recipe, followed, alive))
        return followed

    @property
    def best(self) -> float:
        """The largest share of the output that a recipe compares."""
        return max((one.followed.share for one in self.tried), default=0.0)

    def try_all(self) -> None:
        """Dense, then sparse where that is too much, then each operand wide; distinct inputs where choices are made."""
        for magnitude in _MAGNITUDES:
            if self.try_recipe(Recipe("dense", magnitude)).share == 1:
                break
        for density in _DENSITIES if self.best < 1 else ():
            if self.try_recipe(Recipe("sparse", 1, density)).share == 1:
                break
        if self.best < 1:
            self.try_recipe(Recipe("distinct"))
        density = max(self.tried, key=lambda one: (one.alive, one.followed.share)).recipe.density
        for tensor in self.problem.tensors:
            if tensor.number_format is not None:
                self._widen(tensor.name, density)

    def _widen(self, name: str, density: float) -> None:
        """As many bits in one operand as fit beside those that the program adds."""
        format_ = next(operand.format for operand in self.problem.operands if operand.name == name)
        used = self.try_recipe(Recipe("wide", 1, density, name))
        bits = min(format_.precision, used.certificate.precision - math.ceil(used.tracked.bits))
        least = used.share
        self.tried.pop()
        for _ in range(_TRIES):
            if bits < 2:
                return
            if self.try_recipe(Recipe("wide", 2**bits - 1, density, name)).share >= least:
                return
            self.tried.pop()
            bits = bits * 2 // 3

    def kept(self) -> list[Tried]:
        """Those that compare as much that varies as any, or what no other does."""
        order = sorted(self.tried, key=lambda one: (-one.alive, -one.followed.share))
        most = order[0].alive
        seen: NDArray[np.bool_] | None = None
        found = []
        for one in order:
            compared = one.followed.compared
            adds = seen is None or bool((compared & ~seen).any())
            if one.followed.share and (adds or (one.alive and one.alive >= _GOOD * most)):
                found.append(one)
                seen = compared if seen is None else seen | compared
        return found or order[:1]


def fit(problem: Linear, seed: int, device: str = "cpu") -> Fit:
    """
    Find out what to draw.

    Args:
        problem: What is checked.
        seed: The check's seed.
        device: Where the reference checks itself.

    Raises:
        ProgramError: If the reference cannot be followed: it is random, fails in float64, returns no tensor or several.
    """
    fitter = _Fitter(problem, seed, device)
    fitter.try_all()
    kept = fitter.kept()
    live, vacuous = _liveness(fitter, kept)  # which may keep more
    union = np.logical_or.reduce([one.followed.compared for one in kept])
    ended = () if union.all() else tuple(_endings(kept[0].followed))
    leans = sorted({what for one in fitter.tried for what in one.followed.tracked.outputs[0].leans})
    demoted = next((one.followed.demoted for one in kept if one.followed.demoted), "")
    unchecked = next((one.followed.unchecked for one in kept if one.followed.unchecked), "")
    recipes = tuple(one.recipe for one in kept)
    return Fit(fitter.problem, recipes, live, vacuous, ended, tuple(leans), demoted, unchecked)


def _endings(followed: Followed) -> Iterator[str]:
    """Where exactness ended, the first of each operation."""
    seen = set()
    for ending in followed.tracked.endings:
        if ending.number not in seen:
            seen.add(ending.number)
            shape = next((o.shape for o in followed.tracked.operations if o.number == ending.number), ())
            share = ending.elements / max(1, math.prod(shape))
            yield f"{ending.sentence()} ({min(share, 1):.1%} of its elements)"


def _liveness(fitter: _Fitter, kept: list[Tried]) -> tuple[dict[str, float], tuple[tuple[str, str], ...]]:
    """What changes with each operand, and why too little does; a recipe that alone shows an operand is kept too."""
    from zeroulp import track  # noqa: PLC0415  (with PyTorch, which is there by now)

    problem = fitter.problem
    live: dict[str, float] = {}
    cuts: dict[str, Operation | None] = {}
    share, why = 0.0, ""
    for one in [*kept, *(one for one in fitter.tried if one not in kept)]:
        recipe, followed = one.recipe, one.followed
        left = [tensor.name for tensor in problem.tensors if not live.get(tensor.name)]
        if not left or followed.share == 0:
            continue
        redrawn = _redrawn(fitter, recipe, followed, left)
        found = track.liveness(followed.tracked, redrawn)
        if one not in kept and any(row.live for row in found.operands):
            kept.append(one)
        for row in found.operands:
            live[row.name], cuts[row.name] = max(row.share, live.get(row.name, 0.0)), row.cut
        share, why = max(share, found.share), why or found.vacuous
    if not live:
        return live, ()
    unread = kept[0].followed.tracked.unread
    if share < track.live.LEAST_SHARE:
        return live, ((f"vacuous: {why}", _whatever(cuts)),)
    reasons = []
    for name, changes in live.items():
        if changes == 0:
            cut = cuts[name]
            where = f"what it changes vanishes in operation {cut.number}, {cut.name}" if cut else "nothing shows it"
            where = "no operation of the reference reads it" if name in unread else where
            reasons.append((f"vacuous: operand {name} never matters: {where}", "leave it out, or mend the reference"))
    return live, tuple(reasons)


def _redrawn(fitter: _Fitter, recipe: Recipe, followed: Followed, names: list[str]) -> dict[str, list[object]]:
    """Other drawings of operands, as far as they can be drawn otherwise."""
    problem = fitter.problem
    found: dict[str, list[object]] = {name: [] for name in names}
    for _ in range(_REDRAWN * _AGAIN):
        drawn = tensors_of(problem, draw(problem, recipe, fitter.source()))
        for name in names:
            other = drawn[name]
            if len(found[name]) < _REDRAWN and bool((other != followed.tracked.program.operands[name]).any()):
                found[name].append(other)
        if all(len(drawings) == _REDRAWN for drawings in found.values()):
            break
    return {name: drawings for name, drawings in found.items() if drawings}


def _whatever(cuts: dict[str, Operation | None]) -> str:
    cut = max((cut for cut in cuts.values() if cut is not None), key=lambda cut: cut.number, default=None)
    if cut is None:
        return "mend the reference: what it returns does not depend on what it is given"
    return f"mend the reference at {cut.name}, if that is not what it is for; any kernel that returns this passes"
