"""Compiled C kernels of problems that are given by a reference: right ones are accepted, wrong ones found."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from tests.cli.conftest import command  # noqa: F401
from tests.linear.problems import CONV, MASKED, SCAN, SCATTER
from zeroulp import Linear, Tensor, UsageError, check, problems, replay

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
EXAMPLE = "x, weight, bias, out, x.0, x.1, x.2, x.3, weight.0"

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

OWN = r"""
#include <stdint.h>
#include <string.h>

enum { ROWS = 3, LENGTH = 50 };

/* Running sums of (3, 50), by blocks of 8 whose totals are carried. */
static void scan(const float *x, float *out, int carried)
{
    for (int row = 0; row < ROWS; row++, x += LENGTH, out += LENGTH) {
        float before = 0;
        for (int start = 0; start < LENGTH; start += 8) {
            float sum = 0;
            for (int i = start; i < start + 8 && i < LENGTH; i++)
                out[i] = before + (sum += x[i]);
            before = carried ? before + sum : 0;
        }
    }
}

void running(const float *x, float *out) { scan(x, out, 1); }
void carry_lost(const float *x, float *out) { scan(x, out, 0); }
void one_past_the_end(const float *x, float *out) { scan(x, out, 1); out[ROWS * LENGTH] = 1; }
void reads_past_x(const float *x, float *out) { scan(x, out, 1); out[0] += 0 * x[ROWS * LENGTH]; }
void changes_x(float *x, float *out) { scan(x, out, 1); x[3] += 1; }
void leaves_the_last(const float *x, float *out)
{
    float last = out[ROWS * LENGTH - 1];
    scan(x, out, 1);
    out[ROWS * LENGTH - 1] = last;
}
void crashes(const float *x, float *out) { *(volatile int *)8 = 1; }
void loops(const float *x, float *out) { for (volatile int i = 0;; i++); }
int64_t fails(const float *x, float *out) { scan(x, out, 1); return 3; }
int succeeds(const float *x, float *out) { scan(x, out, 1); return 0; }
int any_shape(float *out, const float *x, int64_t length, int rows)
{
    for (int row = 0; row < rows; row++) {
        float sum = 0;
        for (int64_t i = 0; i < length; i++)
            out[row * length + i] = sum += x[row * length + i];
    }
    return 0;
}

/* Rows of x (20, 5) added up in out (7, 5), where i says. */
void scatter(const float *x, const int64_t *i, float *out)
{
    memset(out, 0, 7 * 5 * sizeof *out);
    for (int row = 19; row >= 0; row--)
        for (int column = 0; column < 5; column++)
            out[i[row] * 5 + column] += x[row * 5 + column];
}
void duplicates_lost(const float *x, const int64_t *i, float *out)
{
    memset(out, 0, 7 * 5 * sizeof *out);
    for (int row = 19; row >= 0; row--)
        for (int column = 0; column < 5; column++)
            out[i[row] * 5 + column] = x[row * 5 + column];
}

/* Sums of the elements of x (6, 9) under a mask, times a number. */
static void masked_sum(const float *x, const uint8_t *m, float s, float *out, int rows)
{
    for (int column = 0; column < 9; column++) {
        out[column] = 0;
        for (int row = 0; row < rows; row++)
            out[column] += m[row * 9 + column] ? s * x[row * 9 + column] : 0;
    }
}
void masked(const float *x, const uint8_t *m, const float *s, float *out) { masked_sum(x, m, *s, out, 6); }
void masked_by_value(float s, const float *x, const uint8_t *m, float *out) { masked_sum(x, m, s, out, 6); }
void masked_in_double(double s, const float *x, const uint8_t *m, float *out) { masked_sum(x, m, (float)s, out, 6); }
void masked_but_a_row(float s, const float *x, const uint8_t *m, float *out) { masked_sum(x, m, s, out, 5); }

/* Whole numbers of 8 bits, shifted by a number that is one too. */
void shifted(const int8_t *x, int by, int32_t *out)
{
    for (int i = 0; i < 12; i++)
        out[i] = x[i] + by;
}

/* One sum of all. */
void total(const float *x, const float *y, float *out)
{
    *out = 0;
    for (int i = 0; i < 30; i++)
        *out += x[i] * y[i];
}

/* A 3 x 3 convolution of (2, 3, 9, 8) with 4 filters, stride 2, padding 1: each input is added to the outputs it is seen by. */
void conv_by_inputs(const float *x, const float *w, const float *b, float *out)
{
    for (int n = 0; n < 2; n++)
        for (int f = 0; f < 4; f++) {
            float *to = out + (n * 4 + f) * 5 * 4;
            for (int i = 0; i < 5 * 4; i++)
                to[i] = b[f];
            for (int c = 0; c < 3; c++)
                for (int row = 0; row < 9; row++)
                    for (int column = 0; column < 8; column++)
                        for (int i = 0; i < 3; i++)
                            for (int j = 0; j < 3; j++) {
                                int up = row + 1 - i, left = column + 1 - j;
                                if (up >= 0 && left >= 0 && up % 2 == 0 && left % 2 == 0 && up / 2 < 5 && left / 2 < 4)
                                    to[up / 2 * 4 + left / 2] += x[((n * 3 + c) * 9 + row) * 8 + column] * w[((f * 3 + c) * 3 + i) * 3 + j];
                            }
        }
}

/* Halves are added as whole numbers of 2^-24: a half is (-1)^s 2^(e-25) (1024 + f), or 2^-24 f. */
static int64_t units(uint16_t half)
{
    int64_t e = half >> 10 & 31, f = half & 1023, size = e ? (f + 1024) << (e - 1) : f;
    return half >> 15 ? -size : size;
}
void halves_as_float(const uint16_t *x, float *out)
{
    for (int i = 0; i < 8; i++) {
        int64_t sum = 0;
        for (int j = 0; j < 6; j++)
            sum += units(x[i * 6 + j]);
        out[i] = (float)sum / 16777216;
    }
}
"""

SHIFTED = Linear(lambda x, by: x.to(torch.int32) + by, [Tensor("x", (12,), "int8"), Tensor("by", (), "int32", "scalar")], name="shifted")
TOTAL = Linear(lambda x, y: (x * y).sum(), [Tensor("x", (30,)), Tensor("y", (30,))], name="total")
HALVES = Linear(lambda x: x.float().sum(1), [Tensor("x", (8, 6), "float16")], name="halves")


def build(folder, source):
    library = folder / f"{source.stem}.so"
    subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", "-ffp-contract=off", "-w", "-o", str(library), str(source)], check=True)
    return library


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    source = tmp_path_factory.mktemp("linear") / "own.c"
    source.write_text(OWN)
    return build(source.parent, source)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return build(tmp_path_factory.mktemp("linear"), ROOT / "examples" / "conv2d.c")


RIGHT = [
    ("running", SCAN, None), ("running", SCAN, "x, out"), ("running", SCAN, "x:ptr,out -> void"), ("succeeds", SCAN, "x, out -> i32"),
    ("any_shape", SCAN, "out, x, x.1:i64, out.0 -> i32"), ("scatter", SCATTER, None), ("masked", MASKED, None),
    ("masked_by_value", MASKED, "s:f32, x, m, out"), ("masked_in_double", MASKED, "s:f64, x, m, out"),
    ("shifted", SHIFTED, "x, by:i32, out"), ("total", TOTAL, None), ("halves_as_float", HALVES, None), ("conv_by_inputs", CONV, None),
]


@pytest.mark.parametrize(("symbol", "problem", "signature"), RIGHT)
def test_right_kernels_are_accepted(own, symbol, problem, signature):
    for seed in range(3):
        report = check(f"{own}:{symbol}", problem, signature=signature, seed=seed)
        assert report.verdict.value == "CORRECT", str(report)


@pytest.mark.parametrize(("symbol", "problem", "signature", "kind"), [
    ("carry_lost", SCAN, None, "wrong-result"), ("one_past_the_end", SCAN, None, "out-of-bounds-write"),
    ("reads_past_x", SCAN, None, "out-of-bounds-read"), ("changes_x", SCAN, None, "input-mutated"),
    ("leaves_the_last", SCAN, None, "unwritten-output"), ("duplicates_lost", SCATTER, None, "wrong-result"),
    ("masked_but_a_row", MASKED, "s:f32, x, m, out", "wrong-result"),
])
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_wrong_kernels_are_found_by_their_names(own, symbol, problem, signature, kind, isolation):
    report = check(f"{own}:{symbol}", problem, signature=signature, isolation=isolation, seed=5)
    assert kind in [finding.kind for finding in report.findings], str(report)
    assert replay(report).verdict.value == "INCORRECT"


@pytest.mark.parametrize(("symbol", "signature", "words"), [
    ("crashes", None, "died of SIGSEGV"), ("loops", None, "still running"), ("fails", "x, out -> i64", "error code 3"),
])
def test_what_breaks_is_broken(own, symbol, signature, words):
    report = check(f"{own}:{symbol}", SCAN, signature=signature, isolation="process", deadline_seconds=2)
    assert report.verdict.value == "BROKEN"
    assert words in str(report)


@pytest.mark.parametrize(("problem", "signature", "words"), [
    (SCAN, "x, y, out", "'y' in the signature"), (SCAN, "x, out, x.2", "'x.2' in the signature"),
    (SCAN, "x, out, n", "known: x, out, and x.0 for the length"), (SCAN, "x", "no out"), (SCAN, "x, x, out", "x twice"),
    (SCAN, "x:f32, out", "x is ptr"), (MASKED, "x, m, s:i32, out", "s is ptr or f32 or f64"), (SHIFTED, "x, by:f32, out", "by is ptr or i32 or i64"),
    (SCAN, "x, out -> f32", "return type 'f32'"), (SCAN, "x, out, x.0:f32", "x.0 is i32 or i64"), (TOTAL, "x, y, out:f32", "out is ptr"),
])
def test_a_signature_that_cannot_be_is_refused(own, problem, signature, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        check(f"{own}:running", problem, signature=signature)


def test_a_symbol_that_is_not_there_is_named(own):
    with pytest.raises(UsageError, match="no symbol 'nobody'"):
        check(f"{own}:nobody", SCAN)
    with pytest.raises(UsageError, match="no shared library"):
        check("nowhere.so:running", SCAN)
    with pytest.raises(UsageError, match="a C symbol on 'cuda'"):
        check(f"{own}:running", SCAN, device="cuda")


@pytest.mark.parametrize(("symbol", "status"), [("conv2d", 0), ("last_row_repeated", 1)])
@pytest.mark.parametrize("seed", range(3))
def test_the_example_is_what_it_says(command, example, symbol, status, seed):  # noqa: F811
    problem = ROOT / "examples" / "conv2d_problem.py"
    words = ("--problem", f"{problem}:in_float32", "--signature", EXAMPLE, "--isolate", "none", "--seed", seed)
    assert command("check", f"{example}:{symbol}", *words).status == status


@pytest.mark.parametrize("shape", [(1, 1, 3, 3), (2, 3, 8, 9), (3, 4, 17, 6)])
def test_the_example_fits_a_shipped_problem_of_any_shape(example, shape):
    problem = problems.Conv(shape, (5, shape[1], 3, 3), stride=2, padding=1, bias=True)
    signature = "x, w, b, out, x.0, x.1, x.2, x.3, w.0"
    report = check(f"{example}:conv2d", problem, signature=signature, seed=1)
    assert report.verdict.value == "CORRECT", str(report)


def test_the_command_of_the_page_and_of_the_example_work(command, example, monkeypatch):  # noqa: F811
    monkeypatch.chdir(example.parent)
    (example.parent / "examples").symlink_to(ROOT / "examples")
    page = (ROOT / "docs" / "linear.md").read_text()
    (block,) = re.findall(r"```sh\n(.*?)```", page, re.S)
    compiled, line = block.splitlines()
    head = (ROOT / "examples" / "conv2d.c").read_text()
    assert f" * {compiled}\n" in head
    assert shlex.split(line) == shlex.split(" ".join(re.findall(r"^ \*     (.*?)\\?$", head, re.M)))
    assert command(*shlex.split(line)[1:], "--isolate", "none").status == 0
