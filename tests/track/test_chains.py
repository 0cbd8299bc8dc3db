"""PyTorch itself, in the formats of the contract, returns what is tracked: random chains of operators."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.track.chains import STEPS, chain
from zeroulp import track

CONTRACTS = [("float32", "float32"), ("float16", "any"), ("bfloat16", "any")]
"""In 16 bits PyTorch's own index_add and fold store partial sums in the result."""


@pytest.mark.parametrize("storage, sums", CONTRACTS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), length=st.integers(1, 4), one_dnn=st.booleans())
def test_pytorch_agrees_wherever_it_is_exact(storage, sums, seed, length, one_dnn):
    _, reference, operands = chain(seed, length)
    tracked = track.track(reference, operands, storage=storage, accumulate=sums)
    with torch.backends.mkldnn.flags(enabled=one_dnn, allow_tf32=None):
        check = track.self_check(tracked)
    if not check.unsupported:
        assert check.agrees
        assert not check.outputs[0].rounded_once


def test_most_chains_are_exact_in_part_and_every_step_is_known():
    shares, seen = [], set()
    for seed in range(80):
        names, reference, operands = chain(seed, 2)
        tracked = track.track(reference, operands)
        shares.append(tracked.share())
        seen.update(names)
        assert not tracked.unknown
    assert len(seen) > 0.9 * len(STEPS)
    assert sum(share == 1 for share in shares) > 40


def test_a_library_that_stores_partial_sums_is_caught_by_the_self_check():
    """PyTorch's index_add in bfloat16 rounds after each row; that is no kernel of a contract of float32 sums."""
    x = torch.tensor([256.0, 1.0, 1.0]).double()
    index = torch.zeros(3, dtype=torch.long)

    def reference(x, index):
        return torch.zeros_like(x).index_add(0, index, x)

    declared = track.track(reference, [x, index], storage="bfloat16")
    assert declared.outputs[0].values[0].item() == 258
    check = track.self_check(declared)
    assert check.outputs[0].first == ((0,), 258.0, 256.0)
    assert check.demote(declared).share() == 0
    stored = track.track(reference, [x, index], storage="bfloat16", accumulate="any")
    assert stored.outputs[0].grade.tolist() == [2, 0, 0]
    assert track.self_check(stored).agrees
