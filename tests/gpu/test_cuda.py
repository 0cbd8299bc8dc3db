"""PyTorch's own kernels, Triton's and faulty ones on a CUDA device."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import zeroulp
from zeroulp.cli import main
from zeroulp.errors import UsageError
from zeroulp.report import Verdict

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]

ROOT = Path(__file__).parents[2]
KERNELS = Path(__file__).parent / "kernels.py"
TRITON = ROOT / "examples" / "correct" / "triton_matmul.py"
FORMATS = ["float16", "bfloat16", "float32", "float64"]
RAGGED = [(1, 1, 1), (5, 7, 33), (64, 64, 64), (17, 129, 65), (127, 63, 257), (1, 300, 1000), (300, 1, 1000), (16, 16, 4097)]
SMALL = zeroulp.Matmul(33, 17, 65, a="float16")


@pytest.fixture(scope="module", autouse=True)
def torch():
    if importlib.util.find_spec("torch") is None:
        pytest.skip("PyTorch is not installed")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    return torch


@pytest.fixture(autouse=True)
def flags(torch, monkeypatch):
    """PyTorch's precision flags, as the default contract needs them; put back afterwards."""
    matmul = torch.backends.cuda.matmul
    names = ["allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction", "allow_fp16_accumulation"]
    before = {name: getattr(matmul, name) for name in names if hasattr(matmul, name)}
    for name in before:
        setattr(matmul, name, False)
    yield matmul
    for name, value in before.items():
        setattr(matmul, name, value)


def check(name, problem, **options):
    return zeroulp.check(f"{KERNELS}:{name}", problem, **{"device": "cuda", **options})


def kinds(name, problem=SMALL, **options):
    report = check(name, problem, **options)
    assert report.verdict is (Verdict.INCORRECT if report.findings else Verdict.CORRECT), report
    return [finding.kind for finding in report.findings]


def assert_correct(name, problem, **options):
    report = check(name, problem, **options)
    assert report.verdict is Verdict.CORRECT, str(report)


@pytest.mark.parametrize("layouts", ["contiguous", "column", "padded", "padded-column", "offset", "any"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", RAGGED, ids=str)
def test_torch_matmul(size, name, layouts):
    assert_correct("right", zeroulp.Matmul(*size, a=name, layouts=layouts))


@pytest.mark.parametrize("layouts", ["contiguous", "column", "offset"])
@pytest.mark.parametrize("name", FORMATS)
def test_torch_matmul_large(name, layouts):
    assert_correct("right", zeroulp.Matmul(512, 512, 4096, a=name, layouts=layouts))


@pytest.mark.parametrize("name", FORMATS)
def test_torch_matmul_into_an_output(name):
    assert_correct("right_into", zeroulp.Matmul(33, 17, 65, a=name, layouts="any"), destination_passing=True)


@pytest.mark.parametrize("name", ["float16", "float32"])
def test_torch_matmul_in_batches(name):
    assert_correct("right", zeroulp.Matmul(33, 17, 65, batch=(3,), a=name, layouts="any"))


@pytest.mark.parametrize("size", [(16, 16, 16), (48, 32, 272), (128, 64, 1024), (512, 512, 4096), (64, 64, 8192)], ids=str)
@pytest.mark.parametrize("out", ["bfloat16", "float32"])
def test_torch_scaled_mm(torch, size, out):
    if torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("the device has no 8-bit floats")
    problem = zeroulp.Matmul(*size, a="float8_e4m3fn", out=out, layouts={"a": "contiguous", "b": "column", "out": "contiguous"})
    assert_correct(f"scaled_to_{out}", problem)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [(5, 7, 33), (127, 65, 257)], ids=str)
def test_the_triton_example(name, size):
    report = zeroulp.check(f"{TRITON}:matmul", zeroulp.Matmul(*size, a=name, layouts="any"), device="cuda")
    assert report.verdict is Verdict.CORRECT, str(report)


def test_sums_in_float16_break_the_contract(flags):
    if not hasattr(flags, "allow_fp16_accumulation"):
        pytest.skip("this PyTorch has no such flag")
    flags.allow_fp16_accumulation = True
    assert kinds("right", zeroulp.Matmul(512, 512, 4096, a="float16")) == ["precision-below-contract"]
    problem = zeroulp.Matmul(128, 128, 256, a="float16", accumulate="float16")
    assert kinds("right", problem) == []


def test_tf32_is_seen_as_narrowed_operands(flags):
    flags.allow_tf32 = True
    assert kinds("right", zeroulp.Matmul(256, 256, 512, a="float32")) == ["input-precision"]


def test_a_tail_without_a_mask_reads_the_guard():
    assert kinds("unmasked_tail") == ["out-of-bounds-read"]
    assert kinds("unmasked_tail", SMALL.replace(k=64)) == []


@pytest.mark.parametrize("name", ["last_row_unwritten", "last_row_unwritten_into"])
def test_outputs_nobody_wrote(name):
    assert kinds(name, destination_passing=name.endswith("into")) == ["unwritten-output"]


def test_a_store_one_past_the_end():
    assert kinds("one_past_the_end", destination_passing=True) == ["out-of-bounds-write"]
    assert kinds("one_before_the_start_of_b") == ["out-of-bounds-write"]


def test_a_changed_input():
    assert kinds("changes_a") == ["input-mutated"]


@pytest.mark.parametrize("name", ["no_wait", "no_wait_into"])
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_work_on_another_stream_that_nobody_waits_for(torch, name, isolation):
    report = check(name, SMALL, destination_passing=name.endswith("into"), isolation=isolation)
    torch.cuda.synchronize()
    assert report.verdict is Verdict.INCORRECT


@pytest.mark.parametrize("name", ["waits", "leaves_its_stream_current"])
def test_work_on_another_stream_in_good_order(torch, name):
    before = torch.cuda.current_stream()
    assert kinds(name) == []
    assert torch.cuda.current_stream() == before


def test_a_check_on_a_stream_of_the_users(torch):
    with torch.cuda.stream(torch.cuda.Stream()):
        assert kinds("right") == []
        assert kinds("last_row_unwritten") == ["unwritten-output"]


def test_a_result_on_the_host_is_broken_and_says_where():
    report = check("to_the_host", SMALL)
    assert report.verdict is Verdict.BROKEN
    assert report.reasons[0][0] == "the kernel returned a tensor on cpu"


def test_an_illegal_access_breaks_its_own_check_only():
    report = check("illegal_access", SMALL, isolation="process")
    assert report.verdict is Verdict.BROKEN
    assert "illegal memory access" in report.reasons[0][0]
    assert_correct("right", SMALL, isolation="process")
    assert_correct("right", SMALL)


def test_after_an_illegal_access_in_process_the_next_check_says_so():
    code = f"""
import zeroulp
problem = zeroulp.Matmul(33, 17, 65, a="float16")
print(zeroulp.check("{KERNELS}:illegal_access", problem, device="cuda").reasons)
try:
    zeroulp.check("{KERNELS}:right", problem, device="cuda")
except zeroulp.errors.UsageError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=None, check=False)
    assert run.stdout.count("illegal memory access") == 2, run
    assert "cannot be used" in run.stdout
    assert "isolation='process'" in run.stdout


def test_the_command_line_and_the_report(torch, tmp_path, capsys):
    path = tmp_path / "report.json"
    sizes = ["-m", "33", "-n", "17", "-k", "65", "--a", "float16", "--device", "cuda"]
    assert main(["check", f"{TRITON}:matmul", *sizes, "--json", str(path)]) == 0, capsys.readouterr()
    data = json.loads(path.read_text())
    assert data["kernel"]["device"] == "cuda"
    assert data["environment"]["gpu"] == torch.cuda.get_device_name()
    assert data["environment"]["cuda"] == torch.version.cuda
    assert data["environment"]["torch"] == torch.__version__
    assert data["environment"]["driver"].count(".")
    assert main(["check", f"{KERNELS}:changes_a", *sizes, "--json", str(path)]) == 1
    assert main(["replay", str(path)]) == 1
    assert main(["replay", str(path), "--device", "cpu"]) == 1


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_grid_has_one_kernel_and_the_memory_of_one_shape(torch, tmp_path, isolation):
    shapes = [(64, 64, 64), (2048, 2048, 512), (5, 7, 33), (1024, 2048, 2048), (1, 1, 1)]
    allocated = []
    for run in range(2):
        report = zeroulp.check_grid(f"{KERNELS}:right", zeroulp.Matmul(1, 1, 1, a="float16"), shapes,
                                    journal=tmp_path / f"{run}.jsonl", device="cuda", isolation=isolation)
        assert [result.verdict for result in report.results] == [Verdict.CORRECT] * len(shapes), report
        torch.cuda.ipc_collect()
        allocated.append(torch.cuda.memory_allocated())
    assert allocated[1] <= allocated[0] + 2**20


@pytest.mark.parametrize(("isolation", "after"), [("none", Verdict.INCONCLUSIVE), ("process", Verdict.BROKEN)])
def test_a_grid_after_an_illegal_access(isolation, after, tmp_path):
    """In a worker the next shape is checked in a new one; in process the device is lost, and that is no verdict on it."""
    code = f"""
import zeroulp
problem = zeroulp.Matmul(1, 1, 1, a="float16")
report = zeroulp.check_grid("{KERNELS}:illegal_access", problem, "33x17x65,66", device="cuda", isolation="{isolation}")
print(*(result.verdict.value for result in report.results))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=None, check=False)
    assert run.stdout.split() == ["BROKEN", after.value], run


def test_a_device_that_is_not_there(torch):
    with pytest.raises(UsageError, match=f"sees {torch.cuda.device_count()} of them"):
        check("right", SMALL, device="cuda:99")
    assert_correct("right", SMALL, device="cuda:0")
