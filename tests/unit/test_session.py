"""A kernel that is loaded once and meets many problems."""

from __future__ import annotations

import os
import textwrap

import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul, Verdict
from zeroulp.checks import Session
from zeroulp.errors import UsageError
from zeroulp.kernels import KernelSpec
from zeroulp.runner import WorkerProcess

SHAPES = [(16, 16, 16), (40, 41, 300), (3, 2, 5), (1, 64, 257)]
QUICK = dict(probes=["signed"], seed=1)


def problem(m, n, k, **fields):
    return Matmul(m, n, k, **{"a": "float16", **fields})


@pytest.fixture
def kernel(tmp_path):
    """A kernel with this body, which tells by a line in a file beside it that it was loaded."""

    def write(body, arguments="a, b"):
        path = tmp_path / "kernel.py"
        head = f"import os\nwith open({str(tmp_path / 'loads')!r}, 'a') as file:\n    file.write(f'{{os.getpid()}}\\n')\n"
        path.write_text(f"{head}def matmul({arguments}):\n" + textwrap.indent(textwrap.dedent(body), "    "))
        return f"{path}:matmul"

    return write


def loads(tmp_path):
    return (tmp_path / "loads").read_text().split()


RIGHT = "return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)"


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_it_is_loaded_once_and_every_report_is_as_if_it_had_been_loaded_for_that_problem(kernel, tmp_path, isolation):
    target = kernel(RIGHT)
    with Session(target, isolation=isolation) as session:
        assert not session.has_loaded
        reports = [zeroulp.check(session, problem(*sizes), **QUICK) for sizes in SHAPES]
        assert session.has_loaded
    assert len(loads(tmp_path)) == 1
    assert (loads(tmp_path)[0] == str(os.getpid())) == (isolation == "none")
    for sizes, report in zip(SHAPES, reports, strict=True):
        alone = zeroulp.check(target, problem(*sizes), **QUICK)
        assert report.verdict is Verdict.CORRECT
        assert [trial.digest for trial in report.trials] == [trial.digest for trial in alone.trials]
        assert (report.calls, report.isolation, report.kernel) == (alone.calls, isolation, alone.kernel)


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_alpha_and_beta_follow_the_problem(kernel, isolation):
    target = kernel("return (alpha * (a.astype('f4') @ b.astype('f4')) + beta * c.astype('f4')).astype(a.dtype)", "a, b, c, alpha, beta")
    with Session(target, isolation=isolation) as session:
        for alpha, beta in ((1.0, 1.0), (2.0, -1.0), (0.5, 2.0)):
            report = zeroulp.check(session, problem(8, 8, 16, alpha=alpha, beta=beta), **QUICK)
            assert report.verdict is Verdict.CORRECT


def test_one_that_breaks_gets_a_new_process_and_one_that_is_wrong_does_not(kernel, tmp_path):
    target = kernel("if len(a) == 3: os._exit(1)\nif len(a) == 2: raise ValueError\nif len(a) == 4: return a[:, :1] @ b[:1]\n" + RIGHT)
    with Session(target, isolation="process") as session:
        verdicts = [zeroulp.check(session, problem(m, 8, 16), **QUICK).verdict.value for m in (5, 4, 5, 3, 5, 2, 5)]
    assert verdicts == ["CORRECT", "INCORRECT", "CORRECT", "BROKEN", "CORRECT", "BROKEN", "CORRECT"]
    assert len(set(loads(tmp_path))) == len(loads(tmp_path)) == 3


def test_one_that_writes_beside_its_output_gets_a_new_process(kernel, tmp_path):
    body = """
        out[...] = a.astype('f4') @ b.astype('f4')
        if len(a) == 3:
            import numpy as np
            np.lib.stride_tricks.as_strided(out, (len(out) + 1, out.shape[1]))[-1] = 0
    """
    with Session(kernel(body, "a, b, out"), isolation="process", destination_passing=True) as session:
        reports = [zeroulp.check(session, problem(m, 8, 16), **QUICK) for m in (3, 4)]
    assert [report.verdict.value for report in reports] == ["INCORRECT", "CORRECT"]
    assert "out-of-bounds-write" in {finding.kind for finding in reports[0].findings}
    assert len(loads(tmp_path)) == 2


def test_results_of_another_problem_are_not_taken_for_its_own(kernel):
    """One that returns what it returned for the shape before is wrong at the shape after, whose size it has."""
    target = kernel("global last\nlast = globals().get('last')\nif last is not None and last.shape == (len(a), b.shape[1]) and a.shape[1] == 17:\n    return last\n"
                    "last = " + RIGHT.removeprefix("return ") + "\nreturn last.copy()")
    with Session(target, isolation="process") as session:
        assert zeroulp.check(session, problem(8, 8, 16), **QUICK).verdict is Verdict.CORRECT
        assert zeroulp.check(session, problem(8, 8, 17), **QUICK).verdict is Verdict.INCORRECT


@pytest.mark.parametrize("sizes", [(64, 64, 64), (2, 2, 2)])
def test_operands_that_a_kernel_kept_can_still_be_read(kernel, sizes):
    """Memory of an earlier problem stays: a correct kernel that still looks at it does not crash."""
    target = kernel("global kept\nkept = [*globals().get('kept', []), a, b]\nsum(float(x.astype('f4').sum()) for x in kept)\n" + RIGHT)
    with Session(target, isolation="process") as session:
        for shape in ((16, 16, 16), sizes, (100, 100, 100)):
            assert zeroulp.check(session, problem(*shape), trials=1, **QUICK).verdict is Verdict.CORRECT


def test_a_worker_that_died_in_between_is_broken_and_replaced(kernel, tmp_path):
    with Session(kernel(RIGHT), isolation="process") as session:
        zeroulp.check(session, problem(8, 8, 8), **QUICK)
        os.kill(int(loads(tmp_path)[0]), 9)
        broken = zeroulp.check(session, problem(9, 9, 9), **QUICK)
        assert (broken.verdict, broken.calls) == (Verdict.BROKEN, 0)
        assert zeroulp.check(session, problem(9, 9, 9), **QUICK).verdict is Verdict.CORRECT


def test_a_function_in_this_process():
    with Session(lambda a, b: np.matmul(a.astype("f4"), b.astype("f4")).astype(a.dtype)) as session:
        for sizes in SHAPES:
            assert zeroulp.check(session, problem(*sizes), **QUICK).verdict is Verdict.CORRECT


def test_a_request_that_makes_no_sense_ends_in_an_error_and_the_next_one_works(kernel):
    with Session(kernel(RIGHT), isolation="process") as session:
        with pytest.raises(UsageError):
            zeroulp.check(session, problem(8, 8, 8), probes=["sgined"])
        assert zeroulp.check(session, problem(8, 8, 8), **QUICK).verdict is Verdict.CORRECT


def test_the_worker_says_no_to_a_block_it_cannot_have(kernel):
    worker = WorkerProcess(KernelSpec(kernel(RIGHT)), problem(4, 4, 4), 1 << 12, 5.0)
    try:
        with pytest.raises(MemoryError, match="operands, output and guards take"):
            worker.turn_to(problem(4, 4, 4), 1 << 60)
    finally:
        worker.close()
