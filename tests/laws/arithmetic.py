"""
Rounding and summation on fractions, written down once more and without the library.

A `Store` is a place where a sum can lie: significand bits, smallest exponent, largest number. A
node of a summation tree adds its children exactly and rounds in some mode, or aligns and
truncates them first as matrix units do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

MODES = ("nearest-even", "toward-zero", "up", "down", "away")


@dataclass(frozen=True)
class Store:
    precision: int
    emin: int
    largest: Fraction
    flushes: bool = False


def store_of(format_, precision=None, *, flushes=False):
    if format_.is_integer:
        return Store(64, 0, Fraction(format_.max_significand))
    return Store(precision or format_.precision, format_.emin, Fraction(format_.max_finite), flushes)


def power(exponent):
    return Fraction(2) ** exponent


def floor_log2(x):
    """floor(log2(|x|)) for x != 0, exactly."""
    x = abs(x)
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if x >= power(guess) else guess - 1


def to_integer(x, mode):
    if mode == "nearest-even":
        return round(x)
    away = math.ceil(abs(x)) * (1 if x > 0 else -1)
    return {"toward-zero": math.trunc(x), "up": math.ceil(x), "down": math.floor(x), "away": away}[mode]


def rounded(x, store, mode="nearest-even"):
    """x in the store; an infinity of its sign where it does not fit."""
    if x == 0:
        return x
    exponent = max(floor_log2(x), store.emin)
    if store.flushes and abs(x) < power(store.emin):
        return Fraction(0)
    quantum = power(exponent - store.precision + 1)
    result = to_integer(x / quantum, mode) * quantum
    return result if abs(result) <= store.largest else math.inf * (1 if x > 0 else -1)


def aligned_sum(children, exponents, fraction_bits, store, mode):
    """Children cut toward zero to a grid below the largest exponent, added exactly, rounded once."""
    grid = power(max(exponents) - fraction_bits)
    return rounded(sum(math.trunc(x / grid) * grid for x in children), store, mode)


def random_tree(terms, stores, fraction_bits, random):
    """
    The sum of *terms* by a random tree: any arity, products rounded or fused, chains and aligned
    units, each node in one of *stores*. A term is (value, exponent of its unnormalised product).
    """
    nodes = []
    for value, exponent in terms:
        if random.random() < 0.5:  # else the product goes into its sum unrounded, as in a fused multiply-add
            value = rounded(value, random.choice(stores), random.choice(MODES))
        nodes.append((value, exponent))
    random.shuffle(nodes)
    while len(nodes) > 1 or random.random() < 0.3:
        arity = min(len(nodes), random.choice((1, 2, 2, 3, 5, 9)))
        picked = [nodes.pop(random.randrange(len(nodes))) for _ in range(arity)]
        store, mode = random.choice(stores), random.choice(MODES)
        values = [value for value, _ in picked]
        kind = random.choice(("node", "chain", "aligned"))
        if kind == "chain":
            total = Fraction(0)
            for value in values:
                total = rounded(total + value, store, mode)
        elif kind == "aligned" and any(values):
            total = aligned_sum(values, [exponent for _, exponent in picked], fraction_bits, store, mode)
        else:
            total = rounded(sum(values), store, mode)
        if math.isinf(total):
            return total
        nodes.append((total, floor_log2(total) if total else min(exponent for _, exponent in picked)))
    return nodes[0][0]
