"""Every operator of the table, in a program of its own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.track.programs import PROGRAMS, A, distinct, draw
from zeroulp import track
from zeroulp.errors import ProgramError, UsageError
from zeroulp.track.rules import TABLE
from zeroulp.track.tracker import Tracker

STORAGES = ("float32", "float16", "bfloat16")
IDS = [f"{i}-{'-'.join(names)[:40]}" for i, (names, _, _) in enumerate(PROGRAMS)]


@pytest.fixture
def called(monkeypatch):
    """Names of the operators whose rules are asked."""
    names = set()
    handle = Tracker.handle

    def noted(self, call):
        names.add(call.name)
        return handle(self, call)

    monkeypatch.setattr(Tracker, "handle", noted)
    return names


def test_every_operator_of_the_table_has_a_program():
    assert set(TABLE) == {name for names, _, _ in PROGRAMS for name in names}


@pytest.mark.parametrize("names, reference, operands", PROGRAMS, ids=IDS)
def test_an_operator_is_exact_on_small_integers(called, names, reference, operands):
    tracked = track.track(reference, operands)
    assert set(names) <= called
    assert not tracked.unknown
    assert tracked.share() > 0.9
    assert all(output.values.numel() for output in tracked.outputs)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("names, reference, operands", PROGRAMS, ids=IDS)
def test_pytorch_itself_returns_what_is_exact(names, reference, operands, storage):
    operands = [x.double() if x.is_floating_point() else x for x in operands]
    tracked = track.track(reference, operands, storage=storage)
    check = track.self_check(tracked)
    if check.unsupported and storage != "float32":
        pytest.skip(check.unsupported)
    assert check.agrees, (check.unsupported, [output.first for output in check.outputs])
    assert not any(output.rounded_once for output in check.outputs)


@pytest.mark.parametrize("names, reference, operands", PROGRAMS, ids=IDS)
def test_nothing_of_what_is_not_exact_comes_out_exact(names, reference, operands):
    """One operand's elements all pass a function that no rule is for: what depends on them is not exact."""
    place = next(i for i, x in enumerate(operands) if x.is_floating_point())

    def spoilt(*given):
        given = list(given)
        given[place] = torch.exp2(given[place])
        return reference(*given)

    if "nonzero" in names:  # its shape would depend on what is not exact
        with pytest.raises(ProgramError):
            track.track(spoilt, operands)
        return
    tracked = track.track(spoilt, operands)
    for i, output in enumerate(tracked.outputs):
        other = track.track(reference, _redrawn(operands, place)).outputs[i]
        first = track.track(reference, operands).outputs[i]
        if other.values.shape == first.values.shape:
            moved = (other.values != first.values) & (output.grade == 0)
            assert not moved.any()


def _redrawn(operands, place):
    others = list(operands)
    others[place] = others[place] * 2 + 1
    return others


@pytest.mark.parametrize("names, reference, operands", PROGRAMS, ids=IDS)
def test_the_bound_is_that_of_moduli_and_the_quantum_divides(names, reference, operands):
    tracked = track.track(reference, operands)
    for output in tracked.outputs:
        if output.format is None or output.quantum_exponent is None:
            continue
        exact = output.grade == 0
        values, bounds = output.values[exact], output.bound[exact]
        assert (values.abs() <= bounds).all()
        assert (values == (values / 2.0**output.quantum_exponent).round() * 2.0**output.quantum_exponent).all()


def test_ties_leave_places_open():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [4.0, 1.0, 2.0, 3.0]])
    for of in (lambda x: x.argmax(1), lambda x: x.max(1)[1], lambda x: x.topk(1, 1)[1][:, 0], lambda x: x.sort(1)[1][:, -1]):
        grade = track.track(of, [x]).outputs[0].grade
        assert grade.tolist() == [2, 0]
    pooled = track.track(lambda x: torch.nn.functional.max_pool2d(x[None], (1, 4), return_indices=True), [x])
    assert pooled.outputs[0].share(track.Grade.ALGEBRAIC) == 1
    assert pooled.outputs[1].grade.flatten().tolist() == [2, 0]


def test_the_gradient_of_a_maximum_with_ties_is_open():
    def reference(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(torch.nn.functional.max_pool2d(x, 2).sum(), x)[0]

    assert track.track(reference, [torch.zeros(1, 1, 4, 4)]).share() == 0
    assert track.track(reference, [distinct(1, 1, 4, 4)]).share() == 1


def test_an_assignment_to_one_place_twice_is_open():
    index = torch.tensor([1, 1, 3])
    written = track.track(lambda a, v, i: a.index_put((i,), v), [A, draw(3, 8), index]).outputs[0]
    assert written.grade.amax(1).tolist() == [0, 2, 0, 0, 0, 0]
    assert track.track(lambda a, v, i: a.index_copy(0, i, v), [A, draw(3, 8), index]).outputs[0].grade[1].min() == 2
    scattered = track.track(lambda a, v, i: a.scatter(0, i[:, None].expand(3, 8), v), [A, draw(3, 8), index])
    assert scattered.outputs[0].grade.amax(1).tolist() == [0, 2, 0, 0, 0, 0]
    added = track.track(lambda a, v, i: a.index_put((i,), v, accumulate=True), [A, draw(3, 8), index])
    assert added.share() == 1


def test_a_place_that_is_not_exact_spoils_what_is_found_there():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [4.0, 1.0, 2.0, 3.0]])
    found = track.track(lambda x: x.gather(1, x.argmax(1, keepdim=True)), [x]).outputs[0]
    assert found.grade.flatten().tolist() == [2, 0]
    assert track.track(lambda x: x[:, x.argmax(1)], [x]).share() == 0


def test_a_division_holds_both_ways_or_not_at_all():
    sums = torch.arange(1.0, 4096.0)[:, None].expand(-1, 41)
    tracked = track.track(lambda x: x.mean(1), [sums])
    exact = tracked.outputs[0].grade == 0
    reciprocal = (sums[:, 0] * 41 * (torch.ones(()) / 41)) == sums[:, 0]
    assert torch.equal(exact, reciprocal)
    assert 0.5 < exact.float().mean() < 1
    assert tracked.outputs[0].leans == {"division"}
    assert not track.track(lambda x: x.mean(1), [draw(4, 8)]).outputs[0].leans


def test_an_operator_from_outside_can_be_added():
    def reference(x):
        return torch.special.entr(x)

    assert track.track(reference, [A]).unknown == {"special_entr": 1}
    try:
        track.register("special_entr", track.pointwise(keeps_rounded=False))
        assert track.track(reference, [A]).share() == 1
        with pytest.raises(UsageError, match="has a rule"):
            track.register("special_entr", track.structural("self"))
        track.register("special_entr", track.structural("self"), replace=True)
    finally:
        del TABLE["special_entr"]


def test_an_operator_composed_of_others_needs_no_line():
    with torch.inference_mode():
        tracked = track.track(lambda x, w: torch.nn.functional.linear(x, w), [A, draw(5, 8)])
    assert "linear" not in TABLE
    assert tracked.share() == 1


def test_an_unknown_operator_is_named_and_never_guessed():
    tracked = track.track(lambda x: torch.exp(x) + torch.zeros_like(x), [torch.zeros(3, 4)])
    assert tracked.unknown == {"exp": 1}
    assert tracked.share() == 0
    assert tracked.outputs[0].ended.sentence() == "operation 1, exp: an operator that is not in the table"
    assert track.track(lambda x: torch.signbit(x), [A]).share() == 0
