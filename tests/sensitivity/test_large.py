"""Results beyond the size up to which copies are made: what is seen of smaller ones is seen of them where they are."""

from __future__ import annotations

import gc
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest

import zeroulp
from zeroulp import memory
from zeroulp.checks import large, snapshot
from zeroulp.kernels.held import is_held_elsewhere
from zeroulp.report import Verdict

PROBLEM = zeroulp.Matmul(9, 10, 33, a="float16")
SHAPE = (9, 10)


@pytest.fixture(autouse=True)
def _everything_is_large(monkeypatch):
    monkeypatch.setattr(memory, "COPIED_BYTES", 0)
    monkeypatch.setattr(snapshot, "COPIED_BYTES", 0)


def right(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)


def kinds(kernel, problem=PROBLEM, **options):
    report = zeroulp.check(kernel, problem, **{"seed": 1, **options})
    assert report.verdict is (Verdict.INCORRECT if report.findings else Verdict.CORRECT), report
    return [finding.kind for finding in report.findings]


def wrong_at(when, value=1):
    """Right, but for one output at some calls."""
    calls = []

    def kernel(a, b, out=None):
        calls.append(1)
        result = right(a, b)
        if when(len(calls)):
            result[3, 4] += value
        if out is None:
            return result
        out[...] = result

    return kernel


PASSING = [{}, {"destination_passing": True}]


# --- correct kernels


@pytest.mark.parametrize("options", PASSING)
@pytest.mark.parametrize("isolation", ["none", "process"])
@pytest.mark.parametrize("problem", [PROBLEM, zeroulp.Matmul(5, 6, 17, batch=(2, 2), a="bfloat16", layouts="any")])
def test_a_right_one_is_not_accused(tmp_path, problem, isolation, options, monkeypatch):
    (tmp_path / "kernel.py").write_text(textwrap.dedent("""
        import numpy as np

        def matmul(a, b, out=None):
            result = (a.astype(np.float32) @ b.astype(np.float32)).astype(a.dtype)
            if out is None:
                return result
            out[...] = result
    """))
    looked = []
    look = large.LargeBench._look_at_result
    monkeypatch.setattr(large.LargeBench, "_look_at_result", lambda *args, **how: (looked.append(1), look(*args, **how)))
    assert kinds(f"{tmp_path / 'kernel.py'}:matmul", problem, isolation=isolation, **options) == []
    assert len(looked) > 20


VIEWS = {
    "columns": np.asfortranarray,
    "a part": lambda result: np.pad(result, 3)[3:-3, 3:-3],
    "other bytes": lambda result: result.view(np.uint8).copy().view(result.dtype),
    "a subclass": lambda result: result.view(type("Own", (np.ndarray,), {})),
    "read only": lambda result: np.frombuffer(result.tobytes(), result.dtype).reshape(result.shape),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_results_that_are_views_of_something(view):
    assert kinds(lambda a, b: view(right(a, b))) == []
    wrong = wrong_at(lambda call: call == 12)
    assert kinds(lambda a, b: view(wrong(a, b))) != []


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_results_of_frameworks(framework):
    module = pytest.importorskip("torch" if framework == "torch" else "jax.numpy", reason=f"{framework} is not installed")
    assert kinds(lambda a, b: module.matmul(a, b), PROBLEM.replace(a="float32", b="float32", out="float32"), framework=framework) == []


def test_a_kernel_may_keep_its_results():
    kept = []

    def kernel(a, b):
        kept.append(right(a, b))
        return kept[-1]

    assert kinds(kernel) == []


def test_a_pool_takes_back_what_nobody_uses():
    """Its buffers are given out again once the result has gone, and not before."""
    free, made = [], []

    def kernel(a, b):
        if not free:
            made.append(np.empty(SHAPE, np.float16))
            free.append(made[-1])
        buffer = free.pop()
        buffer[...] = right(a, b)
        result = buffer[:]
        weakref.finalize(result, free.append, buffer)
        return result

    assert kinds(kernel) == []
    assert 1 <= len(made) <= 3


def test_bits_that_may_differ_from_call_to_call():
    calls = []

    def kernel(a, b):
        calls.append(1)
        result = right(a, b)
        result[result == 0] = -0.0 if len(calls) % 2 else 0.0
        result[np.isnan(result)] = np.array(0x7E00 + len(calls), np.uint16).view(np.float16)
        return result

    assert kinds(kernel, zeroulp.Matmul(9, 10, 4, a="float16"), repeat=3) == []


def test_no_result_of_ours_is_alive_when_the_kernel_is_called():
    alive = weakref.WeakSet()

    class Own(np.ndarray):
        pass

    most = []

    def kernel(a, b):
        gc.collect(0)
        most.append(len(alive))
        result = right(a, b).view(Own)
        alive.add(result)
        return result

    Own.__hash__ = object.__hash__
    assert kinds(kernel, repeat=4) == []
    assert len(most) > 30
    assert max(most) == 0


# --- wrong ones


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_buffers_in_turn(count):
    buffers, calls = [np.empty(SHAPE, np.float16) for _ in range(count)], []

    def kernel(a, b):
        calls.append(1)
        out = buffers[len(calls) % count]
        out[...] = right(a, b)
        return out

    assert kinds(kernel) == ["aliased-output"]


def test_a_buffer_behind_views_and_in_a_worker(tmp_path):
    buffer = np.empty((20, 20), np.float16)

    def kernel(a, b):
        buffer[1:10, 2:12] = right(a, b)
        return buffer[1:10, 2:12].view(np.uint16)[::1].view(np.float16)

    assert kinds(kernel) == ["aliased-output"]
    (tmp_path / "kernel.py").write_text(textwrap.dedent("""
        import numpy as np
        buffer = np.empty((9, 10), np.float16)

        def matmul(a, b):
            return np.matmul(a.astype(np.float32), b.astype(np.float32), out=buffer, casting="unsafe")
    """))
    assert kinds(f"{tmp_path / 'kernel.py'}:matmul", isolation="process") == ["aliased-output"]


def test_a_buffer_of_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    buffer = torch.empty(SHAPE, dtype=torch.float16)

    def kernel(a, b):
        return buffer.copy_(a.to(torch.float32) @ b.to(torch.float32))

    assert kinds(kernel, framework="torch") == ["aliased-output"]


@pytest.mark.parametrize("options", PASSING)
def test_inputs_and_guards(options):
    def changes(a, b, out=None):
        result = right(a, b)
        a[2, 3] = 1.5
        if out is None:
            return result
        out[...] = result

    assert kinds(changes, **options) == ["input-mutated"]

    def writes_outside(a, b, out):
        out[...] = right(a, b)
        np.lib.stride_tricks.as_strided(out, (91,), (2,))[-1] = 0

    assert kinds(writes_outside, destination_passing=True) == ["out-of-bounds-write"]


@pytest.mark.parametrize("options", PASSING)
def test_another_result_on_the_same_inputs(options):
    assert kinds(wrong_at(lambda call: call == 2), **options) == ["nondeterministic"]
    assert kinds(wrong_at(lambda call: call in (4, 5)), **options)[0] in ("nondeterministic", "wrong-result")
    assert kinds(wrong_at(lambda call: call == 7), repeat=9, **options) == ["nondeterministic"]


def test_outputs_unwritten_at_a_second_call():
    calls = []

    def kernel(a, b, out):
        calls.append(1)
        result = right(a, b)
        out[:8] = result[:8]
        if len(calls) != 2:
            out[8:] = result[8:]

    report = zeroulp.check(kernel, PROBLEM, seed=1, destination_passing=True)
    assert [finding.kind for finding in report.findings] == ["unwritten-output"]
    assert "10 of 90 outputs" in report.findings[0].sentence


@pytest.mark.parametrize("when", ["nan", "number"])
def test_outputs_that_are_read(when):
    def kernel(a, b, out):
        old = out.astype(np.float32)
        if when == "nan":
            out[...] = np.where(np.isfinite(old), old, right(a, b))
        else:
            out[...] = right(a, b) + np.nan_to_num(old, posinf=0, neginf=0)

    assert kinds(kernel, destination_passing=True) == ["unwritten-output"]


def test_an_output_that_holds_various_numbers():
    def kernel(a, b, out):
        numbers = out.astype(np.float32)
        if not np.isfinite(numbers).all() or (numbers == numbers[0, 0]).all():
            out[...] = right(a, b)

    assert kinds(kernel, destination_passing=True) != []


@pytest.mark.parametrize("options", PASSING)
def test_an_old_result(options):
    cache = {}

    def kernel(a, b, out=None):
        result = cache.setdefault(a.shape, right(a, b)).copy()
        if out is None:
            return result
        out[...] = result

    assert kinds(kernel, **options) == ["stale-result"]


@pytest.mark.parametrize("options", PASSING)
def test_a_thread_that_ends_after_the_call(options):
    def kernel(a, b, out=None):
        out = np.full(SHAPE, np.nan, a.dtype) if out is None else out
        values = right(a, b)
        out[:4] = values[:4]

        def rest():
            time.sleep(0.015)
            out[4:] = values[4:]

        threading.Thread(target=rest).start()
        return out

    for seed in range(3):
        assert kinds(kernel, seed=seed, **options) == ["late-result"]


@pytest.mark.parametrize("options", PASSING)
def test_a_thread_that_writes_while_a_right_result_is_judged(options, monkeypatch):
    judged = large.LargeBench._judged
    monkeypatch.setattr(large.LargeBench, "_judged", lambda *args: (judged(*args), time.sleep(0.03))[0])

    def kernel(a, b, out=None):
        out = np.empty(SHAPE, a.dtype) if out is None else out
        out[...] = right(a, b)

        def more():
            time.sleep(0.015)
            out[5, 5] = 7

        threading.Thread(target=more).start()
        return out

    assert kinds(kernel, **options) == ["late-result"]


# --- who holds a result


def test_who_holds_an_array():
    mine = np.empty((4, 5))
    for make in (lambda: np.empty(5), lambda: np.empty((5, 4)).T, lambda: np.empty((5, 4))[1:].view(np.int64)[::2]):
        box = [make()]
        assert not is_held_elsewhere(box)
        another = box[0]
        assert is_held_elsewhere(box)
        del another
        assert not is_held_elsewhere(box)
    for make in (lambda: mine, lambda: mine.T, lambda: mine[1:], lambda: np.frombuffer(bytearray(8))):
        assert is_held_elsewhere([make()])
