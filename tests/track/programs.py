"""A small program for every operator of the table: (names of the operators, reference, operands)."""

from __future__ import annotations

import torch
import torch.nn.functional as F

aten = torch.ops.aten


def draw(*shape, low=-3, high=3, seed=0):
    generator = torch.Generator().manual_seed(seed + 7 * sum(shape))
    return torch.randint(low, high + 1, shape, generator=generator).float()


def distinct(*shape, seed=0):
    count = int(torch.tensor(shape).prod())
    generator = torch.Generator().manual_seed(seed)
    return (torch.randperm(count, generator=generator).float() - count // 2).reshape(shape)


def powers(*shape, seed=0):
    return torch.sign(draw(*shape, seed=seed) + 0.5) * 2.0 ** draw(*shape, low=-2, high=2, seed=seed + 1)


def whole(*shape, below, seed=0):
    return draw(*shape, low=0, high=below - 1, seed=seed).long()


def gradient(of, *, argument=0):
    """The reference's gradient by one operand, for small integers as the gradient of what it returns."""

    def reference(*operands):
        operands = [x.detach().requires_grad_(i == argument) for i, x in enumerate(operands)]
        result = of(*operands)
        weights = (torch.arange(result.numel(), device=result.device) % 5 - 2).reshape(result.shape).to(result.dtype)
        return torch.autograd.grad(result, operands[argument], weights)[0]

    return reference


A, B, C = draw(6, 8), draw(8, 5), draw(6, 5)
BA, BB, BC = draw(3, 4, 6), draw(3, 6, 5), draw(3, 4, 5)
V, W = draw(8), draw(8, seed=3)
IMAGE, FILTER, BIAS = draw(2, 3, 8, 8), draw(4, 3, 3, 3), draw(4)
VOLUME = draw(1, 2, 4, 4, 4)
INDEX = whole(6, below=8)
ROWS = torch.tensor([3, 0, 5, 1])

PROGRAMS = [
    (["mm"], lambda a, b: a @ b, [A, B]),
    (["bmm"], torch.bmm, [BA, BB]),
    (["mv"], torch.mv, [A, V]),
    (["dot"], torch.dot, [V, W]),
    (["vdot"], lambda a, b: aten.vdot(a, b), [V, W]),
    (["addmm"], lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=-0.5), [C, A, B]),
    (["addbmm"], lambda c, a, b: torch.addbmm(c, a, b), [BC[0], BA, BB]),
    (["baddbmm"], lambda c, a, b: torch.baddbmm(c, a, b, alpha=2), [BC, BA, BB]),
    (["addmv"], lambda c, a, b: torch.addmv(c, a, b), [draw(6), A, V]),
    (["addr"], lambda c, a, b: torch.addr(c, a, b), [draw(8, 6), V, draw(6)]),
    (["addcmul"], lambda c, a, b: torch.addcmul(c, a, b, value=2), [A, A, draw(6, 8, seed=2)]),
    (["mm"], lambda a, b: aten.linear(a, b), [A, draw(5, 8)]),
    (["_trilinear"], lambda a, b, w: F.bilinear(a, b, w), [draw(4, 3), draw(4, 5), draw(2, 3, 5)]),
    (["linalg_cross"], lambda a, b: torch.linalg.cross(a, b), [draw(5, 3), draw(5, 3, seed=4)]),
    (["convolution"], lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), [IMAGE, FILTER, BIAS]),
    (["convolution"], lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), [IMAGE, draw(3, 2, 3, 3)]),
    (["convolution"], lambda x, w: F.conv1d(x, w, padding=2, dilation=2, groups=2), [draw(2, 4, 9), draw(6, 2, 3)]),
    (["convolution"], lambda x, w: F.conv3d(x, w), [VOLUME, draw(3, 2, 2, 2, 2)]),
    (["convolution_backward"], gradient(lambda x, w: F.conv2d(x, w, padding=1) * 2), [IMAGE, FILTER]),
    (["convolution_backward"], gradient(lambda x, w: F.conv2d(x, w, padding=1) * 2, argument=1), [IMAGE, FILTER]),
    (["convolution_backward"], gradient(lambda x, w, b: F.conv2d(x, w, b) * 2, argument=2), [IMAGE, FILTER, BIAS]),
    (["mul"], lambda a, b: a * b * 3, [A, draw(6, 8, seed=5)]),
    (["pow", "mul"], lambda a: a**3, [A]),
    (["prod"], lambda a: a.prod(1), [powers(4, 6)]),
    (["cumprod"], lambda a: a.cumprod(0), [powers(6, 4)]),
    (["add"], lambda a, b: torch.add(a, b, alpha=-2) + 1, [A, draw(6, 8, seed=6)]),
    (["sub"], lambda a, b: a - b, [A, draw(6, 8, seed=6)]),
    (["rsub", "sub"], lambda a: 2 - a, [A]),
    (["sum"], lambda a: (a.sum(), a.sum(1), a.sum((0, 1), keepdim=True)), [A]),
    (["cumsum"], lambda a: a.cumsum(1), [A]),
    (["trace", "sum"], lambda a: aten.trace(a), [A]),
    (["col2im", "im2col"], lambda x: F.fold(F.unfold(x, 3, padding=1) * 2, (8, 8), 3, padding=1), [IMAGE]),
    (["index_add"], lambda a, s, i: a.index_add(1, i, s, alpha=2), [A, draw(6, 6), INDEX]),
    (["scatter_add"], lambda a, s, i: a.scatter_add(1, i, s), [A, draw(6, 6), whole(6, 6, below=8)]),
    (["scatter_reduce"], lambda a, s, i: a.scatter_reduce(1, i, s, "sum"), [A, draw(6, 6), whole(6, 6, below=8)]),
    (["scatter_reduce"], lambda a, s, i: a.scatter_reduce(1, i, s, "amax"), [A, draw(6, 6), whole(6, 6, below=8)]),
    (["embedding"], lambda w, i: F.embedding(i, w), [A, whole(7, below=6)]),
    (["embedding_dense_backward"], gradient(lambda w, i: F.embedding(i, w) * 2), [A, whole(7, below=6)]),
    (["upsample_nearest1d", "upsample_nearest1d_backward"], gradient(lambda x: F.interpolate(x, scale_factor=2) * 2), [draw(2, 3, 5)]),
    (["upsample_nearest2d", "upsample_nearest2d_backward"], gradient(lambda x: F.interpolate(x, scale_factor=2) * 2), [IMAGE]),
    (["upsample_nearest3d", "upsample_nearest3d_backward"], gradient(lambda x: F.interpolate(x, scale_factor=2) * 2), [VOLUME]),
    (["upsample_nearest2d"], lambda x: F.interpolate(x, scale_factor=2), [IMAGE]),
    (["unfold_backward"], gradient(lambda x: x.unfold(1, 3, 2) * 2), [A]),
    (["reflection_pad1d_backward", "reflection_pad1d"], gradient(lambda x: F.pad(x, (2, 1), mode="reflect") * 2), [draw(2, 3, 5)]),
    (["reflection_pad2d_backward", "reflection_pad2d"], gradient(lambda x: F.pad(x, (1, 1, 2, 1), mode="reflect") * 2), [IMAGE]),
    (["replication_pad1d_backward", "replication_pad1d"], gradient(lambda x: F.pad(x, (2, 1), mode="replicate") * 2), [draw(2, 3, 5)]),
    (["replication_pad2d_backward", "replication_pad2d"], gradient(lambda x: F.pad(x, (1, 1, 2, 1), mode="replicate") * 2), [IMAGE]),
    (["reflection_pad3d"], lambda x: F.pad(x, (1,) * 6, mode="reflect"), [VOLUME]),
    (["replication_pad3d"], lambda x: F.pad(x, (1,) * 6, mode="replicate"), [VOLUME]),
    (["max_pool2d_with_indices"], lambda x: F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True), [distinct(2, 3, 9, 9)]),
    (["max_pool2d_with_indices_backward"], gradient(lambda x: F.max_pool2d(x, 3, stride=2, padding=1) * 2), [distinct(2, 3, 9, 9)]),
    (["max_pool3d_with_indices"], lambda x: F.max_pool3d(x, 2), [VOLUME]),
    (["max_pool3d_with_indices_backward"], gradient(lambda x: F.max_pool3d(x, 2) * 2), [distinct(1, 2, 4, 4, 4)]),
    (["mean"], lambda a: (a.mean(1), a.mean(), (a * 96)[:3].mean(0)), [A]),
    (["avg_pool2d"], lambda x: F.avg_pool2d(x, 2), [IMAGE]),
    (["avg_pool2d"], lambda x: F.avg_pool2d(x * 36, 3, padding=1, count_include_pad=False, ceil_mode=True, stride=2), [IMAGE]),
    (["avg_pool2d"], lambda x: F.avg_pool2d(x * 36, 3, padding=1, ceil_mode=True, stride=2), [IMAGE]),
    (["avg_pool2d"], lambda x: F.avg_pool2d(x, 3, divisor_override=2), [IMAGE]),
    (["avg_pool3d"], lambda x: F.avg_pool3d(x, 2), [VOLUME]),
    (["avg_pool2d_backward"], gradient(lambda x: F.avg_pool2d(x, 2) * 2), [IMAGE]),
    (["avg_pool3d_backward"], gradient(lambda x: F.avg_pool3d(x, 2) * 2), [VOLUME]),
    (["_adaptive_avg_pool2d"], lambda x: F.adaptive_avg_pool2d(x * 12, (3, 4)), [IMAGE]),
    (["_adaptive_avg_pool3d"], lambda x: F.adaptive_avg_pool3d(x, 2), [VOLUME]),
    (["_embedding_bag_forward_only"], lambda w, i, o: F.embedding_bag(i, w, o, mode="sum"), [A, whole(7, below=6), torch.tensor([0, 2, 5])]),
    (["_embedding_bag_forward_only"], lambda w, i, o: F.embedding_bag(i, w * 6, o, mode="mean"), [A, whole(7, below=6), torch.tensor([0, 2, 5])]),
    (["_embedding_bag_forward_only"], lambda w, i, o: F.embedding_bag(i, w, o, mode="max"), [A, whole(7, below=6), torch.tensor([0, 2, 5])]),
    (["_embedding_bag_forward_only"], lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s), [A, whole(7, below=6), torch.tensor([0, 2, 5]), draw(7)]),
    (["_embedding_bag"], lambda w, i, o: aten._embedding_bag(w, i, o)[0], [A, whole(7, below=6), torch.tensor([0, 2, 5])]),
    (["div"], lambda a: (a / 4, a * 6 / 3), [A]),
    (["div"], lambda a, b: a / b, [A, powers(6, 8)]),
    (["reciprocal"], lambda a: 1 / a, [powers(6, 8)]),
    (["neg"], lambda a: -a, [A]),
    (["abs"], lambda a: a.abs(), [A]),
    (["relu"], torch.relu, [A]),
    (["relu", "threshold_backward"], gradient(lambda a: torch.relu(a) * 2), [A]),
    (["sgn"], torch.sgn, [A]),
    (["sign"], torch.sign, [A]),
    (["floor", "ceil", "trunc"], lambda a: ((a / 2).floor(), (a / 2).ceil(), (a / 2).trunc()), [A]),
    (["clamp"], lambda a: a.clamp(-1, 2), [A]),
    (["clamp"], lambda a, b: a.clamp(b, b + 1), [A, draw(6, 8, seed=8)]),
    (["clamp_min", "clamp_max"], lambda a: (a.clamp_min(-1), aten.clamp_max(a, 0.5)), [A]),
    (["hardtanh"], F.hardtanh, [A]),
    (["hardtanh_backward"], gradient(lambda a: F.hardtanh(a, -2.0, 2.0) * 2), [A]),
    (["leaky_relu"], lambda a: F.leaky_relu(a, 0.25), [A]),
    (["leaky_relu_backward"], gradient(lambda a: F.leaky_relu(a, 0.25) * 2), [A]),
    (["_prelu_kernel"], lambda a, w: F.prelu(a, w), [A, torch.tensor([0.5])]),
    (["threshold"], lambda a: F.threshold(a, 1.0, -5.0), [A]),
    (["hardshrink"], lambda a: F.hardshrink(a, 1.5), [A]),
    (["softshrink"], lambda a: F.softshrink(a, 0.5), [A]),
    (["mse_loss"], lambda a, b: F.mse_loss(a, b, reduction="sum"), [A, draw(6, 8, seed=9)]),
    (["smooth_l1_loss"], lambda a, b: F.smooth_l1_loss(a, b, reduction="none"), [A, draw(6, 8, seed=9)]),
    (["huber_loss"], lambda a, b: F.huber_loss(a, b, reduction="none", delta=2.0), [A, draw(6, 8, seed=9)]),
    (["linalg_vector_norm"], lambda a: (torch.linalg.vector_norm(a, 1, 1), torch.linalg.vector_norm(a, float("inf"))), [A]),
    (["norm"], lambda a: aten.norm.ScalarOpt_dim(a, 1, [1]), [A]),
    (["eq", "ne", "lt", "le", "gt", "ge"], lambda a, b: (a == b, a != b, a < b, a <= 1, a > b, a >= 0), [A, draw(6, 8, seed=9)]),
    (["isnan", "isinf", "logical_not"], lambda a: (aten.isnan(a), aten.isinf(a), aten.isfinite(a), a.logical_not()), [A]),
    (["logical_and", "logical_or", "logical_xor"], lambda a, b: (a.logical_and(b), a.logical_or(b), a.logical_xor(b)), [A, draw(6, 8, seed=9)]),
    (["nonzero", "count_nonzero", "any", "all"], lambda a: (a.nonzero(), aten.count_nonzero(a, [1]), a.any(1), a.all(1)), [A]),
    (["searchsorted", "bucketize"], lambda a, v: (torch.searchsorted(v.sort()[0], a), torch.bucketize(a, v.sort()[0])), [A, V]),
    (["bincount"], lambda i, v: torch.bincount(i, v, minlength=8).to(v.dtype), [INDEX, draw(6)]),
    (["max", "min"], lambda a, b: (a.max(), a.min(), torch.max(a, b), torch.min(a, b), *a.max(1), *a.min(0)), [distinct(6, 8), draw(6, 8)]),
    (["maximum", "minimum", "fmax", "fmin"], lambda a, b: (torch.maximum(a, b), torch.minimum(a, b), torch.fmax(a, b), torch.fmin(a, b)), [A, draw(6, 8, seed=9)]),
    (["amax", "amin"], lambda a: (a.amax(1), a.amin((0, 1))), [A]),
    (["median", "kthvalue"], lambda a: (a.median(), *a.median(1), *a.kthvalue(3, 1)), [distinct(6, 8)]),
    (["argmax", "argmin"], lambda a: (a.argmax(1), a.argmin(0), a.argmax()), [distinct(6, 8)]),
    (["sort"], lambda a: (*a.sort(1), a.sort(0, descending=True)[0]), [distinct(6, 8)]),
    (["topk"], lambda a: (*a.topk(3, 1), *a.topk(2, 0, largest=False)), [distinct(6, 8)]),
    (["cummax", "cummin"], lambda a: (a.cummax(1)[0], a.cummin(0)[0]), [A]),
    (["adaptive_max_pool2d"], lambda x: F.adaptive_max_pool2d(x, (3, 2)), [IMAGE]),
    (["adaptive_max_pool3d"], lambda x: F.adaptive_max_pool3d(x, 2), [VOLUME]),
    (["where"], lambda a, b: torch.where(a > 0, a, b), [A, draw(6, 8, seed=9)]),
    (["gather"], lambda a, i: a.gather(1, i), [A, whole(6, 3, below=8)]),
    (["_to_copy"], lambda a, i: (a.to(torch.bfloat16).float(), a.half(), i.float(), a.long(), a.double() * 2), [A, INDEX]),
    (["masked_fill"], lambda a: a.masked_fill(a > 1, -7.0), [A]),
    (["constant_pad_nd"], lambda a: F.pad(a, (1, 2, 0, 1), value=0.5), [A]),
    (["cat", "stack"], lambda a, b: (torch.cat([a, b]), torch.stack([a, b], 1)), [A, draw(6, 8, seed=9)]),
    (["index_fill"], lambda a, i: aten.index_fill(a, 0, i, 9.0), [A, ROWS]),
    (["index_put"], lambda a, i, v: a.index_put((i,), v), [A, ROWS, draw(4, 8)]),
    (["index_put"], lambda a, i, v: a.index_put((i,), v, accumulate=True), [A, whole(9, below=6), draw(9, 8)]),
    (["index_copy"], lambda a, i, v: a.index_copy(0, i, v), [A, ROWS, draw(4, 8)]),
    (["scatter"], lambda a, i, v: (a.scatter(0, i, v), a.scatter(0, i, 2.5)), [A, ROWS[:, None].expand(4, 8), draw(4, 8)]),
    (["slice_scatter", "select_scatter", "diagonal_scatter"], lambda a, r: (torch.slice_scatter(a, r[None], 0, 2, 3), torch.select_scatter(a, r, 0, 1), torch.diagonal_scatter(a, r[:6])), [A, V]),
    (["as_strided_scatter"], lambda a, r: torch.as_strided_scatter(a, r, (8,), (2,)), [A, V]),
    (["slice_backward", "select_backward", "diagonal_backward"], lambda a, r: (aten.slice_backward(a, [9, 8], 0, 2, 8, 1), aten.select_backward(r, [3, 8], 0, 1), aten.diagonal_backward(r, [8, 8], 0, 0, 1)), [A, V]),
    (["scatter"], lambda r, i: aten.value_selecting_reduction_backward(r, 1, i, [8, 6], False), [V, whole(8, below=6)]),
    (["clone", "repeat", "flip", "roll", "tril", "triu"], lambda a: (a.clone(), a.repeat(2, 1), a.flip(1), a.roll(2, 1), a.tril(), a.triu(1)), [A]),
    (["index", "index_select", "take", "masked_select"], lambda a, i: (a[:, i], a.index_select(1, i), a.take(i), a.masked_select(torch.ones(6, 8, dtype=torch.bool))), [A, INDEX]),
    (["im2col"], lambda x: F.unfold(x, 2), [IMAGE]),
    (["_unsafe_index"], lambda a, i: aten._unsafe_index(a, [i]), [A, ROWS]),
    (["rot90"], lambda a: aten.rot90(a), [A]),
    (["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"], lambda x: (F.pixel_unshuffle(x, 2), F.pixel_shuffle(F.pixel_unshuffle(x, 2), 2), F.channel_shuffle(x, 3)), [IMAGE]),
    (["diag_embed"], lambda a: torch.diag_embed(a), [A]),
    (["clone"], lambda a: a.repeat_interleave(2, 0), [A]),
    (["narrow_copy", "slice_copy", "select_copy", "permute_copy", "view_copy", "expand_copy"], lambda a: (torch.narrow_copy(a, 0, 1, 2), torch.slice_copy(a, 0, 1, 3), torch.select_copy(a, 0, 1), torch.permute_copy(a, (1, 0)), torch.view_copy(a, (8, 6)), torch.expand_copy(a, (2, 6, 8))), [A]),
    (["clone"], lambda a: (aten._unsafe_view(a, [8, 6]).clone(), *aten.unsafe_split(a, 3)), [A]),
    (["adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"], lambda x, v: (gradient(lambda x: F.adaptive_max_pool2d(x, 2))(x), gradient(lambda x: F.adaptive_max_pool3d(x, 2))(v)), [distinct(1, 2, 6, 6), distinct(1, 2, 4, 4, 4)]),
    (["segment_reduce"], lambda x, n: torch.segment_reduce(x, "sum", lengths=n), [A, torch.tensor([2, 3, 1])]),
    (["_embedding_bag_backward"], gradient(lambda w, i, o: F.embedding_bag(i, w, o, mode="sum")), [A, whole(7, below=6), torch.tensor([0, 2, 5])]),
    (["_embedding_bag_backward"], gradient(lambda w, i, o: F.embedding_bag(i, w, o, mode="mean", padding_idx=2) * 12), [A, torch.tensor([0, 2, 2, 1, 3, 2, 5]), torch.tensor([0, 1, 5])]),
    (["_embedding_bag_backward"], gradient(lambda w, i, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s)), [A, whole(7, below=6), torch.tensor([0, 2, 5]), draw(7)]),
    (["avg_pool2d_backward"], gradient(lambda x: F.avg_pool2d(x, 3, stride=1) * 9), [IMAGE]),
    (["block_diag"], lambda a: torch.block_diag(a, a), [A]),
    (["clone"], lambda a: a.t().contiguous(), [A]),
]
