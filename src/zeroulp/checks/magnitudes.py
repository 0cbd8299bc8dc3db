"""
Faults that depend on how large numbers are, seen in single products.

In a trial of ``one_hot`` every output is one product, so that it is known which two elements it
came from. If wrong outputs are just those whose result, or whose element of a or of b, is larger
(or smaller) than that of all right ones, the boundary is the range that the kernel has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.checks.explore import Explorer, Named
from zeroulp.judge import Differs
from zeroulp.probes import Options

if TYPE_CHECKING:
    from zeroulp.checks.bench import Observation
    from zeroulp.checks.excerpt import Excerpt
    from zeroulp.encoding import Array

_TRIALS = 15
_FEWEST = 2  # wrong products, and right ones, below which a boundary is a guess
_MANY = 30  # products on either side that do not divide by chance
_MOSTLY = 0.6  # share of products that are wrong outside a range
_TOP = "is right for single products in the middle of the range and wrong near its upper end"
_OFF = "is wrong for single products at some magnitudes: a range or a decoding is off"


@dataclass(frozen=True)
class _Products:
    """Single products: moduli of their elements and of the expected and the actual result; which are wrong."""

    a: Array
    b: Array
    expected: Array
    actual: Array
    wrong: Array


def name_by_magnitude(explorer: Explorer, failing: Observation) -> Named | None:
    """
    The name of a fault that single products show and that their magnitudes tell; None if they show none.

    Args:
        explorer: To run further trials.
        failing: What the trial that failed showed.
    """
    found, is_wrong = [], False
    for seen in explorer.observations("one_hot", Options(), _TRIALS):
        is_wrong |= isinstance(seen.outcome, Differs)
        found += _spread_products(seen)
    if failing.inputs.trial.probe == "one_hot" and failing.results:
        is_wrong |= isinstance(failing.outcome, Differs)
        found += _spread_products(failing)
    named = _name(found)
    return Named("wrong-result", _TOP) if named is None and is_wrong else named


def _spread_products(seen: Observation) -> list[_Products]:
    """Those of a trial, unless it keeps to the top of the range."""
    return [] if "a_most" in seen.inputs.trial.settings else [_products(seen.excerpt)]


def _name(found: list[_Products]) -> Named | None:
    """What these single products tell; None if none is wrong."""
    if not found:
        return None
    fields = ("a", "b", "expected", "actual", "wrong")
    together = _Products(*(np.concatenate([getattr(one, name) for one in found]) for name in fields))
    if not together.wrong.any():
        return None
    return _boundary(together) or Named("wrong-result", _OFF)


def _products(part: Excerpt) -> _Products:
    problem = part.problem
    a, b = part.magnitudes("a"), part.magnitudes("b")
    a = np.swapaxes(a, -1, -2) if problem.transpose_a else a  # (..., m, k)
    b = np.swapaxes(b, -1, -2) if problem.transpose_b else b  # (..., k, n)
    if part.inputs.trial.settings["lone"] == "a":
        k = a.argmax(axis=-1)[..., None]  # (..., m, 1)
        a, b = np.take_along_axis(a, k, -1), np.take_along_axis(b, k, -2)
    else:
        k = b.argmax(axis=-2)[..., None, :]  # (..., 1, n)
        a, b = np.take_along_axis(a, k, -1), np.take_along_axis(b, k, -2)
    results = [np.abs(encoding.decode(codes, problem.out_format)) for codes in (part.expected.codes, part.actual)]
    return _Products(*(np.broadcast_to(x, part.wrong.shape).ravel() for x in (a, b, *results, part.wrong)))


def _boundary(products: _Products) -> Named | None:
    """What separates wrong products from right ones, if anything does."""
    if min(np.count_nonzero(products.wrong), np.count_nonzero(~products.wrong)) < _FEWEST:
        return None
    features = {
        "elements of a": products.a,
        "elements of b": products.b,
        "elements of a or b": np.maximum(products.a, products.b),
        "results": products.expected,
    }
    found: list[tuple[float, Named]] = []  # the narrower the gap between right and wrong, the likelier the reason
    for what, size in features.items():
        wrong, right = size[products.wrong], size[~products.wrong]
        count = f"{products.wrong.size:,} single products"
        if wrong.min() > right.max():
            text = f"of {count}, those with {what} up to {right.max():g} are right, from {wrong.min():g} on wrong"
            named = Named("wrong-result", _above(products, what, wrong.min()), (("measured", text),))
            found.append((wrong.min() / right.max(), named))
        elif wrong.max() < right.min():
            text = f"of {count}, those with {what} from {right.min():g} on are right, up to {wrong.max():g} wrong"
            clause = f"{_returns(products.actual[products.wrong])} where {what} are {wrong.max():g} or smaller"
            found.append((right.min() / wrong.max(), Named("wrong-result", clause, (("measured", text),))))
    return min(found, key=lambda one: one[0])[1] if found else _range_of_elements(products)


def _range_of_elements(products: _Products) -> Named | None:
    """The range within which all products are right, if most of those with an element outside are wrong."""
    low, high = np.minimum(products.a, products.b), np.maximum(products.a, products.b)
    most = high[~products.wrong].max()
    small = products.wrong & (high <= most)
    least = low[small].max(initial=0.0)
    inside = (low > least) & (high <= most)
    wrong_outside = products.wrong[~inside]
    if min(np.count_nonzero(inside), wrong_outside.size) < _MANY or wrong_outside.mean() < _MOSTLY:
        return None
    clause = f"is right only while elements of a and b lie between about {least:.3g} and {most:.3g}"
    text = f"single products: {np.count_nonzero(inside):,} of such elements are all right; of the others"
    return Named("wrong-result", clause, (("measured", f"{text} {wrong_outside.mean():.0%} are wrong"),))


def _above(products: _Products, what: str, least: float) -> str:
    """The clause for products that are wrong from a size on; a limit at which elements are cut off, if that is it."""
    here = products.wrong
    others = {"elements of a": products.b, "elements of b": products.a, "results": np.ones_like(products.a)}
    if what in others:
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = products.actual[here] / others[what][here]
        if np.isfinite(limits).all() and limits.min() == limits.max() > 0:
            return f"cuts {what} off at {limits[0]:g}"
    return f"{_returns(products.actual[here])} where {what} are {least:g} or larger"


def _returns(actual: Array) -> str:
    """What stands where a wrong product should."""
    if np.isinf(actual).all():
        return "returns infinity"
    if np.isnan(actual).all():
        return "returns NaN"
    return "returns zero" if not actual.any() else "is wrong"
