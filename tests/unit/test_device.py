"""Kernels on a device, with a second buffer of the host as the device's memory."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import textwrap
import weakref
from dataclasses import replace

import numpy as np
import pytest

import zeroulp
from zeroulp import Matmul, encoding, memory
from zeroulp.checks import Session, excerpt
from zeroulp.checks.inputs import Inputs
from zeroulp.cli import main
from zeroulp.errors import KernelRaisedError, KernelResultError, UsageError
from zeroulp.formats import format_named
from zeroulp.kernels import KernelSpec, frameworks
from zeroulp.kernels.device import Host, spans
from zeroulp.kernels.frameworks import FRAMEWORKS, Framework
from zeroulp.kernels.torch_device import TorchDevice
from zeroulp.kernels.python import call_guarded
from zeroulp.problem import LAYOUTS, Operand
from zeroulp.report import Verdict, from_json, to_json
from zeroulp.runner import InProcess
from zeroulp.runner.base import Call

HALF = Matmul(5, 6, 17, a="float16")
PROBES = ["binary", "signed", "wide"]


class Remote(np.ndarray):
    """An array on the fake device."""


class FakeDevice:
    """Memory that the host does not share, and work that may be left for later."""

    def __init__(self, name, block):
        if name != "fake":
            raise UsageError(f"there is no device {name!r}")
        self.host, self.memory = block, np.zeros(len(block), np.uint8)
        self.later, self.up, self.down, self.calls, self.spoiled = [], [], [], 0, []

    def upload(self, regions):
        self.up.append(spans(regions))
        for low, high in spans(regions):
            self.memory[low:high] = self.host[low:high]

    def download(self, regions):
        while self.later:
            self.later.pop()()
        self.down.append(spans(regions))
        for low, high in spans(regions):
            self.host[low:high] = self.memory[low:high]

    def view(self, region):
        return memory.view(self.memory, region).view(Remote)

    def spoil(self, size_bytes, code, width):
        self.spoiled.append((size_bytes, code, width))

    @contextlib.contextmanager
    def active(self):
        self.calls += 1
        yield

    def wait(self):
        if self.memory[:0].size:
            raise AssertionError

    def accept(self, result):
        if isinstance(result, Remote):
            return result
        if isinstance(result, np.ndarray):
            raise KernelResultError("the kernel returned an array on the host", why="its inputs were on fake")
        return None

    def read(self, result):
        return np.array(result)

    def versions(self):
        return {"gpu": "a fake one", "driver": "1.2"}


@pytest.fixture
def devices(monkeypatch):
    """The devices that were attached, in order."""
    attached = []

    def attach(name, block):
        attached.append(FakeDevice(name, block))
        return attached[-1]

    def refuse(array):
        raise AssertionError("a host array was handed to a kernel on a device")

    monkeypatch.setitem(FRAMEWORKS, "faked", Framework("faked", refuse, refuse, attach))
    return attached


def right(a, b):
    return (np.asarray(a).astype(np.float32) @ np.asarray(b).astype(np.float32)).astype(a.dtype).view(Remote)


def check(kernel, problem=HALF, **options):
    return zeroulp.check(kernel, problem, **{"framework": "faked", "device": "fake", "seed": 1, "probes": PROBES, **options})


def kinds(kernel, problem=HALF, **options):
    return [finding.kind for finding in check(kernel, problem, **options).findings]


def flat(array, before, after):
    """Its memory from *before* elements before it to *after* elements after it, by the buffer that it lies in."""
    base = array
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    first = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // array.itemsize
    return base.reshape(-1).view(np.uint8)[array.itemsize * (first - before) :].view(array.dtype)[: array.size + before + after]


@pytest.mark.parametrize("layouts", [*LAYOUTS, "any"])
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "e4m3"])
def test_a_right_kernel_is_correct_in_every_layout(devices, layouts, writes, name):
    def into(a, b, out):
        out[...] = right(a, b)

    layouts = {"a": "broadcast", "b": "broadcast", "out": "padded"} if layouts == "broadcast" else layouts
    report = check(into if writes else right, Matmul(5, 6, 17, a=name, layouts=layouts), destination_passing=writes)
    assert report.verdict is Verdict.CORRECT, report
    (device,) = devices
    assert len(device.up) == len(device.down) == device.calls == report.calls
    assert report.environment["gpu"] == "a fake one"
    assert report.environment["driver"] == "1.2"
    assert bool(device.spoiled) is not writes


def test_operands_of_an_epilogue_go_up_too(devices):
    def kernel(a, b, c, bias, *, alpha, beta):
        total = alpha * (a.astype(np.float64) @ b.astype(np.float64)) + beta * c.astype(np.float64)
        return (total + bias.astype(np.float64)).astype(np.float16)

    problem = HALF.replace(alpha=0.5, beta=-1, bias="float32", batch=(2,))
    assert check(kernel, problem).verdict is Verdict.CORRECT


def test_the_kernel_gets_views_into_one_block_laid_out_like_the_hosts(devices):
    seen = []

    def kernel(a, b, out):
        seen.append([array.__array_interface__["data"][0] for array in (a, b, out)])
        seen[-1] += [array.strides for array in (a, b, out)]
        out[...] = right(a, b)

    problem = HALF.replace(layouts={"a": "padded", "b": "column", "out": "offset"})
    assert kinds(kernel, problem, destination_passing=True) == []
    base = devices[0].memory.__array_interface__["data"][0]
    items = [(operand, LAYOUTS[name]) for operand, name in zip((*problem.operands, problem.output), ("padded", "column", "offset"))]
    regions, _ = memory.arrange(items)
    assert [address - base for address in seen[0][:3]] == [region.start for region in regions]
    assert seen[0][3:] == [(40, 2), (2, 34), (12, 2)]


def test_only_what_a_call_uses_goes_up_and_comes_down(devices):
    def kernel(a, b, out):
        out[...] = right(a, b)

    big = Matmul(5, 6, 1700, a="float16")
    assert kinds(kernel, big, destination_passing=True) == []
    (device,) = devices
    assert device.up == device.down
    (low, inputs), (start, high) = device.up[1]  # the second of two outputs, the first stays as it is
    assert low == 0 < inputs < start < high <= len(device.host)


def test_neighbours_are_copied_together():
    def region(low, high):
        return memory.Region("x", "float16", (1,), (1,), low, low, high)

    assert spans([]) == []
    assert spans([region(640, 700), region(0, 100), region(128, 200)]) == [(0, 200), (640, 700)]


@pytest.mark.parametrize(("before", "after", "index"), [(0, 1, -1), (1, 0, 0), (0, 64, -1)])
def test_a_write_outside_the_output_is_seen(devices, before, after, index):
    def kernel(a, b, out):
        out[...] = right(a, b)
        flat(out, before, after)[index] = 0

    assert kinds(kernel, destination_passing=True) == ["out-of-bounds-write"]


def test_a_read_outside_an_input_is_seen(devices):
    def kernel(a, b):
        return (right(a, b).astype(np.float32) + flat(a, 0, 1)[-1].astype(np.float32)).astype(a.dtype)

    assert kinds(kernel) == ["out-of-bounds-read"]


def test_a_changed_input_is_seen_and_put_back(devices):
    first = []

    def kernel(a, b):
        first.append(a[0, 0])
        result = right(a, b)
        a[0, 0] = 0
        return result

    assert kinds(kernel, probes=["signed"]) == ["input-mutated"]
    assert all(first)


def test_outputs_nobody_wrote_are_seen(devices):
    def kernel(a, b, out):
        out[:, :4] = right(a, b)[:, :4]

    assert kinds(kernel, destination_passing=True) == ["unwritten-output"]


def test_a_result_is_read_before_work_that_was_left_elsewhere(devices):
    def kernel(a, b, out):
        result = right(a, b)
        devices[0].later.append(lambda: out.__setitem__(..., result))

    report = check(kernel, destination_passing=True)
    assert report.verdict is Verdict.INCORRECT
    assert report.trials[0].outcome.nans == 30


def test_a_buffer_that_is_used_for_every_result_is_seen(devices):
    buffer = np.empty((5, 6), np.float16).view(Remote)

    def kernel(a, b):
        buffer[...] = right(a, b)
        return buffer

    assert kinds(kernel) == ["aliased-output"]


@pytest.mark.parametrize(("result", "message"), [
    (np.zeros((5, 6), np.float16), "returned an array on the host"), (None, "returned None, not an array of faked"),
    (5, "returned a builtins.int, not an array of faked"),
])
def test_a_result_from_elsewhere_is_broken(devices, result, message):
    report = check(lambda a, b: result)
    assert report.verdict is Verdict.BROKEN
    assert message in report.reasons[0][0]


@pytest.mark.parametrize("place", ["wait", "read", "upload", "download"])
def test_an_error_of_the_device_is_the_kernels(devices, monkeypatch, place):
    def fail(*_):
        call_guarded(lambda: [][0])

    monkeypatch.setattr(FakeDevice, place, fail)
    report = check(right)
    assert report.verdict is Verdict.BROKEN
    assert "the kernel raised IndexError: list index out of range" in report.reasons[0][0]


def test_a_worker_has_the_device_and_the_report_says_what_it_is(tmp_path, capsys):
    path = tmp_path / "kernel.py"
    path.write_text(textwrap.dedent("""
        from tests.unit.test_device import FRAMEWORKS, FakeDevice, Framework, right
        FRAMEWORKS["faked"] = Framework("faked", None, None, FakeDevice)

        def matmul(a, b):
            return right(a, b)

        def wrong(a, b):
            a[0, 0] = 0
            return right(a, b)
    """))
    words = ["-m", "5", "-n", "6", "-k", "17", "--a", "float16", "--framework", "faked", "--json", str(tmp_path / "report.json")]
    assert main(["check", f"{path}:matmul", *words, "--device", "fake"]) == 0
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["kernel"]["device"] == "fake"
    assert data["environment"]["gpu"] == "a fake one"
    assert main(["check", f"{path}:wrong", *words, "--device", "fake"]) == 1
    assert main(["replay", str(tmp_path / "report.json")]) == 1
    assert "changes its input a" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "report.json"), "--device", "imaginary"]) == 2
    assert "there is no device 'imaginary'" in capsys.readouterr().err
    assert main(["check", f"{path}:matmul", *words, "--device", "imaginary"]) == 2
    assert "there is no device 'imaginary'" in capsys.readouterr().err
    assert main(["rules", f"{path}:matmul", *words[:-2], "--device", "fake"]) == 0


def test_many_problems_have_one_device_at_a_time(devices, monkeypatch):
    """The memory of the problem before is given back before that of the next one is taken."""
    alive, before, sizes = weakref.WeakSet(), [], []
    attach = FRAMEWORKS["faked"].attach

    def counted(name, block):
        before.append(len(alive))
        sizes.append(len(block))
        alive.add(attach(name, block))
        return devices.pop()

    monkeypatch.setitem(FRAMEWORKS, "faked", replace(FRAMEWORKS["faked"], attach=counted))

    def refuses(a, b):
        return right(a, b) if len(a) != 7 else None

    gc.disable()
    try:
        with Session(refuses, framework="faked", device="fake") as session:
            reports = [zeroulp.check(session, HALF.replace(m=m), probes=["signed"]) for m in (5, 7, 3000, 6)]
    finally:
        gc.enable()
    assert [report.verdict.value for report in reports] == ["CORRECT", "BROKEN", "CORRECT", "CORRECT"]
    assert before == [0] * 4
    assert sizes[2] > 2 * sizes[0]


def test_rules_run_on_the_device_too(devices):
    from zeroulp.rules import run_rules

    results = run_rules(KernelSpec("kernel", "faked", device="fake"), HALF, function=right)
    assert all(result.accepted for result in results)
    assert len(devices) == len(results)


def test_the_device_is_part_of_the_report(devices):
    report = check(right)
    assert report.kernel.device == "fake"
    assert from_json(to_json(report)).kernel.device == "fake"


def test_a_spec_of_an_older_report_means_the_cpu():
    old = {"target": "k.py:f", "framework": None, "signature": None, "destination_passing": False}
    assert KernelSpec.from_dict(old).device == "cpu"
    assert KernelSpec.from_dict({**old, "device": "cuda:1"}).device == "cuda:1"
    with pytest.raises(TypeError):
        KernelSpec.from_dict({**old, "device": 1})


def test_a_device_that_a_framework_has_not_is_refused():
    with pytest.raises(UsageError, match=r"numpy has no arrays on 'cuda'(.|\n)*choose framework torch"):
        zeroulp.check(right, HALF, framework="numpy", device="cuda")
    with pytest.raises(UsageError, match="a C symbol on 'cuda'"):
        zeroulp.check("kernel.so:matmul", HALF, signature="a, b, out, m, n, k", device="cuda")
    with pytest.raises(UsageError, match="the device is a int"):
        zeroulp.check(right, HALF, device=0)


def test_no_torch_is_one_clear_error(monkeypatch, capsys):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(frameworks.importlib, "import_module", missing)
    with pytest.raises(UsageError, match=r"device 'cuda' without PyTorch(.|\n)*No module named 'torch'(.|\n)*install PyTorch"):
        zeroulp.check(lambda a, b: a @ b, HALF, device="cuda")


def test_no_gpu_is_one_clear_error(monkeypatch, capsys, tmp_path):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "kernel.py").write_text("def matmul(a, b): return a @ b")
    sizes = ["-m", "5", "-n", "6", "-k", "17", "--a", "float16"]
    assert main(["check", f"{tmp_path / 'kernel.py'}:matmul", *sizes, "--device", "cuda", "--isolate", "none"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "there is no device 'cuda'" in err
    for name in ("gpu", "mps", "cuda:x", "cpu:0", ""):
        with pytest.raises(UsageError, match="is not supported"):
            zeroulp.check(lambda a, b: a @ b, HALF, device=name)


@pytest.fixture
def on_cpu(monkeypatch):
    """PyTorch's device, with its CPU as the device; and the calls of what only a GPU has."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class OnCpu(TorchDevice):
        def _current_stream(self):
            return type("Stream", (), {"synchronize": lambda self: None})()

        def _enter(self):
            return contextlib.ExitStack()

        def versions(self):
            return {}

    monkeypatch.setitem(FRAMEWORKS, "torch", Framework(
        "torch", None, None, lambda name, block: OnCpu(torch, torch.device("cpu"), block)))
    return torch


@pytest.mark.parametrize("layouts", [*LAYOUTS, "any"])
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "e4m3", "e5m2", "int8"])
@pytest.mark.parametrize("writes", [False, True])
def test_tensors_on_the_device_have_the_layout_of_the_region(on_cpu, layouts, name, writes):
    torch = on_cpu

    def kernel(a, b, out=None):
        result = torch.matmul(a.to(torch.float64), b.to(torch.float64))
        if not writes:
            return result.to(torch.int32 if a.dtype == torch.int8 else a.dtype)
        out.copy_(result)

    layouts = {"a": "broadcast", "b": "broadcast", "out": "padded"} if layouts == "broadcast" else layouts
    problem = Matmul(5, 6, 17, a=name, layouts=layouts)
    report = zeroulp.check(kernel, problem, seed=1, framework="torch", device="cuda", destination_passing=writes,
                           probes=PROBES)
    assert report.verdict is Verdict.CORRECT, report


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["float16", "bfloat16", "e4m3", "float64"])
def test_a_tensor_of_a_region_has_its_strides_and_bits(on_cpu, layout, name):
    (_, region), size = memory.arrange([
        (Operand("x", format_named("e4m3"), (3, 5)), LAYOUTS["offset"]), (Operand("y", format_named(name), (2, 3, 5)), LAYOUTS[layout])])
    block = np.zeros(size, np.uint8)
    array = memory.view(block, region)
    encoding.bits_of(array)[...] = np.arange(30).reshape(2, 3, 5) * (not LAYOUTS[layout].broadcast)
    device = FRAMEWORKS["torch"].attach("cuda", block)
    device.upload([region])
    tensor = device.view(region)
    assert (tuple(tensor.shape), tensor.stride()) == (region.shape, region.strides)
    assert (encoding.bits_of(device.read(tensor)) == encoding.bits_of(array)).all()
    tensor.zero_()
    assert layout == "broadcast" or array.astype(np.float64).any()
    device.download([region])
    assert not array.astype(np.float64).any()


def test_a_tensor_elsewhere_is_broken_and_says_where(on_cpu):
    report = zeroulp.check(lambda a, b: (a @ b).to("meta"), HALF, framework="torch", device="cuda")
    assert report.verdict is Verdict.BROKEN
    assert report.reasons[0] == (
        "the kernel returned a tensor on meta", "its inputs were on cpu return the result on the device of the inputs")


def test_formats_without_a_dtype_are_refused_on_a_device_too(on_cpu):
    with pytest.raises(UsageError, match="PyTorch has no dtype for float4"):
        zeroulp.check(lambda a, b: a, Matmul(3, 4, 5, a="fp4"), framework="torch", device="cuda")


def test_a_device_that_cannot_be_used_is_one_clear_error(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def broken(*_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    monkeypatch.setattr(torch.cuda, "is_available", broken)
    with pytest.raises(UsageError, match=r"'cuda' cannot be used(.|\n)*illegal memory access was encountered\n(.|\n)*new process"):
        zeroulp.check(lambda a, b: a @ b, HALF, framework="torch", device="cuda")


def test_the_host_is_a_device_whose_memory_is_the_block_itself():
    def kernel(a, b):
        return a @ b

    runner = InProcess(type("Kernel", (), {"framework": "numpy", "attach": lambda self, block: None,
                                           "__call__": lambda self, operands, out: kernel(*operands)})(), 1 << 16)
    problem = Matmul(2, 2, 2, a="float32")
    regions, _ = memory.arrange([(operand, LAYOUTS["contiguous"]) for operand in (*problem.operands, problem.output)])
    memory.view(runner.block, regions[0])[...] = memory.view(runner.block, regions[1])[...] = np.eye(2)
    returned = runner.call(Call(1, tuple(regions[:2]), regions[2], False, 0))
    assert (returned.codes.view(np.float32) == np.eye(2)).all()
    assert np.shares_memory(Host(runner.block).view(regions[0]), runner.block)


def test_what_is_wrong_on_the_device_is_raised_as_the_kernels_error(on_cpu):
    device = FRAMEWORKS["torch"].attach("cuda", np.zeros(64, np.uint8))
    with pytest.raises(KernelRaisedError, match="no more"):
        device._do(lambda: (_ for _ in ()).throw(RuntimeError("no more")))


def last_k_left_out(torch, a, b, out=None):
    return torch.matmul(a[:, :-1].to(torch.float32), b[:-1].to(torch.float32)).to(a.dtype)


def rows_left_unwritten(torch, a, b, out):
    out[:-3] = torch.matmul(a.to(torch.float32), b.to(torch.float32)).to(a.dtype)[:-3]


def one_of_two_results(torch, a, b, out=None):
    result = torch.matmul(a.to(torch.float32), b.to(torch.float32)).to(a.dtype)
    one_of_two_results.calls += 1
    result[2, 3] += one_of_two_results.calls % 2
    return result


def lost_nans(torch, a, b, out=None):
    return torch.matmul(a.to(torch.float32).nan_to_num(nan=1.0), b.to(torch.float32)).to(a.dtype)


one_of_two_results.calls = 0


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("kernel", "said"), [
    (last_k_left_out, "matmul leaves out the product k = 29 of 30, the last one, in 286 of 960 outputs."),
    (rows_left_unwritten, "matmul leaves outputs unwritten, in the last 3 rows only."),
    (one_of_two_results, "matmul is wrong, and returns other bits when called again on the same inputs, in out[2, 3] only."),
    (lost_nans, "matmul returns numbers where a NaN in rows 3, 13 and 21 of a must give NaN"),
])
def test_what_is_wrong_on_the_device_has_its_name(on_cpu, monkeypatch, large, kernel, said):
    """From results that lie there, in full or in part."""
    torch = on_cpu
    if large:
        monkeypatch.setattr(excerpt, "LARGE", 0)
        monkeypatch.setattr(excerpt, "SIDE", 12)
        if kernel is not lost_nans:  # a small result with NaN is judged on the host
            monkeypatch.setattr(Inputs, "expected_under", None)
    writes = kernel is rows_left_unwritten
    probes = ["specials"] if kernel is lost_nans else PROBES
    called = functools.partial(kernel, torch)
    function = (lambda a, b, out: called(a, b, out)) if writes else (lambda a, b: called(a, b))
    report = zeroulp.check(function, Matmul(24, 40, 30, a="float16"), seed=1, framework="torch", device="cuda",
                           destination_passing=writes, probes=probes)
    assert report.findings[0].sentence.startswith(said)
    assert bool(report.findings[0].evidence) == large
