"""Fingerprints: the same for the same bits in any library and any strides, another one for a change anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from zeroulp.arrays.fingerprint import fingerprint

SHAPES = [(0,), (1,), (7,), (3, 0), (5, 9), (2, 3, 4), (1, 600, 700), (70000,), (3, 500, 129)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_strides_and_libraries_make_no_difference(shape, dtype, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    array = np.random.default_rng(1).integers(0, 200, shape).astype(dtype)
    seen = set()
    for piece in (1 << 24, 1 << 12):
        monkeypatch.setattr("zeroulp.arrays.fingerprint._PIECE", piece)
        there = torch.from_numpy(array.view(f"i{array.itemsize}") if array.itemsize > 1 else array)
        wide = np.zeros((*shape[:-1], shape[-1] + 3), dtype)
        wide[..., 2:-1] = array
        same = {fingerprint(array), fingerprint(np.asfortranarray(array)), fingerprint(wide[..., 2:-1]), fingerprint(there),
                fingerprint(torch.from_numpy(np.asfortranarray(there.numpy())))}
        assert len(same) == 1
        seen |= same
    assert len(seen) <= 2


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32", "float64"])
def test_a_change_anywhere_shows(dtype):
    generator = np.random.default_rng(2)
    array = generator.integers(0, 100, (37, 4001)).astype(dtype)
    before = fingerprint(array)
    for place in [(0, 0), (36, 4000), *zip(generator.integers(0, 37, 20), generator.integers(0, 4001, 20))]:
        changed = array.copy()
        changed[place] += 1
        assert fingerprint(changed) != before


def test_changes_that_a_weighted_sum_of_words_cannot_see():
    array = np.ones((64, 64), np.float32)
    for places in ([1, 3], [1, 101], [1, 3, 5, 7], [1, 65, 129, 193]):
        changed = array.copy()
        changed.ravel()[places] *= -1
        assert fingerprint(changed) != fingerprint(array)
    exchanged = np.arange(4096, dtype=np.uint32).reshape(64, 64)
    assert fingerprint(exchanged) != fingerprint(exchanged.T)


def test_one_element_has_a_fingerprint_whatever_its_strides():
    torch = pytest.importorskip("torch")
    whole = torch.arange(8, dtype=torch.int16)
    one = torch.as_strided(whole, (1, 1), (3, 6), 2)
    assert fingerprint(one) == fingerprint(one.numpy()) == fingerprint(np.full((1, 1), 2, np.uint16))
