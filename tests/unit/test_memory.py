from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from zeroulp import Matmul, encoding, memory
from zeroulp.formats import TABLE, format_named
from zeroulp.problem import LAYOUTS, Operand

FORMATS = [f for f in TABLE if not f.is_scale]


def arranged(problem, layouts):
    """Regions of all operands and the output, in the given layouts in turn, and their block."""
    operands = [*problem.operands, problem.output]
    regions, size = memory.arrange([(o, LAYOUTS[name]) for o, name in zip(operands, itertools.cycle(layouts))])
    return regions, np.zeros(size, np.uint8)


PROBLEMS = [Matmul(3, 5, 7, a="half", beta=1, bias="fp32"), Matmul(1, 1, 1, a="e4m3", out="fp64"), Matmul(0, 4, 0, a="bf16"),
            Matmul(2, 3, 4, batch=(2, 2), a="int8")]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("first", LAYOUTS)
def test_regions_never_overlap_and_guards_surround_them(problem, first):
    regions, block = arranged(problem, [first, *LAYOUTS])
    for before, after in itertools.pairwise(regions):
        assert before.high <= after.low
    assert regions[-1].high <= len(block)
    for region in regions:
        guard = memory.GUARD_ELEMENTS * region.dtype.itemsize
        memory.raw(block, region)[:] = 1
        encoding.bits_of(memory.view(block, region))[...] = 0
        own = np.flatnonzero(memory.raw(block, region).view(encoding.code_dtype(format_named(region.format))) == 0)
        if own.size:
            size = region.dtype.itemsize
            assert own[0] * size + region.low == region.start
            assert own[0] * size >= guard
            assert region.high - region.low - (own[-1] + 1) * size >= guard
        memory.raw(block, region)[:] = 0


@pytest.mark.parametrize("format_", FORMATS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_first_elements_are_aligned_but_for_the_offset(format_, layout):
    regions, _ = memory.arrange([(Operand(name, format_, (3, 5)), layout) for name in "xyz"])
    for region in regions:
        assert region.start % 64 == layout.offset * region.dtype.itemsize
        assert (region.high - region.low) % region.dtype.itemsize == region.low % 64 == 0


def test_views_share_the_block_and_have_the_layout():
    operand = Operand("x", format_named("half"), (3, 5))
    (region,), size = memory.arrange([(operand, LAYOUTS["padded-column"])])
    block = np.zeros(size, np.uint8)
    array = memory.view(block, region)
    array[2, 4] = 1
    assert (array.shape, array.strides, array.dtype) == ((3, 5), (2, 16), np.float16)
    assert block[region.start + 2 * (2 + 4 * 8) :][:2].view(np.float16)[0] == 1
    assert np.shares_memory(array, block)


def test_a_region_survives_as_plain_data():
    (region,), _ = memory.arrange([(Operand("x", format_named("bf16"), (3, 5)), LAYOUTS["offset"])])
    assert memory.Region.from_dict(json.loads(json.dumps(region.to_dict()))) == region


@pytest.mark.parametrize("format_", FORMATS, ids=str)
def test_poison_is_nan_or_else_the_largest_number(format_):
    codes = np.array([memory.poison_code(format_), memory.poison_code(format_, second=True)], encoding.code_dtype(format_))
    if format_.has_nan:
        assert encoding.is_nan(codes, format_).all()
    else:
        assert encoding.decode(codes, format_)[0] == format_.max_finite
    single_nan = format_.name.endswith("fnuz")
    assert (codes[0] == codes[1]) == single_nan


@pytest.mark.parametrize("format_", FORMATS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_fill_covers_guards_and_gaps(format_, layout):
    (other, region), size = memory.arrange([(Operand(name, format_, (3, 5)), layout) for name in "xy"])
    block = np.zeros(size, np.uint8)
    memory.fill(block, region, memory.poison_code(format_))
    codes = memory.raw(block, region).view(encoding.code_dtype(format_))
    assert (codes == memory.poison_code(format_)).all()
    assert not memory.raw(block, other).any()


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS.values() if not layout.broadcast], ids=lambda layout: layout.name)
def test_outside_sees_every_byte_but_the_arrays_own(layout):
    format_ = format_named("half")
    (region,), size = memory.arrange([(Operand("out", format_, (3, 5)), layout)])
    block = np.zeros(size, np.uint8)
    memory.fill_guarded_output(block, region, 0x1234)
    assert (encoding.bits_of(memory.view(block, region)) == 0x1234).all()
    before = memory.outside(block, region)
    encoding.bits_of(memory.view(block, region))[...] = 0x4321
    assert memory.is_same_outside(before, block, region)
    own = {region.start + 2 * (i * region.strides[0] + j * region.strides[1]) for i in range(3) for j in range(5)}
    inside = own | {address + 1 for address in own}
    for address in (region.low, region.high - 1, region.start - 1, *range(region.start, max(inside) + 4)):
        block[address] ^= 1
        assert memory.is_same_outside(before, block, region) == (address in inside)
        block[address] ^= 1


@pytest.mark.parametrize("layouts", ["contiguous", "column", "padded", "padded-column", "offset"])
@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1), (1, 1), (0, 4)])
def test_what_lies_beside_elements_is_filled_as_with_everything(layouts, shape):
    """Elements are written afterwards, so that both ways come to the same."""
    operand = Matmul(shape[0], 5, shape[1], a="float16").operands[0]
    regions, size = memory.arrange([(operand, LAYOUTS[layouts])])
    blocks = [np.full(size, 77, np.uint8) for _ in range(2)]
    memory.fill(blocks[0], regions[0], 0x7E11)
    memory.fill_beside(blocks[1], regions[0], 0x7E11)
    for block in blocks:
        memory.view(block, regions[0])[...] = 1
    assert np.array_equal(memory.raw(blocks[0], regions[0]), memory.raw(blocks[1], regions[0]))
