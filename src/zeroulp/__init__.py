"""
Tell whether a matmul kernel is numerically correct, by exact match, without a tolerance.

The kernel is fed inputs for which every correct kernel returns the same bits in any summation
order; the bits are worked out independently and compared.

    >>> import zeroulp
    >>> problem = zeroulp.Matmul(m=16, n=16, k=64, a="float16")
    >>> zeroulp.check(lambda a, b: (a.astype("f4") @ b.astype("f4")).astype("f2"), problem).verdict.value
    'CORRECT'
"""

from zeroulp import problems
from zeroulp.checks import LinearPlan, assert_correct, check, check_grid, check_shapes, make_linear_plan, replay
from zeroulp.errors import KernelError, KernelIncorrectError, UsageError, ZeroulpError
from zeroulp.exactness import Certificate, Family, Lattice, certify
from zeroulp.formats import Format, format_named
from zeroulp.plan import Plan, make_plan
from zeroulp.problem import Contract, Linear, Matmul, Tensor
from zeroulp.report import (
    Finding,
    GridReport,
    Report,
    ShapesReport,
    Verdict,
    from_json,
    grid_from_jsonl,
    shape_from_jsonl,
    shapes_from_json,
    shapes_to_json,
    to_json,
)
from zeroulp.shapes import ragged_shapes
from zeroulp.version import __version__

KernelIncorrect = KernelIncorrectError

__all__ = [
    "Certificate",
    "Contract",
    "Family",
    "Finding",
    "Format",
    "GridReport",
    "KernelError",
    "KernelIncorrect",
    "KernelIncorrectError",
    "Lattice",
    "Linear",
    "LinearPlan",
    "Matmul",
    "Plan",
    "Report",
    "ShapesReport",
    "Tensor",
    "UsageError",
    "Verdict",
    "ZeroulpError",
    "__version__",
    "assert_correct",
    "certify",
    "check",
    "check_grid",
    "check_shapes",
    "format_named",
    "from_json",
    "grid_from_jsonl",
    "make_linear_plan",
    "make_plan",
    "problems",
    "ragged_shapes",
    "replay",
    "shape_from_jsonl",
    "shapes_from_json",
    "shapes_to_json",
    "to_json",
]
