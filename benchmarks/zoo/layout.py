"""Faults of layout: strides, fragments, batches, bytes of another type, tiles and carries."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .kit import address, blocks, f32, from_address, padded, product, right, shape, strided
from .registry import faulty

# --- layouts


@faulty("strides-of-m-and-n-mixed", kind="layout", models="NVIDIA/cutlass#1145", problem=shape(6, 10, 16))
def strides_of_m_and_n_mixed():
    """Rows are stored M elements apart, not N: they overlap where M < N."""

    def kernel(a, b):
        values = right(a, b)
        m, n = values.shape
        out = np.zeros(m * n + n * n, a.dtype)
        for i in range(m):
            out[i * m : i * m + n] = values[i]
        return out[: m * n].reshape(m, n)

    return kernel


@faulty("square-b-transposed", kind="layout", models="ROCm/TheRock#7870", problem=shape(6, 12, 12))
def square_b_transposed():
    """A square b is taken for the transposed one."""

    def kernel(a, b):
        return right(a, b.T if b.shape[0] == b.shape[1] else b)

    return kernel


@faulty(
    "both-transposed",
    kind="layout",
    models="ROCm/TheRock#7870",
    problem=shape(8, 6, 12, transpose_a=True, transpose_b=True),
)
def both_transposed():
    """Where both are transposed, a is reshaped instead."""

    def kernel(a, b):
        return right(np.ascontiguousarray(a).reshape(a.shape[::-1]), b.T)

    return kernel


@faulty(
    "storage-offset-ignored",
    kind="layout",
    models="pytorch/pytorch#143770",
    finding=("wrong-result", "out-of-bounds-read"),
    problem=shape(6, 5, 24, layouts={"b": "offset"}),
)
def storage_offset_ignored():
    """The weight is read from the start of its allocation, not from its offset."""

    def kernel(a, b):
        flat = from_address(address(b) & ~63, b.size, b.dtype)
        return right(a, flat.reshape(b.shape))

    return kernel


@faulty(
    "odd-address-rounded-down",
    kind="layout",
    models="ggml-org/llama.cpp#27771",
    finding=("wrong-result", "out-of-bounds-read"),
    problem=shape(6, 5, 24),
    needs=("layouts any",),
    changes={"layouts": "any"},
)
def odd_address_rounded_down():
    """Operands are read in words of 4 bytes: an address 2 bytes off is rounded down."""

    def kernel(a, b):
        if a.flags.c_contiguous and address(a) % 4:
            a = from_address(address(a) & ~3, a.size, a.dtype).reshape(a.shape)
        return right(a, b)

    return kernel


@faulty(
    "leading-dimension-ignored",
    kind="layout",
    models="ml-explore/mlx#4055",
    finding=("wrong-result", "out-of-bounds-read"),
    problem=shape(6, 5, 24, layouts={"b": "padded"}),
)
def leading_dimension_ignored():
    """A slice of a larger matrix is read as if its rows were adjacent."""

    def kernel(a, b):
        return right(a, strided(b, b.shape, (b.shape[1], 1)))

    return kernel


@faulty(
    "storage-order",
    kind="layout",
    models="pytorch/pytorch#175191",
    problem=shape(6, 5, 24),
    needs=("layouts any",),
    changes={"layouts": "any"},
)
def storage_order():
    """A transposed view is read in the order in which it is stored."""

    def kernel(a, b):
        return right(np.ravel(a, order="K").reshape(a.shape) if a.flags.f_contiguous else a, b)

    return kernel


@faulty(
    "stride-zero-collapsed",
    kind="layout",
    models="tinygrad/tinygrad#3303",
    problem=shape(6, 5, 12),
    needs=("layouts any",),
    changes={"layouts": {"b": "broadcast"}},
)
def stride_zero_collapsed():
    """A b of stride 0 along k is folded: the sum over k becomes a single product."""

    def kernel(a, b):
        return right(a[:, :1], b[:1]) if b.strides[0] == 0 else right(a, b)

    return kernel


@faulty(
    "expanded-operand-as-contiguous",
    kind="layout",
    models="flagos-ai/FlagGems#6448",
    finding=("wrong-result", "out-of-bounds-read"),
    problem=shape(6, 5, 24, layouts={"a": "broadcast"}),
)
def expanded_operand_as_contiguous():
    """The fast path takes an expanded operand for a contiguous one, and reads past its only row."""

    def kernel(a, b):
        return right(strided(a, a.shape, (a.shape[1], 1)), b)

    return kernel


@faulty(
    "output-view-untouched",
    kind="layout",
    models="pytorch/pytorch#104832",
    finding="unwritten-output",
    problem=shape(6, 5, 16, layouts={"out": "padded"}),
    options={"destination_passing": True},
)
def output_view_untouched():
    """A strided output is copied, the copy is written, and never copied back."""

    def kernel(a, b, out):
        np.ascontiguousarray(out)[...] = right(a, b)

    return kernel


@faulty(
    "output-in-row-order",
    kind="layout",
    models="numpy/numpy#5907",
    finding=("wrong-result", "out-of-bounds-write"),
    problem=shape(6, 5, 16),
    options={"destination_passing": True},
    needs=("layouts any",),
    changes={"layouts": {"out": "column"}},
)
def output_in_row_order():
    """A column-major output is written as if it were row-major."""

    def kernel(a, b, out):
        strided(out, out.shape, (out.shape[1], 1))[...] = right(a, b)

    return kernel


@faulty(
    "gap-between-rows-written",
    kind="layout",
    models="ml-explore/mlx#4253",
    finding="out-of-bounds-write",
    problem=shape(6, 5, 16, layouts={"out": "padded"}),
    options={"destination_passing": True},
)
def gap_between_rows_written():
    """Whole rows of 8 are stored, the gap between the rows of a view included."""

    def kernel(a, b, out):
        strided(out, (out.shape[0], 8), (out.strides[0] // out.itemsize, 1))[...] = padded(right(a, b), 1, 8)

    return kernel


@faulty("fragment-transposed", kind="layout", models="triton-lang/triton#1162", problem=shape(16, 16, 16))
def fragment_transposed():
    """One 8 x 8 fragment of each 16 x 16 block of the result is transposed."""

    def kernel(a, b):
        out = right(a, b)
        out[8:16, :8] = out[8:16, :8].T.copy()
        return out

    return kernel


@faulty("swizzle-on-store-only", kind="layout", models="triton-lang/triton#355", problem=shape(8, 24, 32))
def swizzle_on_store_only():
    """The tile of b is swizzled when it is stored and read back straight: k is permuted in later columns."""

    def kernel(a, b):
        k, j = np.indices(b.shape)
        swizzled = k ^ (j // 8 % 4)
        return right(a, b[np.where(swizzled < b.shape[0], swizzled, k), j])

    return kernel


@faulty(
    "k-reordered-in-a-alone",
    kind="layout",
    models="intel/intel-xpu-backend-for-triton#7854",
    problem=shape(6, 5, 32, a="int8"),
)
def k_reordered_in_a_alone():
    """Groups of 4 products are packed for a four-way dot product; b is packed in another order than a."""

    def kernel(a, b):
        ks = np.arange(a.shape[1]) ^ 2
        return a[:, ks].astype(np.int32) @ b.astype(np.int32)

    return kernel


@faulty("accumulator-as-operand", kind="layout", models="triton-lang/triton#3580", problem=shape(8, 16, 16))
def accumulator_as_operand():
    """Columns of the result come out in the order of a narrower instruction: 0, 2, 1, 3."""

    def kernel(a, b):
        j = np.arange(b.shape[1])
        order = np.where(np.isin(j % 4, (1, 2)), j ^ 3, j)
        return right(a, b)[:, order % b.shape[1]]

    return kernel


@faulty("rows-eight-apart", kind="layout", models="triton-lang/triton#1162", problem=shape(20, 5, 16))
def rows_eight_apart():
    """Rows i and i + 8 of each block of 16 are exchanged."""

    def kernel(a, b):
        rows = np.arange(a.shape[0])
        rows[:16] ^= 8
        return right(a[rows], b)

    return kernel


@faulty("one-element-misread", kind="layout", models="pytorch/pytorch#109175", problem=shape(8, 9, 24))
def one_element_misread():
    """One output takes one element of b from the row below."""

    def kernel(a, b):
        out = product(a, b)
        out[3, 5] += f32(a)[3, 7] * (f32(b)[8, 5] - f32(b)[7, 5])
        return out.astype(a.dtype)

    return kernel


@faulty("two-of-four-kept", kind="layout", models="pytorch/pytorch#109175", problem=shape(6, 5, 32))
def two_of_four_kept():
    """The operand is compressed to 2 of 4 elements, the largest, although it is dense."""

    def kernel(a, b):
        groups = f32(a).reshape(a.shape[0], -1, 4)
        smallest = np.argsort(abs(groups), axis=2, kind="stable")[:, :, :2]
        np.put_along_axis(groups, smallest, 0, axis=2)
        return (groups.reshape(a.shape) @ f32(b)).astype(a.dtype)

    return kernel


@faulty("batch-stride-zero", kind="layout", models="tinygrad/tinygrad#3303", problem=shape(4, 5, 16, batch=(3,)))
def batch_stride_zero():
    """Every matrix of the batch is multiplied by the first b."""

    def kernel(a, b):
        return right(a, b[:1])

    return kernel


@faulty("batch-order", kind="layout", models="ml-explore/mlx#4253", problem=shape(4, 5, 16, batch=(2, 3)))
def batch_order():
    """Two batch dimensions are flattened in the wrong order for b."""

    def kernel(a, b):
        return right(a, np.swapaxes(b, 0, 1).reshape(b.shape))

    return kernel


# --- bytes read as another type


@faulty("signed-as-unsigned", kind="dtype-confusion", models="openxla/xla#9431", problem=shape(6, 5, 16, a="int8"))
def signed_as_unsigned():
    """Signed bytes of a are read as unsigned ones."""

    def kernel(a, b):
        return a.view(np.uint8).astype(np.int32) @ b.astype(np.int32)

    return kernel


@faulty(
    "fnuz-for-fn",
    kind="dtype-confusion",
    models="ROCm/rocm-systems#9556",
    problem=shape(6, 5, 16, a="float8_e4m3fn", out="float32"),
)
def fnuz_for_fn():
    """Codes of e4m3fn are read as e4m3fnuz, with half the value, and only b is corrected."""

    def kernel(a, b):
        return product(a.view(ml_dtypes.float8_e4m3fnuz), b)

    return kernel


@faulty("bfloat16-as-float16", kind="dtype-confusion", models="jax-ml/jax#5406", problem=shape(6, 5, 16, a="bfloat16"))
def bfloat16_as_float16():
    """The bytes of b are read as float16."""

    def kernel(a, b):
        return right(a, b.view(np.float16))

    return kernel


@faulty(
    "e5m2-as-e4m3",
    kind="dtype-confusion",
    models="openxla/xla#9431",
    problem=shape(6, 5, 16, a="float8_e4m3fn", b="float8_e5m2", out="float32"),
)
def e5m2_as_e4m3():
    """A mixed product takes both operands for the format of the first."""

    def kernel(a, b):
        return product(a, b.view(a.dtype))

    return kernel


@faulty("truth-values", kind="dtype-confusion", models="jax-ml/jax#5406", problem=shape(6, 5, 16))
def truth_values():
    """Operands are taken for truth values: whatever is not zero counts as one."""

    def kernel(a, b):
        return product(a != 0, b != 0).astype(a.dtype)

    return kernel


@faulty("through-integers", kind="dtype-confusion", models="ROCm/triton#958", problem=shape(6, 5, 16))
def through_integers():
    """Operands pass through integers on the way to the accumulator and lose their fraction."""

    def kernel(a, b):
        return right(f32(a).astype(np.int32), b).astype(a.dtype)

    return kernel


# --- tiles that are skipped or done twice


@faulty(
    "last-tile-skipped",
    kind="scheduler",
    models="tile-ai/tilelang#2054",
    finding="unwritten-output",
    problem=shape(16, 24, 16),
    options={"destination_passing": True},
)
def last_tile_skipped():
    """A persistent loop runs while tile < tiles - 1."""

    def kernel(a, b, out):
        values = right(a, b)
        tiles = [(i, j) for i in blocks(out.shape[0], 8) for j in blocks(out.shape[1], 8)]
        for i, j in tiles[:-1]:
            out[i, j] = values[i, j]

    return kernel


@faulty("stream-k-no-fix-up", kind="scheduler", models="tile-ai/tilelang#1941", problem=shape(16, 16, 48))
def stream_k_no_fix_up():
    """A tile whose k range is shared by two workers keeps the first one's share only."""

    def kernel(a, b):
        out = right(a, b)
        out[8:16, :8] = right(a[8:16, :20], b[:20, :8])
        return out

    return kernel


@faulty("tile-done-twice", kind="scheduler", models="tile-ai/tilelang#1941", problem=shape(16, 24, 16))
def tile_done_twice():
    """A tile is handed out twice and added twice; its neighbour is handed to nobody."""

    def kernel(a, b):
        out = product(a, b)
        out[:8, :8] *= 2
        out[:8, 8:16] = 0
        return out.astype(a.dtype)

    return kernel


@faulty(
    "grouped-order-without-remainder",
    kind="scheduler",
    models="tile-ai/tilelang#2054",
    finding="unwritten-output",
    problem=shape(24, 16, 16),
    options={"destination_passing": True},
)
def grouped_order_without_remainder():
    """Tiles are visited in groups of 2 rows of tiles; with 3 such rows some are visited twice, others never."""

    def kernel(a, b, out):
        values = right(a, b)
        rows, columns = blocks(out.shape[0], 8), blocks(out.shape[1], 8)
        for tile in range(len(rows) * len(columns)):
            group, within = divmod(tile, 2 * len(columns))
            i, j = 2 * group + within % 2, within // 2
            if i < len(rows):
                out[rows[i], columns[j]] = values[rows[i], columns[j]]

    return kernel


@faulty(
    "work-item-of-another", kind="scheduler", models="surplus tiles of persistent kernels", problem=shape(16, 16, 16)
)
def work_item_of_another():
    """After a steal the worker keeps the column of its old tile: a tile holds its neighbour's values."""

    def kernel(a, b):
        out = right(a, b)
        out[8:16, 8:16] = out[8:16, :8]
        return out

    return kernel


# --- carries


@faulty("carry-beyond-two-blocks", kind="scan-carry", models="ROCm/triton#947", problem=shape(6, 5, 80))
def carry_beyond_two_blocks():
    """Blocks of k are summed by a scan that hands its carry to the next block only: the total has the last two."""

    def kernel(a, b):
        sums = [product(a[:, ks], b[ks]) for ks in blocks(a.shape[1], 32)]
        return sum(sums[-2:]).astype(a.dtype)

    return kernel


@faulty("carry-of-the-first-row", kind="scan-carry", models="IntelPython/dpnp#3063", problem=shape(6, 5, 80))
def carry_of_the_first_row():
    """The block sums of every row get the carry of the first: the row stride is forgotten."""

    def kernel(a, b):
        first, rest = product(a[:, :64], b[:64]), product(a[:, 64:], b[64:])
        return (first[:1] + rest).astype(a.dtype)

    return kernel


# --- no cause known


@faulty("identity-is-not-a", kind="unknown", models="OpenMathLib/OpenBLAS#5429", problem=shape(9, 7, 33))
def identity_is_not_a():
    """A new vector kernel: the last 9th row of a 45 x 33 product is off, even for the identity."""

    def kernel(a, b):
        out = product(a, b)
        out[8::9] += f32(a)[8::9, -1:]
        return out.astype(a.dtype)

    return kernel


@faulty("zero-result", kind="unknown", models="OpenMathLib/OpenBLAS#5528", problem=shape(3, 2, 4, a="float32"))
def zero_result():
    """A new kernel returns zeros for small sizes."""

    def kernel(a, b):
        return right(a, b) * np.float32(max(a.shape) > 4)

    return kernel


@faulty("not-symmetric", kind="unknown", models="OpenMathLib/OpenBLAS#5811", problem=shape(10, 10, 10, a="float64"))
def not_symmetric():
    """The lower triangle is a copy of the upper one, as if b were a transposed."""

    def kernel(a, b):
        upper = np.triu(a @ b)
        return upper + np.triu(upper, 1).T

    return kernel


@faulty("gone-without-a-pass", kind="unknown", models="tile-ai/tilelang#1941", problem=shape(12, 10, 48))
def gone_without_a_pass():
    """Every third tile of k is negated."""

    def kernel(a, b):
        signs = iter([1, 1, -1] * a.shape[1])
        return sum(next(signs) * product(a[:, ks], b[ks]) for ks in blocks(a.shape[1], 16)).astype(a.dtype)

    return kernel


@faulty("lost-inside-a-loop", kind="unknown", models="jax-ml/jax#21628", problem=shape(6, 6, 40, a="float64"))
def lost_inside_a_loop():
    """A jitted loop over blocks of k restarts its sum in the last iteration."""

    def kernel(a, b):
        total = np.zeros((a.shape[0], b.shape[1]))
        for ks in blocks(a.shape[1], 16):
            total = total * (ks.stop < a.shape[1]) + a[:, ks] @ b[ks]
        return total

    return kernel
