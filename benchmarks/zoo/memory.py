"""Faults of memory and time: races, pipelines, uninitialised and stale contents."""

from __future__ import annotations

import threading
import time

import numpy as np

from .kit import address, blocks, f32, partials, product, right, shape
from .registry import faulty

WRITES = {"destination_passing": True}


def counter():
    """Numbers the calls of one kernel, from 1."""
    calls = iter(range(1, 1_000_000))
    return lambda: next(calls)


# --- races


@faulty(
    "stage-reused-too-early",
    kind="race",
    models="triton-lang/triton#3106",
    finding="nondeterministic",
    problem=shape(16, 16, 64),
)
def stage_reused_too_early():
    """A stage of b is overwritten before all of its readers are done: some rows use the next tile, now and then."""
    rng = np.random.default_rng(1)

    def kernel(a, b):
        out = product(a, b)
        if rng.random() < 0.3:
            row = int(rng.integers(16))
            out[row] += f32(a)[row, 16:32] @ (f32(b)[32:48] - f32(b)[16:32])
        return out.astype(a.dtype)

    return kernel


@faulty(
    "missing-wait-before-last-tile",
    kind="race",
    models="facebookexperimental/triton#2058",
    finding="nondeterministic",
    problem=shape(16, 16, 64),
)
def missing_wait_before_last_tile():
    """The last tile of k is read while its copy is under way: a random part of it is still the tile before."""
    rng = np.random.default_rng(2)

    def kernel(a, b):
        b = b.copy()
        late = 48 + np.flatnonzero(rng.random(16) < 0.2)
        b[late] = b[late - 16]
        return right(a, b)

    return kernel


@faulty(
    "zeroed-while-others-add",
    kind="race",
    models="sgl-project/sglang#29748",
    finding="nondeterministic",
    problem=shape(8, 16, 64),
)
def zeroed_while_others_add():
    """One block zeroes the output while others add to it already: partial sums vanish."""
    rng = np.random.default_rng(3)

    def kernel(a, b):
        parts = partials(a, b, 4)
        survive = rng.random((4, 1, 16)) < 0.9
        return sum(part * kept for part, kept in zip(parts, survive, strict=True)).astype(a.dtype)

    return kernel


@faulty(
    "lost-update", kind="race", models="vllm-project/vllm#30719", finding="nondeterministic", problem=shape(12, 12, 40)
)
def lost_update():
    """Two halves of k are added without an atomic: a few outputs lose one of them."""
    rng = np.random.default_rng(4)

    def kernel(a, b):
        first, second = partials(a, b, 2)
        return (first + second * (rng.random(first.shape) >= 0.02)).astype(a.dtype)

    return kernel


@faulty(
    "copied-out-before-the-last-warp",
    kind="race",
    models="Dao-AILab/flash-attention#1344",
    finding=("nondeterministic", "unwritten-output"),
    problem=shape(16, 12, 24),
    options=WRITES,
)
def copied_out_before_the_last_warp():
    """The tile is copied out before the slowest warp has written its rows, every other call."""
    call = counter()

    def kernel(a, b, out):
        values = right(a, b)
        rows = 12 if call() % 2 == 0 else 16
        out[:rows] = values[:rows]

    return kernel


@faulty(
    "barrier-scope-too-narrow",
    kind="race",
    models="NVIDIA/cutlass#3643",
    finding="nondeterministic",
    problem=shape(16, 16, 48),
)
def barrier_scope_too_narrow():
    """The peer's half of b may be one tile behind, in one call of four."""
    call = counter()

    def kernel(a, b):
        if call() % 4:
            return right(a, b)
        b = b.copy()
        b[16:24] = b[:8]
        return right(a, b)

    return kernel


@faulty(
    "first-call-only",
    kind="race",
    models="OpenMathLib/OpenBLAS#5528",
    finding=("nondeterministic", "stale-result"),
    problem=shape(8, 8, 32),
)
def first_call_only():
    """The first launch finds its constants not yet copied, and counts them as zero; later ones are right."""
    call = counter()

    def kernel(a, b):
        return right(a, b) * a.dtype.type(call() > 1)

    return kernel


@faulty(
    "torn-read",
    kind="race",
    models="vllm-project/vllm#57059",
    finding="nondeterministic",
    problem=shape(12, 12, 24, a="bfloat16"),
)
def torn_read():
    """A relaxed barrier: now and then one output is half of this value and half of the last."""
    rng = np.random.default_rng(5)
    last = {}

    def kernel(a, b):
        out = right(a, b)
        if last and rng.random() < 0.4:
            codes, old = out.view(np.uint16), last["out"].view(np.uint16)
            codes[2, 3] = (codes[2, 3] & 0xFF00) | (old[2, 3] & 0x00FF) ^ 1
        last["out"] = out.copy()
        return out

    return kernel


@faulty(
    "race-in-one-call-of-ten",
    kind="race",
    models="tile-ai/tilelang#96",
    finding="nondeterministic",
    problem=shape(16, 16, 32),
    needs=("repeat",),
    extra={"race_rate": 0.05},
)
def race_in_one_call_of_ten():
    """One call in ten reads a row of b from the stage before."""
    call = counter()

    def kernel(a, b):
        if call() % 10 != 7:
            return right(a, b)
        b = b.copy()
        b[20] = b[4]
        return right(a, b)

    return kernel


@faulty(
    "race-in-one-call-of-a-hundred",
    kind="race",
    models="flashinfer-ai/flashinfer#1046",
    finding="nondeterministic",
    problem=shape(8, 8, 32),
    needs=("repeat",),
    extra={"repeat": 300},
)
def race_in_one_call_of_a_hundred():
    """One call in a hundred or so misses a barrier and loses a product."""
    rng = np.random.default_rng(6)

    def kernel(a, b):
        if rng.random() >= 0.02:
            return right(a, b)
        return (product(a, b) - np.outer(f32(a)[:, 9], f32(b)[9])).astype(a.dtype)

    return kernel


@faulty(
    "race-on-large-grids",
    kind="race",
    models="huggingface/optimum-quanto#332",
    finding="nondeterministic",
    problem=shape(40, 136, 16),
)
def race_on_large_grids():
    """With more than 32 rows, outputs past column 128 are reduced without a barrier."""
    rng = np.random.default_rng(7)

    def kernel(a, b):
        out = product(a, b)
        if a.shape[0] > 32:
            first = product(a[:, :8], b[:8, 128:])
            missed = rng.random(first.shape) < 0.05
            out[:, 128:] -= first * missed
        return out.astype(a.dtype)

    return kernel


@faulty(
    "written-after-return",
    kind="race",
    models="deep-reinforce.com defense_kernel_hack",
    finding="late-result",
    problem=shape(12, 10, 16),
    options=WRITES,
)
def written_after_return():
    """The call returns while a thread still writes the last rows."""
    threads = []

    def kernel(a, b, out):
        for thread in threads:
            thread.join()
        threads.clear()
        values = right(a, b)
        out[:8] = values[:8]

        def rest():
            time.sleep(0.015)
            out[8:] = values[8:]

        threads.append(threading.Thread(target=rest))
        threads[0].start()

    return kernel


@faulty(
    "random-order-of-rounded-atomics",
    kind="race",
    models="triton-lang/triton#2630",
    finding=("precision-below-contract", "nondeterministic"),
    problem=shape(8, 8, 64),
)
def random_order_of_rounded_atomics():
    """Partial sums are added in the output's format, in whatever order they arrive."""
    rng = np.random.default_rng(8)

    def kernel(a, b):
        parts = partials(a, b, 8)
        total = np.zeros(parts[0].shape, a.dtype)
        for i in rng.permutation(8):
            total = (f32(total) + parts[i]).astype(a.dtype)
        return total

    return kernel


# --- contents that nobody wrote


@faulty(
    "k-zero-unwritten",
    kind="uninitialised",
    models="pytorch/pytorch#31421",
    finding="unwritten-output",
    problem=shape(6, 5, 0),
    options=WRITES,
)
def k_zero_unwritten():
    """With k = 0 nothing is launched: the output keeps what it held."""

    def kernel(a, b, out):
        if a.shape[1]:
            out[...] = right(a, b)

    return kernel


@faulty(
    "added-to-the-output",
    kind="uninitialised",
    models="vllm-project/vllm#30719",
    finding="unwritten-output",
    problem=shape(6, 5, 32),
    options=WRITES,
)
def added_to_the_output():
    """Split-K adds its parts to an output that nobody has zeroed."""

    def kernel(a, b, out):
        for part in partials(a, b, 2):
            out[...] = (f32(out) + part).astype(out.dtype)

    return kernel


@faulty(
    "beta-zero-times-garbage",
    kind="uninitialised",
    models="pytorch/pytorch#80588",
    finding="unwritten-output",
    problem=shape(6, 5, 16),
    options=WRITES,
)
def beta_zero_times_garbage():
    """With beta = 0 the old output is multiplied by zero instead of being ignored: NaN stays NaN."""

    def kernel(a, b, out):
        out[...] = (product(a, b) + 0 * f32(out)).astype(out.dtype)

    return kernel


@faulty(
    "workspace-slot-unwritten", kind="uninitialised", models="facebookexperimental/triton#2860", problem=shape(6, 5, 16)
)
def workspace_slot_unwritten():
    """Four slots of workspace are reduced, two were written; the others hold what memory held."""

    def kernel(a, b):
        workspace = np.full((4, a.shape[0], b.shape[1]), 3.0, np.float32)
        workspace[:2] = partials(a, b, 2)
        return workspace.sum(0).astype(a.dtype)

    return kernel


@faulty(
    "accumulator-not-cleared",
    kind="uninitialised",
    models="anthony-chaudhary/dos-kernel#107",
    finding=("nondeterministic", "wrong-result"),
    problem=shape(6, 5, 16),
)
def accumulator_not_cleared():
    """The accumulator is zero by luck at the first call, and is never cleared."""
    accumulators = {}

    def kernel(a, b):
        size = (a.shape[0], b.shape[1])
        accumulators[size] = accumulators.get(size, np.zeros(size, np.float32)) + product(a, b)
        return accumulators[size].astype(a.dtype)

    return kernel


@faulty(
    "trailing-rows-unwritten",
    kind="uninitialised",
    models="AMD-AGI/Primus-Turbo#397",
    finding="unwritten-output",
    problem=shape(19, 5, 16),
    options=WRITES,
)
def trailing_rows_unwritten():
    """Groups of 8 rows are written as far as they are whole."""

    def kernel(a, b, out):
        rows = out.shape[0] // 8 * 8
        out[:rows] = right(a, b)[:rows]

    return kernel


@faulty("lanes-of-1e38", kind="uninitialised", models="ml-explore/mlx#4009", problem=shape(6, 5, 37, a="bfloat16"))
def lanes_of_1e38():
    """Lanes past the end of k hold whatever the register held, here 1e38, against ones."""

    def kernel(a, b):
        lanes = -a.shape[1] % 8
        return (product(a, b) + lanes * np.float32(1e38)).astype(a.dtype)

    return kernel


@faulty(
    "nothing-launched",
    kind="uninitialised",
    models="wafer.ai reward-hacking",
    finding="unwritten-output",
    problem=shape(8, 8, 64),
    options=WRITES,
)
def nothing_launched():
    """The launch needs too much shared memory and fails; nobody looks at the error."""

    def kernel(a, b, out):
        if a.shape[1] * 256 <= 8192:
            out[...] = right(a, b)

    return kernel


@faulty(
    "every-other-pair-unwritten",
    kind="uninitialised",
    models="pytorch/pytorch#17930",
    finding="unwritten-output",
    problem=shape(7, 6, 16),
    options=WRITES,
)
def every_other_pair_unwritten():
    """A predicate meant for the last row is applied to every odd one."""

    def kernel(a, b, out):
        values = right(a, b)
        out[::2] = values[::2]
        out[1::2, :4] = values[1::2, :4]

    return kernel


@faulty(
    "one-output-unwritten",
    kind="uninitialised",
    models="uxlfoundation/oneDNN#5490",
    finding="unwritten-output",
    problem=shape(9, 7, 16),
    options=WRITES,
)
def one_output_unwritten():
    """The very last output is not written."""

    def kernel(a, b, out):
        flat = right(a, b).ravel()
        out.ravel()[:-1] = flat[:-1]

    return kernel


# --- pipelines


@faulty(
    "pipeline-longer-than-k",
    kind="pipeline",
    models="thinking-machines-lab/batch_invariant_ops#10",
    problem=shape(8, 6, 24),
)
def pipeline_longer_than_k():
    """The prologue fills three stages; where k has fewer tiles, the missing ones repeat the last."""

    def kernel(a, b):
        tiles = blocks(a.shape[1], 16)
        tiles += [tiles[-1]] * (3 - len(tiles))
        return sum(product(a[:, ks], b[ks]) for ks in tiles).astype(a.dtype)

    return kernel


@faulty("copy-hoisted", kind="pipeline", models="tile-ai/tilelang#2668", problem=shape(8, 6, 64))
def copy_hoisted():
    """The copy of the next tile of a is moved above the read of the same buffer."""

    def kernel(a, b):
        tiles = blocks(a.shape[1], 16)
        read = [*tiles[1:], tiles[-1]]
        return sum(product(a[:, r], b[ks][: r.stop - r.start]) for r, ks in zip(read, tiles, strict=True)).astype(
            a.dtype
        )

    return kernel


@faulty("last-stage-not-drained", kind="pipeline", models="tile-ai/tilelang#2054", problem=shape(8, 6, 64))
def last_stage_not_drained():
    """The loop ends one stage early where k has 4 tiles or more."""

    def kernel(a, b):
        tiles = blocks(a.shape[1], 16)
        return sum(product(a[:, ks], b[ks]) for ks in (tiles[:-1] if len(tiles) > 3 else tiles)).astype(a.dtype)

    return kernel


@faulty("three-stages-in-two-buffers", kind="pipeline", models="triton-lang/triton#3106", problem=shape(8, 6, 64))
def three_stages_in_two_buffers():
    """Stages are counted modulo 3, buffers modulo 2: the third tile of b overwrites the first before its use."""

    def kernel(a, b):
        tiles = blocks(a.shape[1], 16)
        buffers = {0: tiles[0], 1: tiles[1]}
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for i, ks in enumerate(tiles):
            if i + 2 < len(tiles) and i % 3 == 0:
                buffers[i % 2] = tiles[i + 2]
            total += product(a[:, ks], b[buffers[i % 2]])
            buffers[i % 2] = tiles[min(i + 2, len(tiles) - 1)]
        return total.astype(a.dtype)

    return kernel


@faulty("odd-number-of-tiles", kind="pipeline", models="tile-ai/tilelang#2668", problem=shape(8, 6, 48))
def odd_number_of_tiles():
    """The loop is unrolled by two, and an odd last tile takes b from the other buffer."""

    def kernel(a, b):
        tiles = blocks(a.shape[1], 16)
        total = sum(product(a[:, ks], b[ks]) for ks in tiles[: len(tiles) // 2 * 2])
        if len(tiles) % 2:
            ks, other = tiles[-1], tiles[-2]
            total = total + product(a[:, ks], b[other][: ks.stop - ks.start])
        return total.astype(a.dtype)

    return kernel


@faulty("carried-sum-restarted", kind="pipeline", models="vllm-project/vllm#44692", problem=shape(8, 6, 144))
def carried_sum_restarted():
    """After 8 tiles the accumulator is taken from the prologue again: earlier sums are lost."""

    def kernel(a, b):
        tiles = blocks(a.shape[1], 16)
        return sum(product(a[:, ks], b[ks]) for ks in tiles[len(tiles) // 9 * 8 :]).astype(a.dtype)

    return kernel


@faulty("first-tile-twice", kind="pipeline", models="facebookexperimental/triton#2058", problem=shape(8, 6, 64))
def first_tile_twice():
    """The prologue's tile is multiplied again by the loop."""

    def kernel(a, b):
        return (product(a, b) + product(a[:, :16], b[:16])).astype(a.dtype)

    return kernel


# --- state from earlier calls


@faulty(
    "workspace-keeps-last-partials",
    kind="stale-state",
    models="pytorch/pytorch#193487",
    finding=("nondeterministic", "wrong-result"),
    problem=shape(6, 5, 32),
)
def workspace_keeps_last_partials():
    """The first split adds to its slot of a kept workspace instead of replacing it."""
    workspace = {}

    def kernel(a, b):
        parts = partials(a, b, 2)
        workspace["0"] = workspace.get("0", 0) * 0.5 + parts[0]
        return (workspace["0"] + parts[1]).astype(a.dtype)

    return kernel


@faulty(
    "semaphore-not-reset",
    kind="stale-state",
    models="invergent-ai/surogate#165",
    finding="nondeterministic",
    problem=shape(6, 5, 32),
)
def semaphore_not_reset():
    """The counter that says all splits are in is not reset: from the second call on the reduction comes too early."""
    arrived = [0]

    def kernel(a, b):
        first, second = partials(a, b, 2)
        arrived[0] += 1
        return (first + second * (arrived[0] == 1)).astype(a.dtype)

    return kernel


@faulty(
    "packed-weights-kept",
    kind="stale-state",
    models="deep-reinforce.com defense_kernel_hack",
    finding=("stale-result", "wrong-result"),
    problem=shape(6, 5, 24),
)
def packed_weights_kept():
    """b is packed at the first call and looked up by its address: new values at the same place are not seen."""
    packed = {}

    def kernel(a, b):
        return right(a, packed.setdefault((address(b), b.shape), b.copy()))

    return kernel


@faulty(
    "activations-kept",
    kind="stale-state",
    models="wafer.ai reward-hacks-field-guide",
    finding=("stale-result", "wrong-result"),
    problem=shape(6, 5, 24),
)
def activations_kept():
    """The widened copy of a is kept by address, b is read anew."""
    widened = {}

    def kernel(a, b):
        key = (address(a), a.shape)
        if key not in widened:
            widened[key] = f32(a)
        return (widened[key] @ f32(b)).astype(a.dtype)

    return kernel


@faulty(
    "scale-of-the-first-call", kind="stale-state", models="delayed scaling of FP8 training", problem=shape(6, 5, 24)
)
def scale_of_the_first_call():
    """Operands are scaled to 8 bits' range by the largest value of the first call, and clamped ever after."""
    largest = []

    def kernel(a, b):
        largest.append(float(abs(f32(a)).max(initial=0)))
        return (np.clip(f32(a), -largest[0], largest[0]) @ f32(b)).astype(a.dtype)

    return kernel


@faulty(
    "one-output-buffer",
    kind="stale-state",
    models="wafer.ai reward-hacks-field-guide",
    finding="aliased-output",
    problem=shape(6, 5, 24),
)
def one_output_buffer():
    """Every call returns the same array: a result changes when the next one is computed."""
    kept = {}

    def kernel(a, b):
        out = kept.setdefault((a.shape[0], b.shape[1]), np.empty((a.shape[0], b.shape[1]), a.dtype))
        out[...] = right(a, b)
        return out

    return kernel


@faulty(
    "two-output-buffers",
    kind="stale-state",
    models="wafer.ai reward-hacks-field-guide",
    finding="aliased-output",
    problem=shape(6, 5, 24),
)
def two_output_buffers():
    """Results alternate between two arrays: each changes with the call after the next."""
    call, kept = counter(), {}

    def kernel(a, b):
        out = kept.setdefault(call() % 2, np.empty((a.shape[0], b.shape[1]), a.dtype))
        out[...] = right(a, b)
        return out

    return kernel


@faulty(
    "workspace-of-another-shape",
    kind="stale-state",
    models="invergent-ai/surogate#165",
    finding=("nondeterministic", "wrong-result"),
    problem=shape(6, 5, 24),
)
def workspace_of_another_shape():
    """A workspace that once was used keeps its last row, and the next call adds it to the first."""
    kept = [0.0]

    def kernel(a, b):
        out = product(a, b)
        out[0] += kept[0]
        kept[0] = out[-1].copy()
        return out.astype(a.dtype)

    return kernel


@faulty(
    "graph-keeps-addresses",
    kind="stale-state",
    models="captured launches replayed on new tensors",
    finding=("stale-result", "wrong-result"),
    problem=shape(6, 5, 16),
)
def graph_keeps_addresses():
    """The first launch is captured with its addresses and replayed: operands at other addresses are not read."""
    captured = {}

    def kernel(a, b):
        return right(captured.setdefault(("a", a.shape), a), captured.setdefault(("b", b.shape), b))

    return kernel


@faulty(
    "third-launch-on-one-input",
    kind="stale-state",
    models="launches captured after two warm-up calls",
    finding=("nondeterministic", "wrong-result"),
    problem=shape(6, 5, 16),
    needs=("repeat",),
    extra={"repeat": 5},
)
def third_launch_on_one_input():
    """After two launches on the same operands a captured one is used, whose last product is missing."""
    seen = {}

    def kernel(a, b):
        key = a.tobytes()
        seen[key] = seen.get(key, 0) + 1
        last = a.shape[1] - (seen[key] > 2)
        return right(a[:, :last], b[:last])

    return kernel


@faulty(
    "done-if-the-output-is-finite",
    kind="reward-hack",
    models="Kevin, arXiv 2507.11948",
    finding=("stale-result", "unwritten-output", "wrong-result"),
    problem=shape(6, 5, 16),
    options=WRITES,
)
def done_if_the_output_is_finite():
    """An output that holds numbers is taken for one that was computed already: only a poisoned one is written."""

    def kernel(a, b, out):
        if not np.isfinite(f32(out)).all():
            out[...] = right(a, b)

    return kernel


@faulty(
    "added-to-a-finite-output",
    kind="uninitialised",
    models="pytorch/pytorch#194442",
    finding=("unwritten-output", "wrong-result"),
    problem=shape(6, 5, 16),
    options=WRITES,
)
def added_to_a_finite_output():
    """With beta = 0 the old output is added after NaN has been cleaned out of it: only numbers do harm."""

    def kernel(a, b, out):
        out[...] = (product(a, b) + np.nan_to_num(f32(out), posinf=0, neginf=0)).astype(out.dtype)

    return kernel
