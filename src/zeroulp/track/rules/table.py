"""
The table of operators: one line each.

An operator that is not here is not exact. `register` adds one from outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zeroulp.errors import UsageError
from zeroulp.track.rules import averages, order, products
from zeroulp.track.rules import decomposition as as_
from zeroulp.track.rules.decomposition import decomposed
from zeroulp.track.rules.multilinear import add, cumulate, multilinear, subtract
from zeroulp.track.rules.places import extreme, index_copied, index_put, scatter_reduce, scattered, segment_reduce
from zeroulp.track.rules.selection import clamp, compare, decide, equal_in_row, pairwise, pointwise, reduction
from zeroulp.track.rules.structural import cast, copied, gather, structural, where

if TYPE_CHECKING:
    from zeroulp.track.rules.base import Rule

_MOVES = structural("self")
_SIGN = decomposed(as_.heaviside_sign)
_GRADIENT = multilinear("grad_output")
_POOL_GRADIENT = multilinear("grad_output")
_ROUNDING = pointwise(keeps_rounded=False, whole=True)
_LEAST_OR_MOST = reduction()
_WITH_PLACE = reduction(equal_in_row)

TABLE: dict[str, Rule] = {
    # products and sums of products
    "mm": multilinear("self*mat2"),
    "bmm": multilinear("self*mat2"),
    "mv": multilinear("self*vec"),
    "dot": multilinear("self*tensor"),
    "vdot": multilinear("self*other"),
    "addmm": multilinear("beta*self + alpha*mat1*mat2"),
    "addbmm": multilinear("beta*self + alpha*batch1*batch2"),
    "baddbmm": multilinear("beta*self + alpha*batch1*batch2"),
    "addmv": multilinear("beta*self + alpha*mat*vec"),
    "addr": multilinear("beta*self + alpha*vec1*vec2"),
    "addcmul": decomposed(as_.addcmul),
    "_trilinear": multilinear("i1*i2*i3"),
    "linalg_cross": decomposed(as_.cross),
    "convolution": multilinear("input*weight + bias"),
    "convolution_backward": multilinear("grad_output*weight", "grad_output*input", "grad_output"),
    "mul": products.multiply,
    "pow": products.raise_power,
    "prod": products.running_product,
    "cumprod": products.running_product,
    # sums
    "add": add,
    "sub": subtract,
    "rsub": decomposed(as_.reversed_difference),
    "sum": averages.total,
    "cumsum": cumulate,
    "bincount": multilinear("weights"),
    "trace": decomposed(as_.trace),
    "col2im": multilinear("self"),
    "index_add": multilinear("self + alpha*source"),
    "scatter_add": multilinear("self + src"),
    "scatter_reduce": scatter_reduce,
    "embedding_dense_backward": _GRADIENT,
    "upsample_nearest1d_backward": _GRADIENT,
    "upsample_nearest2d_backward": _GRADIENT,
    "upsample_nearest3d_backward": _GRADIENT,
    "unfold_backward": multilinear("grad_in"),
    "reflection_pad1d_backward": _GRADIENT,
    "reflection_pad2d_backward": _GRADIENT,
    "replication_pad1d_backward": _GRADIENT,
    "replication_pad2d_backward": _GRADIENT,
    "max_pool2d_with_indices_backward": _POOL_GRADIENT,
    "max_pool3d_with_indices_backward": _POOL_GRADIENT,
    "adaptive_max_pool2d_backward": _POOL_GRADIENT,
    "adaptive_max_pool3d_backward": _POOL_GRADIENT,
    "segment_reduce": segment_reduce,
    "_embedding_bag_backward": decomposed(as_.embedding_bag_backward),
    # averages and quotients
    "mean": averages.mean,
    "avg_pool2d": averages.pool,
    "avg_pool3d": averages.pool,
    "avg_pool2d_backward": averages.pool_backward,
    "avg_pool3d_backward": averages.pool_backward,
    "_adaptive_avg_pool2d": averages.adaptive_pool,
    "_adaptive_avg_pool3d": averages.adaptive_pool,
    "_embedding_bag": averages.embedding_bag,
    "_embedding_bag_forward_only": averages.embedding_bag,
    "div": products.divide,
    "reciprocal": products.reciprocal,
    # functions of one element
    "neg": copied,
    "abs": pointwise(keeps_rounded=True),
    "relu": pointwise(keeps_rounded=True),
    "sgn": _SIGN,
    "sign": _SIGN,
    "floor": _ROUNDING,
    "ceil": _ROUNDING,
    "trunc": _ROUNDING,
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": clamp,
    "hardtanh": clamp,
    "leaky_relu": decomposed(as_.leaky_relu),
    "_prelu_kernel": decomposed(as_.prelu),
    "threshold": decomposed(as_.threshold),
    "hardshrink": decomposed(as_.hardshrink),
    "softshrink": decomposed(as_.softshrink),
    "threshold_backward": decomposed(as_.threshold_backward),
    "leaky_relu_backward": decomposed(as_.leaky_relu_backward),
    "hardtanh_backward": decomposed(as_.hardtanh_backward),
    "mse_loss": decomposed(as_.mse_loss),
    "smooth_l1_loss": decomposed(as_.smooth_l1_loss),
    "huber_loss": decomposed(as_.huber_loss),
    "linalg_vector_norm": decomposed(as_.vector_norm),
    "norm": decomposed(as_.norm),
    # comparisons
    **dict.fromkeys(["eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "logical_not"], compare),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor"], compare),
    **dict.fromkeys(["nonzero", "count_nonzero", "any", "all", "searchsorted", "bucketize"], decide),
    # choices
    "max": extreme,
    "min": extreme,
    "maximum": pairwise,
    "minimum": pairwise,
    "fmax": pairwise,
    "fmin": pairwise,
    "amax": _LEAST_OR_MOST,
    "amin": _LEAST_OR_MOST,
    "median": _WITH_PLACE,
    "kthvalue": _WITH_PLACE,
    "argmax": order.argument,
    "argmin": order.argument,
    "sort": order.sort,
    "topk": order.top,
    "cummax": order.running_extreme,
    "cummin": order.running_extreme,
    "max_pool2d_with_indices": order.max_pool,
    "max_pool3d_with_indices": order.max_pool,
    "adaptive_max_pool2d": order.max_pool,
    "adaptive_max_pool3d": order.max_pool,
    # elements moved
    "where": where,
    "gather": gather,
    "_to_copy": cast,
    "masked_fill": decomposed(as_.masked_fill),
    "constant_pad_nd": structural("self", fill="value"),
    "cat": structural("tensors"),
    "stack": structural("tensors"),
    "block_diag": structural("tensors"),
    "embedding": structural("weight"),
    "index_fill": decomposed(as_.index_fill),
    "index_put": index_put,
    "index_copy": structural("self", "source", clash=index_copied),
    "scatter": scattered,
    "slice_scatter": structural("self", "src"),
    "select_scatter": structural("self", "src"),
    "diagonal_scatter": structural("self", "src"),
    "as_strided_scatter": structural("self", "src"),
    "slice_backward": structural("grad_output"),
    "select_backward": structural("grad_output"),
    "diagonal_backward": structural("grad_output"),
    **dict.fromkeys(
        [
            "clone",
            "repeat",
            "flip",
            "roll",
            "tril",
            "triu",
            "im2col",
            "index",
            "index_select",
            "take",
            "masked_select",
            "_unsafe_index",
            "rot90",
            "pixel_shuffle",
            "pixel_unshuffle",
            "channel_shuffle",
            "diag_embed",
            "reflection_pad1d",
            "reflection_pad2d",
            "reflection_pad3d",
            "replication_pad1d",
            "replication_pad2d",
            "replication_pad3d",
            "upsample_nearest1d",
            "upsample_nearest2d",
            "upsample_nearest3d",
            "narrow_copy",
            "slice_copy",
            "select_copy",
            "permute_copy",
            "view_copy",
            "expand_copy",
        ],
        _MOVES,
    ),
}
"""By the operator's name, with its namespace unless that is aten."""


def register(name: str, rule: Rule, *, replace: bool = False) -> None:
    """
    Add an operator to the table.

    Args:
        name: As PyTorch calls it: ``"mm"`` for one of aten, ``"mylib::mm"`` for one of another namespace.
        rule: Made by `structural`, `multilinear`, `pointwise` or `decomposed`, or a function of tracker and call.
        replace: Whether to put it in the place of one that is there.

    Raises:
        UsageError: If the operator is in the table and *replace* is not set.
    """
    if name in TABLE and not replace:
        raise UsageError(
            f"operator {name!r} has a rule",
            why="two rules would let the order of imports decide what is exact",
            do="pass replace=True to put this one in its place",
        )
    TABLE[name] = rule
