"""A trial's operands: drawn, encoded, and the expected result that belongs to them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zeroulp import encoding
from zeroulp.checks.change import with_a_few_changed
from zeroulp.draw import Seed
from zeroulp.probes import Overlaid, draw_scales, family_of, probe_named
from zeroulp.problem import LAYOUTS
from zeroulp.reference import Expected, bounded_result, expected_result, with_nonfinite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zeroulp.encoding import Array
    from zeroulp.exactness import Family, Lattice
    from zeroulp.formats import Format
    from zeroulp.plan import Trial
    from zeroulp.problem import Matmul


@dataclass(frozen=True)
class Inputs:
    """
    What one trial feeds a kernel.

    Args:
        trial: The trial.
        family: The lattices that *integers* count in.
        integers: Elements of each operand in quanta, in its full shape.
        codes: Encodings of each operand; an axis of stride 0 has extent 1.
        exponent: Of the quantum that results are counted in: one for all, or one for each (m, n).
    """

    trial: Trial
    family: Family
    integers: Mapping[str, Array]
    codes: Mapping[str, Array]
    exponent: int | Array

    def expected(self, problem: Matmul) -> Expected:
        """What every correct kernel returns for them."""
        if self.trial.certificate.theorem == "bounded":
            return bounded_result(problem, self.family, self.trial.certificate, self.integers)
        expected = expected_result(problem, self.family, self.trial.certificate, self.integers, self.exponent)
        if not isinstance(probe_named(self.trial.probe), Overlaid):
            return expected
        shapes = {operand.name: operand.shape for operand in problem.operands}
        codes = {name: np.broadcast_to(self.codes[name], shapes[name]) for name in ("a", "b")}
        return with_nonfinite(problem, codes, expected)


def draw_inputs(problem: Matmul, trial: Trial, seed: int) -> Inputs:
    """The operands of *trial*: the same bits for the same seed, everywhere."""
    probe = probe_named(trial.probe)
    family = family_of(problem, trial.probe, trial.settings)
    full = {operand.name: operand.shape for operand in problem.operands}
    drawn_shapes = {
        name: (1, *shape[1:]) if LAYOUTS[trial.layouts[name]].broadcast and shape[0] else shape
        for name, shape in full.items()
    }
    source = Seed(seed, trial.index if trial.based_on is None else trial.based_on)
    integers = probe.draw(problem, trial.settings, source, drawn_shapes)
    for name, shape in drawn_shapes.items():
        assert integers[name].shape == shape, f"probe {trial.probe} drew {name} in another shape"
    if trial.based_on is not None:
        stream = Seed(seed, trial.index).stream("change")
        integers = with_a_few_changed(problem, integers, trial.changed, stream)
    repeats = drawn_shapes != full  # numbers that are one and the same cannot differ in scale
    scales = None if repeats else draw_scales(problem, trial.settings, source)
    lattices = family.lattices()
    codes = {
        operand.name: encode(
            integers[operand.name],
            lattices[operand.name],
            operand.format,
            None if scales is None else scales.of(operand.name, problem),
        )
        for operand in problem.operands
    }
    if isinstance(probe, Overlaid):
        codes = probe.overlay(problem, trial.settings, source, codes)
    quantum = trial.certificate.quantum_exponent
    exponent = quantum if scales is None else quantum + scales.of("out", problem)
    whole = {name: np.broadcast_to(integers[name], full[name]) for name in full}
    return Inputs(trial, family, whole, codes, exponent)


def encode(integers: Array, lattice: Lattice, format_: Format, shift: Array | None = None) -> Array:
    """
    Encodings of ``integers * 2**exponent``, times ``2**shift`` element by element.

    Exactness:
        Each is a number of the format (the certificate says so), and the float32 or float64 on
        the way holds it exactly, so that no conversion rounds.
    """
    dtype = encoding.storage_dtype(format_)
    if format_.is_integer:
        return encoding.bits_of((integers << lattice.exponent).astype(dtype))
    if shift is not None:
        values = np.ldexp(integers.astype(np.float64), (shift + lattice.exponent).astype(np.int32))
        return encoding.bits_of(values.astype(dtype, copy=False))
    narrow = lattice.magnitude <= 2**24 and -120 < lattice.exponent < 100 and format_.bits <= 32
    work = np.float32 if narrow else np.float64
    values = integers.astype(work)
    if lattice.exponent:
        values *= work(2.0**lattice.exponent)
    return encoding.bits_of(values.astype(dtype, copy=False))


def digest(inputs: Inputs, expected: Expected) -> str:
    """A hash of all input and expected bits, to tell whether two trials are the same."""
    hashed = hashlib.blake2b(digest_size=16)
    for name in sorted(inputs.codes):
        hashed.update(name.encode())
        hashed.update(np.ascontiguousarray(inputs.codes[name]).data)
    hashed.update(np.ascontiguousarray(expected.codes).data)
    return hashed.hexdigest()
