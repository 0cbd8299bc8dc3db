"""
The arithmetic that fits magnitudes, densities and exponents to a budget.

Nothing here decides whether a family is exact: that is the certificate's business. A size that
does not fit is returned all the same, and the certificate says why it does not hold.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from zeroulp.exactness import Family, Lattice, budget, dyadic
from zeroulp.formats import Format, format_named
from zeroulp.probes.places import axis_of_k, looked_up

if TYPE_CHECKING:
    from zeroulp.draw import Seed
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul


def room_for_products(problem: Matmul, *, declared: bool, epilogue: int) -> int:
    """
    How many quanta the products of one output may add up to.

    Args:
        problem: The problem.
        declared: Whether the declared accumulator's budget may be used.
        epilogue: Magnitude of the elements of c and bias, in quanta.
    """
    n, _, _ = budget(problem, declared=declared)
    return max(0, n - epilogue_size(problem, epilogue)) // max(1, abs(dyadic(problem.alpha)[0]))


def epilogue_size(problem: Matmul, magnitude: int) -> int:
    """Largest |beta c| + |bias| with elements of this *magnitude*, in quanta."""
    return magnitude * (abs(dyadic(problem.beta)[0]) + int(problem.bias is not None))


def family(problem: Matmul, a: Lattice, b: Lattice, terms: int, *, epilogue: int, masked: bool = False) -> Family:
    """The family whose c and bias make beta * c and bias multiples of the products' quantum."""
    exponent = a.exponent + b.exponent + dyadic(problem.alpha)[1]
    c = Lattice(epilogue, exponent - dyadic(problem.beta)[1]) if problem.beta != 0 else None
    bias = Lattice(epilogue, exponent) if problem.bias is not None else None
    return Family(a, b, min(terms, problem.k), c, bias, masked)




def integer_limit(format_: Format) -> int:
    """Largest magnitude of an operand: every integer up to it is a number of the format."""
    return format_.exact_integer_limit


def place(
    problem: Matmul, sizes: tuple[int, int], preferred: tuple[int, int] | None, reach: int, *, least: int = 1
) -> tuple[int, int]:
    """
    Exponents of a and b that keep operands and sums in the normal range of every format.

    Args:
        problem: Formats, alpha and contract.
        sizes: Magnitudes of a and b, in quanta.
        preferred: The exponents one would choose if ranges did not matter; None: those that put
            sums into the middle of the output's range.
        reach: Largest sum, in quanta.
        least: Smallest sum other than 0, in quanta.

    Returns:
        The exponents nearest to the wished ones. (Nothing is certified here.)
    """
    if problem.a_format.is_integer or problem.b_format.is_integer:
        return 0, 0
    out = problem.out_format
    lowest = max(out.emin, format_named("float16").emin if problem.accumulate == "float16" else out.emin)
    ceiling = format_named("float16").max_finite if problem.accumulate == "float16" else out.max_finite
    highest = math.floor(math.log2(min(ceiling, out.max_finite) / max(reach, 1)))
    alpha = dyadic(problem.alpha)[1]
    if problem.beta != 0:
        lowest = max(lowest, out.emin + dyadic(problem.beta)[1])
    if problem.bias is not None:
        lowest = max(lowest, format_named(problem.bias).emin)
    lowest -= least.bit_length() - 1
    wished = (lowest + highest) // 2 if preferred is None else sum(preferred) + alpha
    total = max(lowest, min(highest, wished)) - alpha
    if preferred is None:
        preferred = (total // 2, total - total // 2)
    ranges = [_exponents(problem.a_format, sizes[0]), _exponents(problem.b_format, sizes[1])]
    a = _clamp(preferred[0], *ranges[0])
    b = _clamp(total - a, *ranges[1])
    return _clamp(total - b, *ranges[0]), b


def _exponents(format_: Format, magnitude: int) -> tuple[int, int]:
    """Smallest and largest exponent for integers of this magnitude (the smallest: for 1)."""
    return format_.emin, math.frexp(format_.max_finite / max(magnitude, 1))[1] - 1


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def blocks_of(k: int, terms: int) -> int:
    """How many blocks of at most *terms* cover k."""
    return max(1, math.ceil(k / max(1, terms)))


def keep_block(problem: Matmul, elements: Elements, seed: Seed, block: int, terms: int) -> Elements:
    """
    Zeros in b outside one block of a random partition of k, shared by all trials of a check.

    Trials over all blocks touch every k exactly once.
    """
    if terms >= problem.k:
        return elements
    order = seed.shared("partition of k").permutation(problem.k)
    kept = np.zeros(problem.k, bool)
    kept[order[block * terms : (block + 1) * terms]] = True
    axis = axis_of_k(problem, "b")
    return lambda part: elements(part) * looked_up(kept, part, axis)


def log_upper_tail(mean: float, largest: float, threshold: float) -> float:
    """
    Logarithm of a bound on P(X >= threshold), X a sum of independent terms in [0, *largest*].

    Chernoff's bound in the multiplicative form; 0 (no information) up to the mean.

    References:
        M. Mitzenmacher, E. Upfal, *Probability and Computing*, 2nd ed., theorem 4.4.
    """
    if mean <= 0:
        return -math.inf if threshold > 0 else 0.0
    mu, t = mean / largest, threshold / largest
    if t <= mu:
        return 0.0
    return t - mu - t * math.log(t / mu)


def log_two_sided_tail(terms: int, largest: float, threshold: float) -> float:
    """
    Logarithm of a bound on P(|X| > threshold), X a sum of *terms* independent symmetric terms.

    Hoeffding's inequality, each term in [-largest, largest].

    References:
        W. Hoeffding, *Probability inequalities for sums of bounded random variables*, 1963.
    """
    if terms * largest <= threshold:
        return -math.inf
    if threshold <= 0:
        return 0.0
    return min(0.0, math.log(2) - threshold**2 / (2 * terms * largest**2))


def densest(problem: Matmul, mean_at_full: float, largest: int, cap: float, room: int) -> float:
    """
    The largest density of non-zeros at which all sums stay within *room*, except with tiny probability.

    Args:
        problem: Its k and its number of outputs.
        mean_at_full: Mean of one product at density 1, in quanta.
        largest: Largest product, in quanta.
        cap: Upper limit of the density.
        room: Largest sum allowed, in quanta.

    Returns:
        A density d for which the chance that any output exceeds *room* is below 1e-9.
    """
    outputs = max(1, problem.output.size)
    allowed = math.log(1e-9 / outputs)
    if problem.k * largest <= room:
        return cap
    low, high = 0.0, cap
    for _ in range(60):
        middle = (low + high) / 2
        mean = problem.k * mean_at_full * middle**2
        fits = log_upper_tail(mean, largest, room + 1) <= allowed
        low, high = (middle, high) if fits else (low, middle)
    return math.floor(low * 2**20) / 2**20
