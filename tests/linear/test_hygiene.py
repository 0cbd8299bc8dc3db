"""What a kernel does beside its arithmetic, seen as for a matmul."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.linear import problems
from tests.linear.problems import CONV, MASKED, SCAN, SCATTER, im2col, scatter_by_matmul
from zeroulp import check

def found(kernel, problem, **options):
    report = check(kernel, problem, seed=7, **options)
    assert report.verdict.value == "INCORRECT", str(report)
    return report.findings[0]


def test_a_kernel_that_changes_an_input_index_included():
    def kernel(x, i):
        out = scatter_by_matmul(x, i)
        i[0] += 1
        return out

    finding = found(kernel, SCATTER)
    assert (finding.kind, finding.sentence) == ("input-mutated", "scatter changes its input i.")


def test_a_result_that_is_another_every_time():
    def kernel(x):
        out = torch.cumsum(x, 1)
        kernel.calls = getattr(kernel, "calls", 0) + 1
        if kernel.calls == 2:
            out[0, 3] += 1
        return out

    assert found(kernel, SCAN).kind == "nondeterministic"


def test_a_cache_that_looks_at_addresses():
    known = {}

    def kernel(x, w, b):
        key = (x.data_ptr(), w.data_ptr())
        if key not in known:
            known[key] = im2col(x, w, b)
        return known[key].clone()

    assert found(kernel, CONV).kind == "stale-result"


def test_a_cache_that_looks_at_a_sample_of_the_content():
    known = {}

    def kernel(x, w, b):
        key = (x.flatten()[::5].numpy().tobytes(), w.flatten()[:20].numpy().tobytes(), b.numpy().tobytes(), float(x.sum()))
        if key not in known:
            known[key] = im2col(x, w, b)
        return known[key].clone()

    kinds = {check(kernel, CONV, seed=seed).verdict.value for seed in range(6)}
    assert "INCORRECT" in kinds


def test_a_buffer_that_is_returned_again_and_again():
    out = torch.empty(3, 50)

    def kernel(x):
        out.copy_(torch.cumsum(x, 1))
        return out

    assert found(kernel, SCAN).kind == "aliased-output"


def test_an_output_that_is_left_unwritten():
    def kernel(x, out):
        np.cumsum(x[:, :49], 1, out=out[:, :49])

    assert found(kernel, SCAN, destination_passing=True).kind == "unwritten-output"


def test_wrong_dtypes_and_shapes_come_before_values():
    assert found(lambda x: torch.cumsum(x, 1).double(), SCAN).kind == "wrong-dtype"
    assert found(lambda x: torch.cumsum(x, 1).T, SCAN).kind == "wrong-shape"
    assert found(lambda x: x.argmax(1).int(), problems.LARGEST).kind == "wrong-dtype"


def test_a_read_beyond_an_operand_shows():
    def kernel(x):
        beyond = np.lib.stride_tricks.as_strided(x, (3, 51), x.strides)
        return np.cumsum(x, 1) + 0 * beyond[:, 1:]

    assert found(kernel, SCAN).kind == "out-of-bounds-read"


def test_a_write_beside_an_operand_shows():
    def kernel(x, m, s):
        np.lib.stride_tricks.as_strided(x, (7, 9), x.strides)[6, 0] = 3.0
        return (x * m * s).sum(0, dtype=np.float32)

    assert found(kernel, MASKED).kind == "out-of-bounds-write"


def test_a_kernel_that_raises_is_broken():
    def kernel(x):
        raise RuntimeError("no such device")

    report = check(kernel, SCAN, seed=1)
    assert report.verdict.value == "BROKEN"
    assert "no such device" in str(report)


def test_a_kernel_of_too_few_arguments_is_told_the_order():
    assert "in the order x, i, out" in str(check(lambda x: x, SCATTER, seed=1))


@pytest.mark.parametrize("kernel", [lambda x: np.cumsum(x, 1), lambda x, out: np.cumsum(x, 1, out=out)], ids=["returns", "writes"])
def test_a_kernel_that_minds_its_business_is_correct(kernel):
    passing = kernel.__code__.co_argcount == 2
    for seed in range(5):
        assert check(kernel, SCAN, seed=seed, destination_passing=passing).verdict.value == "CORRECT"


def test_a_view_of_an_operand_may_be_returned():
    problem = problems.Linear(lambda x, y: x.T, [problems.Tensor("x", (5, 6)), problems.Tensor("y", (2,))])
    for kernel in (lambda x, y: np.transpose(x), lambda x, y: np.transpose(x).copy()):
        report = check(kernel, problem, seed=1)
        assert report.findings == ()
        assert report.coverage == 1


@pytest.mark.parametrize("passing", [False, True], ids=["returns", "writes"])
def test_large_outputs_are_no_findings(passing, monkeypatch):
    monkeypatch.setattr("zeroulp.memory.COPIED_BYTES", 100)

    def kernel(x, *out):
        found = np.cumsum(x, 1)
        if not out:
            return found
        out[0][...] = found

    report = check(kernel, SCAN, seed=1, destination_passing=passing)
    assert report.verdict.value == "CORRECT"
    assert report.calls > 8
