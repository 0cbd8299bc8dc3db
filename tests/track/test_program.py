"""What can go wrong with a reference, and what is said of a program as a whole."""

from __future__ import annotations

import random

import pytest

torch = pytest.importorskip("torch")

from tests.track.programs import A, B, draw, gradient
from zeroulp import track
from zeroulp.errors import ProblemError, ProgramError, UnknownNameError

Grade = track.Grade


def test_operations_say_what_they_saw():
    tracked = track.track(lambda a, b: torch.relu(a @ b - 1000) + 1, {"a": A, "b": B})
    product, difference, cut, last = tracked.operations
    assert [o.name for o in tracked.operations] == ["mm", "sub", "relu", "add"]
    assert [o.number for o in tracked.operations] == [1, 2, 3, 4]
    assert [o.trivial for o in tracked.operations] == [False, False, True, True]
    assert product.bits == pytest.approx(torch.log2((A.abs() @ B.abs()).max()).item())
    assert difference.bits == pytest.approx(torch.log2((A.abs() @ B.abs()).max() + 1000).item())
    assert cut.bits is None
    assert tracked.bits == difference.bits
    assert last.shape == (6, 5)
    assert tracked.share() == 1


def test_the_operation_at_which_exactness_ended_is_named():
    tracked = track.track(lambda a, b: torch.softmax(a @ b, 1) * 2, [A, B])
    assert tracked.unknown == {"_softmax": 2}
    assert tracked.outputs[0].ended.sentence() == "operation 2, _softmax: an operator that is not in the table"
    assert tracked.outputs[0].ended.elements == 30
    assert [o.exact for o in tracked.operations] == [1, 0, 0]
    overflow = track.track(lambda a: (a * 2.0**23 + 1).sum(1), [torch.ones(2, 4)]).outputs[0].ended
    assert overflow.number == 3
    assert "2^25.0 quanta" in overflow.reason
    assert "2^24" in overflow.reason


def test_operands_that_are_not_read_are_named():
    tracked = track.track(lambda a, b, c: a @ b + torch.zeros_like(c)[0, 0], {"a": A, "b": B, "c": draw(2, 2)})
    assert tracked.unread == ("c",)
    assert track.track(lambda a: a, [A]).unread == ()


def test_operands_are_left_as_they_are():
    before = A.clone()
    track.track(lambda a: a * 2, [A])
    assert torch.equal(A, before)
    assert torch.get_default_dtype() == torch.float32


def test_a_module_is_tracked_in_float64_and_left_as_it_is():
    layer = torch.nn.Linear(8, 4)
    with torch.no_grad():
        layer.weight.copy_(draw(4, 8))
        layer.bias.copy_(draw(4))
    tracked = track.track(layer, [A])
    assert tracked.share() == 1
    assert layer.weight.dtype == torch.float32
    assert torch.equal(tracked.outputs[0].values.float(), layer(A).detach())
    assert track.self_check(tracked).agrees


def test_gradients_are_tracked_however_they_are_asked_for():
    def with_grad(a, b):
        with torch.enable_grad():
            b = b.detach().requires_grad_()
            return torch.autograd.grad((a @ b).relu().sum(), b)[0]

    def functional(a, b):
        return torch.func.grad(lambda b: (a @ b).relu().sum())(b)

    def backward(a, b):
        b = b.detach().requires_grad_()
        (a @ b).relu().sum().backward()
        return b.grad

    expected = track.track(gradient(lambda b, a: (a @ b).relu()), [B, A])
    assert expected.share() == 1
    results = [track.track(f, [A, B]) for f in (with_grad, functional, backward)]
    for tracked in results:
        assert tracked.share() == 1
        assert not tracked.unknown
        assert torch.equal(tracked.outputs[0].values, results[0].outputs[0].values)


def test_attention_without_softmax_is_exact_whatever_the_fast_paths():
    q, k, v = draw(2, 4, 8), draw(2, 4, 8, seed=1), draw(2, 4, 8, seed=2)
    linear = track.track(lambda q, k, v: (q @ k.transpose(1, 2)).tril() @ v, [q, k, v])
    assert linear.share() == 1
    attention = track.track(torch.nn.functional.scaled_dot_product_attention, [q, k, v])
    assert any("softmax" in name for name in attention.unknown)


@pytest.mark.parametrize("reference, words", [
    (lambda a: a + torch.randn(6, 8), "random: it calls randn"),
    (lambda a: torch.nn.functional.dropout(a), "random: it calls"),
    (lambda a: a * random.random(), "random: it returns something else"),
    (lambda a: a @ a, "fails on float64"),
    (lambda a: a.add_(1), "changes its operand '0' in place"),
    (lambda a: None, "returns no tensor but NoneType"),
    (lambda a: a.numpy() * 2, "takes a tensor out of PyTorch, by numpy"),
    (lambda a: torch.exp(a) * (2 if torch.exp(a).sum() > 3 else 1), "looks at a value that is not exact"),
    (lambda a: torch.exp(a).nonzero(), "a shape depends on it"),
    (lambda a: a[torch.exp(a) > 2], "a shape depends on it"),
    (lambda a: torch.exp(a).tolist() and a, "looks at a value that is not exact"),
    (lambda a: a.view(torch.int32), "reads the bits"),
    (lambda a: draw(6, 8).add_(1) + a if False else OUTSIDE.add_(a), "changes a tensor of torch.float32 in place"),
])
def test_bad_references_are_refused_with_one_clear_error(reference, words):
    with pytest.raises(ProgramError, match=words.replace("(", r"\(")) as caught:
        track.track(reference, [A])
    assert caught.value.why or caught.value.do


OUTSIDE = torch.zeros(6, 8)


def test_numpy_on_tensors_is_refused():
    np = pytest.importorskip("numpy")
    with pytest.raises(ProgramError, match="takes a tensor out of PyTorch"):
        track.track(lambda a: np.matmul(a, a.T), [A])


def test_a_reference_for_the_array_api_is_tracked():
    def reference(a, b):
        xp = a.__array_namespace__()
        return xp.sum(xp.matmul(a, b), axis=1)

    tracked = track.track(reference, [A, B])
    assert tracked.share() == 1
    assert track.self_check(tracked).agrees
    assert not hasattr(torch.Tensor, "__array_namespace__")


def test_integers_that_float32_does_not_hold_are_not_exact():
    integers = torch.tensor([2**24, 2**24 + 1, 2**24 + 2])
    assert track.track(lambda i: i.to(torch.float32), [integers]).outputs[0].grade.tolist() == [0, 2, 0]
    assert track.track(lambda i, x: torch.where(x > 0, i, x), [integers, torch.ones(3)]).outputs[0].grade[1] == 2


@pytest.mark.parametrize("operands", [A, 3, {"a": A.numpy()}, [A.to_sparse()], [1.0]])
def test_bad_operands_are_refused(operands):
    with pytest.raises(ProgramError):
        track.track(lambda a: a, operands)


def test_bad_contracts_are_refused():
    with pytest.raises(UnknownNameError):
        track.track(lambda a: a, [A], storage="int8")
    with pytest.raises(UnknownNameError):
        track.track(lambda a: a, [A], accumulate="float8")
    with pytest.raises(ProblemError):
        track.track(lambda a: a, [A], accumulator_bits=0)


def test_exact_values_may_be_looked_at():
    def routed(x, experts, route):
        out = torch.zeros(6, 5)
        for e in range(2):
            rows = torch.where(route == e)[0]
            if len(rows):
                out.index_add_(0, rows, x[rows] @ experts[e])
        return out * float(x.sum())

    operands = {"x": A, "experts": draw(2, 8, 5), "route": torch.tensor([0, 1, 1, 0, 1, 1])}
    tracked = track.track(routed, operands)
    assert tracked.share() == 1
    assert "nonzero" in tracked.dynamic
    assert not tracked.unread


def test_liveness_tells_operands_apart():
    tracked = track.track(lambda a, b, c: torch.relu(a @ b) + 0 * c[0, 0], {"a": A, "b": B, "c": draw(2, 2)})
    others = {"a": [draw(6, 8, seed=5)], "b": [draw(8, 5, seed=6)], "c": [draw(2, 2, seed=7)]}
    live = track.liveness(tracked, others)
    rows = {row.name: row for row in live.operands}
    assert rows["a"].live
    assert rows["b"].live
    assert not rows["c"].live
    assert rows["c"].read
    assert rows["c"].cut.name == "mul"
    assert 0.3 < live.share < 1
    assert live.vacuous == ""
    assert live.constant == ()


def test_a_program_whose_signal_is_cut_is_vacuous():
    tracked = track.track(lambda a, b: torch.relu(a @ b - 1000) + 1, {"a": A, "b": B})
    live = track.liveness(tracked, {"a": [draw(6, 8, seed=5)], "b": [draw(8, 5, seed=6)]})
    assert live.vacuous == "no element changes when the operands do; the difference vanishes in operation 3, relu"
    assert live.constant == (0,)
    mean = track.track(lambda x: (y := x.amax(1, keepdim=True)) - y.mean(1, keepdim=True), {"x": A})
    assert "operation 3, sub" in track.liveness(mean, {"x": [draw(6, 8, seed=3)]}).vacuous


def test_the_rounding_of_float64_is_no_sign_of_life():
    tracked = track.track(lambda x: x.cumsum(0)[-1] - x.flip(0).cumsum(0)[-1], {"x": draw(999).double()})
    others = [draw(999, seed=seed).double() / 7 for seed in range(9)]
    assert any(tracked.program.plain({"x": other})[0] != 0 for other in others)
    assert track.liveness(tracked, {"x": others}).share == 0


def test_a_program_where_nothing_is_exact_is_vacuous():
    tracked = track.track(lambda x: torch.exp(x), {"x": A})
    assert track.liveness(tracked, {"x": [A + 1]}).vacuous == "no element is exact"


def test_shapes_that_depend_on_data_are_refused_when_operands_are_redrawn():
    tracked = track.track(lambda x: x[x > 0], {"x": A})
    assert tracked.share() == 1
    with pytest.raises(ProgramError, match="shapes that depend on the values of 'x'"):
        track.liveness(tracked, {"x": [A.abs() + 1]})


@pytest.mark.parametrize("redrawn", [{"y": [A]}, {"x": [A[:2]]}, {"x": [A.double()]}])
def test_an_operand_is_redrawn_in_kind(redrawn):
    with pytest.raises(ProgramError):
        track.liveness(track.track(lambda x: x * 2, {"x": A}), redrawn)


def winograd(x):
    """F(4, 3) on one tile: exact on paper, and with thirds in float32."""
    g = torch.tensor([[1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6], [1 / 24, 1 / 12, 1 / 6],
                      [1 / 24, -1 / 12, 1 / 6], [0, 0, 1]], dtype=x.dtype)
    return g @ x


def test_the_self_check_demotes_what_the_reference_itself_does_not_return():
    class Twofaced:
        """Exact in float64, something else in the target format."""

        def __call__(self, x, w):
            exact = x @ w
            return exact if x.shape[0] != 6 or torch.get_default_dtype() == torch.float64 else exact + winograd(
                torch.ones(3, 1)).sum() * 0 + 1

    tracked = track.track(Twofaced(), [A, B])
    assert tracked.share() == 1
    check = track.self_check(tracked)
    assert not check.agrees
    assert check.outputs[0].algebraic == 30
    assert check.outputs[0].first[0] == (0, 0)
    demoted = check.demote(tracked)
    assert demoted.share() == 0
    assert "the reference itself" in demoted.outputs[0].ended.reason
    assert track.self_check(track.track(lambda a, b: a @ b, [A, B])).demote(tracked) .share() == 1


def test_a_reference_that_cannot_run_in_the_target_format_is_no_error():
    def narrow(x):
        if torch.get_default_dtype() == torch.bfloat16:
            raise RuntimeError("not implemented for 'BFloat16'")
        return x * 2

    check = track.self_check(track.track(narrow, [A.double()], storage="bfloat16"))
    assert not check.agrees
    assert "not implemented" in check.unsupported


def test_importing_the_package_imports_no_torch():
    import subprocess
    import sys

    code = "import sys, zeroulp, zeroulp.track; zeroulp.track.Grade; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_exact_because_an_operand_adds_nothing_to_it_is_not_live():
    tracked = track.track(lambda x, b: x / 3 + b, {"x": torch.tensor([0.0, 0.0, 7.0]), "b": torch.ones(3)})
    assert tracked.outputs[0].grade.tolist() == [0, 0, 2]
    other = torch.tensor([5.0, 6.0, 0.0])
    (mask,) = track.changes(tracked, {"x": other})
    assert mask.tolist() == [True, True, False]
    found = track.liveness(tracked, {"x": [other], "b": [torch.full((3,), 2.0)]})
    assert [row.share for row in found.operands] == [0.0, 1.0]
    tracked = track.track(lambda x, b: x / 3 + b, {"x": torch.tensor([9.0, 0.0, 7.0]), "b": torch.ones(3)})
    found = track.liveness(tracked, {"x": [other]})
    assert [row.share for row in found.operands] == [0.5]
