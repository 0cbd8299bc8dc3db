"""The host looks at what a device says: PyTorch on the CPU is the device, honest or lying."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest

import zeroulp
import zeroulp.arrays
from zeroulp import Matmul, encoding, memory
from zeroulp.arrays import HOST, Torch, arrays_of
from zeroulp.checks import judging
from zeroulp.checks.audit import Audit
from zeroulp.checks.inputs import draw_inputs
from zeroulp.errors import AuditFailedError
from zeroulp.judge import Differs, Matched, judge
from zeroulp.kernels.frameworks import FRAMEWORKS, Framework
from zeroulp.kernels.torch_device import TorchDevice
from zeroulp.plan import make_plan
from zeroulp.problem import LAYOUTS
from zeroulp.report import Verdict, from_json, render_text, to_json
from zeroulp.report.codec import to_dict

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
CPU = torch.device("cpu")

HALF = Matmul(13, 11, 60, a="float16")
PROBLEMS = [
    HALF,
    HALF.replace(transpose_a=True, transpose_b=True, nonfinite="ieee"),
    HALF.replace(batch=(2, 3), transpose_b=True, beta=-1, bias="float32"),
    HALF.replace(alpha=-3, beta=0.5, layouts="any"),
    HALF.replace(layouts={"a": "broadcast", "b": "broadcast"}),
    HALF.replace(layouts={"a": "broadcast", "c": "broadcast"}, beta=1, transpose_a=True),
    HALF.replace(layouts="broadcast", batch=(3,), bias="float16"),
    HALF.replace(rounding="ties-either", signed_zero="strict", subnormals="preserve"),
    Matmul(14, 12, 5, a="bfloat16", transpose_b=True),
    Matmul(13, 11, 60, a="float32", subnormals="preserve"),
    Matmul(13, 11, 60, a="e4m3", out="float16"),
    Matmul(13, 11, 60, a="int8", out="int32", accumulate="int32"),
    Matmul(13, 11, 60, a="float64"),
    Matmul(13, 11, 2100, a="bfloat16"),
    Matmul(5, 1, 1, a="float16"),
    Matmul(5, 7, 0, a="float16", bias="float16"),
    Matmul(5, 520, 600, a="float16"),
    Matmul(5, 520, 30, a="bfloat16", transpose_b=True),
]
"""But for the last two, all outputs of an entry of the batch are looked at."""


def everything(problem, **options):
    """An audit of every trial of the plan, and those trials."""
    if isinstance(problem.layouts, dict):
        rest = {o.name: problem.layouts.get(o.name, "contiguous") for o in (*problem.operands, problem.output)}
        problem = problem.replace(layouts=rest)
    if problem.layouts == "broadcast":
        problem = problem.replace(layouts={o.name: "broadcast" for o in problem.operands} | {"out": "contiguous"})
    trials = make_plan(problem, **options).trials
    audit = Audit([0])
    audit._trials = {trial.index for trial in trials}
    return problem, audit, trials


def fed(inputs, arrays=None):
    """The library, and encodings of each operand as they lie on the device."""
    arrays = arrays or Torch(CPU)
    operands = inputs.problem.operands
    regions, size = memory.arrange([(o, LAYOUTS[inputs.trial.layouts[o.name]]) for o in operands])
    block = arrays.from_host(np.zeros(size, np.uint8))
    views = {region.name: memory.view(block, region) for region in regions}
    inputs.fill(arrays, {o.name: views[o.name] if inputs.shape(o.name) == o.shape else views[o.name][:1] for o in operands})
    return arrays, {name: arrays.codes(view) for name, view in views.items()}


def on_device(arrays, codes, format_):
    return arrays.codes(arrays.from_host(encoding.array_of(codes, format_)))


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_a_part_is_encoded_as_the_whole_is(problem):
    random = np.random.default_rng(1)
    problem, _, trials = everything(problem)
    for trial in trials:
        inputs = draw_inputs(problem, trial, 2**64 - 3)
        entry = tuple(int(random.integers(extent)) for extent in problem.batch)
        rows, columns = (np.unique(random.integers(0, extent, 7)) for extent in (problem.m, problem.n))
        codes = inputs.codes_of_part(entry, rows, columns)
        for operand in problem.operands:
            whole = np.broadcast_to(inputs.codes[operand.name], operand.shape)
            down, across = inputs.own_axes(operand.name, rows, columns)
            if operand.name == "bias":
                wanted = whole[across]
            else:
                wanted = whole[entry][slice(None) if down is None else down][:, slice(None) if across is None else across]
            assert np.array_equal(codes[operand.name], wanted), (trial.probe, trial.settings, operand.name)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_host_says_of_every_trial_what_is_right_and_what_is_wrong(problem, large, monkeypatch):
    """What every correct kernel returns is confirmed; where all is looked at, the host's word is that of the reference."""
    if large:
        monkeypatch.setattr(judging, "SMALL", 0)
    random = np.random.default_rng(2)
    problem, audit, trials = everything(problem)
    whole = problem.m <= 16 and problem.n <= 64 and not problem.batch
    assert trials
    wrong_seen = 0
    for trial in trials:
        inputs = draw_inputs(problem, trial, 77)
        arrays, views = fed(inputs)
        right = inputs.expected.codes
        said = Matched(right.size, right.size)
        there = on_device(arrays, right, problem.out_format)
        assert audit.confirmed(inputs, arrays, views, there, said) is said, (trial.probe, trial.settings)
        wrong = right.copy()
        wrong.reshape(-1)[random.integers(right.size)] ^= 1
        wrong[..., -1, -1] ^= 1 << 3
        wanted = judge(wrong, inputs.expected, problem.out_format)
        there = on_device(arrays, wrong, problem.out_format)
        if isinstance(wanted, Differs):
            audit._has_accused = False
            assert audit.confirmed(inputs, arrays, views, there, wanted) is wanted
            if whole:
                assert audit.confirmed(inputs, arrays, views, there, said) == wanted
                wrong_seen += 1
        elif whole:
            assert audit.confirmed(inputs, arrays, views, there, said) is said
    assert wrong_seen or not whole
    assert audit.audited.trials == tuple(trial.index for trial in trials)
    assert audit.audited.outputs >= len(trials) * min(9, problem.m * problem.n) * 0.3


@pytest.mark.parametrize("name", ["a", "b", "c", "bias"])
@pytest.mark.parametrize("problem", [
    HALF.replace(beta=2, bias="float16"), HALF.replace(beta=2, bias="float16", transpose_a=True, transpose_b=True, batch=(1,)),
], ids=str)
def test_one_wrong_bit_of_an_operand_is_no_fault_of_the_kernel(problem, name):
    problem, audit, trials = everything(problem)
    inputs = draw_inputs(problem, trials[0], 5)
    arrays, views = fed(inputs)
    views[name][..., -1] ^= 1
    there = on_device(arrays, inputs.expected.codes, problem.out_format)
    for said in (Matched(1, 1), judge(inputs.expected.codes ^ 1, inputs.expected, problem.out_format)):
        with pytest.raises(AuditFailedError, match=f"elements of {name} in trial 0 are not on the device what the host draws"):
            audit.confirmed(inputs, arrays, views, there, said)


def test_the_second_trial_is_one_that_nobody_can_know():
    chosen = [Audit(range(20))._trials for _ in range(200)]
    assert all(0 in trials and len(trials) == 2 for trials in chosen)
    assert len({max(trials) for trials in chosen}) == 19
    assert Audit([])._trials == set()
    assert Audit([4])._trials == {4}


class LyingDraw(Torch):
    """Draws other numbers from the 100th word on."""

    def _words(self, key, first, count):
        words = super()._words(key, first, count)
        words[max(0, 100 - first) :] ^= 2**30
        return words


class LyingTest(Torch):
    """Every product is zero, and everything agrees with everything."""

    def matmul(self, a, b):
        return super().matmul(a, b) * 0

    def equal(self, one, other):
        return True


class LyingDecoder(Torch):
    """Takes every 1 for a 3."""

    def values(self, codes, format_, dtype="float64"):
        found = super().values(codes, format_, dtype)
        found[found == 1] = 3
        return found


@pytest.fixture
def device(monkeypatch):
    """Makes PyTorch's CPU a device that uses this library, and has small problems too."""
    monkeypatch.setattr(zeroulp.runner.base, "SMALL_BYTES", 0)

    class OnCpu(TorchDevice):
        def _current_stream(self):
            return type("Stream", (), {"synchronize": lambda self: None})()

        def _enter(self):
            return contextlib.ExitStack()

        def versions(self):
            return {}

    def use(library):
        arrays = library(CPU)
        monkeypatch.setattr(zeroulp.arrays, "_torch_on", lambda device: arrays)

    monkeypatch.setitem(FRAMEWORKS, "torch", Framework(
        "torch", None, None, lambda name, block: OnCpu(torch, CPU, block)))
    return use


def right(a, b):
    return torch.matmul(a.to(torch.float64), b.to(torch.float64)).to(a.dtype)


def wrong(a, b):
    return -right(a, b)  # on the grid, and in range


def check(kernel, problem=HALF, **options):
    return zeroulp.check(kernel, problem, framework="torch", device="cuda", seed=1, **options)


@pytest.mark.parametrize("problem", [
    HALF, HALF.replace(layouts="any"), HALF.replace(batch=(2,)), Matmul(13, 11, 60, a="float64"), Matmul(13, 11, 60, a="int8"),
    Matmul(13, 11, 2100, a="bfloat16"), Matmul(5, 520, 600, a="float16"), Matmul(13, 11, 60, a="e4m3", out="float16"),
], ids=str)
def test_a_report_says_what_was_looked_at(device, problem):
    device(Torch)

    def kernel(a, b):
        product = torch.matmul(a.to(torch.float64), b.to(torch.float64))
        return product.to(getattr(torch, problem.out))

    report = check(kernel, problem)
    assert report.verdict is Verdict.CORRECT, report
    first, other = report.audited.trials
    assert first == 0 < other
    assert f"on the host: {report.audited.outputs:,} outputs of trials 0, {other}" in render_text(report)
    assert from_json(to_json(report)) == report
    assert json.loads(to_json(report))["audited"] == {"outputs": report.audited.outputs, "trials": [0, other]}


def test_where_the_host_judges_nothing_is_audited():
    report = zeroulp.check(lambda a, b: a @ b, Matmul(5, 6, 7, a="float32"), seed=1)
    assert report.audited is None
    assert "audited" not in render_text(report)
    data = to_dict(report)
    assert data["audited"] is None
    del data["audited"]
    assert from_json(json.dumps(data, default=float)).audited is None


@pytest.mark.parametrize("kernel", [right, wrong])
def test_a_device_that_draws_other_inputs_is_not_believed(device, kernel):
    device(LyingDraw)
    report = check(kernel)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "of a in trial 0 are not on the device what the host draws from the same seed" in report.reasons[0][0]
    assert "another device" in report.reasons[0][1]
    assert from_json(to_json(report)) == report
    assert "INCONCLUSIVE" in render_text(report)


@pytest.mark.parametrize("probes", [["signed"], ["wide"], ["one_hot", "signed"]])
def test_a_wrong_result_that_a_device_calls_right_is_wrong(device, probes):
    device(LyingTest)
    assert check(right, probes=probes).verdict is Verdict.CORRECT
    report = check(wrong, probes=probes)
    assert report.verdict is Verdict.INCORRECT
    assert report.trials[0].outcome.differing
    device(Torch)
    assert check(wrong, probes=probes).findings[0].trial == report.findings[0].trial == 0


def test_without_an_audit_the_lie_would_pass(device, monkeypatch):
    monkeypatch.setattr(Audit, "confirmed", lambda self, inputs, arrays, views, codes, said: said)
    device(LyingTest)
    assert check(wrong, probes=["signed"]).verdict is Verdict.CORRECT


def test_a_right_result_that_a_device_calls_wrong_accuses_nobody(device, monkeypatch):
    device(LyingDecoder)
    report = check(right, probes=["signed"])
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "of trial 0 is wrong, and it is right" in report.reasons[0][0]
    monkeypatch.setattr(Audit, "confirmed", lambda self, inputs, arrays, views, codes, said: said)
    assert isinstance(_outcome_without_audit(), Differs)


def _outcome_without_audit():
    trial = make_plan(HALF, probes=["signed"]).trials[0]
    inputs = draw_inputs(HALF, trial, 1)
    regions, size = memory.arrange([(o, LAYOUTS["contiguous"]) for o in HALF.operands])
    arrays = LyingDecoder(CPU)
    block = arrays.from_host(np.zeros(size, np.uint8))
    inputs.fill(arrays, {region.name: memory.view(block, region) for region in regions})
    codes = on_device(arrays, inputs.expected.codes, HALF.out_format)
    return judging.Judge(2**28, "verified").outcome(inputs, block, regions, codes)


def test_a_difference_in_any_trial_is_looked_at_before_it_counts(device):
    """The device lies in a trial that is not audited as a matter of course."""
    device(Torch)
    calls = []

    def breaks_later(a, b):
        calls.append(1)
        return right(a, b) + (len(calls) > 9)

    report = check(breaks_later)
    assert report.verdict is Verdict.INCORRECT
    assert report.audited.trials[-1] == report.findings[0].trial > 0


def test_the_library_of_an_array_is_the_one_in_use(device):
    device(LyingDraw)
    assert isinstance(arrays_of(torch.zeros(1)), LyingDraw)
    assert arrays_of(np.zeros(1)) is HOST
