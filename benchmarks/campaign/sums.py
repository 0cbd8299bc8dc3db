"""
Orders of summation, over all outputs at once.

Products lie along the first axis of an array (k, *batch, m, n). They are dealt out to pieces, each
piece is summed in one order, its sum perhaps stored in a format of its own, and the sums of the
pieces are added up in another order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from benchmarks.campaign.rounding import Arithmetic, to_format

from zeroulp.formats import format_named

ORDERS = ("sequential", "reversed", "pairwise", "random", "tree")
DEALS = ("contiguous", "interleaved", "random")


@dataclass(frozen=True)
class Sum:
    """
    An order of summation.

    Args:
        pieces: How many parts of k are summed apart.
        deal: Which products go to which piece.
        inner: The order within a piece; or ``blas``, for all of it.
        outer: The order of the pieces' sums.
        stored: Format in which a piece's sum is stored; empty: as it is.
        window: The precision in bits of sums within a piece, where it is another than that of the whole; 0: it is not.
        fused: Whether products are added without being rounded first.
        compensation: Empty, ``kahan`` or ``neumaier``: sums that carry what they lost.
        seed: Of the random orders.
        varies: Whether random orders change from call to call, as atomics' do.
    """

    pieces: int = 1
    deal: str = "contiguous"
    inner: str = "sequential"
    outer: str = "sequential"
    stored: str = ""
    window: int = 0
    fused: bool = False
    compensation: str = ""
    seed: int = 0
    varies: bool = False

    def __call__(self, a, b, arithmetic: Arithmetic, extra, call):
        """
        The sums of products, and of what the epilogue puts among them.

        Args:
            a: (*batch, m, k) float64 numbers, or integers.
            b: (*batch, k, n), likewise.
            arithmetic: How sums are kept.
            extra: Further terms of shape (*batch, m, n) that the sums begin with.
            call: How often the kernel was called before.
        """
        rng = np.random.default_rng((self.seed, call if self.varies else 0))
        if self.inner == "blas":
            return by_blas(a, b, arithmetic, extra)
        terms = products(a, b, arithmetic, fused=self.fused, rng=rng)
        if extra:
            first = np.stack([np.broadcast_to(term, terms.shape[1:]).astype(terms.dtype) for term in extra])
            terms = np.concatenate([first, terms])
        if self.compensation:
            return compensated(terms, arithmetic, rng, branch=self.compensation == "neumaier")
        parts = deal(terms, self.pieces, self.deal, rng)
        within = Arithmetic("bits", self.window, "zero") if self.window else arithmetic
        sums = in_order(parts, self.inner, within, rng)
        if self.stored:
            sums = to_format(sums, format_named(self.stored)).astype(arithmetic.dtype)
        return in_order(sums, self.outer, arithmetic, rng, self.stored)


def by_blas(a, b, arithmetic, extra):
    """Sums in whatever order the machine's BLAS has; further terms before them, as BLAS adds to c."""
    total = np.matmul(a.astype(arithmetic.dtype), b.astype(arithmetic.dtype))
    for term in extra:
        total = total + term.astype(arithmetic.dtype)
    return total


def products(a, b, arithmetic, *, fused=False, rng=None):
    """All products, (k, *batch, m, n), each rounded as *arithmetic* does unless they are *fused* into sums."""
    left, right = np.moveaxis(a, -1, 0)[..., :, None], np.moveaxis(b, -2, 0)[..., None, :]
    terms = left * right
    return terms if fused or not terms.size else arithmetic.settle(terms, rng)


def deal(terms, pieces, how, rng):
    """The products as (most to a piece, pieces, ...), filled up with zeros."""
    count = len(terms)
    pieces = max(1, min(pieces, count))
    if pieces == 1:
        return terms[:, None]
    if how == "random":
        terms = terms[rng.permutation(count)]
    each = -(-count // pieces)
    missing = each * pieces - count
    if missing:
        terms = np.concatenate([terms, np.zeros((missing, *terms.shape[1:]), terms.dtype)])
    if how == "interleaved":
        return terms.reshape(each, pieces, *terms.shape[1:])
    return np.swapaxes(terms.reshape(pieces, each, *terms.shape[1:]), 0, 1)


def in_order(terms, order, arithmetic, rng, stored=""):
    """The sum along the first axis; *stored*: a format that every partial sum is put into."""
    count = len(terms)
    if count == 0:
        return np.zeros(terms.shape[1:], arithmetic.dtype)
    if order == "reversed":
        terms = terms[::-1]
    if order in ("random", "tree"):
        terms = terms[rng.permutation(count)]
    if order in ("pairwise", "tree"):
        return _by_levels(terms, arithmetic, rng, stored, shuffle=order == "tree")
    if arithmetic.is_native and terms.dtype == arithmetic.dtype and terms.dtype.itemsize >= 4 and not stored:
        return np.add.reduce(terms, axis=0)
    total = _add(terms[0], terms.dtype.type(0), arithmetic, rng, stored)
    for term in terms[1:]:
        total = _add(total, term, arithmetic, rng, stored)
    return total


def _by_levels(terms, arithmetic, rng, stored, *, shuffle):
    while len(terms) > 1:
        half = len(terms) // 2
        left, rest = terms[: 2 * half], terms[2 * half :]
        terms = np.concatenate([_add(left[::2], left[1::2], arithmetic, rng, stored), rest.astype(arithmetic.dtype)])
        if shuffle:
            terms = terms[rng.permutation(len(terms))]
    return _add(terms[0], terms.dtype.type(0), arithmetic, rng, stored)


def _add(x, y, arithmetic, rng, stored):
    total = arithmetic.settle(x + y, rng)
    return to_format(total, format_named(stored)).astype(total.dtype) if stored else total


def compensated(terms, arithmetic, rng, *, branch):
    """Kahan's sum; with *branch*, Neumaier's variant, which corrects at the end."""
    total = lost = np.zeros(terms.shape[1:], arithmetic.dtype)
    settle = arithmetic.settle
    for term in terms:
        if branch:
            new = settle(total + term, rng)
            larger = np.abs(total) >= np.abs(term)
            left = settle(np.where(larger, total, term) - new, rng)
            lost = settle(lost + settle(left + np.where(larger, term, total), rng), rng)
        else:
            y = settle(term - lost, rng)
            new = settle(total + y, rng)
            lost = settle(settle(new - total, rng) - y, rng)
        total = new
    return settle(total + lost, rng) if branch else total
