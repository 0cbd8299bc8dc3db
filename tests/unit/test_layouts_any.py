"""``layouts="any"``: one default check sees operands of every kind of layout, and costs no more calls."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import zeroulp
from zeroulp.plan import make_plan

PROBLEM = zeroulp.Matmul(16, 24, 40, a="float16")
ALIGNMENT = 64


def seen_by_a_kernel(problem, **options):
    """For each operand, what a default check calls a right kernel with: (kind of order, gap, misaligned, stride 0)."""
    seen = {"a": set(), "b": set(), "out": set()}

    def look(name, x):
        rows, columns = (stride // x.itemsize for stride in x.strides)
        if rows == 0 or columns == 0:
            seen[name].add("stride 0")
            return
        seen[name].add("row-major" if columns == 1 else "column-major")
        width, leading = (x.shape[1], rows) if columns == 1 else (x.shape[0], columns)
        seen[name].add("dense" if leading == width else "with gaps")
        if x.__array_interface__["data"][0] % ALIGNMENT:
            seen[name].add("misaligned")

    def kernel(a, b, out):
        for name, x in (("a", a), ("b", b), ("out", out)):
            look(name, x)
        out[...] = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)

    report = zeroulp.check(kernel, problem, seed=1, destination_passing=True, **options)
    assert report.verdict is zeroulp.Verdict.CORRECT
    return seen, report


def test_one_default_check_varies_strides_offsets_order_and_stride_zero():
    seen, _ = seen_by_a_kernel(PROBLEM.replace(layouts="any"))
    every = {"row-major", "column-major", "dense", "with gaps", "misaligned"}
    assert seen["a"] == seen["b"] == every | {"stride 0"}
    assert seen["out"] == every


def test_contiguous_is_all_there_is_otherwise():
    seen, _ = seen_by_a_kernel(PROBLEM)
    assert seen == dict.fromkeys(("a", "b", "out"), {"row-major", "dense"})


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "int8"])
@pytest.mark.parametrize("sizes", [(16, 24, 40), (256, 256, 256), (1, 1, 1), (64, 64, 9000)], ids=str)
def test_the_cost_in_calls_is_the_same(name, sizes):
    problem = zeroulp.Matmul(*sizes, a=name)
    assert make_plan(problem.replace(layouts="any")).calls == make_plan(problem).calls


def test_a_check_makes_the_planned_calls():
    assert seen_by_a_kernel(PROBLEM.replace(layouts="any"))[1].calls == seen_by_a_kernel(PROBLEM)[1].calls


COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_a_c_symbol_cannot_be_told_of_every_layout(tmp_path):
    source, library = tmp_path / "k.c", tmp_path / "k.so"
    source.write_text("void kernel(const float *a, const float *b, float *out, int m, int n, int k) {}")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, source], check=True)
    problem = zeroulp.Matmul(4, 5, 6, a="float32", layouts="any")
    with pytest.raises(zeroulp.UsageError, match="layouts='any' cannot be told to this C symbol") as caught:
        zeroulp.check(f"{library}:kernel", problem, signature="a, b, out, m, n, k")
    assert "contiguous" in caught.value.do
