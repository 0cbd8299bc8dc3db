"""References that say little, and such as cannot be followed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.linear import problems
from zeroulp import Linear, Tensor, UsageError, check
from zeroulp.errors import ProgramError

F = torch.nn.functional
X, W = Tensor("x", (4, 8)), Tensor("w", (8, 5))


def verdict(reference, tensors=(X, W), **options):
    return check(lambda *operands: reference(*operands), Linear(reference, list(tensors), **options), seed=2, framework="torch")


@pytest.mark.parametrize(("reference", "cut"), [
    (lambda x, w: torch.relu(x @ w - 1e6), "relu"),
    (lambda x, w: (x @ w).clamp(0, 0), "clamp"),
    (lambda x, w: (x @ w) * 0, "mul"),
    (lambda x, w: torch.zeros(3, 3), ""),
    (lambda x, w: (lambda y: y - y.max(1, keepdim=True)[0])((x @ w).sum(1, keepdim=True)), "sub"),
])
def test_a_reference_whose_output_does_not_depend_on_its_operands_is_vacuous(reference, cut):
    report = verdict(reference)
    assert report.verdict.value == "INCONCLUSIVE"
    assert report.reasons[0][0].startswith("vacuous: ")
    assert cut in report.reasons[0][0]
    assert report.coverage == 1
    assert str(report).startswith("INCONCLUSIVE  vacuous: ")


def test_an_operand_that_never_matters_is_named():
    report = verdict(lambda x, w: x * 2 + 0 * w.sum())
    assert report.verdict.value == "INCONCLUSIVE"
    assert report.reasons[0][0] == "vacuous: operand w never matters: what it changes vanishes in operation 3, mul"
    unread = verdict(lambda x, w: x * 2)
    assert unread.reasons[0][0] == "vacuous: operand w never matters: no operation of the reference reads it"


def test_a_bias_that_a_mean_takes_away_never_matters():
    def reference(x, b):
        y = x + b
        return y - y.sum(1, keepdim=True) / 8

    report = verdict(reference, (X, Tensor("b", ())))
    assert "operand b never matters" in report.reasons[0][0]


def test_a_fault_counts_though_the_reference_is_vacuous():
    problem = Linear(lambda x, w: torch.relu(x @ w - 1e6), [X, W])
    assert check(lambda x, w: x @ w, problem, seed=1).verdict.value == "INCORRECT"


def test_where_nothing_is_exact_the_operation_is_named():
    report = verdict(lambda x, w: torch.softmax(x @ w, 1))
    assert report.verdict.value == "INCONCLUSIVE"
    assert report.coverage == 0
    assert "operation 2, _softmax" in report.reasons[0][0]
    assert "zeroulp.track.register" in report.reasons[0][1]


def test_what_is_exact_is_compared_and_the_share_of_the_rest_is_said():
    def half(x, w):
        y = x @ w
        return torch.cat([y, torch.sin(y)], 1)

    report = verdict(half)
    assert report.verdict.value == "INCONCLUSIVE"
    assert report.coverage == 0.5
    assert "50.00% of the outputs were never compared: exactness ends at operation 2, sin" in report.reasons[0][0]
    wrong = check(lambda x, w: half(x, w) + torch.eye(4, 10), Linear(half, [X, W]), seed=1)
    assert wrong.verdict.value == "INCORRECT"
    slightly = check(lambda x, w: half(x, w) * torch.tensor([1.0] * 5 + [1.001] * 5), Linear(half, [X, W]), seed=1)
    assert slightly.verdict.value == "INCONCLUSIVE"


def test_elements_that_are_not_exact_may_differ_from_call_to_call():
    def half(x, w):
        y = x @ w
        return torch.cat([y, torch.sin(y)], 1)

    def kernel(x, w):
        return half(x, w) * torch.cat([torch.ones(5), 1 + torch.rand(5) / 100])

    assert check(kernel, Linear(half, [X, W]), seed=1, repeat=3).findings == ()


def test_a_reference_that_does_not_return_its_own_exact_values_is_demoted(monkeypatch):
    from zeroulp.track import target_run

    plainly = target_run._run
    monkeypatch.setattr(target_run, "_run", lambda program, device: [value + 1 for value in plainly(program, device)])
    problem = Linear(lambda x, w: x @ w, [X, W])
    for kernel in (lambda x, w: x @ w, lambda x, w: x @ w + 3):
        report = check(kernel, problem, seed=1)
        assert report.verdict.value == "INCONCLUSIVE"
        assert report.findings == ()
        assert report.coverage == 0
        assert "the reference itself, run on cpu, returns something else in 20 elements" in report.reasons[0][0]
        assert "the kernel is not blamed" in report.reasons[0][1]


def test_an_algorithm_that_sums_other_products_is_demoted_and_the_kernel_not_blamed():
    """F(4, 3) after Winograd, whose constants are no binary fractions: in float32 it is off, and float64 does not show it."""
    g = torch.tensor([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]) / 24
    bt = torch.tensor([[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
                       [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]]).float()
    at = torch.tensor([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]).float()

    def fast(x, w):
        return (x.float() @ bt.T * (g @ w.float())) @ at.T

    def direct(x, w):
        return F.conv1d(x[:, None], w[None, None])[:, 0]

    problem = Linear(fast, [Tensor("x", (50, 6)), Tensor("w", (3,))])
    draw = torch.Generator().manual_seed(5)
    x, w = (torch.randint(-9, 10, shape, generator=draw).float() for shape in ((50, 6), (3,)))
    assert not torch.equal(direct(x, w), fast(x, w))
    for seed in range(4):
        assert check(direct, problem, seed=seed).findings == ()


def random(x, w):
    return x @ w + torch.randn(4, 5)


def counting(x, w):
    counting.calls = getattr(counting, "calls", 0) + 1
    return x @ w + counting.calls


@pytest.mark.parametrize(("reference", "fragment"), [
    (random, "random"),
    (counting, "random"),
    (lambda x, w: x @ torch.from_numpy(w.numpy()), ""),
    (lambda x, w: w @ x @ x, "fails on float64"),
    (lambda x: x, "fails on float64"),
    (lambda x, w: None, "returns no tensor"),
    (lambda x, w: (x @ w, x.sum()), "2 tensors"),
    (lambda x, w: x.mul_(2) @ w, "changes its operand 'x'"),
    (lambda x, w: x[x[:, 0] > 0] @ w, "shape"),
    (lambda x, w: (x @ w).to(torch.complex64), ""),
])
def test_a_reference_that_cannot_be_followed_is_one_clear_error(reference, fragment):
    with pytest.raises(UsageError) as caught:
        verdict(reference)
    assert fragment in str(caught.value)
    assert "  do " in str(caught.value)


def test_an_output_that_is_declared_otherwise_is_refused():
    with pytest.raises(ProgramError, match="returns the format float32"):
        verdict(lambda x, w: x @ w, out="float16")
    with pytest.raises(ProgramError, match="returns the shape"):
        verdict(lambda x, w: x @ w, shape=(5, 4))


@pytest.mark.parametrize(("tensors", "fragment"), [
    ([], "without operands"), ([X, X], "two operands"), ([Tensor("x", (0, 3))], "empty"), (["x"], "zeroulp.Tensor"),
    ([Tensor("x", (3,), "e4m3")], "float8_e4m3fn"), ([Tensor("out", (3,))], "'out'"), ([Tensor("a b", (3,))], "'a b'"),
])
def test_operands_that_make_no_sense_are_refused(tensors, fragment):
    with pytest.raises(UsageError, match=fragment):
        Linear(lambda x: x, tensors)


@pytest.mark.parametrize("options", [{"storage": "float64"}, {"accumulate": "int32"}, {"division": "first"}, {"accumulator_precision": 99}])
def test_clauses_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError):
        Linear(lambda x: x, [X], **options)


@pytest.mark.parametrize("options", [
    {"escape_probability": 1e-9}, {"probes": ["dense"]}, {"p_zero": 0.5}, {"trials": 0}, {"repeat": -1}, {"repeat": 1, "race_rate": 0.5},
])
def test_options_that_a_reference_has_no_use_for_are_refused(options):
    with pytest.raises(UsageError):
        check(lambda x: x, problems.SCAN, **options)


def test_no_reference_and_no_function():
    with pytest.raises(UsageError, match="no reference"):
        check(lambda x: x, Linear(None, [X]))
    with pytest.raises(UsageError, match="the reference is a int"):
        Linear(5, [X])
    with pytest.raises(UsageError, match="no shared library"):
        check("library.so:f", problems.SCAN)
