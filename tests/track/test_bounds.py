"""Sums of |terms|: exact whatever format they are kept in, right where memory is shared; operands stay as they are."""

from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from zeroulp import track
from zeroulp.arrays import HOST
from zeroulp.arrays.compiled import Compiled
from zeroulp.arrays.host_fused import HostFused
from zeroulp.errors import ProgramError
from zeroulp.track.dyadic import quantum_within
from zeroulp.track.rules.bounds import SumOfModuli

TOP = 2**24

SUMS = {
    "sum": lambda x: x.sum(0),
    "sum of two": lambda x: x[:1] + x[1:2] + x[2:].sum(0, keepdim=True),
    "cumsum": lambda x: x.cumsum(0)[-1],
    "index_add": lambda x: torch.zeros_like(x).index_add(0, torch.zeros(len(x), dtype=torch.long), x)[0],
    "index_add in place": lambda x: torch.zeros_like(x).index_add_(0, torch.zeros(len(x), dtype=torch.long), x)[0],
    "scaled": lambda x: torch.sub(x[:1], x[1:].sum(0), alpha=1.0),
    "matmul": lambda x: torch.ones(1, len(x)).double() @ x,
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("scale", [1.0, 2.0**-90, 2.0**-40, 2.0**30])
@settings(max_examples=25, deadline=None)
@given(terms=st.lists(st.sampled_from([1, -1, 2, -3]), min_size=3, max_size=9), missing=st.integers(-3, 3),
       first=st.booleans())
def test_one_quantum_too_many_is_seen(name, scale, terms, missing, first):
    """Float32 itself adds 1 to 2**24 in vain, in whatever order it comes."""
    terms = [*terms, 1]
    large = TOP - sum(abs(term) for term in terms) - missing
    column = [large, *terms] if first else [*terms, large]
    x = torch.tensor(column).double().reshape(-1, 1) * scale
    output = track.track(SUMS[name], [x]).outputs[0]
    assert output.bound.dtype == torch.float64
    assert (output.grade.flatten()[0] == 0) == (missing >= 0)
    if missing >= 0:
        assert output.bound.flatten().tolist() == [(TOP - missing) * scale]


@given(seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_parts_of_memory_keep_bounds_of_their_own(seed):
    """A tensor of single terms that sums are written to here and there, by views."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(-9, 10, (6, 5), generator=generator).double()
    rows = torch.randperm(6, generator=generator)

    def reference(x):
        y = x.clone()
        y[rows[0]] = x.sum(0)
        y.T[:, rows[1]] = x[rows[1]] * 3
        y[rows[2]] += y[rows[0]]
        y[rows[3]].zero_()
        return y

    want = x.abs()
    want[rows[0]] = x.abs().sum(0)
    want[rows[1]] *= 3
    want[rows[2]] += want[rows[0]]
    want[rows[3]] = 0
    output = track.track(reference, [x]).outputs[0]
    assert torch.equal(output.bound, want)
    assert torch.equal(output.values, reference(x))


@pytest.mark.parametrize(("of", "bound"), [
    (lambda x, y: x + y, lambda x, y: x + y), (lambda x, y: x - y, lambda x, y: x + y),
    (lambda x, y: torch.add(x, y, alpha=-3), lambda x, y: x + 3 * y), (lambda x, y: x.sum(0) + y[0], lambda x, y: x.sum(0) + y[0]),
    (lambda x, y: x.T + y.T, lambda x, y: x.T + y.T), (lambda x, y: x + y[:1], lambda x, y: x + y[:1]), (lambda x, y: x - 5, lambda x, y: x + 5),
])
def test_large_operands_are_added_in_blocks(of, bound):
    """Bounds of 70,000 elements and more are worked out a part at a time."""
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randint(-99, 100, (3, 70_001), generator=generator).double() for _ in range(2))
    output = track.track(of, [x, y]).outputs[0]
    assert torch.equal(output.bound, bound(x.abs(), y.abs()))
    assert torch.equal(output.values, of(x, y))
    assert (output.grade == 0).all()


def test_an_operand_of_float64_is_never_written_to():
    for write in (lambda a: a.add_(1), lambda a: a[1:].zero_(), lambda a: a.T.mul_(2), lambda a: torch.neg(a, out=a)):
        x = torch.arange(6.0).double().reshape(2, 3)
        with pytest.raises(ProgramError, match="changes its operand '0' in place"):
            track.track(write, [x])
        assert torch.equal(x, torch.arange(6.0).double().reshape(2, 3))


def test_what_is_returned_is_no_operand():
    x = torch.arange(6.0).double()
    for reference in (lambda x: x, lambda x: x[1:], lambda x: x.reshape(2, 3)):
        output = track.track(reference, [x]).outputs[0]
        before = output.values.clone()
        x.add_(1)
        assert torch.equal(output.values, before)


def test_operands_that_share_memory_are_read_one_by_one():
    x = torch.arange(6.0).double()
    tracked = track.track(lambda a, b, c: a + c, {"a": x, "b": x, "c": x[1:].expand(6, 5).T[0]})
    assert tracked.unread == ("b",)
    assert tracked.outputs[0].values.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("far", [1e-300, 2.0**-1074, 2.0**-40])
def test_one_element_among_many_that_the_quantum_does_not_divide(far):
    y = torch.full((70_000,), 2.0**60).double()
    y[12_345] = far
    output = track.track(lambda y: y * 2, [y]).outputs[0]
    assert output.quantum_exponent == (-39 if far == 2.0**-40 else 61)
    assert (output.grade[12_345] == 0) == (far == 2.0**-40)


@pytest.mark.parametrize("of", [
    lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum((0, 2), keepdim=True), lambda x: x.sum(2).sum(0),
    lambda x: x.mean(2), lambda x: x[1:].sum(2), lambda x: x.transpose(0, 2).sum(0), lambda x: x.cumsum(2), lambda x: x.cumsum(0),
    lambda x: x.flatten().cumsum(0), lambda x: x.transpose(0, 1).cumsum(1), lambda x: x.sum(0) + x.sum(1)[:1],
])
def test_sums_of_large_operands_are_worked_out_in_parts(of):
    """Moduli are added up while the operand's quantum is looked for, or a part at a time."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randint(-99, 100, (37, 41, 64), generator=generator).double() / 4
    output = track.track(of, [x]).outputs[0]
    assert torch.equal(output.values, of(x))
    assert torch.equal(output.bound, of(x.abs()))
    assert output.quantum_exponent == (-8 if of(torch.ones_like(x)).max() == 1 else -2)
    assert (output.grade == 0).all()


@pytest.mark.parametrize("of", [lambda x: x.sum(1), lambda x: x.cumsum(1)[:, -1], lambda x: x + 0])
@pytest.mark.parametrize(("odd", "grade"), [
    (float("nan"), 2), (float("inf"), 2), (2.0**24 + 1, 2), (2.0**-130, 2), (-(2.0**24) - 2, 2), (2.0**-600, 2), (-(2.0**20) - 1, 0),
])
def test_one_element_of_a_large_operand_counts(of, odd, grade):
    x = torch.zeros(300, 300).double()
    x[:, 0] = 1
    x[217, 35] = odd
    output = track.track(of, [x]).outputs[0]
    worst = output.grade if output.grade.dim() == 1 else output.grade.amax(1)
    assert worst[217] == grade
    assert grade == 0 or output.ended is not None


def test_ties_are_looked_for_before_anything_is_written():
    x = torch.tensor([[1.0, 1, 0, 2], [0, 0, 3, 1]]).double()[None]

    def reference(x, *, written):
        y = x + 0
        value, places = torch.nn.functional.max_pool2d(y, 2, return_indices=True)
        if written:
            y.zero_()
        return value, places

    for written in (False, True):
        value, places = track.track(lambda x, w=written: reference(x, written=w), [x]).outputs
        assert value.grade.flatten().tolist() == [0, 0]
        assert places.grade.flatten().tolist() == [2, 0]
        assert places.ended.number == 2
    tracked = track.track(lambda x: torch.nn.functional.max_pool2d(x, 2, return_indices=True)[1][:, :, 1:] * 2, [x])
    assert tracked.outputs[0].grade.tolist() == [[[0]]]
    with pytest.raises(ProgramError, match="looks at a value that is not exact"):
        track.track(lambda x: torch.nn.functional.max_pool2d(x, 2, return_indices=True)[1].tolist() and x, [x])


def test_what_a_run_leaves_behind_goes_with_it():
    """Nothing waits for Python's collector of cycles: what was tracked may be large."""
    x = torch.arange(-32.0, 32.0).double().reshape(1, 1, 8, 8)

    def reference(x):
        y = torch.cat([torch.nn.functional.max_pool2d(x, 2), x[:, :, :4, :4].cumsum(2) + 1])
        y[0, 0, 0] += 2
        return torch.where(y > 0, y, -y).sum((2, 3))

    track.track(reference, [x])
    gc.collect()
    gc.disable()
    try:
        track.track(reference, [x])
        assert gc.collect() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("special", [None, 0.5, 2.0**-30, float("inf"), float("nan"), -(2.0**40), -0.0])
def test_one_pass_with_numba_says_what_pytorchs_operations_say(special, monkeypatch):
    """Quantum, range and sums of moduli, of more elements than a block has; with it and without it."""
    pytest.importorskip("numba")
    values = torch.randint(-9, 9, (97, 700), generator=torch.Generator().manual_seed(3)).double()
    if special is not None:
        values[96, 699] = special
    found = {}
    for way in (Compiled(HOST, fewest=1), HostFused()):
        monkeypatch.setattr(HOST, "fused", way)
        for dims in (None, [1], [-1], [0], [0, 1]):
            for keep in (False, True):

                def add(x, dims=dims, keep=keep):
                    return x.sum() if dims is None and not keep else x.sum(dims, keepdim=keep)

                moduli = SumOfModuli(values, add, dims, keep=keep)
                assert moduli.aside is not None
                seen = quantum_within(values.reshape(-1), lambda _: 2.0**35, moduli.aside)
                assert found.setdefault((str(dims), keep), seen) == seen
                wanted = values.abs().sum(dims, keepdim=keep)
                assert moduli.result().shape == wanted.shape, (dims, keep)
                assert torch.allclose(moduli.result(), wanted, rtol=1e-12, atol=0, equal_nan=True)


PASSES = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: torch.sub(x, y, alpha=4),
    "add twice": lambda x, y: (x + y) + (x - y),
    "in place": lambda x, y: x.clone().add_(y, alpha=-2),
    "cumsum": lambda x, y: x.cumsum(-1) * y,
    "cumsum of sums": lambda x, y: (x + y).cumsum(1),
    "cumsum down": lambda x, y: (x - y).cumsum(0),
    "broadcast": lambda x, y: x[:1] + y,
    "transposed": lambda x, y: x.T + y.T.contiguous(),
    "three dimensions": lambda x, y: (x.reshape(7, 6, -1) + y.reshape(7, 6, -1)).cumsum(2),
    "a number": lambda x, y: (x + 1) - y * 0.5,
}


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("scale", [1.0, 2.0**20, 2.0**-70])
def test_bounds_of_one_pass_are_those_of_many(name, scale, monkeypatch):
    """With Numba for the smallest tensors, and without it."""
    pytest.importorskip("numba")
    x, y = (torch.randint(-9, 9, (42, 36), generator=torch.Generator().manual_seed(i)).double() * scale for i in (0, 1))
    found = []
    for way in (Compiled(HOST, fewest=1), HostFused()):
        monkeypatch.setattr(HOST, "fused", way)
        (output,) = track.track(PASSES[name], [x, y]).outputs
        found.append((output.values, output.bound, output.grade))
        if isinstance(way, Compiled) and name in ("add", "cumsum of sums") and scale == 1:
            assert way._trusted["moduli", ""]
    for one, other in zip(*found, strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))
