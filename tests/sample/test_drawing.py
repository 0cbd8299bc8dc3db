"""Every number drawn is one of its format, the same for the same seed, and as the drawing says."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zeroulp.draw import Seed
from zeroulp.problem import Tensor
from zeroulp.sample import Drawing, Kind, Strategy
from zeroulp.sample.pattern import latin, residues

FORMATS = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float4_e2m1fn",
           "float8_e8m0fnu", "int8", "int32"]


def shapes():
    return st.lists(st.integers(1, 12), min_size=0, max_size=4).map(tuple)


def narrowed(values, name):
    dtype = np.dtype(name) if name.startswith(("float32", "float16", "int")) else np.dtype(getattr(ml_dtypes, name))
    return values.astype(dtype).astype(np.float64)


@settings(max_examples=150, deadline=None)
@given(
    shapes(),
    st.sampled_from(FORMATS),
    st.sampled_from(Kind),
    st.integers(1, 1 << 24),
    st.integers(1, 300),
    st.sampled_from([1, 3, 49, 121]),
    st.integers(0, 2**64 - 1),
)
def test_every_number_is_one_of_the_format(shape, name, kind, magnitude, every, step, seed):
    tensor = Tensor("x", shape, name)
    drawing = Drawing(tensor, kind, magnitude, every, step)
    values = drawing.values(Seed(seed, 0))
    assert values.shape == shape
    assert values.dtype == (np.int64 if name.startswith("int") else np.float64)
    assert (narrowed(values, name) == values).all()
    assert (drawing.values(Seed(seed, 0)) == values).all()


@given(st.integers(0, 2**64 - 1))
def test_trials_and_seeds_differ(seed):
    strategy = Strategy("s", "p", (Drawing(Tensor("x", (40,)), magnitude=9), Drawing(Tensor("y", (40,)), magnitude=9)))
    first, second, other = strategy.values(seed, 0), strategy.values(seed, 1), strategy.values(seed ^ 1, 0)
    assert (first["x"] != first["y"]).any()
    assert (first["x"] != second["x"]).any()
    assert (first["x"] != other["x"]).any()


def test_the_bits_are_the_same_everywhere():
    strategy = Strategy("s", "p", tuple(Drawing(Tensor(kind.name, (6,)), kind, 5, 2) for kind in Kind))
    drawn = {name: values.tolist() for name, values in strategy.values(7, 3).items()}
    assert drawn == EXPECTED


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 5), st.integers(2, 200), st.integers(0, 2**64 - 1))
def test_patterns_are_even_over_rows(rows, columns, width, modulus, seed):
    """A row has size / m places of each residue, give or take what does not come out even on each axis."""
    found = residues(Seed(seed, 0).stream("p"), (rows, columns, width), modulus) == 0
    most = 2 * -(-width // modulus) * -(-columns * width // modulus) if width >= modulus else None
    counts = found.reshape(rows, -1).sum(1)
    assert counts.max() <= (most or 2 * -(-columns * width // modulus) + 1)


@pytest.mark.parametrize("shape, modulus", [((64, 64), 16), ((64, 16, 3, 3), 36), ((8, 32, 32), 8)])
def test_patterns_are_even_along_every_axis(shape, modulus):
    found = residues(Seed(1, 0).stream("p"), shape, modulus) == 0
    assert found.sum() == found.size / modulus
    for axis in (0, 1):
        counts = found.sum(tuple(i for i in range(len(shape)) if i != axis))
        assert counts.min() > 0
        assert counts.max() <= 2 * counts.mean()


@settings(max_examples=100, deadline=None)
@given(shapes(), st.integers(1, 40), st.integers(0, 2**64 - 1))
def test_latin_numbers_differ_along_every_axis(shape, modulus, seed):
    shape = shape or (1,)
    numbers = latin(Seed(seed, 0).stream("p"), shape, modulus)
    assert numbers.min() >= 0 and numbers.max() < modulus
    if numbers.size <= modulus:
        assert len(np.unique(numbers)) == numbers.size
    for axis, extent in enumerate(shape):
        if extent <= modulus:
            ordered = np.sort(numbers, axis)
            assert (np.diff(ordered, axis=axis) > 0).all()


@pytest.mark.parametrize("shape", [(), (40,), (300, 50)])
def test_of_a_large_modulus_not_all_numbers_are_written_down(shape):
    import tracemalloc

    tracemalloc.start()
    one, other = (latin(Seed(seed, 0).stream("p"), shape, 2**31) for seed in (1, 2))
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()
    assert one.shape == shape and len(np.unique(one)) == one.size
    assert one.min() >= 0 and one.max() < 2**31 and (one != other).any()
    assert one.size < 100 or (one.min() < 2**27 and one.max() > 2**31 - 2**27)


@given(st.integers(0, 2**64 - 1))
def test_indices_stay_below_and_occur_once_where_they_are_to(seed):
    loose = Tensor("i", (30,), role="index", below=40)
    drawn = Drawing(loose, unique=True).values(Seed(seed, 0))
    assert len(set(drawn.tolist())) == 30 and drawn.max() < 40 and drawn.dtype == np.int64
    with_duplicates = [Drawing(loose).values(Seed(seed, trial)) for trial in range(3)]
    assert any(len(set(values.tolist())) < 30 for values in with_duplicates)
    once = Drawing(Tensor("i", (30,), role="index", below=40, distinct=True)).values(Seed(seed, 0))
    assert len(set(once.tolist())) == 30


def test_a_few_indices_below_a_large_bound_take_no_list_of_all():
    tensor = Tensor("i", (3, 70), "int32", role="index", below=2**31 - 1, distinct=True)
    drawn = [Drawing(tensor).values(Seed(seed, 0)) for seed in (1, 1, 2)]
    assert (drawn[0] == drawn[1]).all() and (drawn[0] != drawn[2]).any()
    assert np.unique(drawn[0]).size == 210 and drawn[0].min() >= 0 and drawn[0].max() > 2**30


def test_masks_are_truth_values_of_both_kinds():
    mask = Drawing(Tensor("m", (200,), role="mask")).values(Seed(1, 1))
    assert mask.dtype == np.bool_ and 50 < mask.sum() < 150


def test_a_scalar_is_never_zero():
    tensor = Tensor("s", (), role="scalar")
    assert all(Drawing(tensor).values(Seed(seed, 0)) != 0 for seed in range(50))


EXPECTED = {
    "SIGNED": [0.0, 0.0, -1.0, 0.0, 1.0, -4.0],
    "NONZERO": [-2.0, -5.0, 0.0, 0.0, 4.0, 0.0],
    "NONNEGATIVE": [3.0, 2.0, 0.0, 2.0, 0.0, 0.0],
    "DISTINCT": [-1.0, 2.0, 1.0, 0.0, 2.0, -2.0],
    "POWERS": [-1.0, 16.0, 1.0, 0.5, -2.0, 1.0],
}
