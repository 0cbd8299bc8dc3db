"""Several shapes of a grid at once: the same reports as one by one, whatever happens to the processes."""

from __future__ import annotations

import json
import textwrap

import jsonschema
import numpy as np
import pytest

import zeroulp
from tests.unit.test_grid import SCHEMA
from zeroulp import Matmul, Verdict, check_grid
from zeroulp.checks import footprint
from zeroulp.checks.grid_shape import Checked, check_shape
from zeroulp.checks.jobs import Jobs, _may_be_for_the_others
from zeroulp.errors import UsageError

GIVEN = Matmul(1, 1, 1, a="float16")
QUICK = dict(probes=["signed"], trials=1, seed=5)
RIGHT = "return (a.astype('f4') @ b.astype('f4')).astype(a.dtype)"


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


@pytest.fixture
def kernel(tmp_path):
    """A kernel with this body; `first(name)` in it is True once, and `note(text)` adds a line to a file beside it."""

    def write(body, head=""):
        path = tmp_path / "kernel.py"
        lines = [
            "import os, signal, sys",
            f"folder = {str(tmp_path)!r}",
            "def note(text):\n    with open(f'{folder}/notes', 'a') as file: file.write(f'{text}\\n')",
            "def first(name):\n    try: return not os.close(os.open(f'{folder}/{name}', os.O_CREAT | os.O_EXCL))\n"
            "    except FileExistsError: return False",
            head,
            "def matmul(a, b):\n    m, n, k = *a.shape, b.shape[1]\n    m, n, k = a.shape[0], b.shape[1], a.shape[1]\n"
            + textwrap.indent(f"{body}\n{RIGHT}", "    "),
        ]
        path.write_text("\n".join(lines) + "\n")
        return f"{path}:matmul"

    return write


def notes(tmp_path):
    file = tmp_path / "notes"
    return file.read_text().split() if file.exists() else []


def run(kernel, shapes, **options):
    return check_grid(kernel, GIVEN, shapes, **{"jobs": 3, "isolation": "none", **QUICK, **options})


def verdicts(report):
    return [result.verdict.value for result in report.results]


def said_in(file):
    """What the file says of each shape, but for times and the machine, in the order of the shapes."""
    lines = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    said = [{name: part for name, part in line.items() if name not in ("seconds", "environment")} for line in lines]
    return sorted(said, key=lambda line: [line["problem"][name] for name in "mnk"])


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_it_comes_to_what_it_comes_to_one_by_one(kernel, tmp_path, isolation):
    target = kernel("if m == 5 and k == 9: raise ValueError('not that')\nif k == 9: a, b = a[:, :8], b[:8]")
    reports = [run(target, "4,5,6x4x8,9", jobs=jobs, isolation=isolation, trials=None, journal=tmp_path / f"{jobs}.jsonl") for jobs in (1, 3)]
    one, three = reports
    assert verdicts(one) == verdicts(three) == ["CORRECT", "INCORRECT", "CORRECT", "BROKEN", "CORRECT", "INCORRECT"]
    assert [result.sizes for result in one.results] == [result.sizes for result in three.results]
    assert said_in(tmp_path / "1.jsonl") == said_in(tmp_path / "3.jsonl")
    assert "shapes at a time" not in str(one)
    assert "s in all, 3 shapes at a time\n" in str(three)


def test_a_crash_in_a_worker_is_looked_at_again_alone_and_broken(kernel, tmp_path):
    target = kernel("if m == 5: note('five'); os._exit(3)")
    report = run(target, "4,5,6x4x8", isolation="process", journal=tmp_path / "grid.jsonl")
    assert verdicts(report) == ["CORRECT", "BROKEN", "CORRECT"]
    assert "exit status 3" in report.results[1].sentence
    assert notes(tmp_path) == ["five"] * 2
    assert len(said_in(tmp_path / "grid.jsonl")) == 3


def test_the_header_says_how_many_and_another_number_goes_on(kernel, tmp_path):
    file, target = tmp_path / "grid.jsonl", kernel("if m == 5 and first('stop'): raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        run(target, "4,5,6x4x8", jobs=1, journal=file)
    first, *lines = file.read_text().splitlines()
    assert (json.loads(first)["jobs"], len(lines)) == (1, 1)
    report = run(target, "4,5,6x4x8", jobs=7, journal=file)
    assert (report.resumed, report.header.jobs, verdicts(report)) == (1, 3, ["CORRECT"] * 3)
    (tmp_path / "more.jsonl").unlink(missing_ok=True)
    run(target, "4,5x4x8", jobs=2, journal=tmp_path / "more.jsonl")
    header = json.loads((tmp_path / "more.jsonl").read_text().splitlines()[0])
    assert header["jobs"] == 2
    jsonschema.Draft202012Validator(SCHEMA).evolve(schema=SCHEMA["$defs"]["grid"]).validate(header)
    assert run(target, "4,5x4x8", jobs=1, journal=tmp_path / "more.jsonl").resumed == 2


@pytest.mark.parametrize(("isolation", "death"), [("none", "os._exit(3)"), ("none", "os.kill(os.getpid(), 9)"), ("process", "os.kill(os.getppid(), 9)")])
@pytest.mark.parametrize("m", [4, 6])
def test_a_shape_whose_process_died_is_checked_again(kernel, tmp_path, isolation, death, m):
    target = kernel(f"note(m)\nif m == {m} and first('death'): {death}")
    report = run(target, "4,5,6,7x4x8", isolation=isolation, journal=tmp_path / "grid.jsonl", repeat=0)
    assert verdicts(report) == ["CORRECT"] * 4
    assert notes(tmp_path).count(str(m)) == 2
    assert len(said_in(tmp_path / "grid.jsonl")) == 4


@pytest.mark.parametrize(("isolation", "death", "verdict", "why"), [
    ("none", "os._exit(3)", "BROKEN", "the process of the kernel ended with exit status 3."),
    ("none", "signal.raise_signal(signal.SIGSEGV)", "BROKEN", "the process of the kernel died of SIGSEGV."),
    ("none", "os.kill(os.getpid(), 9)", "INCONCLUSIVE", "the process that judged this shape died of SIGKILL, 2 times."),
    ("process", "os.kill(os.getppid(), 9)", "INCONCLUSIVE", "the process that judged this shape died of SIGKILL, 2 times."),
])
@pytest.mark.parametrize("m", [4, 6])
def test_one_that_dies_again_is_no_verdict_unless_the_kernel_was_in_it(kernel, tmp_path, isolation, death, verdict, why, m):
    file = tmp_path / "grid.jsonl"
    report = run(kernel(f"if m == {m}: {death}"), "4,5,6,7x4x8", isolation=isolation, journal=file)
    assert verdicts(report) == [verdict if size == m else "CORRECT" for size in (4, 5, 6, 7)]
    assert report.results[m - 4].sentence == why
    assert len(said_in(file)) == (4 if verdict == "BROKEN" else 3)
    zeroulp.grid_from_jsonl(file.read_text())


def test_what_failed_for_want_of_something_shared_is_checked_again_alone(kernel, tmp_path):
    """Here a kernel may not run while another one does."""
    body = """
        if m > 4:
            try:
                os.mkdir(f'{folder}/lock')
            except FileExistsError:
                note(m)
                raise RuntimeError('CUDA out of memory')
            import time
            time.sleep(0.1)
            os.rmdir(f'{folder}/lock')
    """
    report = run(kernel(textwrap.dedent(body)), [(m, 4, 8) for m in range(4, 12)])
    assert verdicts(report) == ["CORRECT"] * 8
    assert notes(tmp_path)


def test_a_kernel_that_refuses_a_shape_is_not_asked_again(kernel, tmp_path):
    report = run(kernel("if m == 5: note(m); raise ValueError('m is odd')"), "4,5,6x4x8")
    assert (verdicts(report), notes(tmp_path)) == (["CORRECT", "BROKEN", "CORRECT"], ["5"])


@pytest.mark.parametrize(("verdict", "reason", "is_final", "has_loaded", "again"), [
    ("CORRECT", "", True, True, False),
    ("INCORRECT", "", True, True, False),
    ("INCONCLUSIVE", "too little was compared", True, True, False),
    ("INCONCLUSIVE", "there is not enough memory", False, True, True),
    ("BROKEN", "the kernel raised ValueError: no", True, True, False),
    ("BROKEN", "the kernel raised ValueError: no", True, False, True),
    ("BROKEN", "the kernel raised RuntimeError: mat1 and mat2 shapes cannot be multiplied", True, True, False),
    ("BROKEN", "the kernel returned None, not an array of numpy", True, True, False),
    ("BROKEN", "the kernel raised MemoryError", True, True, True),
    ("BROKEN", "the kernel raised OutOfMemoryError: CUDA out of memory.", True, True, True),
    ("BROKEN", "the kernel raised RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True, True, True),
    ("BROKEN", "the kernel raised OSError: [Errno 24] Too many open files", True, True, True),
    ("BROKEN", "the kernel was still running after 60 s", True, True, True),
    ("BROKEN", "the kernel's process died of SIGKILL", True, True, True),
])
def test_what_may_be_for_the_others(verdict, reason, is_final, has_loaded, again):
    report = {"verdict": verdict, "reasons": [{"reason": reason}]}
    assert _may_be_for_the_others(Checked(report, is_final, has_loaded)) is again


def test_a_session_takes_its_share_of_the_memory(monkeypatch):
    big = Matmul(4, 4, 8, a="float16")
    needed = 1 << 16
    monkeypatch.setattr(footprint, "available_bytes", lambda: 3 * needed)
    with zeroulp.checks.Session(right) as session:
        session.runner(big, needed)
        session.share = 2
        session.runner(big, needed)
        session.share = 4
        with pytest.raises(MemoryError, match="are available"):
            session.runner(big, needed)


def test_a_shape_that_does_not_fit_is_inconclusive_and_tried_again(kernel, tmp_path):
    file = tmp_path / "grid.jsonl"
    for jobs in (3, 2):
        report = run(kernel(""), [(4, 4, 4), (2**31 - 1, 2**31 - 1, 4), (5, 5, 5), (6, 6, 6)], jobs=jobs, journal=file)
        assert verdicts(report) == ["CORRECT", "INCONCLUSIVE", "CORRECT", "CORRECT"]
        assert len(said_in(file)) == 3


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_kernel_that_cannot_be_loaded_is_broken_once(kernel, tmp_path, isolation):
    report = run(kernel("", head="note('loading'); raise RuntimeError('no device')"), "4,5,6", isolation=isolation)
    assert (verdicts(report), notes(tmp_path)) == (["BROKEN"], ["loading"])


@pytest.mark.parametrize("isolation", ["none", "process", "jail"])
def test_a_request_that_makes_no_sense_is_told_at_once(kernel, tmp_path, isolation):
    file = tmp_path / "grid.jsonl"
    for target, options, words in ((f"{tmp_path}/none.py:matmul", {}, "no file" if isolation != "jail" else "isolation 'jail'"),
                                   (kernel(""), {"probes": ["sgined"]}, "unknown probe 'sgined'")):
        with pytest.raises(UsageError, match=words) as caught:
            run(target, "4,5,6", isolation=isolation, journal=file, **options)
        assert caught.value.do
        assert not file.exists()


@pytest.mark.parametrize("jobs", [0, -1, True, 2.0, "2", None])
def test_what_is_no_number_of_jobs(jobs):
    with pytest.raises(UsageError, match="is no number of shapes to check at once"):
        run(right, "4,5", jobs=jobs)


def test_a_function_is_found_by_its_name_or_refused():
    assert verdicts(run(right, "4,5x4x8")) == ["CORRECT"] * 2
    with pytest.raises(UsageError, match="cannot be handed to other processes"):
        run(lambda a, b: right(a, b), "4,5x4x8", framework="numpy")


def test_fail_fast(kernel):
    report = run(kernel("if m == 7: a, b = a[:, :7], b[:7]\nif m > 9: import time; time.sleep(0.5)"), [(m, 4, 8) for m in range(4, 60)], fail_fast=True)
    assert report.verdict is Verdict.INCORRECT
    assert report.telling.sizes == (7, 4, 8)
    assert len(report.results) < 12


def test_fail_fast_puts_nothing_off(kernel, tmp_path):
    """A crash is looked at again at once; and if it was for the others, the check goes on."""
    body = """
        import time
        if m == 6 and first('death'): os._exit(1)
        while m == 9 and not os.path.exists(f'{folder}/death'): time.sleep(0.01)
        if m == 9: os._exit(1)
        if m > 12: time.sleep(0.5)
    """
    target = kernel(textwrap.dedent(body))
    report = run(target, [(m, 4, 8) for m in range(4, 60)], fail_fast=True)
    assert report.verdict is Verdict.BROKEN
    assert report.telling.sizes == (9, 4, 8)
    assert {(5, 4, 8), (6, 4, 8), (7, 4, 8)} <= {result.sizes for result in report.results if result.verdict is Verdict.CORRECT}
    assert len(report.results) < 16


def test_a_fault_of_our_own_is_told(kernel):
    with pytest.raises(RuntimeError, match="TypeError: .*sead"):
        run(kernel(""), "4,5x4x8", sead=5)


def test_progress(kernel):
    steps = []
    report = run(kernel("import time; time.sleep(0.05)"), [(m, 4, 8) for m in range(4, 14)], progress=steps.append)
    assert verdicts(report) == ["CORRECT"] * 10
    assert (steps[0].done, steps[0].planned, steps[0].sizes, steps[0].at_once) == (0, 10, (4, 4, 8), 1)
    assert max(step.at_once for step in steps) == 3
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert all(step.seconds_left is not None for step in steps if step.done)
    assert (steps[-1].done, steps[-1].sizes, steps[-1].counts) == (10, None, {Verdict.CORRECT: 10})


@pytest.mark.parametrize(("fail_fast", "order"), [(False, [4, 60, 50, 6, 5]), (True, [4, 5, 60, 6, 50])])
def test_the_most_work_begins_first_after_the_first_shape(monkeypatch, fail_fast, order):
    begun = []

    def one_by_one(self, shapes, *, fail_fast):
        for sizes in shapes:
            begun.append(sizes.m)
            yield check_shape(self._session, GIVEN.replace(**sizes._asdict()), 5, {**self._options})

    monkeypatch.setattr(Jobs, "run", one_by_one)
    report = run(right, [(m, 4, 8) for m in (4, 5, 60, 6, 50)], fail_fast=fail_fast)
    assert begun == order
    assert [result.sizes.m for result in report.results] == [4, 5, 60, 6, 50]
