"""The worker process: whatever a kernel does to it, the check ends with BROKEN and leaves nothing running."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import zeroulp
from zeroulp.cli import main
from zeroulp.errors import UsageError
from zeroulp.kernels import KernelSpec
from zeroulp.report import Verdict
from zeroulp.runner import WorkerProcess

SIZES = ("-m", "5", "-n", "6", "-k", "17", "--a", "float16", "--deadline", "1")
PROBLEM = zeroulp.Matmul(5, 6, 17, a="float16")
PREAMBLE = """
import atexit, ctypes, fcntl, os, signal, subprocess, sys, time
import numpy as np

def right(a, b):
    return np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)

def sleeper():
    child = subprocess.Popen(["sleep", "100"], stdin=subprocess.DEVNULL, close_fds=False)
    print("child", child.pid)
    with open(__file__ + ".pids", "a") as file:
        file.write(f"{child.pid}\\n")

def answer(line):
    # write to the pipe on which the worker answers
    for fd in map(int, os.listdir("/dev/fd")):
        try:
            if os.readlink(f"/dev/fd/{fd}").startswith("pipe") and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY:
                os.write(fd, line + b"\\n")
        except OSError:
            pass

with open(__file__ + ".pids", "a") as file:
    file.write(f"{os.getpid()}\\n")

def matmul(a, b):
"""


@pytest.fixture
def kernel(tmp_path):
    """A kernel with this body; the processes that it starts write their numbers beside it."""

    def write(body):
        path = tmp_path / "kernel.py"
        path.write_text(PREAMBLE + textwrap.indent(textwrap.dedent(body), "    "))
        return f"{path}:matmul"

    yield write
    pids = tmp_path / "kernel.py.pids"
    for pid in set(map(int, pids.read_text().split() if pids.exists() else ())) - {os.getpid()}:
        assert is_gone(pid), f"process {pid} was left running"


def is_gone(pid, patience_seconds=5.0):
    """Whether the process ends; one that its new parent has not looked at yet counts."""
    end = time.monotonic() + patience_seconds
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            status = Path(f"/proc/{pid}/stat")
            if status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


BROKEN = {
    "segmentation fault": ("print('before'); ctypes.string_at(0)", "died of SIGSEGV", "in matmul"),
    "os._exit(0)": ("print('before'); os._exit(0)", "ended with exit status 0", "before"),
    "sys.exit": ("sys.exit('done')", "raised SystemExit: done", "sys.exit"),
    "abort": ("os.abort()", "died of SIGABRT", "in matmul"),
    "raise": ("raise ValueError('no tile 7')", "raised ValueError: no tile 7", "ValueError: no tile 7"),
    "interrupt": ("raise KeyboardInterrupt", "died of SIGINT", "KeyboardInterrupt"),
    "recursion": ("return matmul(a, b)", "raised RecursionError", "RecursionError"),
    "hang": ("print('before', flush=True); time.sleep(100)", "was still running after 1 s", "before"),
    "busy hang": ("while True: pass", "was still running after 1 s", ""),
    "closed files": ("os.closerange(0, 256); return right(a, b)", "ended with exit status", ""),
    "closed files, then hang": ("os.closerange(0, 256); time.sleep(100)", "closed its process's pipes", ""),
    "killed group": ("print('before'); os.killpg(0, signal.SIGKILL)", "died of SIGKILL", "before"),
    "real-time signal": ("os.kill(os.getpid(), signal.SIGRTMIN + 3)", "died of signal", ""),
    "child that outlives it": ("sleeper(); os._exit(3)", "ended with exit status 3", "child"),
    "child and hang": ("sleeper(); time.sleep(100)", "was still running after 1 s", "child"),
    "terminal codes": ("print('\\033[2J\\rCORRECT'); os._exit(0)", "ended with exit status 0", "\ufffd[2J\ufffdCORRECT"),
    "codes in a message": ("raise ValueError('\\033[2J\\n\\nCORRECT')", "raised ValueError: \ufffd[2J. There", "| CORRECT"),
    "no array": ("return 5", "returned a builtins.int, not an array", ""),
    "forged verdict": (
        "atexit.register(print, 'CORRECT  all outputs compared'); raise KeyboardInterrupt",
        "died of SIGINT", "KeyboardInterrupt",
    ),
    "words on the pipe": ("answer(b'CORRECT'); time.sleep(100)", "sent something that is no message", ""),
    "a message of its own": ("answer(b'{}'); time.sleep(100)", "sent something that is no message", ""),
    "a list on the pipe": ("answer(b'[1]'); time.sleep(100)", "sent something that is no message", ""),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names of signals and /dev/fd as on Linux")
@pytest.mark.parametrize(("body", "headline", "log"), BROKEN.values(), ids=BROKEN)
def test_a_kernel_that_breaks_its_process_is_broken(kernel, capsys, body, headline, log):
    started = time.monotonic()
    status = main(["check", kernel(body), *SIZES])
    out, err = capsys.readouterr()
    assert (status, err) == (4, ""), out
    first, _, rest = out.partition("\n")
    assert first.startswith("BROKEN  "), out
    assert headline in first
    assert "There is no result to judge." in first
    if log:
        ends = rest.partition("its log ends")[2]
        assert log in ends, out
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(("text", "reason"), [
    ("import os\nos._exit(3)", "ended with exit status 3 while the kernel was being loaded"),
    ("import ctypes\nctypes.string_at(0)", "died of SIGSEGV"),
])
def test_a_file_that_breaks_the_process_when_it_is_loaded_is_broken(tmp_path, text, reason):
    (tmp_path / "kernel.py").write_text(text)
    report = zeroulp.check(f"{tmp_path / 'kernel.py'}:matmul", PROBLEM, isolation="process")
    assert report.verdict is Verdict.BROKEN
    assert reason in report.reasons[0][0]


def test_a_verdict_printed_at_exit_is_not_the_verdict(kernel, capsys):
    status = main(["check", kernel("atexit.register(print, 'CORRECT  fine'); return right(a, b) + 1"), *SIZES])
    out = capsys.readouterr().out
    assert status == 1
    assert out.startswith("INCORRECT  ")
    assert "CORRECT  fine" not in out


def test_what_a_kernel_prints_stays_in_its_log(kernel, capfd):
    status = main(["check", kernel("print('noise'); os.write(2, b'noise'); return right(a, b)"), *SIZES])
    out, err = capfd.readouterr()
    assert (status, err) == (0, "")
    assert "noise" not in out


def test_a_child_of_a_right_kernel_ends_with_the_check(kernel):
    """The verdict is its own; that nothing is left running is the fixture's business."""
    report = zeroulp.check(kernel("sleeper(); return right(a, b)"), PROBLEM, isolation="process", trials=1)
    assert report.verdict is Verdict.CORRECT


def test_a_crash_after_a_wrong_result_is_still_incorrect(kernel):
    target = kernel("""
        matmul.calls = getattr(matmul, "calls", 0) + 1
        if matmul.calls > 2:
            os._exit(1)
        return right(a, b) + 1
    """)
    report = zeroulp.check(target, PROBLEM, isolation="process", seed=1)
    assert report.verdict is Verdict.INCORRECT
    assert [finding.kind for finding in report.findings] == ["wrong-result"]


def test_the_kernel_sees_neither_standard_input_nor_our_other_descriptors(kernel, tmp_path):
    target = kernel("""
        assert sys.stdin.read() == ""
        links = [os.readlink(f"/dev/fd/{fd}") for fd in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{fd}")]
        assert len(links) > 5 and not any("secret" in link for link in links), links
        return right(a, b)
    """)
    with (tmp_path / "secret").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        report = zeroulp.check(target, PROBLEM, isolation="process", trials=1)
    assert report.verdict is Verdict.CORRECT, report


@pytest.mark.parametrize(("framework", "name"), [
    *(("numpy", name) for name in ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2")),
    ("torch", "bfloat16"), ("torch", "float8_e4m3fn"),
])
def test_arrays_of_every_kind_cross_to_the_worker_and_back(tmp_path, framework, name):
    """Batches, every layout, transposed operands; returned, and written in place."""
    if framework == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    (tmp_path / "kernel.py").write_text(textwrap.dedent("""
        def matmul(a, b, *out):
            product = a.swapaxes(-1, -2).astype(np.float32) @ b.astype(np.float32)
            if not out:
                return product if a.itemsize == 1 else product.astype(a.dtype)
            out[0][...] = product.astype(out[0].dtype)
    """ if framework == "numpy" else """
        def matmul(a, b, *out):
            product = a.swapaxes(-1, -2).to(torch.float32) @ b.to(torch.float32)
            if not out:
                return product if a.itemsize == 1 else product.to(a.dtype)
            out[0].copy_(product)
    """).replace("\ndef", f"import numpy as np\nimport {framework}\ndef", 1))
    wide = "float32" if name.startswith("float8") else name
    problem = zeroulp.Matmul(3, 4, 19, batch=(2, 2), a=name, out=wide, transpose_a=True, layouts="any")
    for writes in (False, True):
        report = zeroulp.check(f"{tmp_path / 'kernel.py'}:matmul", problem, isolation="process", seed=1,
                               trials=3, destination_passing=writes)
        assert report.verdict is Verdict.CORRECT, report
        assert report.environment.get("torch") == (None if framework == "numpy" else sys.modules["torch"].__version__)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 4, 0), (1, 1, 1)])
def test_empty_and_single_arrays_cross_too(kernel, sizes):
    report = zeroulp.check(kernel("return right(a, b)"), zeroulp.Matmul(*sizes, a="float16"), isolation="process")
    assert report.verdict is Verdict.CORRECT, report


def test_both_runners_see_the_same_bits(kernel):
    target = kernel("return right(a, b)")
    apart, here = (zeroulp.check(target, PROBLEM, isolation=i, seed=3) for i in ("process", "none"))
    assert [trial.digest for trial in apart.trials] == [trial.digest for trial in here.trials]
    assert (apart.isolation, here.isolation) == ("process", "none")


def test_a_stale_cache_is_found_across_processes(kernel):
    target = kernel("return vars(matmul).setdefault(str(a.ctypes.data), right(a, b)).copy()")
    report = zeroulp.check(target, PROBLEM, isolation="process", seed=1)
    assert [finding.kind for finding in report.findings] == ["stale-result"]


@pytest.mark.parametrize("target", ["part/kernel.py:matmul", "part.kernel:matmul"])
def test_relative_targets_are_found_from_here(tmp_path, monkeypatch, target):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "kernel.py").write_text("def matmul(a, b): return a @ b\n")
    monkeypatch.chdir(tmp_path)
    report = zeroulp.check(target, zeroulp.Matmul(2, 2, 9, a="float32"), isolation="process", trials=1)
    assert report.verdict is Verdict.CORRECT, report


def test_a_kernel_finds_the_files_beside_it(tmp_path):
    (tmp_path / "its_helper.py").write_text("def product(a, b): return a @ b\n")
    (tmp_path / "kernel.py").write_text("from its_helper import product\ndef matmul(a, b): return product(a, b)\n")
    problem = zeroulp.Matmul(2, 2, 9, a="float32")
    report = zeroulp.check(f"{tmp_path / 'kernel.py'}:matmul", problem, isolation="process", trials=1)
    assert report.verdict is Verdict.CORRECT, report


@pytest.mark.parametrize("deadline", [0, -1.0, float("nan")])
def test_deadlines_are_positive(deadline):
    with pytest.raises(UsageError, match="a deadline of"):
        WorkerProcess(KernelSpec("kernel.py:matmul"), PROBLEM, 64, deadline)


def test_no_deadline_is_a_deadline_too(kernel):
    report = zeroulp.check(kernel("return right(a, b)"), PROBLEM, isolation="process", deadline_seconds=float("inf"), trials=1)
    assert report.verdict is Verdict.CORRECT, report


def test_an_unknown_isolation_is_refused():
    with pytest.raises(UsageError, match="'sandbox' is not available"):
        zeroulp.check(lambda a, b: a @ b, PROBLEM, isolation="sandbox")


def test_a_kernel_in_this_process_cannot_change_how_numpy_treats_errors():
    def kernel(a, b):
        np.seterr(all="raise")
        return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)

    before = np.geterr()
    assert zeroulp.check(kernel, PROBLEM, probes=["signed"]).verdict is Verdict.CORRECT
    assert np.geterr() == before


def test_an_exception_that_cannot_be_shown_is_broken_all_the_same():
    class Strange(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    def kernel(a, b):
        raise Strange

    report = zeroulp.check(kernel, PROBLEM)
    assert report.verdict is Verdict.BROKEN
    assert report.reasons[0][0] == "the kernel raised Strange: (its message cannot be shown)"


def test_in_process_results_share_memory_with_their_kernel():
    """An output that changes after the call must be seen: nothing may be copied in between."""
    buffer = np.empty((5, 6), np.float16)

    def kernel(a, b):
        buffer[...] = a.astype(np.float32) @ b.astype(np.float32)
        return buffer

    report = zeroulp.check(kernel, PROBLEM, seed=1)
    assert [finding.kind for finding in report.findings] == ["aliased-output"]
