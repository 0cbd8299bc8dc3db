"""Strange but correct kernels return the bits that the tracker says; where it says nothing they often differ."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.track.kernels import N, Kernel, problem, reference
from zeroulp import track

CONTRACTS = [("float32", "float32"), ("float16", "float32"), ("bfloat16", "float32"), ("float16", "any"),
             ("bfloat16", "any"), ("float32", "float16"), ("float32", "any")]


def compare(seed, storage, sums, kernels=5, depth=4, **more):
    """The grades, and where some kernel differs from the tracked values."""
    tree, leaves = problem(seed, depth)
    operands = [leaf.to(getattr(torch, storage)) for leaf in leaves]
    tracked = track.track(reference(tree), operands, storage=storage, accumulate=sums, **more).outputs[0]
    kept = storage if sums == "any" else sums
    differ = torch.zeros(N, N, dtype=torch.bool)
    for k in range(kernels):
        rng = np.random.default_rng([seed, k])
        found = Kernel(rng, getattr(torch, storage), getattr(torch, kept)).run(tree, operands, more.get("refactored", True))
        # NaN: what no output depends on left the range of float16, and was multiplied by zero
        differ |= (found != tracked.values) & ~(torch.isnan(found) & (kept == "float16"))
    return tracked, differ


@pytest.mark.parametrize("storage, sums", CONTRACTS)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_no_kernel_differs_where_it_is_exact(storage, sums, seed):
    tracked, differ = compare(seed, storage, sums)
    assert not differ[tracked.grade < int(track.Grade.NOT_EXACT)].any()


@pytest.mark.parametrize("storage, sums", CONTRACTS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_no_kernel_of_single_operations_differs_where_each_is_exact(storage, sums, seed):
    tracked, differ = compare(seed, storage, sums, refactored=False)
    assert not differ[tracked.grade < int(track.Grade.NOT_EXACT)].any()
    assert tracked.share(track.Grade.ALGEBRAIC) >= compare(seed, storage, sums, kernels=0)[0].share(track.Grade.ALGEBRAIC)


@pytest.mark.parametrize("storage, sums", CONTRACTS)
def test_the_tracker_is_not_merely_timid(storage, sums):
    """Most programs of small integers are exact, and where the tracker says no, kernels do differ."""
    exact = refused = differing = 0
    for seed in range(60):
        tracked, differ = compare(seed, storage, sums)
        open_ = tracked.grade == int(track.Grade.NOT_EXACT)
        exact += int((~open_).sum())
        refused += int(open_.sum())
        differing += int((open_ & differ).sum())
    assert exact > 0.4 * 60 * N * N
    assert differing > 0.25 * refused


def test_sums_just_within_the_budget_are_exact_and_just_beyond_they_are_not():
    for value, grade in ((2.0**24 - 1, 0), (2.0**24, 2)):
        x = torch.tensor([[value, 1.0]])
        assert track.track(lambda x: x.sum(1), [x]).outputs[0].grade.tolist() == [grade]


def test_a_merged_kernel_is_allowed_for_and_a_kernel_of_single_operations_need_not_be():
    """x @ W1 @ W2, whose middle cancels: only a kernel that multiplies the matrices first rounds."""
    x, first = torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0**20], [1 - 2.0**20]])
    second = torch.full((1, 1), 63.0)
    merged = track.track(lambda x, a, b: x @ a @ b, [x, first, second])
    single = track.track(lambda x, a, b: x @ a @ b, [x, first, second], refactored=False)
    assert merged.outputs[0].grade.item() == 2
    assert single.outputs[0].grade.item() == 0
    assert single.outputs[0].values.item() == 63


def test_fewer_bits_of_sums_leave_fewer_exact():
    x = torch.tensor([[2.0**k, 1.0] for k in range(20)])
    counts = [int((track.track(lambda x: x.sum(1), [x], accumulator_bits=b).outputs[0].grade == 0).sum()) for b in (8, 11, 14)]
    assert counts == [8, 11, 14]


def test_a_result_beyond_the_range_of_its_format_is_not_exact():
    x = torch.tensor([[60000.0, 4000.0], [60000.0, 6000.0]], dtype=torch.float16)
    assert track.track(lambda x: x.sum(1), [x], storage="float16").outputs[0].grade.tolist() == [0, 2]
    small = torch.tensor([2.0**-7, 2.0**-8], dtype=torch.float16)
    assert track.track(lambda x: x * x, [small], storage="float16").outputs[0].grade.tolist() == [0, 2]


def test_subnormal_operands_are_not_exact():
    tracked = track.track(lambda x: x * 1024, [torch.tensor([2.0**-15, 2.0**-14], dtype=torch.float16)], storage="float16")
    assert tracked.outputs[0].grade.tolist() == [2, 0]


def test_what_is_stored_between_two_sums_is_rounded_once_and_then_lost():
    x = torch.tensor([[256.0, 1.0], [256.0, 2.0]], dtype=torch.bfloat16)
    once = track.track(lambda x: x.sum(1), [x], storage="bfloat16").outputs[0]
    assert once.grade.tolist() == [1, 0]
    assert once.values.tolist() == [256, 258]
    kept = track.track(lambda x: torch.relu(x.sum(1)) * -4, [x], storage="bfloat16").outputs[0]
    assert kept.grade.tolist() == [1, 0]
    assert track.track(lambda x: x.sum(1) + 1, [x], storage="bfloat16").outputs[0].grade.tolist() == [2, 1]


def test_formats_that_the_program_names_are_the_formats_of_its_tensors():
    x = torch.tensor([[256.0, 1.0]], dtype=torch.bfloat16)

    def reference(x):
        wide = x.to(torch.float32)
        assert wide.dtype == torch.float32
        assert x.dtype == torch.bfloat16
        total = wide.sum(1)
        return total, total.to(x.dtype), total.type_as(x), total.to(x)

    tracked = track.track(reference, [x], storage="bfloat16")
    assert [str(output.format) for output in tracked.outputs] == ["float32", "bfloat16", "bfloat16", "bfloat16"]
    assert [output.values.item() for output in tracked.outputs] == [257, 256, 256, 256]
    assert [output.grade.item() for output in tracked.outputs] == [0, 1, 1, 1]
    assert track.self_check(tracked).agrees


def test_a_rounded_value_that_is_widened_is_not_exact():
    """A kernel may not have rounded it yet."""
    x = torch.tensor([[256.0, 1.0]], dtype=torch.bfloat16)
    assert track.track(lambda x: x.sum(1).float(), [x], storage="bfloat16").outputs[0].grade.item() == 2


def test_views_and_writes_share_what_is_known():
    def reference(x, w):
        out = torch.empty(4, 4)
        flat = out.view(-1)
        out[:2] = x @ w
        flat[8:12] = torch.exp(x[0])
        out[3].fill_(2.0).mul_(3.0)
        out.t()[0].add_(1)
        return out, flat[:8]

    x = torch.arange(16.0).reshape(4, 4)[:2].clone()
    tracked = track.track(reference, [x, torch.ones(4, 4)])
    assert tracked.outputs[0].grade.amax(1).tolist() == [0, 0, 2, 0]
    assert tracked.outputs[0].values[3].tolist() == [7, 6, 6, 6]
    assert tracked.outputs[1].share(track.Grade.ALGEBRAIC) == 1


def test_integers_are_written_as_they_are():
    def reference(x, i):
        big = torch.zeros(3, dtype=torch.long)
        big.copy_(i)
        big += 1
        places = torch.zeros(3, dtype=torch.long)
        places[:2] = x.argmax(1)
        torch.add(big, 1, out=big)
        return big, places

    x = torch.tensor([[1.0, 3.0, 3.0], [1.0, 3.0, 2.0]])
    tracked = track.track(reference, [x, torch.tensor([2**60 + 1, -5, 7])])
    assert tracked.outputs[0].values.tolist() == [2**60 + 3, -3, 9]
    assert tracked.outputs[0].values.dtype == torch.int64
    assert tracked.outputs[1].grade.tolist() == [2, 0, 0]


def test_results_are_written_where_the_program_says():
    def reference(x, w):
        out = torch.empty(6, 5)
        torch.mm(x, w, out=out)
        torch.add(out, 1, out=out)
        total = torch.zeros(6, 5, dtype=torch.float32)
        total += out
        total.index_add_(0, torch.tensor([0, 0]), out[:2].float())
        total[0, 0].div_(3)
        return out, total

    x, w = torch.arange(48.0).double().reshape(6, 8), torch.ones(8, 5).double()
    tracked = track.track(reference, [x, w], storage="bfloat16")
    assert [str(output.format) for output in tracked.outputs] == ["bfloat16", "float32"]
    assert tracked.outputs[0].grade.amax(1).tolist() == [0, 0, 0, 0, 1, 1]
    assert tracked.outputs[1].grade[:, 1:].amax(1).tolist() == [0, 0, 0, 0, 2, 2]
    assert tracked.outputs[1].values[0, 1] == 29 + 29 + 93
    assert track.self_check(tracked).agrees


def test_memory_that_nobody_wrote_to_is_not_exact():
    tracked = track.track(lambda x: torch.empty(3, 4) + x, [torch.ones(3, 4)])
    assert tracked.share() == 0
    assert "nobody wrote" in tracked.outputs[0].ended.reason


def test_a_constant_is_rounded_to_float32_first():
    x = torch.tensor([1.0, 2.0, 3.0])
    tracked = track.track(lambda x: x * 0.1, [x]).outputs[0]
    assert tracked.grade.tolist() == [0, 0, 1]
    assert torch.equal(tracked.values.float(), x * torch.tensor(0.1))
    assert track.track(lambda x: (x * 0.1).cumsum(0), [x]).outputs[0].grade.tolist() == [0, 2, 2]


def test_a_number_that_a_kernel_may_take_for_zero_is_not_exact():
    tracked = track.track(lambda x: (x.clamp(min=1e-40), torch.full_like(x, 1e-40)), [torch.tensor([-1.0, 1.0])])
    assert [output.grade.tolist() for output in tracked.outputs] == [[2, 0], [2, 2]]


def test_what_is_no_number_is_not_exact():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    tracked = track.track(lambda x: (x * 1, torch.relu(x), x > 0, x.int(), x.masked_fill(x > 0, float("nan"))), [x])
    assert [o.grade.tolist() for o in tracked.outputs] == [
        [2, 2, 2, 0], [2, 0, 0, 0], [2, 0, 0, 0], [2, 2, 2, 0], [2, 2, 0, 2]]


def test_what_passes_through_types_that_are_not_tracked_is_not_exact():
    x = torch.tensor([[0.5, 2.0], [1.0, 1.5]])

    def reference(x):
        total = x.sum(1, keepdim=True)
        rotated = torch.view_as_real(torch.view_as_complex(x) * torch.ones(2, dtype=torch.complex128))
        written = torch.zeros(2, 2, dtype=torch.complex128)
        written.copy_(x)
        written *= 2
        return total.to(torch.float8_e4m3fn).to(torch.float32) + 0, rotated * 1, written.real * 1, torch.complex(x, x).imag

    tracked = track.track(reference, [x])
    assert [output.share(track.Grade.NOT_EXACT) for output in tracked.outputs] == [1, 1, 1, 1]


def test_a_product_of_three_is_not_rounded_once():
    """(a b) c and a (b c) round apart."""
    x = torch.full((1,), 4097.0)
    assert track.track(lambda a: a * 4099, [x]).outputs[0].grade.item() == 1
    assert track.track(lambda a: a * 3 * 4099, [x]).outputs[0].grade.item() == 2


def test_partial_products_stay_within_the_range():
    x, y = torch.full((1,), 2.0**100), torch.full((1,), 2.0**-100)
    assert track.track(lambda x, y: x * y, [x, y]).outputs[0].grade.item() == 0
    assert track.track(lambda x, y: x * y * x * y, [x, y]).outputs[0].grade.item() == 2
