"""
Sums of products: the same operator on moduli gives the bound.

A formula names the arguments: ``"beta*self + alpha*mat1*mat2"`` says that every element of the result is a sum of
terms, each of which is a product of one element of ``mat1`` and one of ``mat2`` and ``alpha``, or ``beta`` times one of
``self``. Which elements go together does not matter: the operator itself is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zeroulp.arrays import HOST
from zeroulp.track.backend import torch
from zeroulp.track.grades import Grade
from zeroulp.track.rules.base import NOT_EXACT, Rule, unknown
from zeroulp.track.rules.bounds import AtOnce, Bounds, Into
from zeroulp.track.state import State, first_cause, multiplied

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.track.call import Call
    from zeroulp.track.tracker import Tracker

Groups: TypeAlias = "list[tuple[int, list[str]]]"


def parse(formula: str) -> Groups:
    """
    The signed groups of a formula.

    Examples:
        >>> parse("self - alpha*other")
        [(1, ['self']), (-1, ['alpha', 'other'])]
    """
    groups: Groups = []
    sign = 1
    for word in formula.split():
        if word in "+-":
            sign = 1 if word == "+" else -1
        else:
            groups.append((sign, word.split("*")))
    return groups


def multilinear(*formulas: str) -> Rule:
    """
    A rule for operators whose results are sums of products.

    Args:
        formulas: One for every tensor that the operator returns, empty for integers. A group that is one argument alone
            is left out where that is None; in a longer one a factor that is None counts as 1. In a group
            with a minus sign the bound takes the first factor negated, which has to be a number.
    """
    outputs = [parse(formula) for formula in formulas]

    def rule(tracker: Tracker, call: Call) -> Any:
        return evaluate(tracker, call, outputs)

    return rule


def evaluate(
    tracker: Tracker,
    call: Call,
    outputs: list[Groups],
    regrade: Callable[[Any, list[State]], Any] | None = None,
    *,
    into: Into | None = None,
    flat: bool = False,
    at_once: AtOnce | None = None,
) -> Any:
    """
    Apply formulas to a call.

    Args:
        tracker: That sees it.
        call: The call.
        outputs: What each of its results is.
        regrade: What to make of the grades of the (only) result, given the states of the operands.
        into: As of `Bounds`.
        flat: As of `Bounds`.
        at_once: As of `Bounds`.
    """
    names = list(dict.fromkeys(name for groups in outputs for _, group in groups for name in group))
    names = [name for name in names if call.arguments.get(name) is not None]
    if call.doubts(*names) is not None:
        return unknown(tracker, call, "a place depends on a value that is not exact")
    states = {name: call.state(name) for name in names}
    minus = frozenset(group[0] for groups in outputs for sign, group in groups if sign < 0)
    value = call.run(**{name: state.value for name, state in states.items()})
    many = isinstance(value, (tuple, list))
    results, number = list(value) if many else [value], tracker.step()
    sums = _adds_only(call, outputs, states)
    ways: dict[str, Any] = {"into": into, "flat": flat, "at_once": at_once}
    bounds = Bounds(lambda m: _listed(call.run(**m)), states, minus, sums=sums, **ways)
    for i, groups in enumerate(outputs):
        if results[i] is None or not groups:
            continue
        parts = _present(groups, states)
        draft = _sum_of(parts)
        draft.value = results[i]
        draft.dead, reach = any(state.dead for group in parts for state in group), None
        if not draft.dead:
            draft.bound, reach = bounds.of(i, draft.exponent)
            draft.grade = _reached(call, states, groups, i)
            if regrade and draft.grade is not None:
                draft.grade = regrade(draft.grade, list(states.values()))
        results[i] = tracker.settle(call, draft, number=number, reach=reach)
    return tuple(results) if many else results[0]


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _adds_only(call: Call, outputs: list[Groups], states: dict[str, State]) -> bool:
    """Whether no two tensors are multiplied, and no other float64 ones take part."""
    tensors = {name for name, state in states.items() if torch.is_tensor(state.value)}
    single = all(len(tensors.intersection(group)) <= 1 for groups in outputs for _, group in groups)
    return single and len(call.floats) == sum(each.dtype == torch.float64 for each in call.tensors(*states))


def _present(groups: Groups, states: dict[str, State]) -> list[list[State]]:
    found = [[states[name] for name in group if name in states] for _, group in groups]
    return [group for group in found if group]


def _sum_of(parts: list[list[State]]) -> State:
    """What is known of a sum of products before its elements are looked at."""
    products = [multiplied(group) for group in parts]
    draft = products[0]
    for product in products[1:]:
        draft.exponent = min(draft.exponent, product.exponent)
        draft.span = draft.span.beside(product.span)
        draft.leans |= product.leans
    draft.factors, draft.format = None, None
    draft.cause = first_cause([state for group in parts for state in group])
    return draft


def _reached(call: Call, states: dict[str, State], groups: Groups, output: int) -> Any:
    """Grades of one output: not exact where an element that is not algebraic takes part; None if none does."""
    result = None
    used = {name for _, group in groups for name in group}
    for name in used & set(states):
        state = states[name]
        if state.grade is None:
            continue
        changes: dict[str, Any] = {name: (state.grade > 0).to(torch.float64)}
        for other in states.keys() - {name}:
            factor = float(any(name in group and other in group for _, group in groups))
            whole = states[other].value
            changes[other] = torch.full_like(whole, factor) if torch.is_tensor(whole) else factor
        reached = call.run(**changes)
        reached = (reached[output] if isinstance(reached, (tuple, list)) else reached) != 0
        result = reached if result is None else result | reached
    return None if result is None else torch.where(result, NOT_EXACT, 0).to(torch.uint8)


def _keep_rounded(grade: Any, states: list[State]) -> Any:
    """Adding what has no terms changes nothing: what was rounded once stays so."""
    for kept, nothing in (states[:2], states[1::-1]):
        if not kept.clean and nothing.clean and torch.is_tensor(kept.value):
            once = (kept.grades == int(Grade.ROUNDED_ONCE)) & (torch.as_tensor(nothing.bounds) == 0)
            grade = torch.where(once.expand(grade.shape), int(Grade.ROUNDED_ONCE), grade).to(torch.uint8)
    return grade


_SUM, _SUM_SCALED, _DIFFERENCE = parse("self + other"), parse("self + alpha*other"), parse("self - alpha*other")


def _add(moduli: dict[str, Any], out: Any) -> None:
    torch.add(moduli["self"], moduli["other"], alpha=moduli.get("alpha", 1), out=out)


def _subtract(moduli: dict[str, Any], out: Any) -> None:
    torch.sub(moduli["self"], moduli["other"], alpha=moduli["alpha"], out=out)


def _add_at_once(known: dict[str, Any]) -> Any:
    one, other, scale = known["self"], known["other"], known.get("alpha", 1.0)
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)) or isinstance(scale, np.ndarray):
        return None
    return HOST.fused.add_moduli(one, other, float(scale))


def add(tracker: Tracker, call: Call) -> Any:
    """A sum of two."""
    plain = call.arguments["alpha"] == 1
    formula, regrade = (_SUM, _keep_rounded) if plain else (_SUM_SCALED, None)
    return evaluate(tracker, call, [formula], regrade, into=_add, flat=True, at_once=_add_at_once)


def subtract(tracker: Tracker, call: Call) -> Any:
    """A difference: the bound is that of the sum."""
    return evaluate(tracker, call, [_DIFFERENCE], into=_subtract, flat=True, at_once=_add_at_once)


def cumulate(tracker: Tracker, call: Call) -> Any:
    """The sums of the first elements along a dimension."""
    along, dims = call.arguments["dim"], call.arguments["self"].dim()

    def scan(moduli: dict[str, Any], out: Any) -> None:
        torch.cumsum(moduli["self"], along, out=out)

    def scan_at_once(known: dict[str, Any]) -> Any:
        return HOST.fused.cumulate_moduli(known["self"].reshape(-1, known["self"].shape[-1]))

    into, last = scan if dims and along % dims else None, dims > 1 and along % dims == dims - 1
    return evaluate(tracker, call, [parse("self")], into=into, at_once=scan_at_once if last else None)
