"""
Matmuls of real libraries on the CPU, with their settings, and what they do outside the normal range.

A subject with a *defect* is one that a library gets wrong, shown here without zeroulp: where the
defect is there, an accusation is right, and where it is not, it would be an error.
"""

# ruff: noqa: PLC0415, SLF001  (a library is imported where it is used; _int_mm has no other name)

from __future__ import annotations

import contextlib
import importlib.util
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.campaign.rounding import storage

import zeroulp
from zeroulp.formats import format_named
from zeroulp.kernels.frameworks import framework_named

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES = ((17, 33, 70), (5, 1, 9), (1, 5, 257), (32, 48, 64))


@dataclass(frozen=True)
class Subject:
    """
    One function of a library under one setting, and the contract that it keeps.

    Args:
        package: The module that must be there, and the framework of the arrays.
        name: The function.
        setting: In words; empty: as the library comes.
        make: Makes the kernel.
        problem: Formats and clauses, as `zeroulp.Matmul` takes them.
        within: Makes the context in which it runs.
        layouts: Memory layouts that it promises to take.
        probes: Probes, where not the default ones.
        defect: Shows, without zeroulp, whether the library has the defect that such a check meets.
    """

    package: str
    name: str
    make: Callable
    problem: dict
    setting: str = ""
    within: Callable = contextlib.nullcontext
    layouts: tuple = ("contiguous", "any")
    probes: tuple = ()
    defect: Callable | None = field(default=None, compare=False)

    @property
    def title(self):
        """All of it in one line."""
        formats = " -> ".join(dict.fromkeys((self.problem["a"], self.problem.get("out", self.problem["a"]))))
        clause = f", sums {self.problem['accumulate']}" if "accumulate" in self.problem else ""
        clause += f", nonfinite {self.problem['nonfinite']}" if "nonfinite" in self.problem else ""
        probes = f", {', '.join(self.probes)}" if self.probes else ""
        layouts = "" if "any" in self.layouts else f", {' or '.join(self.layouts)} only"
        return f"{self.name}, {formats}{clause}{', ' if self.setting else ''}{self.setting}{layouts}{probes}"

    def missing(self):
        """Why it cannot run here; empty if it can."""
        return "" if importlib.util.find_spec(self.package) else f"{self.package} is not installed"

    def checks(self, seeds=(1,), shapes=SHAPES):
        """A report for each shape, layout and seed."""
        kernel = self.make()
        with self.within():
            for m, n, k in shapes:
                for layouts in self.layouts:
                    for seed in seeds:
                        problem = zeroulp.Matmul(m, n, k, **self.problem, layouts=layouts)
                        probes = list(self.probes) or None
                        yield zeroulp.check(kernel, problem, seed=seed, probes=probes, framework=self.package)

    def behaviour(self):
        """
        What becomes of subnormal operands and results, of NaN, of 0 times infinity, of overflow.

        Operands are made, and results looked at, outside the setting: it may flush our numbers too.
        """
        a, out = (format_named(self.problem.get(name) or self.problem["a"]) for name in ("a", "out"))
        trials = [make(a, out) for make in BEHAVIOUR.values()]
        kernel, framework = self.make(), framework_named(self.package)
        with self.within(), np.errstate(all="ignore"):
            called = [
                None if trial is None else framework.back(kernel(framework.to(trial[0]), framework.to(trial[1]))).copy()
                for trial in trials
            ]
        return [
            "-" if trial is None else trial[2](result.astype(np.float64))
            for trial, result in zip(trials, called, strict=True)
        ]


def _lone(a, x, y, says):
    """Operands whose product is x y, alone in sums of zeros, at every output."""
    left, right = np.zeros((32, 64), storage(a)), np.zeros((64, 32), storage(a))
    left[:, 5], right[5, :] = np.array(x).astype(storage(a)), np.array(y).astype(storage(a))
    return left, right, says


def _kept(right):
    return lambda result: "kept" if (result == right).all() else "zero" if (result == 0).all() else "other"


def _subnormal_operand(a, out):
    exponent = min(a.emax, max(0, out.emin + 2 - a.quantum_exponent_min))
    x, y = 3 * a.min_subnormal, 2.0**exponent
    return _lone(a, x, y, _kept(x * y)) if x * y >= out.min_normal else None


def _subnormal_result(a, out):
    left = max(a.emin, out.emin // 2)
    right = out.emin - 1 - left
    return _lone(a, 2.0**left, 2.0**right, _kept(out.min_normal / 2)) if right >= a.emin else None


def _nan(a, _out):
    if not a.has_nan:
        return None
    left, right = np.ones((34, 71), storage(a)), np.ones((71, 33), storage(a))
    left[1::2] = np.array(np.nan).astype(storage(a))

    def says(result):
        nan = np.isnan(result)
        return "lost" if not nan[1::2].all() else "other rows too" if nan[::2].any() else "in its row"

    return left, right, says


def _zero_times_infinity(a, _out):
    if not a.has_infinity:
        return None
    return _lone(a, np.inf, 0.0, lambda result: "NaN" if np.isnan(result).all() else "other")


def _overflow(a, out):
    if 2 * min(a.emax, out.emax) <= out.emax:
        return None
    half = 2.0 ** min(a.emax, out.emax)

    def says(result):
        return "infinity" if np.isinf(result).all() else "NaN" if np.isnan(result).all() else f"{result.flat[0]:g}"

    return _lone(a, half, half, says)


BEHAVIOUR = {
    "subnormal operand": _subnormal_operand,
    "subnormal result": _subnormal_result,
    "NaN": _nan,
    "0 x infinity": _zero_times_infinity,
    "overflow": _overflow,
}


@contextlib.contextmanager
def torch_setting(threads, onednn, flush):
    """Number of threads, oneDNN, and flushing of subnormal numbers, as they were again afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(flush)
    torch.backends.mkldnn.set_flags(_enabled=onednn)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(_enabled=True)
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)


def leaks_beside_rows():
    """oneDNN before 3.14 on AMX: what lies beside a BF16 row is multiplied by zero, and NaN stays NaN (issue 5717)."""
    import torch

    beside = torch.full((17, 73), float("nan"), dtype=torch.bfloat16)
    rows = beside[:, :70]
    rows.fill_(1)
    return bool(torch.matmul(rows, torch.ones(70, 33, dtype=torch.bfloat16)).isnan().any())


def misreads_expanded():
    """oneDNN integer products of an operand of stride 0, against sums of int32 elements."""
    import torch

    a = torch.arange(17 * 70, dtype=torch.int32).reshape(17, 70).remainder(9).sub(4)
    b = torch.arange(33, dtype=torch.int32).remainder(7).sub(3).expand(70, 33)
    right = (a[:, :, None] * b[None]).sum(dim=1)
    expanded = b[0].to(torch.int8).expand(70, 33)
    return not bool((torch._int_mm(a.to(torch.int8), expanded) == right).all())


def sums_in_float16():
    """NumPy's einsum of float16: 4096 ones make 2048."""
    a, b = np.ones((2, 4096), np.float16), np.ones((4096, 2), np.float16)
    return bool(np.einsum("ik,kj->ij", a, b)[0, 0] == 2048)


def keeps_11_bits_of_fp8():
    """XLA's FP8 products on the CPU: 16 + 1 + 2^-10 is 16 after two roundings, 18 after one."""
    import jax.numpy as jnp
    import ml_dtypes

    a, b = (np.array([row]).astype(ml_dtypes.float8_e4m3fn) for row in ([16.0, 1.0, 2.0**-6], [1.0, 1.0, 2.0**-4]))
    return float(jnp.matmul(jnp.array(a), jnp.array(b.T))[0, 0]) == 16


def _torch(name):
    def make():
        import torch

        return getattr(torch, name)

    return make


def _jax(out=None):
    def make():
        import jax

        return jax.jit(lambda a, b: jax.numpy.matmul(a, b, preferred_element_type=out))

    return make


@contextlib.contextmanager
def _wide_jax():
    import jax

    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def _subjects():
    for a in ("float16", "bfloat16", "float32", "float64"):
        for threads in (1, 2):
            for onednn in (True, False):
                for flush in (False, True):
                    words = [f"{threads} thread{'s' if threads > 1 else ''}", f"oneDNN {'on' if onednn else 'off'}"]
                    yield Subject(
                        "torch",
                        "torch.matmul",
                        _torch("matmul"),
                        {"a": a},
                        ", ".join(words + ["flushing"] * flush),
                        lambda t=threads, o=onednn, f=flush: torch_setting(t, o, f),
                        ("contiguous", "any"),
                    )
    yield Subject("torch", "torch.matmul", _torch("matmul"), {"a": "int8", "out": "int8"})
    yield Subject("torch", "torch._int_mm", _torch("_int_mm"), {"a": "int8"}, layouts=("contiguous", "padded"))
    for layouts in ("contiguous", "padded"):
        yield Subject(
            "torch",
            "torch.matmul",
            _torch("matmul"),
            {"a": "bfloat16", "nonfinite": "ieee"},
            layouts=(layouts,),
            defect=leaks_beside_rows,
        )
    yield Subject(
        "torch", "torch._int_mm", _torch("_int_mm"), {"a": "int8"}, layouts=("broadcast",), defect=misreads_expanded
    )
    for name, function in (("matmul", np.matmul), ("dot", np.dot)):
        for a in ("float16", "float32", "float64"):
            yield Subject("numpy", f"numpy.{name}", lambda f=function: f, {"a": a})
            yield Subject("numpy", f"numpy.{name}", lambda f=function: f, {"a": a}, probes=("specials",))
    yield Subject("numpy", "numpy.dot", lambda: np.dot, {"a": "bfloat16"})
    yield Subject("numpy", "numpy.matmul", lambda: np.matmul, {"a": "int8", "out": "int8"})
    for a in ("float32", "float64"):
        yield Subject("numpy", "numpy.einsum", einsum, {"a": a})
    yield Subject("numpy", "numpy.einsum", einsum, {"a": "float16", "accumulate": "any"})
    yield Subject("numpy", "numpy.einsum", einsum, {"a": "float16"}, defect=sums_in_float16)
    for a in ("float16", "bfloat16", "float32"):
        yield Subject("jax", "jax.numpy.matmul", _jax(), {"a": a})
        yield Subject("jax", "jax.numpy.matmul", _jax(), {"a": a}, probes=("specials",))
    yield Subject("jax", "jax.numpy.matmul", _jax(), {"a": "float64"}, within=_wide_jax)
    for a in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        yield Subject("jax", "jax.numpy.matmul", _jax("float32"), {"a": a, "out": "float32"})
    yield Subject("jax", "jax.numpy.matmul", _jax("int32"), {"a": "int8"})
    for a in ("float8_e4m3fn", "float8_e5m2"):
        yield Subject("jax", "jax.numpy.matmul", _jax(), {"a": a, "accumulate": "float16"})
    yield Subject("jax", "jax.numpy.matmul", _jax(), {"a": "float8_e5m2"}, defect=keeps_11_bits_of_fp8)


def einsum():
    """einsum as a kernel."""
    return lambda a, b: np.einsum("ik,kj->ij", a, b)


SUBJECTS = tuple(_subjects())
