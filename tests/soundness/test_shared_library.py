"""Compiled C kernels: right ones are accepted however they are called, wrong ones found."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import zeroulp
from zeroulp.errors import UsageError
from zeroulp.report import Verdict

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
BLOCKED = Path(__file__).resolve().parents[2] / "examples" / "correct" / "blocked.c"
SIGNATURE = "a, b, out, m, n, k, lda, ldb, ldout"
GEMM = "m:i64, n:i64, k:i64, alpha, a, lda:i64, b, ldb:i64, beta, c, ldc:i64 -> i32"
SHAPES = ((1, 1, 1), (3, 5, 0), (0, 4, 3), (4, 0, 3), (2, 65, 17), (33, 1, 129), (35, 66, 130))

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")

OWN = r"""
#include <stdint.h>
#include <string.h>

/* Right, on float32, for the strides that it is given; the others are made from it. */
static void product(const float *a, const float *b, float *out, int m, int n, int k, int lda, int ldb, int ldout)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += a[i * lda + p] * b[p * ldb + j];
            out[i * ldout + j] = sum;
        }
}

#define SIMPLE(NAME, ...) \
    void NAME(const float *a, const float *b, float *out, int m, int n, int k, int lda, int ldb, int ldout) \
    { product(a, b, out, m, n, k, lda, ldb, ldout); __VA_ARGS__; }

SIMPLE(right)
SIMPLE(one_past_the_end, out[(m - 1) * ldout + n] = 0)
SIMPLE(one_before_the_start, out[-1] = 0)
SIMPLE(between_rows, if (ldout > n) out[n] = 0)
SIMPLE(changes_a, ((float *)a)[0] += 1)
SIMPLE(reads_past_a, out[0] += 0 * a[(m - 1) * lda + k])
SIMPLE(crashes, *(volatile int *)8 = 1)
SIMPLE(loops, for (volatile int i = 0;; i++);)

void ignores_ldb(const float *a, const float *b, float *out, int m, int n, int k, int lda, int ldb, int ldout)
{ product(a, b, out, m, n, k, lda, n, ldout); }

void leaves_last_row(const float *a, const float *b, float *out, int m, int n, int k, int lda, int ldb, int ldout)
{ product(a, b, out, m - 1, n, k, lda, ldb, ldout); }

int fails(const float *a, const float *b, float *out, int m, int n, int k)
{ product(a, b, out, m, n, k, k, n, n); return 3; }

int64_t succeeds_in_64_bits(const float *a, const float *b, float *out, int m, int n, int k)
{ product(a, b, out, m, n, k, k, n, n); return 0; }

void batched(int batch, int m, int n, int k, const float *a, int64_t stride_a, int lda, const float *b,
             int64_t stride_b, int ldb, float *out, int64_t stride_out, int ldout)
{
    for (int i = 0; i < batch; i++)
        product(a + i * stride_a, b + i * stride_b, out + i * stride_out, m, n, k, lda, ldb, ldout);
}

void first_of_batch_only(int batch, int m, int n, int k, const float *a, int64_t stride_a, int lda, const float *b,
                         int64_t stride_b, int ldb, float *out, int64_t stride_out, int ldout)
{
    for (int i = 0; i < batch; i++)
        product(a + i * stride_a, b, out + i * stride_out, m, n, k, lda, ldb, ldout);
}

void biased(const float *a, const float *b, const float *bias, float *out, int m, int n, int k)
{
    product(a, b, out, m, n, k, k, n, n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            out[i * n + j] += bias[j];
}

void scaled(const double *a, const double *b, const double *c, double *out, int64_t m, int64_t n, int64_t k,
            double alpha, double beta)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += a[i * k + p] * b[p * n + j];
            out[i * n + j] = alpha * sum + beta * c[i * n + j];
        }
}

void transposed_b(const float *a, const float *b, float *out, int m, int n, int k, int ldb)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += a[i * k + p] * b[j * ldb + p];
            out[i * n + j] = sum;
        }
}

void int8(const int8_t *a, const int8_t *b, int32_t *out, int m, int n, int k)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            int32_t sum = 0;
            for (int p = 0; p < k; p++)
                sum += a[i * k + p] * b[p * n + j];
            out[i * n + j] = sum;
        }
}
"""


def build(source, directory):
    library = directory / f"{source.stem}.so"
    flags = ["-O1", "-shared", "-fPIC", "-ffp-contract=off"]
    subprocess.run([COMPILER, *flags, "-o", str(library), str(source)], check=True, timeout=120)
    return library


@pytest.fixture(scope="module")
def blocked(tmp_path_factory):
    return build(BLOCKED, tmp_path_factory.mktemp("blocked"))


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    directory = tmp_path_factory.mktemp("own")
    (directory / "own.c").write_text(OWN)
    return build(directory / "own.c", directory)


def accept(target, problem, signature, **options):
    report = zeroulp.check(target, problem, signature=signature, seed=1, **options)
    assert report.verdict is Verdict.CORRECT, f"{target} {problem}\n{report}"


def kinds(target, problem, signature=SIGNATURE, **options):
    report = zeroulp.check(target, problem, signature=signature, seed=1, **options)
    assert report.verdict is Verdict.INCORRECT, report
    return [finding.kind for finding in report.findings]


@pytest.mark.parametrize("layouts", ["contiguous", "padded", "offset", {"a": "padded", "out": "offset"}], ids=str)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_the_blocked_example_is_accepted(blocked, name, layouts):
    out = "float32" if name == "float8_e4m3fn" else name
    for m, n, k in SHAPES:
        accept(f"{blocked}:matmul_{name}", zeroulp.Matmul(m, n, k, a=name, out=out, layouts=layouts), SIGNATURE)


@pytest.mark.parametrize("layouts", ["contiguous", "padded", "offset"])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (0.5, 2), (-1, 1), (0, 1), (2, -0.25)])
def test_the_blas_like_example_updates_c_in_place(blocked, alpha, beta, layouts):
    """With beta = 0 its c holds NaN at first, which it must not read."""
    for m, n, k in SHAPES:
        problem = zeroulp.Matmul(m, n, k, a="float32", alpha=alpha, beta=beta, layouts=layouts)
        accept(f"{blocked}:gemm_float32_64", problem, GEMM)


def test_the_blas_like_example_with_another_alpha_is_wrong(blocked):
    """The scalars arrive: a kernel that is told nothing of alpha computes something else."""
    problem = zeroulp.Matmul(3, 4, 5, a="float32", alpha=0.5)
    assert kinds(f"{blocked}:matmul_float32", problem) == ["wrong-result"]


def test_a_library_runs_in_a_worker_too(blocked):
    problem = zeroulp.Matmul(9, 10, 33, a="bfloat16", layouts="padded")
    accept(f"{blocked}:matmul_bfloat16", problem, SIGNATURE, isolation="process")


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_library_is_loaded_once_for_many_shapes(blocked, isolation):
    """Sizes and scalars are those of each shape."""
    problem = zeroulp.Matmul(1, 1, 1, a="float32", alpha=2, beta=-1)
    report = zeroulp.check_grid(f"{blocked}:gemm_float32_64", problem, SHAPES, signature=GEMM, isolation=isolation, seed=1)
    assert [result.verdict for result in report.results] == [Verdict.CORRECT] * len(SHAPES), report


def test_every_kind_of_signature(own):
    accept(f"{own}:right", zeroulp.Matmul(5, 6, 17, a="float32", layouts="padded"), SIGNATURE)
    accept(f"{own}:biased", zeroulp.Matmul(5, 6, 17, a="float32", bias="float32"), "a, b, bias, out, m, n, k")
    accept(f"{own}:succeeds_in_64_bits", zeroulp.Matmul(5, 6, 17, a="float32"), "a, b, out, m, n, k -> i64")
    accept(f"{own}:right", zeroulp.Matmul(5, 6, 17, a="float32"), "a:ptr,b,out , m:i32,n,k, lda,ldb,ldout -> void")
    accept(f"{own}:int8", zeroulp.Matmul(5, 6, 17, a="int8"), "a, b, out, m, n, k")
    accept(f"{own}:scaled", zeroulp.Matmul(5, 6, 17, a="float64", alpha=0.5, beta=-3),
           "a, b, c, out, m:i64, n:i64, k:i64, alpha:f64, beta:f64")
    problem = zeroulp.Matmul(5, 6, 17, a="float32", transpose_b=True, layouts={"b": "padded"})
    accept(f"{own}:transposed_b", problem, "a, b, out, m, n, k, ldb")


BATCHED = ("batch, m, n, k, a, stride_a:i64, lda, b, stride_b:i64, ldb, out, stride_out:i64, ldout")


@pytest.mark.parametrize("layouts", ["contiguous", "padded", "offset"])
@pytest.mark.parametrize("batch", [(), (1,), (3,), (0,)])
def test_batches_are_told_by_their_strides(own, batch, layouts):
    problem = zeroulp.Matmul(4, 5, 18, batch=batch, a="float32", layouts=layouts)
    accept(f"{own}:batched", problem, BATCHED)


def test_a_batch_of_one_operand_only_is_found(own):
    problem = zeroulp.Matmul(4, 5, 18, batch=(3,), a="float32")
    assert kinds(f"{own}:first_of_batch_only", problem, BATCHED) == ["wrong-result"]


@pytest.mark.parametrize(("symbol", "layouts", "kind"), [
    ("one_past_the_end", "contiguous", "out-of-bounds-write"),
    ("one_past_the_end", "padded", "out-of-bounds-write"),
    ("one_before_the_start", "offset", "out-of-bounds-write"),
    ("between_rows", "padded", "out-of-bounds-write"),
    ("changes_a", "contiguous", "input-mutated"),
    ("reads_past_a", "contiguous", "out-of-bounds-read"),
    ("leaves_last_row", "contiguous", "unwritten-output"),
])
def test_faults_of_memory_are_found_and_named(own, symbol, layouts, kind):
    assert kinds(f"{own}:{symbol}", zeroulp.Matmul(5, 6, 17, a="float32", layouts=layouts)) == [kind]


def test_a_leading_dimension_that_is_ignored_is_found_where_rows_are_padded(own):
    target = f"{own}:ignores_ldb"
    accept(target, zeroulp.Matmul(5, 6, 17, a="float32"), SIGNATURE)
    assert kinds(target, zeroulp.Matmul(5, 6, 17, a="float32", layouts="padded"))


def test_sizes_in_another_order_are_found(own):
    assert kinds(f"{own}:right", zeroulp.Matmul(5, 6, 17, a="float32"), "a, b, out, n, m, k, lda, ldb, ldout")


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_status_other_than_0_is_broken(own, isolation):
    problem = zeroulp.Matmul(5, 6, 17, a="float32")
    report = zeroulp.check(f"{own}:fails", problem, signature="a, b, out, m, n, k -> i32", isolation=isolation)
    assert report.verdict is Verdict.BROKEN
    assert report.reasons[0][0] == "the kernel returned the error code 3"


@pytest.mark.parametrize(("symbol", "reason"), [("crashes", "died of SIG"), ("loops", "still running after 1 s")])
def test_crashes_and_hangs_in_a_worker_are_broken(own, symbol, reason):
    report = zeroulp.check(f"{own}:{symbol}", zeroulp.Matmul(5, 6, 17, a="float32"), signature=SIGNATURE,
                           isolation="process", deadline_seconds=1)
    assert report.verdict is Verdict.BROKEN
    assert reason in report.reasons[0][0]


@pytest.mark.parametrize(("signature", "problem", "message"), [
    (SIGNATURE, dict(layouts="column"), "layouts='column' cannot be told"),
    (SIGNATURE, dict(layouts="any"), "layouts='any' cannot be told"),
    (SIGNATURE, dict(layouts={"a": "broadcast"}), "cannot be told"),
    ("a, b, out, m, n, k", dict(layouts="padded"), "layouts='padded' cannot be told"),
    ("a, b, out, m, n, k, lda, ldb", dict(layouts="padded"), "layouts='padded' cannot be told"),
    ("a, b, out, m, n, k", dict(batch=(2,)), r"cannot carry batch=\(2,\)"),
    (BATCHED, dict(batch=(2, 3)), r"cannot carry batch=\(2, 3\)"),
    (SIGNATURE, dict(bias="float32"), "has a bias and the signature does not"),
    (SIGNATURE, dict(beta=2), "has beta and the signature has no c"),
])
def test_what_a_symbol_cannot_be_told_is_refused(own, signature, problem, message):
    with pytest.raises(UsageError, match=message):
        zeroulp.check(f"{own}:right", zeroulp.Matmul(5, 6, 17, a="float32", **problem), signature=signature)


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_missing_symbol_is_refused(own, isolation):
    with pytest.raises(UsageError, match=r"has no symbol 'wrong'(.|\n)*nm -D"):
        zeroulp.check(f"{own}:wrong", zeroulp.Matmul(5, 6, 17, a="float32"), signature=SIGNATURE, isolation=isolation)

