"""
A trial's operands: where their elements come from, and how they get into memory.

They are drawn a few rows at a time, by the array library whose memory they go to, with the same
bits everywhere. Any part of them can be drawn again.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from zeroulp import encoding
from zeroulp.arrays import HOST
from zeroulp.checks.change import a_few_changed
from zeroulp.draw import Part, Seed, Uniform
from zeroulp.probes import draw_scales, elements_of, family_of, looked_up, overlaid, pool_of, probe_named
from zeroulp.problem import LAYOUTS
from zeroulp.reference import Expected, bounded_result, expected_result, with_nonfinite, with_subnormals

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroulp.arrays import Arrays
    from zeroulp.encoding import Array
    from zeroulp.exactness import Family
    from zeroulp.formats import Format
    from zeroulp.plan import Trial
    from zeroulp.probes import Pool, Scales
    from zeroulp.probes.base import Elements
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape

_FLOAT32_EMIN = -126
_FAR = 120  # binary places from one within which float32 scales without rounding


@dataclass(frozen=True)
class Inputs:
    """
    What one trial feeds a kernel.

    Args:
        problem: The problem.
        trial: The trial.
        seed: The check's seed.
        family: The lattices that elements are counted in.
        scales: Powers of two along m, n and k; None: none.
        pool: The columns that b has, where it has a few alone; None: all are drawn.
    """

    problem: Matmul
    trial: Trial
    seed: int
    family: Family
    scales: Scales | None
    pool: Pool | None = None

    @property
    def exponent(self) -> int | Array:
        """Of the quantum that results are counted in: one for all, or one for each (m, n)."""
        quantum = self.trial.certificate.quantum_exponent
        return quantum if self.scales is None else quantum + self.scales.of("out", self.problem)

    @property
    def overlaid(self) -> bool:
        """Whether some elements are no numbers of a lattice."""
        return overlaid(probe_named(self.trial.probe)) is not None

    @property
    def source(self) -> Seed:
        """Where its numbers come from: those of a trial that changes another are that one's."""
        trial = self.trial
        return Seed(self.seed, trial.index if trial.based_on is None else trial.based_on)

    def shape(self, name: str) -> Shape:
        """The shape that is drawn: an axis of stride 0 has extent 1."""
        full = self._full(name)
        return (1, *full[1:]) if LAYOUTS[self.trial.layouts[name]].broadcast and full[0] else full

    def _full(self, name: str) -> Shape:
        return next(operand.shape for operand in self.problem.operands if operand.name == name)

    def elements(self, name: str) -> Elements:
        """How its elements, in quanta, follow from their places."""
        drawn = self._drawn(name)
        changes = self._changes if name == self.trial.changed else ()
        if not changes:
            return drawn
        width = self.shape(name)[-1]

        def changed(part: Part) -> Any:
            found, numbers = drawn(part), part.numbers()
            for place, value in changes:
                row, column = divmod(place, width)
                here = (numbers == row)[:, None] & (part.coordinate(-1) == column)
                found = found + here * (value - found)
            return found

        return changed

    def _drawn(self, name: str) -> Elements:
        """The same before some are changed."""
        probe = probe_named(self.trial.probe)
        return elements_of(self.problem, probe, self.trial.settings, self.source, name)

    def _changed(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Places of the elements that are changed, and the encodings of what they become."""
        name = self.trial.changed
        shape = self.shape(name) if self._changes else ()
        for flat, value in self._changes:
            row, column = divmod(flat, shape[-1])
            part = Part.whole(shape).at(np.array([row]), np.array([column]))
            place = tuple(int(index) for index in np.unravel_index(flat, shape))
            yield place, int(self._encoded(name, np.array([[value]]), part)[0, 0])

    @functools.cached_property
    def _changes(self) -> tuple[tuple[int, int], ...]:
        """Flat places of the elements that are changed, and what they become."""
        trial = self.trial
        if trial.based_on is None:
            return ()
        both = {name: self._drawn(name) for name in ("a", "b")}
        shapes = {name: self.shape(name) for name in both}
        stream = Seed(self.seed, trial.index).stream("change")
        return a_few_changed(self.problem, both, shapes, trial.changed, stream)

    def fill(self, arrays: Arrays, targets: Mapping[str, Any]) -> None:
        """
        Put all operands where they belong.

        Args:
            arrays: The library of the targets.
            targets: By name: a stored array of the operand's shape, or of extent 1 along a first axis of stride 0.

        Exactness:
            Each element is a number of its format (the certificate says so), and the float32 or
            float64 on the way holds it exactly, so that no conversion rounds.
        """
        for name, target in targets.items():
            shape = self.shape(name)
            put = functools.partial(self._put, name, target, self._drawn(name), Part.whole(shape, arrays))
            arrays.spread(put, blocks_of(shape, arrays.block_elements))
        for place, code in self._changed():
            arrays.put(targets[self.trial.changed], place, code)
        for name in ("a", "b"):
            for place, code in self.special(name):
                arrays.put(targets[name], place, code)

    def _put(self, name: str, target: Any, elements: Elements, whole: Part, block: tuple[Any, int, int]) -> None:
        """Draw one block of an operand."""
        index, start, stop = block
        part, place = whole.between(start, stop), target[index]
        arrays, may_be_flushed = part.arrays, self._may_be_flushed(name) and not whole.arrays.keeps_subnormals
        if not may_be_flushed and isinstance(elements, Uniform) and self._are_words_stored(name, place, elements, part):
            return
        integers = elements(part)
        if may_be_flushed:
            codes = self._encoded(name, integers, part)
            arrays.codes(place)[...] = arrays.from_host(codes).reshape(place.shape)
        elif not self._is_stored_at_once(name, place, integers, part):
            arrays.store(place, self._values(name, integers, part).reshape(place.shape))

    def _are_words_stored(self, name: str, place: Any, elements: Uniform, part: Part) -> bool:
        """Whether the library had one operation for elements that are independent."""
        fused = part.arrays.fused
        if fused is None or not fused.stores_words or not self._is_narrow(name) or self._format(name).is_integer:
            return False
        return fused.store_words(place, elements.field.words(part), elements.magnitude, *self._factors(name, part))

    def _is_stored_at_once(self, name: str, place: Any, integers: Any, part: Part) -> bool:
        """Whether the library had one operation for it."""
        arrays, simple = part.arrays, self._is_narrow(name) and not self._format(name).is_integer
        if arrays.fused is None or not simple or self._negative_zeros(name, integers, part) is not None:
            return False
        return arrays.fused.store(place, integers, *self._factors(name, part))

    def _factors(self, name: str, part: Part) -> tuple[Any, Any]:
        """What elements in quanta are multiplied by, along rows and columns."""
        if self.scales is None or self._repeats:
            return 1.0, 2.0 ** self.family.lattices()[name].exponent
        first, last = self._powers(name, "float32")
        return 1.0 if first is None else looked_up(first, part, -2), part.arrays.table(last)

    def _is_narrow(self, name: str) -> bool:
        """Whether float32 holds the elements, and scales them without rounding."""
        lattice = self.family.lattices()[name]
        reach = abs(lattice.exponent) + self.family.spreads()[name]
        return lattice.magnitude <= 2**24 and reach < _FAR and self._format(name).bits <= 32

    def special(self, name: str) -> list[tuple[tuple[int, ...], int]]:
        """Places of NaN and infinities, and the encodings that stand there."""
        probe = overlaid(probe_named(self.trial.probe))
        if probe is None:
            return []
        return probe.overlay(self.problem, self.trial.settings, self.source, name, self.shape(name))

    def _format(self, name: str) -> Format:
        return next(operand.format for operand in self.problem.operands if operand.name == name)

    def _may_be_flushed(self, name: str) -> bool:
        """Whether some elements are subnormal also in float32 or float64, and so flushed by a processor set to that."""
        lattice, format_ = self.family.lattices()[name], self._format(name)
        wide = not format_.is_integer and format_.emin <= _FLOAT32_EMIN
        return wide and lattice.exponent - self.family.spreads()[name] < format_.emin

    def _encoded(self, name: str, integers: Any, part: Part) -> Array:
        """Encodings of elements in quanta, by integer arithmetic on the host."""
        exponents = np.asarray(self.family.lattices()[name].exponent)
        if self.scales is not None and not self._repeats:
            first, last = self.scales.along(name, self.problem)
            exponents = exponents + last[part.arrays.to_host(part.coordinate(-1))]
            exponents = exponents if first is None else exponents + first[part.arrays.to_host(part.coordinate(-2))]
        host = part.arrays.to_host(integers)
        codes = encoding.round_integers(host, np.broadcast_to(exponents, host.shape), self._format(name))
        negative = self._negative_zeros(name, integers, part)
        if negative is None:
            return codes
        sign = codes.dtype.type(encoding.negative_zero(self._format(name)))
        return np.where(part.arrays.to_host(negative), sign, codes)

    def _negative_zeros(self, name: str, integers: Any, part: Part) -> Any:
        """Where zeros have a minus sign; None: nowhere."""
        probe = overlaid(probe_named(self.trial.probe))
        if probe is None or not self._format(name).has_negative_zero:
            return None
        signs = probe.signs_of_zeros(self.trial.settings, self.source, name)
        return None if signs is None else (integers == 0) & signs.chosen(1 / 2, part)

    def _values(self, name: str, integers: Any, part: Part) -> Any:
        """Elements in quanta as the numbers they stand for, in a precision that holds them."""
        format_ = self._format(name)
        lattice, arrays = self.family.lattices()[name], part.arrays
        if format_.is_integer:
            return integers << lattice.exponent
        dtype = "float32" if self._is_narrow(name) else "float64"
        values = arrays.cast(integers, dtype)
        negative = self._negative_zeros(name, integers, part)
        if negative is not None:
            values = arrays.where(negative, -0.0, values)
        if self.scales is None or self._repeats:
            return values * 2.0**lattice.exponent if lattice.exponent else values
        first, last = self._powers(name, dtype)
        values = values * looked_up(last, part, -1)
        return values if first is None else values * looked_up(first, part, -2)

    @functools.cached_property
    def _known_powers(self) -> dict[tuple[str, str], tuple[Array | None, Array]]:
        return {}

    def _powers(self, name: str, dtype: str) -> tuple[Array | None, Array]:
        """What elements in quanta are multiplied by along the last two axes."""
        if (name, dtype) not in self._known_powers:
            assert self.scales is not None, "there is something to multiply by"
            first, last = self.scales.along(name, self.problem)
            columns = np.ldexp(1.0, last + self.family.lattices()[name].exponent).astype(dtype)
            rows = None if first is None else np.ldexp(1.0, first).astype(dtype)
            self._known_powers[name, dtype] = rows, columns
        return self._known_powers[name, dtype]

    @property
    def _repeats(self) -> bool:
        """Whether some numbers are one and the same, so that they cannot differ in scale."""
        return any(LAYOUTS[self.trial.layouts[operand.name]].broadcast for operand in self.problem.operands)

    @functools.cached_property
    def integers(self) -> Mapping[str, Array]:
        """All elements of each operand in quanta, on the host, in its full shape."""
        drawn = {}
        for operand in self.problem.operands:
            shape = self.shape(operand.name)
            whole = self.elements(operand.name)(Part.whole(shape)).reshape(shape)
            drawn[operand.name] = np.broadcast_to(whole, operand.shape)
        return drawn

    def part(self, entry: tuple[int, ...], rows: Array, columns: Array) -> tuple[Matmul, dict[str, Array]]:
        """
        A smaller problem: some rows of a, and of the result, and some columns of b, in one entry of the batch.

        Returns:
            The problem, and its operands in quanta.
        """
        problem = self.problem
        drawn = {}
        for operand in problem.operands:
            found = np.asarray(self.elements(operand.name)(self._part(operand.name, entry, rows, columns)))
            drawn[operand.name] = found[0] if operand.name == "bias" else found
        return problem.replace(m=len(rows), n=len(columns), batch=()), drawn

    def codes_of_part(
        self, entry: tuple[int, ...], rows: Array, columns: Array, drawn: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Encodings of the operands of that smaller problem (*drawn*, if they are), by integers on the host."""
        drawn = self.part(entry, rows, columns)[1] if drawn is None else drawn
        encoded = {}
        for operand in self.problem.operands:
            name, shape = operand.name, self.shape(operand.name)
            part = self._part(name, entry, rows, columns)
            integers = drawn[name][None, :] if name == "bias" else drawn[name]
            codes = np.array(self._encoded(name, integers, part))
            across = part.coordinate(-1)[0]
            for place, code in self.special(name) if name in ("a", "b") else ():
                row = int(np.ravel_multi_index(place[:-1], shape[:-1]))
                codes[np.ix_(part.numbers() == row, across == place[-1])] = code
            encoded[name] = codes[0] if name == "bias" else codes
        return encoded

    def own_axes(self, name: str, rows: Array, columns: Array) -> tuple[Array | None, Array | None]:
        """Which of an operand's last two axes, as it is stored, have these rows or columns; None: all of it."""
        own = {"a": (rows, None), "b": (None, columns), "c": (rows, columns), "bias": (None, columns)}[name]
        swapped = (name == "a" and self.problem.transpose_a) or (name == "b" and self.problem.transpose_b)
        return own[::-1] if swapped else own

    def _part(self, name: str, entry: tuple[int, ...], rows: Array, columns: Array) -> Part:
        """What these rows and columns take of an operand; an axis of stride 0 is one element, again and again."""
        full, shape = self._full(name), self.shape(name)
        down, across = self.own_axes(name, rows, columns)
        across = np.arange(full[-1]) if across is None else across
        if len(full) == 1:
            return Part.whole(shape).at(np.zeros(1, np.int64), np.minimum(across, shape[-1] - 1))
        down = np.arange(full[-2]) if down is None else down
        at = tuple(np.minimum(entry, np.array(shape[:-2], np.int64) - 1).tolist())
        first = int(np.ravel_multi_index(at, shape[:-2])) * shape[-2] if at else 0
        return Part.whole(shape).at(first + np.minimum(down, shape[-2] - 1), across)

    @functools.cached_property
    def codes(self) -> Mapping[str, Array]:
        """Encodings of each operand, on the host; an axis of stride 0 has extent 1."""
        formats = {operand.name: operand.format for operand in self.problem.operands}
        stored = {name: np.empty(self.shape(name), encoding.storage_dtype(f)) for name, f in formats.items()}
        self.fill(HOST, stored)
        return {name: encoding.bits_of(array) for name, array in stored.items()}

    @functools.cached_property
    def expected(self) -> Expected:
        """What every correct kernel returns for them, all of it, by plain integer arithmetic on the host."""
        return self.expected_under(self.problem)

    def expected_under(self, problem: Matmul) -> Expected:
        """The same under the clauses of another contract."""
        if self.trial.certificate.theorem == "bounded":
            return bounded_result(problem, self.family, self.trial.certificate, self.integers)
        expected = expected_result(problem, self.family, self.trial.certificate, self.integers, self.exponent)
        if not self.overlaid:
            return expected
        shapes = {operand.name: operand.shape for operand in problem.operands}
        codes = {name: np.broadcast_to(self.codes[name], shapes[name]) for name in ("a", "b")}
        expected = with_nonfinite(problem, codes, expected)
        return with_subnormals(problem, codes, expected) if self.family.beyond == "subnormals" else expected


def draw_inputs(problem: Matmul, trial: Trial, seed: int) -> Inputs:
    """The operands of *trial*: the same bits for the same seed, everywhere."""
    family = family_of(problem, trial.probe, trial.settings)
    inputs = Inputs(problem, trial, seed, family, None)
    pool = pool_of(problem, trial.settings, inputs.source)
    if inputs._repeats:  # noqa: SLF001
        return replace(inputs, pool=pool)
    return replace(inputs, pool=pool, scales=draw_scales(problem, trial.settings, inputs.source))


def blocks_of(shape: Shape, most: int) -> Iterator[tuple[tuple[Any, ...], int, int]]:
    """
    A matrix, or a batch, in blocks of whole rows with about *most* elements.

    Yields:
        An index of the array, and the first and last-plus-one row that it selects, leading axes flattened.
    """
    rows = math.prod(shape[:-1])
    if math.prod(shape) <= most or len(shape) == 1 or not rows:
        yield (...,), 0, rows
        return
    entry, inner = math.prod(shape[1:]), math.prod(shape[1:-1])
    if len(shape) > 2 and entry > most:
        for i in range(shape[0]):
            for index, start, stop in blocks_of(shape[1:], most):
                yield (i, *index), i * inner + start, i * inner + stop
        return
    step = max(1, most // entry)
    for first in range(0, shape[0], step):
        last = min(first + step, shape[0])
        yield (slice(first, last),), first * inner, last * inner


def digest(marks: Mapping[str, str]) -> str:
    """A hash of all input bits, to tell whether two trials are the same: of the fingerprints of the operands."""
    hashed = hashlib.blake2b(digest_size=16)
    for name in sorted(marks):
        hashed.update(f"{name} {marks[name]} ".encode())
    return hashed.hexdigest()
