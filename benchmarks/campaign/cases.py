"""
The space of correct kernels and problems, drawn one choice at a time.

A `Chooser` answers two questions: one of these, and a whole number from here to there. A random
generator answers at random; hypothesis answers so that a failing case can be made smaller: what
stands first, and small numbers, are simple.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.campaign.families import FAMILIES
from benchmarks.campaign.kernels import EPILOGUES, RETURNS, Kernel
from benchmarks.campaign.units import Unit

import zeroulp
from zeroulp import Matmul, Report, UsageError
from zeroulp.probes import TABLE
from zeroulp.problem import LAYOUTS

_MOST_PRODUCTS = 120_000  # of one call, so that it takes a few milliseconds


class Chooser(Protocol):
    """Who decides."""

    def of(self, options):
        """One of *options*; the first is the simplest."""

    def whole(self, low, high):
        """A whole number from *low* to *high*; small is simple."""


class Dice:
    """Choices at random, the same for the same seed."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def of(self, options):
        return self._random.choice(list(options))

    def whole(self, low, high):
        return self._random.randint(low, high)


@dataclass(frozen=True)
class Case:
    """One check: a kernel that keeps its contract (unless it has a fault), its problem and the options."""

    family: str
    problem: Matmul
    kernel: Kernel
    seed: int
    options: dict[str, object] = field(default_factory=dict)

    def check(self) -> Report:
        """The verdict on a fresh kernel."""
        return zeroulp.check(
            dataclasses.replace(self.kernel),
            self.problem,
            seed=self.seed,
            framework="numpy",
            destination_passing=self.kernel.writes,
            **self.options,
        )

    def faulty(self, fault: str) -> Case:
        """The same case with a kernel that does one thing wrong."""
        return dataclasses.replace(self, kernel=dataclasses.replace(self.kernel, fault=fault))

    def reproduction(self) -> str:
        """Python that runs it again."""
        return (
            "from zeroulp import Matmul\nfrom benchmarks.campaign import Arithmetic, Case, Kernel, Sum, Unit\n"
            f"print({self!r}.check())"
        )


def draw_case(choose: Chooser, family: str | None = None) -> Case | None:
    """A case of a family (default: any); None if the choices contradict each other."""
    name = family or choose.of(FAMILIES)
    sketch = FAMILIES[name]
    try:
        problem = _problem(choose, sketch)
    except UsageError:
        return None
    drawn = sketch.kernel(choose, problem)
    if drawn is None:
        return None
    order, arithmetic, more = drawn
    options = _options(choose)
    if problem.subnormals == "flush":
        more = {"flush": "both"} | more
    kernel = Kernel(
        problem,
        order,
        arithmetic,
        epilogue=_epilogue(choose, problem, order),
        by_single=_by_single(choose, problem, arithmetic),
        ties=choose.of(("even", "away", "zero")) if problem.rounding == "ties-either" else "even",
        saturates=_saturates(choose, problem),
        negative_zeros=problem.signed_zero == "either" and choose.of((False, False, True)),
        returns=choose.of(RETURNS),
        pads=choose.of((0, 0, 0, 4, 16)) if problem.k else 0,
        writes=choose.of((False, True)),
        **more,
    )
    return Case(name, problem, kernel, choose.whole(0, 2**40), options)


def _problem(choose, sketch) -> Matmul:
    a, b, out = sketch.formats(choose)
    m, n = (_size(choose, 70) for _ in range(2))
    batch = choose.of(((), (), (), (), (2,), (1,), (2, 3), (3, 1)))
    count = 1
    for size in batch:
        count *= size
    longest = max(1, min(300, _MOST_PRODUCTS // max(1, m * n * count), sketch.longest // max(1, m * n * count)))
    k = _size(choose, longest)
    accumulates, bits = sketch.accumulators(choose, a, b, out)
    changes: dict[str, object] = {}
    if choose.of((False, False, True)):
        changes = {
            "alpha": choose.of((1, 0.5, -1, 2, 3, -0.75, 2.0**-6, 0, 5)),
            "beta": choose.of((0, 1, -2, 0.25, 3)),
            "bias": choose.of((None, "float32", "float16", "bfloat16", "out")),
        }
        if changes["bias"] == "out" or "int" in a + b + out:
            changes["bias"] = (out or None) if changes["bias"] else None
        if "int" in a + b + out:
            changes |= {"alpha": choose.of((1, -1, 2, 3)), "beta": choose.of((0, 1, -2))}
    problem = Matmul(
        m,
        n,
        k,
        batch=batch,
        a=a,
        b=b,
        out=out,
        accumulate=accumulates,
        accumulator_precision=bits,
        transpose_a=choose.of((False, True)),
        transpose_b=choose.of((False, True)),
        rounding=choose.of(("ties-to-even", "ties-to-even", "ties-either")),
        subnormals=choose.of(sketch.subnormals),
        signed_zero=choose.of(("either", "either", "strict")) if sketch.keeps_zero_signs else "either",
        nonfinite=choose.of(("propagate", "ieee", "ignore") if sketch.keeps_infinities else ("propagate", "ignore")),
        saturate=choose.of((None, False, True) if sketch.keeps_infinities else (None, False)),
        **changes,
    )
    return problem.replace(layouts=_layouts(choose, problem))


def _size(choose, most):
    """Ragged sizes, small ones more often, none at times."""
    most = choose.of((min(most, 3), min(most, 12), min(most, 33), most))
    return choose.whole(0 if choose.whole(0, 39) == 39 else 1, most)


def _layouts(choose, problem):
    kind = choose.of(("contiguous", "any", "any", "one", "each"))
    if kind in ("contiguous", "any"):
        return kind
    if kind == "one":
        return choose.of(tuple(LAYOUTS))
    flat = [name for name, layout in LAYOUTS.items() if not layout.broadcast]
    each = {operand.name: choose.of(tuple(LAYOUTS)) for operand in problem.operands}
    return each | {"out": choose.of(flat)}


def _options(choose):
    options: dict[str, object] = {}
    kind = choose.of(("default", "default", "default", "probes", "trials", "repeat", "zeros", "race"))
    if kind == "probes":
        options["probes"] = list(dict.fromkeys(choose.of(tuple(TABLE)) for _ in range(choose.whole(1, 4))))
    elif kind == "trials":
        options["trials"] = choose.whole(1, 4)
    elif kind == "repeat":
        options["repeat"] = choose.whole(0, 5)
    elif kind == "zeros":
        options |= {"p_zero": choose.of((0.5, 0.0, 0.9, 0.25)), "escape_probability": choose.of((1e-3, 1e-6, 1e-12))}
    elif kind == "race":
        options |= {"race_rate": choose.of((0.9, 0.6)), "escape_probability": 1e-3}
    return options


def _epilogue(choose, problem, order):
    if "int32" in (problem.accumulate, problem.out):
        return "after"
    return choose.of(EPILOGUES[:2] if isinstance(order, Unit) else EPILOGUES)


def _saturates(choose, problem):
    """Narrow outputs may overflow to either, where nothing is said."""
    if problem.saturate is None and problem.out_format.bits <= 8:
        return choose.of((False, True))
    return bool(problem.saturate)


def _by_single(choose, problem, arithmetic):
    """Only sums that float32 may not hold exactly make a difference; they may go by it to 16 bits or fewer."""
    out = problem.out_format
    return out.bits <= 16 and not out.is_integer and arithmetic.name != "float16" and choose.of((False, True))
