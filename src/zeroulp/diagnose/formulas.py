"""
From differences to a sentence: what would a kernel have to do wrong to return these bits?

Each hypothesis is another formula. It is tried at a few positions first, rounded as the
reference is, and if it gives the kernel's bits at all of them, it is tried everywhere. This is
advice: a verdict never depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from zeroulp import encoding
from zeroulp.reference import exact_product

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zeroulp.diagnose.case import Case
    from zeroulp.encoding import Array

Formula: TypeAlias = "Callable[[Array, Array], Changed]"

_WRONG_SAMPLES, _RIGHT_SAMPLES = 32, 8
_FEWEST_SAMPLES, _SAMPLED = 10, 2**22  # wrong outputs of a part with long sums, and products of all that are sampled
_FEWEST = 3  # wrong outputs below which an explanation may be a coincidence
_TILES = (4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class Changed:
    """
    Operands as a wrong formula has them, k last.

    Args:
        a: Elements in place of a's, in quanta of a.
        b: Elements in place of b's, in quanta of b.
        exponent: Base-2 exponent of a further factor of every product.
        keeps_rest: Whether the epilogue is added.
    """

    a: Array
    b: Array
    exponent: int = 0
    keeps_rest: bool = True

    def combine(self, products: Array, rest: Array) -> tuple[Array, int]:
        """Sum of products and epilogue in quanta 2**finer times finer, and *finer*."""
        finer = max(0, -self.exponent)
        total = products << max(0, self.exponent)
        return total + (rest << finer if self.keeps_rest else 0), finer


@dataclass(frozen=True)
class _Samples:
    """Rows of a and columns of b, (s, k) each, with result and remainder at s positions; the *wrong* ones first."""

    rows: Array
    columns: Array
    total: Array
    rest: Array
    actual: Array
    wrong: slice
    exponent: int | Array


def explain(case: Case) -> str:
    """What the kernel seems to compute instead, in a clause; an empty string if nothing fits."""
    if case.problem.k == 0 or not case.wrong.any():
        return ""
    clamp = explain_clamp([case])
    if clamp:
        return clamp
    samples = _sample(case)
    for found in (_lone_products, _nothing, _ranges_of_k):
        sentence = found(case, samples)
        if sentence:
            return sentence
    for sentence, formula in _formulas(case):
        changed = formula(samples.rows, samples.columns)
        total = case.scale * np.sum(changed.a * changed.b, axis=-1)
        fits = case.agrees(*changed.combine(total, samples.rest), samples.actual, samples.exponent)
        fits = fits[samples.wrong] if case.is_part else fits  # a large result is often wrong in one place alone
        if fits.all() and _holds(case, formula):
            return sentence
    return ""


def explain_clamp(cases: Sequence[Case], *, fewest: int = _FEWEST) -> str:
    """
    Results cut off at one value: all that are wrong in all *cases* are ± that value, and should lie beyond it.

    Args:
        cases: Trials of one problem, right or wrong.
        fewest: How many wrong outputs there must be.
    """
    wrong, expected = [], []
    for case in cases:
        wrong.append(encoding.decode(case.actual, case.problem.out_format)[case.wrong])
        expected.append(case.exact[case.wrong])
    values, exact = np.concatenate(wrong), np.concatenate(expected)
    if len(values) < fewest or not np.isfinite(values).all():
        return ""
    limit = float(np.abs(values).max())
    if cases[0].problem.out_format.is_integer and (values == 1 - limit).any():
        return ""  # no: of the two ends of two's complement the negative one is the larger
    ends = np.isin(values, (limit, -limit))
    if cases[0].problem.out_format.is_integer:
        ends |= (values == limit - 1) & ~(values == limit).any()  # two's complement goes one further down
    beyond = (np.abs(exact) > np.abs(values)) & (np.sign(exact) == np.sign(values))
    if limit == 0 or not ends.all() or not beyond.all():
        return ""
    positive = values[values > 0]
    return f"cuts results off at {positive[0] if positive.size else limit:g}"


def explain_fractions(cases: Sequence[Case]) -> str:
    """Whether operands lose their fractions: the clause, if that gives all the kernel's bits in all *cases*."""
    if not cases or any(case.exponents is not None for case in cases) or not any(case.wrong.any() for case in cases):
        return ""
    ways = (("truncates", _truncated), ("rounds", _to_nearest))
    for names in ("a", "b", "ab"):
        for verb, change in ways:
            if all(_agrees_with_whole(case, names, change) for case in cases):
                return f"{verb} {' and '.join(names)} to whole numbers"
    return ""


def _agrees_with_whole(case: Case, names: str, change: Callable[[Array, int], Array]) -> bool:
    """Whether the kernel's bits are those of the product of operands without fractions."""
    a, b = case.oriented()
    a = change(a, -case.family.a.exponent) if "a" in names else a
    b = change(b, -case.family.b.exponent) if "b" in names else b
    total = case.rest() + case.scale * exact_product(a, np.swapaxes(b, -1, -2), 2**62)
    return bool(case.agrees(total, 0, case.actual).all())


def _truncated(x: Array, places: int) -> Array:
    """Integers in quanta of 2**-places, moved toward zero to a whole number."""
    places = max(0, places)
    return np.asarray(np.sign(x) * (np.abs(x) >> places << places))


def _to_nearest(x: Array, places: int) -> Array:
    """The same to the nearest one, ties to even."""
    places = max(0, places)
    return np.asarray(np.rint(np.ldexp(x.astype(np.float64), -places)).astype(np.int64) << places)


def _sample(case: Case) -> _Samples:
    most = _WRONG_SAMPLES
    if case.is_part:
        most = max(_FEWEST_SAMPLES, min(most, _SAMPLED // max(1, case.problem.k)))
    wrong = _spread(np.argwhere(case.wrong), most)
    places = np.concatenate([wrong, _spread(np.argwhere(~case.wrong), _RIGHT_SAMPLES)])
    index = tuple(places.T)
    batch, row, column = index[:-2], index[-2], index[-1]
    at_row, at_column = (*batch, row), (*batch, column)
    a, b = case.oriented()
    rows, columns = a[at_row], b[at_column]
    total = case.total[index]
    rest = total - case.scale * np.sum(rows * columns, axis=-1)
    exponent = case.exponent if case.exponents is None else np.broadcast_to(case.exponents, case.total.shape)[index]
    return _Samples(rows, columns, total, rest, case.actual[index], slice(0, len(wrong)), exponent)


def _spread(places: Array, most: int) -> Array:
    """Some of the places, in no step with rows or columns: multiples of the golden ratio, modulo their number."""
    steps = np.arange(min(most, len(places))) * ((5**0.5 - 1) / 2) % 1
    chosen: Array = places[np.unique((steps * len(places)).astype(int))]
    return chosen


def _fits(case: Case, samples: _Samples, candidates: Array) -> Array:
    """Which columns of *candidates*, (wrong samples, c) results in quanta, give the kernel's bits in every row."""
    exponent = samples.exponent
    if not isinstance(exponent, int):
        exponent = exponent[samples.wrong, None]
    actual = np.broadcast_to(samples.actual[samples.wrong, None], candidates.shape)
    return np.asarray(case.agrees(candidates, 0, actual, exponent).all(axis=0))


def _lone_products(case: Case, samples: _Samples) -> str:
    """One product left out or added twice, the same k in every wrong output."""
    products = case.scale * samples.rows * samples.columns
    wrong = samples.wrong
    if np.count_nonzero(products.any(axis=0)) < 2:  # it is all there is: no product in particular
        return ""
    few = np.count_nonzero(case.wrong) < _FEWEST
    for sign, verb in ((-1, "leaves out"), (1, "counts twice")):
        candidates = samples.total[wrong, None] + sign * products[wrong]
        fits = _fits(case, samples, candidates)
        if np.count_nonzero(fits) == 1:
            k = int(np.argmax(fits))
            a, b = case.oriented()
            total = case.total + sign * case.scale * a[..., :, None, k] * b[..., None, :, k]
            if not case.agrees(total, 0, case.actual)[case.wrong].all():
                continue
            last = ", the last one" if k == case.problem.k - 1 else ""
            product = f"the product k = {k} of {case.problem.k}{last}"
            return f"is off by {product}" if few else f"{verb} {product}"
    return ""


def _nothing(case: Case, samples: _Samples) -> str:
    """Zeros, or the epilogue alone."""
    if not _fits(case, samples, samples.rest[samples.wrong, None]).all():
        return ""
    return "returns the epilogue alone, without the product" if samples.rest.any() else "returns zeros"


def _ranges_of_k(case: Case, samples: _Samples) -> str:
    """
    All products before or from some k on left out.

    Of the many partial sums of a long sum some come close to any one result by chance; in a part
    of a large result there are to be so many wrong ones that none comes close to all of them.
    """
    k = case.problem.k
    if case.is_part and np.count_nonzero(case.wrong) < k.bit_length():
        return ""
    head = np.cumsum(case.scale * samples.rows * samples.columns, axis=-1)
    wrong = samples.wrong
    stops = _fits(case, samples, samples.rest[wrong, None] + head[wrong])
    if stops[:-1].any():
        first = int(np.argmax(stops)) + 1
        return f"leaves out the products from k = {first} on, {k - first} of {k}"
    starts = _fits(case, samples, samples.total[wrong, None] - head[wrong])
    if starts[:-1].any():
        return f"leaves out the first {int(np.argmax(starts)) + 1} of {k} products"
    return ""


def _formulas(case: Case) -> Iterator[tuple[str, Formula]]:
    """Other formulas for the sum, each with the clause that says it."""
    k, family = case.problem.k, case.family
    yield "multiplies by a twice: a*a*b", lambda a, b: Changed(a * a, b, family.a.exponent)
    yield "multiplies by b twice: a*b*b", lambda a, b: Changed(a, b * b, family.b.exponent)
    yield "uses the absolute value of a", lambda a, b: Changed(abs(a), b)
    yield "uses the absolute value of b", lambda a, b: Changed(a, abs(b))
    yield "uses the absolute values of a and b", lambda a, b: Changed(abs(a), abs(b))
    yield "has the wrong sign", lambda a, b: Changed(-a, b)
    yield "takes negative elements of a as zero", lambda a, b: Changed(np.maximum(a, 0), b)
    yield "takes negative elements of b as zero", lambda a, b: Changed(a, np.maximum(b, 0))
    if case.problem.a_format.is_integer and case.problem.b_format.is_integer:
        ends = [-format_.max_significand for format_ in (case.problem.a_format, case.problem.b_format)]
        yield f"takes {ends[0] - 1} in a for {ends[0]}", lambda a, b: Changed(np.maximum(a, ends[0]), b)
        yield f"takes {ends[1] - 1} in b for {ends[1]}", lambda a, b: Changed(a, np.maximum(b, ends[1]))
        both = f"takes {ends[0] - 1} in a for {ends[0]} and {ends[1] - 1} in b for {ends[1]}"
        yield both, lambda a, b: Changed(np.maximum(a, ends[0]), np.maximum(b, ends[1]))
    yield "leaves out the epilogue (c or bias)", lambda a, b: Changed(a, b, keeps_rest=False)
    for tile in _TILES:
        if tile < k:
            start = (k - 1) // tile * tile
            for name in ("a", "b"):
                clause = f"reads an old tile of {name} for the last {k - start} of {k} products (tiles of {tile})"
                yield clause, _stale(name, start, tile)


def _stale(name: str, start: int, tile: int) -> Formula:
    def formula(a: Array, b: Array) -> Changed:
        changed = (a if name == "a" else b).copy()
        changed[..., start:] = changed[..., start - tile : start - tile + changed.shape[-1] - start]
        return Changed(changed, b) if name == "a" else Changed(a, changed)

    return formula


def _holds(case: Case, formula: Formula) -> bool:
    """Whether the formula gives the kernel's bits: at every wrong position, and at all if those are few."""
    a, b = case.oriented()
    rest = case.rest()
    changed = formula(a, b)
    products = case.scale * exact_product(changed.a, np.swapaxes(changed.b, -1, -2), 2**62)
    agree = case.agrees(*changed.combine(products, rest), case.actual)
    return bool(agree.all() or (agree[case.wrong].all() and np.count_nonzero(case.wrong) >= _FEWEST))
