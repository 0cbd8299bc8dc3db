"""
The mode that tracks: every operator runs in float64, and its rule says what is known of the result.

What no rule settles is not exact, and named.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ProgramError
from zeroulp.track.backend import torch
from zeroulp.track.call import Call, tensors_in
from zeroulp.track.factories import FACTORIES, make
from zeroulp.track.grades import Ending, Grade, Operation
from zeroulp.track.modes import Float64Mode, is_view
from zeroulp.track.mutation import mutate
from zeroulp.track.settling import Lose, fit_sums, rebase, store, widen_rounded
from zeroulp.track.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zeroulp.track.arithmetic import Arithmetic
    from zeroulp.track.rules import Rule

_DYNAMIC, _READS = torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output
_DECIDING = {
    "index": ("indices",),
    "masked_select": ("mask",),
    "bincount": ("self",),
}  # which arguments a shape depends on; else all


class Tracker(Float64Mode):
    """
    Tracks one run of a program.

    Args:
        arithmetic: What a correct kernel computes with.
        rules: By the operator's name: what becomes of a call.
        digest: Whether operations keep a digest of their results.

    Attributes:
        operations: All that computed anything, in order.
        endings: Where exact elements ceased to be, in order.
        unknown: Operators that no rule is for, with the number of the first one.
        dynamic: Operators whose result's shape depended on data, likewise.
        divisors: Numbers other than powers of two that exact numbers were divided by.
        seen: Blocks of memory that an operator looked at the elements of, with the number of the first one.
    """

    def __init__(self, arithmetic: Arithmetic, rules: Mapping[str, Rule], *, digest: bool = False) -> None:
        super().__init__(arithmetic.storage)
        self.arithmetic = arithmetic
        self.rules = rules
        self.digest = digest
        self.number = 0
        self.operations: list[Operation] = []
        self.endings: list[Ending] = []
        self.unknown: dict[str, int] = {}
        self.dynamic: dict[str, int] = {}
        self.divisors: set[float] = set()
        self.seen: dict[int, int] = {}

    def handle(self, call: Call) -> Any:
        """Run an operator, and enter what is known of its result."""
        if call.name in FACTORIES:
            return make(self, call)
        if call.func._schema.is_mutable:  # noqa: SLF001
            self.see(*call.tensors())
            self.ledger.catch_up()
            return mutate(self, call)
        if is_view(call.func):
            return call.run()
        self.see(*call.tensors())
        if _READS in call.func.tags:
            for tensor in call.tensors():
                self.read(tensor)
            return call.run()
        self._look_at_shapes(call)
        if any(tensor.is_complex() for tensor in call.tensors()):
            return self._lifeless(call, "complex numbers are not tracked")
        rule = self.rules.get(call.name)
        floats = call.floats
        if rule and floats and all(self._dead(tensor) for tensor in floats):
            return self._lifeless(call)
        if floats:
            return self._ruled(call, rule) if rule else self._unruled(call)
        return self._without_floats(call, rule)

    def _ruled(self, call: Call, rule: Rule) -> Any:
        """What a rule makes of a call; results that it enters nothing of are not exact."""
        result = rule(self, call)
        forgotten = [t for t in tensors_in(result) if t.dtype == torch.float64 and self.ledger.find(t) is None]
        if forgotten:
            self.give_up(call, forgotten, "its rule says nothing of the result")
        return result

    def see(self, *tensors: Any) -> None:
        """Note that the elements of these tensors were looked at."""
        for tensor in tensors:
            self.seen.setdefault(tensor.untyped_storage()._cdata, self.number + 1)  # noqa: SLF001

    def _without_floats(self, call: Call, rule: Rule | None) -> Any:
        """Integers and truth values: exact, unless they came from something that is not."""
        result = call.run()
        doubt = call.doubts()
        made_floats = any(tensor.dtype == torch.float64 for tensor in tensors_in(result))
        if made_floats and rule:
            return self._ruled(call, rule)
        if made_floats or doubt:
            self.give_up(call, result, "an operator that is not in the table")
        return result

    def _dead(self, tensor: Any) -> bool:
        shadow = self.ledger.find(tensor)
        return shadow is not None and shadow.state.dead

    def _lifeless(self, call: Call, reason: str = "not exact") -> Any:
        """An operator on tensors none of whose elements are exact."""
        result = call.run()
        self.give_up(call, result, reason)
        return result

    def _unruled(self, call: Call) -> Any:
        """An operator of which nothing is known but how it is composed, if it is."""
        with self.part_of(call), self:
            result = call.decompose()
        if result is not NotImplemented:
            return result
        self.unknown.setdefault(call.label, self.number + 1)
        result = call.run()
        self.give_up(call, result, "an operator that is not in the table")
        return result

    def give_up(self, call: Call, result: Any, reason: str) -> None:
        """Enter that no result of a call is exact; *reason*, if its operands were."""
        number = self.step()
        tensors = list(tensors_in(result))
        states = [self.ledger.state(tensor) for tensor in call.floats]
        doubt = call.doubts()
        causes = [state.cause for state in [*states, doubt] if state and state.cause and not state.clean]
        cause = min(causes, key=lambda cause: cause.number, default=None)
        if cause is None or not all(state.dead for state in states):  # something ends here
            ending = Ending(number, call.label, reason, sum(tensor.numel() for tensor in tensors))
            self.endings.append(ending)
            cause = cause or ending
        for tensor in tensors:
            if tensor.dtype == torch.float64:
                self.ledger.name_format(tensor, call.result_format())
            self.ledger.spoil(tensor, cause)
            digest = _digest(tensor) if self.digest else None
            self.operations.append(Operation(number, call.label, tuple(tensor.shape), 0.0, digest=digest))

    def step(self) -> int:
        """The number of the next operation."""
        self.number += 1
        return self.number

    def settle(
        self,
        call: Call,
        draft: State,
        *,
        arithmetic: bool = True,
        number: int | None = None,
        reach: float | None = None,
    ) -> Any:
        """
        Enter what is known of a result, once sums and storage have had their say.

        Args:
            call: That gave it.
            draft: Its value, in memory of its own, and what follows from the operands. Changed in place.
            arithmetic: Whether anything was added or multiplied.
            number: Of the operation, where it has been counted already.
            reach: The largest of all bounds, where it is known.

        Returns:
            The value, as the tensor that the program goes on with.
        """
        number = self.step() if number is None else number
        draft.format = draft.format or call.result_format() or self.ledger.storage
        bits = None
        if not draft.dead:
            lose = self.loser(call, draft, number)
            widen_rounded(draft, [self.ledger.format(tensor) for tensor in call.floats])
            if arithmetic:
                draft.stored = None
                bits = fit_sums(draft, self.arithmetic, lose, reach)
            store(draft, self.arithmetic, lose, bits)
            if not self.arithmetic.refactored:
                rebase(draft)
        self._log(call, draft, number, bits)
        self.ledger.record(draft.value, draft)
        return draft.value

    def loser(self, call: Call, draft: State, number: int) -> Lose:
        """How elements of a draft that were algebraic cease to be."""

        def lose(mask: Any, reason: str, grade: Grade = Grade.NOT_EXACT, *, bits: float | None = None) -> None:
            count = int(mask.sum())
            if count:
                ending = Ending(number, call.label, reason, count, bits)
                self.endings.append(ending)
                draft.cause = draft.cause or ending
                draft.grade = torch.where(mask, int(grade), draft.grades).to(torch.uint8)

        return lose

    def _log(self, call: Call, draft: State, number: int, bits: float | None) -> None:
        """Note the operation, and whether anything exact is left."""
        value, share, constant, exact = draft.value, 1.0, None, None
        if draft.dead:
            share = 0.0
        elif draft.grade is not None and value.numel():
            exact = draft.grade == int(Grade.ALGEBRAIC)
            share = float(exact.sum()) / value.numel()
            draft.dead = bool((draft.grade == int(Grade.NOT_EXACT)).all())
        if share and value.numel() > 1:
            constant = _constant(value, None if share == 1.0 else exact)
        digest = _digest(draft.value) if self.digest else None
        self.operations.append(Operation(number, call.label, tuple(draft.value.shape), share, bits, constant, digest))
        if draft.dead:
            draft.bound = draft.grade = None

    def integers(self, tensor: Any, grade: Any, states: list[State], number: int | None = None) -> None:
        """
        Enter the grades of a result of integers or truth values.

        Args:
            tensor: The result.
            grade: 0 where it is the same for every correct kernel, else 2; None: 0 everywhere.
            states: Of the operands.
            number: Of the operation; None: the last one.
        """
        if grade is not None and grade.any():
            causes = [state.cause for state in states if state.cause and not state.clean]
            cause = min(causes, key=lambda cause: cause.number, default=None)
            number = self.number if number is None else number
            cause = cause or Ending(number, "a choice", "operands are equal, so the place that is chosen is open")
            self.ledger.record(tensor, State(None, None, 0, grade=grade.to(torch.uint8), cause=cause))

    @contextlib.contextmanager
    def part_of(self, call: Call) -> Iterator[None]:
        """Operators called within belong to this one."""
        before, self.prefix = self.prefix, f"{call.label}/"
        try:
            yield
        finally:
            self.prefix = before

    def _look_at_shapes(self, call: Call) -> None:
        """A shape that depends on data is known while these are exact; else nobody knows it."""
        if _DYNAMIC in call.func.tags:
            deciding = call.tensors(*_DECIDING.get(call.name, ()))
            if call.name != "index" or any(tensor.dtype in {torch.bool, torch.uint8} for tensor in deciding):
                self.dynamic.setdefault(call.label, self.number + 1)
                for tensor in deciding:
                    self._refuse_doubt(tensor, call.label, "a shape depends on it")

    def read(self, tensor: Any) -> None:
        """Raise if a value that the program looks at in Python is not the same for every correct kernel."""
        self.see(tensor)
        self._refuse_doubt(tensor, "Python", "what is computed next may depend on it")

    def _refuse_doubt(self, tensor: Any, where: str, effect: str) -> None:
        state = self.ledger.doubtful(tensor)
        if state is not None:
            cause = state.cause
            raise ProgramError(
                f"the reference looks at a value that is not exact, in {where}: {effect}",
                where=cause.sentence() if cause else "",
                why="correct kernels may differ in that value, and so in all that follows",
                do="choose operands for which it is exact, or compute without looking at values",
            )


def _constant(values: Any, exact: Any = None) -> bool:
    """Whether all elements, or those that are exact, are one number: a look at a few of them mostly tells."""
    for place in ((slice(0, 4),) * values.dim(), ...):
        some = values[place] if exact is None else values[place][exact[place]]
        if some.numel():
            least, most = torch.aminmax(some)
            if bool(least != most):
                return False
    return True


def _digest(value: Any) -> tuple[float, float, float]:
    if not value.numel():
        return 0.0, 0.0, 0.0
    numbers = value.to(torch.float64)
    return float(numbers.min()), float(numbers.max()), float(numbers.sum())
