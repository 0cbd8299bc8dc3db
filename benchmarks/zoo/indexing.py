"""Faults of indexing: remainders of k, m and n, sizes, offsets that wrap."""

from __future__ import annotations

import numpy as np

from .kit import blocks, f32, padded, partials, product, right, shape, strided
from .registry import faulty

# --- remainders of k


@faulty("k-vector-tail-dropped", kind="k-tail", models="ROCm/composable_kernel#512", problem=shape(6, 5, 133))
def k_vector_tail_dropped():
    """K is read in vectors of 8, and what is left over is not read at all."""

    def kernel(a, b):
        whole = a.shape[-1] // 8 * 8
        return right(a[:, :whole], b[:whole])

    return kernel


@faulty(
    "k-tail-unmasked",
    kind="k-tail",
    models="triton-lang/triton#630",
    finding="out-of-bounds-read",
    problem=shape(6, 5, 39),
)
def k_tail_unmasked():
    """The last tile of 32 is loaded without a mask: what lies behind the operands enters the sum."""

    def kernel(a, b):
        m, n, k = a.shape[0], b.shape[1], -(-a.shape[1] // 32) * 32
        return right(strided(a, (m, k), (a.shape[1], 1)), strided(b, (k, n), (n, 1)))

    return kernel


@faulty(
    "k-tail-masked-in-b-only",
    kind="k-tail",
    models="triton-lang/triton#630",
    finding="out-of-bounds-read",
    problem=shape(6, 5, 39),
)
def k_tail_masked_in_b_only():
    """Only b is masked: a foreign a times zero is nothing, unless it is NaN."""

    def kernel(a, b):
        k = -(-a.shape[1] // 32) * 32
        return right(strided(a, (a.shape[0], k), (a.shape[1], 1)), padded(b, 0, 32))

    return kernel


@faulty("k-below-tile", kind="k-tail", models="NVIDIA/cutlass#2697", problem=shape(6, 5, 8, transpose_b=True))
def k_below_tile():
    """A tile of 16 is read where k is 8: loads are kept within the buffer, not within the row."""

    def kernel(a, b):
        k = a.shape[1]

        def tile(x):
            flat = np.concatenate([x.ravel(), np.zeros(16, x.dtype)])
            return strided(flat, (x.shape[0], max(k, 16)), (k, 1))

        return right(tile(a), tile(b).T)

    return kernel


@faulty("k-tail-clamped", kind="k-tail", models="NVIDIA/cutlass#1866", problem=shape(6, 5, 37))
def k_tail_clamped():
    """Indices past the end are clamped to the last one, which is counted again for each of them."""

    def kernel(a, b):
        ks = np.minimum(np.arange(-(-a.shape[1] // 16) * 16), a.shape[1] - 1)
        return right(a[:, ks], b[ks])

    return kernel


@faulty("k-tail-overlap", kind="k-tail", models="NVIDIA/cutlass#2697", problem=shape(6, 5, 37))
def k_tail_overlap():
    """The last tile is moved back to fit, and the overlap is counted twice."""

    def kernel(a, b):
        k = a.shape[1]
        ks = np.concatenate([np.arange(k // 16 * 16), np.arange(max(k - 16, 0), k) if k % 16 else []]).astype(int)
        return right(a[:, ks], b[ks])

    return kernel


@faulty("k-wrong-remainder", kind="k-tail", models="ml-explore/mlx#3444", problem=shape(6, 5, 96))
def k_wrong_remainder():
    """The loop steps by 64, the remainder is taken modulo 32: k = 96 loses its last 32."""

    def kernel(a, b):
        k = a.shape[1]
        whole = k // 64 * 64
        return (product(a[:, :whole], b[:whole]) + product(a[:, k - k % 32 :], b[k - k % 32 :])).astype(a.dtype)

    return kernel


@faulty("k-tail-stale-tile", kind="k-tail", models="ml-explore/mlx#4009", problem=shape(6, 5, 65))
def k_tail_stale_tile():
    """The rest of k reads the shared tile of b before its own rows have replaced the ones of the tile before."""

    def kernel(a, b):
        b = b.copy()
        start = (b.shape[0] - 1) // 16 * 16
        b[start:] = b[start - 16 : b.shape[0] - 16]
        return right(a, b)

    return kernel


@faulty("k-split-remainder", kind="k-tail", models="pytorch/FBGEMM#6159", problem=shape(6, 5, 67))
def k_split_remainder():
    """Each of 4 splits takes k // 4 products; the k % 4 that are left belong to none."""

    def kernel(a, b):
        each = a.shape[1] // 4
        return sum(product(a[:, i * each :][:, :each], b[i * each :][:each]) for i in range(4)).astype(a.dtype)

    return kernel


@faulty("k-mask-off-by-one", kind="k-tail", models="triton-lang/triton#630", problem=shape(6, 5, 33))
def k_mask_off_by_one():
    """The mask of the last tile says k + 1 < K: the last product is dropped where K is no multiple of 32."""

    def kernel(a, b):
        k = a.shape[1]
        last = k - (k % 32 != 0)
        return right(a[:, :last], b[:last])

    return kernel


@faulty("k-remainder-stale-index", kind="k-tail", models="ROCm/composable_kernel#512", problem=shape(6, 5, 37))
def k_remainder_stale_index():
    """The remainder loop takes rows of b from one tile earlier."""

    def kernel(a, b):
        whole = a.shape[1] // 8 * 8
        rest = a[:, whole:]
        return (product(a[:, :whole], b[:whole]) + product(rest, b[whole - 8 :][: rest.shape[1]])).astype(a.dtype)

    return kernel


@faulty("k-odd-last-pair", kind="k-tail", models="ROCm/rocBLAS#340", problem=shape(6, 5, 33, a="bfloat16"))
def k_odd_last_pair():
    """Elements are read in pairs; for odd k the last pair repeats its first element."""

    def kernel(a, b):
        k = a.shape[1]
        ks = np.arange(k + k % 2)
        ks[-1] = k - 1
        return right(a[:, ks], b[ks])

    return kernel


@faulty(
    "k-tail-transposed-path", kind="k-tail", models="triton-lang/triton#630", problem=shape(6, 5, 37, transpose_a=True)
)
def k_tail_transposed_path():
    """The path for a transposed a steps by 4 and has no remainder loop."""

    def kernel(a, b):
        whole = a.shape[0] // 4 * 4
        return right(a[:whole].T, b[:whole])

    return kernel


@faulty(
    "k-tail-ragged",
    kind="k-tail",
    models="triton-lang/triton#630",
    problem=shape(6, 5, 64),
    needs=("shapes ragged",),
    changes={"k": 65},
)
def k_tail_ragged():
    """Right for the shape it is shown with, a multiple of 32; other k lose their remainder."""

    def kernel(a, b):
        whole = a.shape[1] // 32 * 32
        return right(a[:, :whole], b[:whole])

    return kernel


@faulty(
    "k-window-not-promoted",
    kind="k-tail",
    models="pytorch/FBGEMM#6160",
    problem=shape(6, 5, 144, a="float8_e4m3fn", out="float32"),
)
def k_window_not_promoted():
    """Sums are promoted to float32 every 64 products; the last, shorter window is never promoted."""

    def kernel(a, b):
        return sum(product(a[:, ks], b[ks]) for ks in blocks(a.shape[1], 64) if ks.stop - ks.start == 64)

    return kernel


# --- remainders of m and n


@faulty(
    "n-warps-round-down",
    kind="m-n-tail",
    models="tile-ai/tilelang#2537",
    finding="unwritten-output",
    problem=shape(8, 104, 16),
    options={"destination_passing": True},
)
def n_warps_round_down():
    """Twelve warps share 104 columns in units of 8: the last 8 are nobody's."""

    def kernel(a, b, out):
        written = out.shape[1] // 8 // 12 * 12 * 8
        out[:, :written] = right(a, b)[:, :written]

    return kernel


@faulty("n-grid-rounds-down", kind="m-n-tail", models="ml-explore/mlx#4250", problem=shape(6, 70, 16))
def n_grid_rounds_down():
    """The grid has N // 64 blocks; the columns that are left stay zero."""

    def kernel(a, b):
        out = right(a, b)
        out[:, out.shape[1] // 64 * 64 :] = 0
        return out

    return kernel


@faulty("m-odd-repeats-neighbour", kind="m-n-tail", models="ROCm/rocBLAS#340", problem=shape(3, 5, 4))
def m_odd_repeats_neighbour():
    """Rows are written in pairs; the last of an odd number repeats the one before."""

    def kernel(a, b):
        out = right(a, b)
        if out.shape[0] % 2:
            out[-1] = out[-2]
        return out

    return kernel


@faulty("n-remainder-half-added", kind="m-n-tail", models="pytorch/pytorch#140208", problem=shape(6, 65, 40))
def n_remainder_half_added():
    """The remainder of the columns is summed over the first k block only."""

    def kernel(a, b):
        out = right(a, b)
        whole = out.shape[1] // 16 * 16
        out[:, whole:] = right(a[:, :32], b[:32, whole:])
        return out

    return kernel


@faulty("bounds-of-c-for-a", kind="m-n-tail", models="Cjkkkk/CUDA_gemm#4", problem=shape(12, 8, 20))
def bounds_of_c_for_a():
    """Loads of a are masked by the bounds of c: what lies past column N counts as zero."""

    def kernel(a, b):
        a = a.copy()
        a[:, b.shape[1] :] = 0
        return right(a, b)

    return kernel


@faulty("n-odd-atom", kind="m-n-tail", models="tile-ai/tilelang#2593", problem=shape(8, 24, 16))
def n_odd_atom():
    """A tile of 8 columns modulo 16 gets the descriptor of the atom before."""

    def kernel(a, b):
        js = np.arange(b.shape[1])
        if b.shape[1] % 16 == 8:
            js[-8:] -= 8
        return right(a, b[:, js])

    return kernel


@faulty("m-tail-added-twice", kind="m-n-tail", models="pytorch/pytorch#140208", problem=shape(20, 6, 16))
def m_tail_added_twice():
    """The last tile of rows is moved back to fit, and added to what the tile before has stored."""

    def kernel(a, b):
        out = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for rows in blocks(a.shape[0], 16):
            rows = slice(max(0, min(rows.start, a.shape[0] - 16)), rows.stop)  # noqa: PLW2901
            out[rows] += product(a[rows], b)
        return out.astype(a.dtype)

    return kernel


@faulty(
    "n-store-past-the-row",
    kind="m-n-tail",
    models="CUDA vector stores",
    finding="out-of-bounds-write",
    problem=shape(6, 20, 16),
    options={"destination_passing": True},
)
def n_store_past_the_row():
    """Stores of 8 columns run over the end of a row; the next row repairs it, and the last has no next."""

    def kernel(a, b, out):
        values = padded(right(a, b), 1, 8)
        memory = strided(out, (out.size + 8,), (1,))
        for i, row in enumerate(values):
            memory[i * out.shape[1] :][: row.size] = row

    return kernel


@faulty("m-last-core-shifted", kind="m-n-tail", models="tenstorrent/tt-metal#26708", problem=shape(22, 6, 16))
def m_last_core_shifted():
    """Rows are shared among 4 cores; the last reads a from where a full share ends, and writes at its own place."""

    def kernel(a, b):
        share = -(-a.shape[0] // 4)
        rows = np.arange(a.shape[0])
        rows[3 * share :] = a.shape[0] - share + np.arange(a.shape[0] - 3 * share)
        return right(a[rows], b)

    return kernel


@faulty(
    "grid-of-n-for-m",
    kind="m-n-tail",
    models="NVIDIA/cutlass#1145",
    finding="unwritten-output",
    problem=shape(20, 6, 16),
    options={"destination_passing": True},
)
def grid_of_n_for_m():
    """The grid of row tiles is computed from N: rows past it are not written where M > N."""

    def kernel(a, b, out):
        rows = -(-out.shape[1] // 8) * 8
        out[:rows] = right(a, b)[:rows]

    return kernel


@faulty(
    "n-tail-ragged",
    kind="m-n-tail",
    models="ml-explore/mlx#4250",
    problem=shape(8, 64, 16),
    needs=("shapes ragged",),
    changes={"n": 63},
)
def n_tail_ragged():
    """Right where N is a multiple of 32; the columns of a remainder repeat the last whole tile."""

    def kernel(a, b):
        js = np.arange(b.shape[1])
        whole = b.shape[1] // 32 * 32
        js[whole:] -= 32 if whole else 0
        return right(a, b[:, js])

    return kernel


# --- sizes


@faulty("one-column-path", kind="size-threshold", models="triton-lang/triton#328", problem=shape(6, 1, 70))
def one_column_path():
    """With one column a vector path reduces the lanes of the first warp, and leaves out the second's."""

    def kernel(a, b):
        if b.shape[1] > 1:
            return right(a, b)
        ks = np.flatnonzero(np.arange(a.shape[1]) % 64 < 32)
        return right(a[:, ks], b[ks])

    return kernel


@faulty("n-beyond-1024", kind="size-threshold", models="pytorch/pytorch#116769", problem=shape(2, 1030, 5))
def n_beyond_1024():
    """Only the first 1024 columns are right; further ones repeat them."""

    def kernel(a, b):
        return right(a, b[:, np.arange(b.shape[1]) % 1024])

    return kernel


@faulty(
    "batch-beyond-24",
    kind="size-threshold",
    models="pytorch/pytorch#17930",
    finding="unwritten-output",
    problem=shape(2, 3, 4, batch=(25,)),
    options={"destination_passing": True},
)
def batch_beyond_24():
    """Matrices of a batch past the 24th are not written."""

    def kernel(a, b, out):
        out[:24] = right(a, b)[:24]

    return kernel


@faulty("small-m-configuration", kind="size-threshold", models="deepseek-ai/DeepGEMM#268", problem=shape(6, 8, 32))
def small_m_configuration():
    """Below 8 rows another configuration is chosen, whose rows come out in pairs exchanged."""

    def kernel(a, b):
        out = right(a, b)
        return out if out.shape[0] >= 8 else out[np.arange(out.shape[0]) ^ 1]

    return kernel


@faulty("one-row-leading-dimension", kind="size-threshold", models="uxlfoundation/oneDNN#5490", problem=shape(1, 9, 6))
def one_row_leading_dimension():
    """With one row the leading dimension of b is inferred as K, smaller than N."""

    def kernel(a, b):
        if a.shape[0] > 1:
            return right(a, b)
        k, n = b.shape
        return right(a, strided(np.ascontiguousarray(b), (k, n), (min(k, n), 1)))

    return kernel


@faulty("k-beyond-512", kind="size-threshold", models="pytorch/pytorch#163539", problem=shape(4, 5, 520))
def k_beyond_512():
    """From k = 512 on a two-pass reduction is used, whose second pass starts one too late."""

    def kernel(a, b):
        return (
            right(a, b)
            if a.shape[1] <= 512
            else (product(a[:, :512], b[:512]) + product(a[:, 513:], b[513:])).astype(a.dtype)
        )

    return kernel


@faulty("zeros-times-ones", kind="size-threshold", models="pytorch/pytorch#111634", problem=shape(9, 300, 1))
def zeros_times_ones():
    """With k = 1 and more than 256 columns the outer product returns b alone."""

    def kernel(a, b):
        if a.shape[1] == 1 and b.shape[1] > 256:
            return np.broadcast_to(b, (a.shape[0], b.shape[1])).astype(a.dtype)
        return right(a, b)

    return kernel


@faulty(
    "small-m-ragged",
    kind="size-threshold",
    models="deepseek-ai/DeepGEMM#268",
    problem=shape(64, 16, 32),
    needs=("shapes ragged",),
    changes={"m": 63},
)
def small_m_ragged():
    """Right from 64 rows on; below, the last row of the tile is the first."""

    def kernel(a, b):
        out = right(a, b)
        if out.shape[0] < 64:
            out[-1] = out[0]
        return out

    return kernel


# --- offsets that wrap


@faulty("offset-of-a-wraps", kind="int-overflow", models="ml-explore/mlx#3609", problem=shape(40, 5, 70))
def offset_of_a_wraps():
    """Flat offsets into a wrap at 2048: later rows read from the start."""

    def kernel(a, b):
        offsets = np.arange(a.size).reshape(a.shape) % 2048
        return right(a.ravel()[offsets], b)

    return kernel


@faulty(
    "offset-of-out-wraps",
    kind="int-overflow",
    models="pytorch/pytorch#197636",
    finding=("unwritten-output", "wrong-result"),
    problem=shape(40, 40, 7),
    options={"destination_passing": True},
)
def offset_of_out_wraps():
    """Flat offsets into the output wrap at 1024: the tail lands at the start."""

    def kernel(a, b, out):
        values = right(a, b).ravel()
        memory = out.reshape(-1)
        memory[:1024] = values[:1024]
        memory[: values.size - 1024] = values[1024:]

    return kernel


@faulty("tile-count-wraps", kind="int-overflow", models="ml-explore/mlx#1051", problem=shape(16, 16, 9))
def tile_count_wraps():
    """M * N wraps at 256 to 0: nothing is launched, and zeros are returned."""

    def kernel(a, b):
        elements = a.shape[0] * b.shape[1] % 256
        out = np.zeros(a.shape[0] * b.shape[1], a.dtype)
        out[:elements] = right(a, b).ravel()[:elements]
        return out.reshape(a.shape[0], b.shape[1])

    return kernel


@faulty("offset-turns-negative", kind="int-overflow", models="pytorch/pytorch#184826", problem=shape(40, 5, 70))
def offset_turns_negative():
    """A signed offset turns negative past 2048 and counts from the end of the buffer."""

    def kernel(a, b):
        offsets = (np.arange(a.size) + 2048) % 4096 - 2048
        return right(np.take(a.ravel(), offsets, mode="wrap").reshape(a.shape), b)

    return kernel


@faulty("buffer-range-wraps", kind="int-overflow", models="ROCm/composable_kernel#3722", problem=shape(4, 30, 80))
def buffer_range_wraps():
    """The size of b in bytes wraps at 4096: loads past it return zero."""

    def kernel(a, b):
        b = b.copy()
        b.ravel()[b.nbytes % 4096 // b.itemsize :] = 0
        return right(a, b)

    return kernel


@faulty("workspace-wraps", kind="int-overflow", models="ROCm/rocm-libraries#10545", problem=shape(20, 20, 64))
def workspace_wraps():
    """The split-K workspace is sized with a product that wraps: partial sums overwrite each other."""

    def kernel(a, b):
        parts = partials(a, b, 4)
        size = parts[0].size
        offsets = np.arange(4 * size) % 1024
        workspace = np.zeros(1024, np.float32)
        for i, part in enumerate(parts):
            workspace[offsets[i * size : (i + 1) * size]] = part.ravel()
        read = workspace[offsets].reshape(4, *parts[0].shape)
        return read.sum(0).astype(a.dtype)

    return kernel


@faulty(
    "element-count-wraps", kind="int-overflow", models="pytorch/pytorch#167086", problem=shape(9, 8, 16, batch=(4,))
)
def element_count_wraps():
    """The offset of a batch's matrix is multiplied in 8 bits: the third matrix of a is the first."""

    def kernel(a, b):
        offsets = np.arange(a.shape[0]) * a[0].size % 256
        flat = np.concatenate([a.ravel(), a.ravel()])
        return right(np.stack([flat[o : o + a[0].size].reshape(a[0].shape) for o in offsets]), b)

    return kernel


@faulty(
    "grid-limit",
    kind="int-overflow",
    models="cupy/cupy#10268",
    finding="unwritten-output",
    problem=shape(70, 4, 8),
    options={"destination_passing": True},
)
def grid_limit():
    """A grid dimension has 64 blocks at most, one a row; rows past it are left alone."""

    def kernel(a, b, out):
        out[:64] = right(a, b)[:64]

    return kernel


@faulty(
    "lone-misread-far-down", kind="k-tail", models="ml-explore/mlx#3444", problem=shape(6, 5, 4096, a="float8_e5m2")
)
def lone_misread_far_down():
    """One output of an 8-bit result takes one of 4096 elements of b from the row below."""

    def kernel(a, b):
        out = product(a, b)
        out[2, 3] += f32(a)[2, 777] * (f32(b)[778, 3] - f32(b)[777, 3])
        return out.astype(a.dtype)

    return kernel
