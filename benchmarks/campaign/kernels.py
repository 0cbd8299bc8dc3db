"""A correct kernel, put together from an order or a unit, an accumulator, an epilogue and habits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.campaign.rounding import Arithmetic, flushed, to_format
from benchmarks.campaign.sums import Sum
from benchmarks.campaign.units import Unit

from zeroulp.formats import format_named

if TYPE_CHECKING:
    from zeroulp import Matmul

RETURNS = ("fresh", "column", "strided", "reversed", "view")
EPILOGUES = ("after", "first", "fused")
FAULTS = ("", "drops a product", "adds a product twice", "keeps too few bits", "cuts the result", "forgets a sign")


@dataclass
class Kernel:
    """
    ``kernel(a, b[, c][, bias][, out])`` for one problem.

    Args:
        problem: What it computes.
        order: How it sums.
        arithmetic: How it keeps sums.
        epilogue: Whether beta c and the bias come ``after`` the sums, ``first`` (as their first terms), or
            ``fused`` (after, all in one rounding).
        by_single: Whether a wider sum reaches a 16-bit output by way of float32.
        ties: Where it rounds halves to: ``even``, ``away`` or ``zero``.
        saturates: Whether what overflows becomes the largest number.
        negative_zeros: Whether its zeros are negative.
        flush: Whether subnormal operands and results become zero: empty, ``inputs``, ``results`` or ``both``.
        returns: What its result looks like in memory.
        pads: Multiple that it fills m, n and k up to with zeros; 0: it does not.
        writes: Whether it writes into a last argument.
        fault: What it does wrong; empty: nothing.
    """

    problem: Matmul
    order: Sum | Unit = field(default_factory=Sum)
    arithmetic: Arithmetic = field(default_factory=Arithmetic)
    epilogue: str = "after"
    by_single: bool = False
    ties: str = "even"
    saturates: bool = False
    negative_zeros: bool = False
    flush: str = ""
    returns: str = "fresh"
    pads: int = 0
    writes: bool = False
    fault: str = ""
    calls: int = field(default=0, init=False, repr=False, compare=False)
    __name__ = "kernel"

    def __call__(self, *operands):
        out = operands[-1] if self.writes else None
        with np.errstate(all="ignore"):
            result = self._result(operands)
        self.calls += 1
        if out is None:
            return _laid_out(result, self.returns)
        out[...] = result
        return None

    def _result(self, operands):
        problem = self.problem
        given = dict(zip((operand.name for operand in problem.operands), operands, strict=False))
        a, b = (self._read(given[name], problem, name) for name in "ab")
        a = np.swapaxes(a, -1, -2) if problem.transpose_a else a
        b = np.swapaxes(b, -1, -2) if problem.transpose_b else b
        if self.fault == "forgets a sign":
            a = np.abs(a)
        if self.fault == "drops a product":
            a, b = a[..., :-1], b[..., :-1, :]
        if self.fault == "adds a product twice":
            a, b = np.concatenate([a, a[..., :1]], -1), np.concatenate([b, b[..., :1, :]], -2)
        a, b = padded(a, self.pads), padded(b, self.pads)
        rest = self._rest(given, (*a.shape[:-1], b.shape[-1]))
        total = self._total(a, b, rest)[..., : problem.m, : problem.n]
        return self._converted(total)

    def _read(self, array, problem, name):
        """An operand in float64, which holds it exactly."""
        wide = array.astype(np.int64 if array.dtype.kind == "i" and self.arithmetic.name == "int32" else np.float64)
        format_ = problem.a_format if name == "a" else problem.b_format
        if format_.name == "tfloat32":
            wide = (np.asarray(array).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
        if self.flush in ("inputs", "both") and not format_.is_integer:
            wide = flushed(wide, format_.min_normal)
        return wide

    def _rest(self, given, shape):
        """beta c and the bias, as terms of the sums' shape."""
        problem, terms = self.problem, []
        for name, factor in (("c", problem.beta), ("bias", 1.0)):
            if name in given and (name != "c" or problem.beta != 0):
                term = np.zeros(shape)
                term[..., : problem.m, : problem.n] = given[name].astype(np.float64) * factor
                terms.append(term)
        return terms

    def _total(self, a, b, rest):
        alpha, arithmetic = self.problem.alpha, self.arithmetic
        rng = np.random.default_rng(self.calls)
        early = self.epilogue == "first"
        if early and alpha != 1:
            a = a * alpha
        integers = arithmetic.name == "int32"
        first = [arithmetic.settle(np.asarray(term), rng) for term in rest] if early else []
        if isinstance(self.order, Unit):
            emins = (self.problem.a_format.emin, self.problem.b_format.emin)
            total = self.order(a, b, emins, first)
        else:
            narrow = arithmetic.name == "float32" and _fits(self.problem)
            work = np.int32 if integers else np.float32 if narrow else np.float64
            total = self.order(a.astype(work), b.astype(work), arithmetic, first, self.calls)
        if early:
            return total
        wide = total.astype(np.int64 if integers else np.float64)
        if self.epilogue == "fused" and (rest or alpha != 1):
            return arithmetic.settle(sum(rest, wide * alpha), rng)
        if alpha != 1:
            wide = self._kept(wide * alpha, rng)
        for term in rest:
            wide = self._kept(wide + self._kept(term, rng), rng)
        return wide

    def _kept(self, values, rng):
        if self.arithmetic.name == "int32":
            return values  # integer sums leave for floating point where factors are none
        return self.arithmetic.settle(values, rng).astype(np.float64)

    def _converted(self, total):
        format_ = self.problem.out_format
        values = np.asarray(total).astype(np.float64)
        if self.fault == "keeps too few bits":
            values = to_format(values, format_named("bfloat16")).astype(np.float64)
        if self.by_single:
            values = values.astype(np.float32).astype(np.float64)
        values = to_format(
            values,
            format_,
            ties=self.ties,
            saturate=self.saturates,
            flush=self.flush in ("results", "both"),
            truncate=self.fault == "cuts the result",
        )
        if self.negative_zeros and format_.has_negative_zero:
            values[values == 0] = -values.dtype.type(0)
        return values


def padded(array, multiple):
    """An array with its last two axes filled up with zeros to whole multiples; 0: as it is."""
    if not multiple:
        return array
    missing = [(0, -size % multiple) for size in array.shape[-2:]]
    return np.pad(array, [(0, 0)] * (array.ndim - 2) + missing)


def _fits(problem):
    """Whether both operands are numbers of float32."""
    return all(f.precision <= 24 and f.bits <= 32 for f in (problem.a_format, problem.b_format))


def _laid_out(result, how):
    """The same values, elsewhere in memory."""
    if how == "fresh" or result.ndim < 2:
        return np.ascontiguousarray(result)
    if how == "column":
        return np.ascontiguousarray(np.swapaxes(result, -1, -2)).swapaxes(-1, -2)
    if how == "strided":
        room = np.zeros((*result.shape[:-1], 2 * result.shape[-1] + 1), result.dtype)
        room[..., 1::2] = result
        return room[..., 1::2]
    if how == "reversed":
        return np.ascontiguousarray(result[..., ::-1])[..., ::-1]
    room = np.zeros((*result.shape[:-2], result.shape[-2] + 2, result.shape[-1] + 3), result.dtype)
    room[..., 1:-1, 2:-1] = result
    return room[..., 1:-1, 2:-1]
