"""
What is known of every tensor, kept by the memory that it lies in.

Tensors that share memory share what is known of it, however they came to: a view needs no rule, and what is
written through one is seen through all. Bounds and grades lie in memory of their own, laid out as the values are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zeroulp.track.arithmetic import FLOAT32, promoted
from zeroulp.track.backend import StorageWeakRef, torch, without_modes
from zeroulp.track.dyadic import largest, power, quantum_exponent, quantum_within, rounded
from zeroulp.track.grades import Ending, Grade
from zeroulp.track.state import Span, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from zeroulp.formats import Format
    from zeroulp.track.dyadic import Aside

_SWEEP = 16  # records between two sweeps for memory that is gone


@dataclass
class Shadow:
    """
    What is known of one block of memory.

    Args:
        state: Its bound and grade are flat, one entry for each element.
        dtype: Of its elements.
        looked_at: Whether anything but the format is known yet.
    """

    state: State
    dtype: Any
    looked_at: bool = True


class Ledger:
    """
    The shadows of all memory that is alive.

    Args:
        storage: Format of tensors that have none of their own.
    """

    def __init__(self, storage: Format) -> None:
        self.storage = storage
        self._shadows: dict[int, tuple[Any, Shadow]] = {}
        self._awaited: dict[int, tuple[Any, Callable[[Any], None]]] = {}
        self._records = 0

    def find(self, tensor: Any) -> Shadow | None:
        """The shadow of a tensor's memory, if there is one."""
        key = tensor.untyped_storage()._cdata  # noqa: SLF001
        if key in self._awaited:
            self._enter(key)
        entry = self._shadows.get(key)
        return entry[1] if entry else None

    def later(self, tensor: Any, enter: Callable[[Any], None]) -> None:
        """
        Put off what is to be known of a new tensor till somebody asks: mostly it is gone before.

        Args:
            tensor: In memory of its own.
            enter: Works it out, given the tensor again, and enters it. Nothing that it looks at is written to before
                `catch_up`.
        """
        dtype, device, layout = tensor.dtype, tensor.device, (tensor.storage_offset(), tensor.size(), tensor.stride())

        def again(storage: Any) -> None:
            enter(torch.empty(0, dtype=dtype, device=device).set_(storage, *layout))

        storage = tensor.untyped_storage()
        self._awaited[storage._cdata] = StorageWeakRef(storage), again  # noqa: SLF001

    def catch_up(self) -> None:
        """Enter what was put off; to be called before anything is written to."""
        while self._awaited:
            self._enter(next(iter(self._awaited)))

    def forget(self) -> None:
        """Let go what was put off: nobody asks any more."""
        self._awaited.clear()

    def _enter(self, key: int) -> None:
        reference, enter = self._awaited.pop(key)
        storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)  # noqa: SLF001
        if storage is not None:
            with without_modes(), torch.no_grad():
                enter(storage)

    def format(self, tensor: Any) -> Format:
        """The format that the program stores a float64 tensor in."""
        shadow = self.find(tensor)
        return (shadow.state.format if shadow else None) or self.storage

    def state(self, tensor: Any) -> State:
        """What is known of a tensor; of one that is new: that it is a constant of the program."""
        shadow = self.find(tensor)
        if tensor.is_complex():
            return State(tensor, None, 0, dead=True, cause=_reinterpreted())
        if tensor.dtype != torch.float64:
            return self._integers(tensor, shadow)
        if shadow is None or not shadow.looked_at:
            shadow = self._adopt(tensor)
        if shadow.dtype != tensor.dtype:
            return replace(shadow.state, value=tensor, dead=True, bound=None, grade=None, cause=_reinterpreted())
        known = shadow.state
        bound = None if known.bound is None else _strided(known.bound, tensor)
        return replace(known, value=tensor, bound=bound, grade=_graded(known, tensor))

    def _integers(self, tensor: Any, shadow: Shadow | None) -> State:
        """Integers and truth values are exact, unless they came from something that is not."""
        value = tensor.to(torch.float64)
        state = State(value, None, 0)
        if largest(value) > FLOAT32.exact_integer_limit:
            beyond = value != rounded(value, FLOAT32)  # what becomes of it as a float is open
            state.grade = torch.where(beyond, int(Grade.NOT_EXACT), 0).to(torch.uint8) if beyond.any() else None
            state.cause = Ending(0, "an integer", f"it is none of {FLOAT32}")
        if shadow is None:
            return state
        if shadow.dtype != tensor.dtype:
            return replace(state, dead=True, cause=_reinterpreted())
        known, grade = shadow.state, _graded(shadow.state, tensor)
        if grade is not None and state.grade is not None:
            grade = torch.maximum(grade, state.grade)
        grade = state.grade if grade is None else grade
        return replace(state, grade=None if known.dead else grade, dead=known.dead, cause=known.cause or state.cause)

    def doubtful(self, tensor: Any) -> State | None:
        """What is known of a tensor that has elements that are not algebraic; None if all are."""
        shadow = self.find(tensor)
        if tensor.dtype != torch.float64 and (shadow is None or (shadow.dtype == tensor.dtype and shadow.state.clean)):
            return None
        return None if (state := self.state(tensor)).clean else state

    def look(self, tensor: Any, aside: Aside) -> None:
        """Take a tensor of float64 that is new for a constant now, if *aside* can be given all of it on the way."""
        shadow = self.find(tensor)
        if (shadow is None or not shadow.looked_at) and tensor.is_contiguous() and _covers(tensor):
            self._adopt(tensor, aside)

    def _adopt(self, tensor: Any, aside: Aside | None = None) -> Shadow:
        flat = _memory(tensor)
        format_ = self.format(tensor)
        exponent, within = quantum_within(flat, lambda e: min(format_.max_finite, power(e + format_.precision)), aside)
        state = State(None, None, exponent, format=format_, stored=format_)
        if exponent < format_.emin or not within:
            tiny = (flat.abs() < format_.min_normal) & (flat != 0)  # which a kernel may take for 0
            misfit = (flat != rounded(flat, format_)) | tiny  # as NaN does, which some choices drop and some keep
            if misfit.any():
                count, reason = int(misfit.sum()), f"it holds numbers that are no normal ones of {format_}"
                state.cause = Ending(0, "a constant", reason, count)
                state.grade = torch.where(misfit, int(Grade.NOT_EXACT), 0).to(torch.uint8)
                state.exponent = quantum_exponent(torch.where(misfit, 0.0, flat))
        state.span = Span.of(state.exponent)
        return self._keep(tensor, state)

    def _keep(self, tensor: Any, state: State, *, looked_at: bool = True) -> Shadow:
        storage = tensor.untyped_storage()
        shadow = Shadow(state, tensor.dtype, looked_at)
        self._shadows[storage._cdata] = (StorageWeakRef(storage), shadow)  # noqa: SLF001
        self._awaited.pop(storage._cdata, None)  # noqa: SLF001
        for key in [key for key, (reference, _) in self._awaited.items() if reference.expired()]:
            del self._awaited[key]
        self._records += 1
        if self._records % _SWEEP == 0:
            gone = [key for key, (reference, _) in self._shadows.items() if reference.expired()]
            for key in gone:
                del self._shadows[key]
        return shadow

    def name_format(self, tensor: Any, format_: Format | None) -> None:
        """Say in which format the program stores a new tensor, nothing else being known of it."""
        self._keep(tensor, State(None, None, 0, format=format_), looked_at=False)

    def rename_format(self, tensor: Any, format_: Format) -> None:
        """Say that the program takes a tensor to be in another format; its numbers stay."""
        if (shadow := self.find(tensor)) is not None:
            shadow.state.format, shadow.state.stored = format_, None

    def record(self, tensor: Any, state: State) -> None:
        """
        Enter what is known of a new tensor.

        Args:
            tensor: In memory of its own.
            state: Its bound and grade are the ledger's from now on: nothing else may write there.
        """
        bound = None if state.bound is None or state.dead else _flat(state.bound, tensor, state.bound.dtype)
        grade = None if state.grade is None else _flat(state.grade, tensor, torch.uint8)
        self._keep(tensor, replace(state, value=None, bound=bound, grade=grade))

    def write(self, tensor: Any, state: State) -> None:
        """
        Enter what is known of a tensor whose elements have just been overwritten.

        Args:
            tensor: Part of the memory, or all of it; its format stays.
            state: Of the new elements.
        """
        shadow = self.find(tensor)
        if tensor.dtype != torch.float64 and shadow is None and state.clean:
            return
        if _covers(tensor) and 0 not in tensor.stride():
            format_ = shadow.state.format if shadow else None
            shape = tensor.shape
            bound = None if state.bound is None else state.bound.expand(shape).clone()
            grade = None if state.grade is None else state.grade.expand(shape).clone()
            self.record(tensor, replace(state, bound=bound, grade=grade, format=format_ or state.format))
            return
        if shadow is None or (tensor.dtype == torch.float64 and not shadow.looked_at):
            shadow = self._adopt(tensor) if tensor.dtype == torch.float64 else self._keep(tensor, State(None, None, 0))
        if shadow.dtype != tensor.dtype:
            shadow.state = replace(shadow.state, dead=True, bound=None, grade=None, cause=_reinterpreted())
            return
        _merge(shadow, tensor, state)

    def spoil(self, tensor: Any, cause: Ending | None) -> None:
        """Enter that no element of a tensor's memory is exact."""
        self._keep(tensor, State(None, None, 0, dead=True, format=self._format_of_any(tensor), cause=cause))

    def _format_of_any(self, tensor: Any) -> Format | None:
        return self.format(tensor) if tensor.dtype == torch.float64 else None

    def promoted(self, tensors: list[Any]) -> Format | None:
        """The format of a result of these tensors; tensors without dimensions count if there are no others."""
        floats = [tensor for tensor in tensors if tensor.dtype == torch.float64]
        return promoted(self.format(tensor) for tensor in [t for t in floats if t.dim()] or floats)


def _merge(shadow: Shadow, tensor: Any, new: State) -> None:
    """A part of the memory is now what *new* says."""
    old, n = shadow.state, tensor.untyped_storage().nbytes() // tensor.element_size()
    if old.dead and new.dead:
        return
    if old.dead or not new.clean or old.grade is not None:
        worst = int(Grade.NOT_EXACT) if old.dead else 0
        if old.grade is None:
            old.grade = torch.full((n,), worst, dtype=torch.uint8, device=tensor.device)
        _strided(old.grade, tensor).copy_(new.grades)
    if tensor.dtype == torch.float64 and (old.bound is not None or not new.single):
        old.bound = _memory(tensor).abs() if old.bound is None else old.bound.to(torch.float64)
        _strided(old.bound, tensor).copy_(torch.as_tensor(new.bounds))
    if old.dead:
        old.exponent, old.span, old.factors, old.dead = new.exponent, new.span, new.factors, False
    elif not new.dead:
        old.exponent, old.span = min(old.exponent, new.exponent), old.span.beside(new.span)
        several = old.factors is None or new.factors is None
        old.factors = None if several else max(old.factors or 0, new.factors or 0)
    old.stored = old.stored if old.stored is new.stored else None
    old.leans |= new.leans
    if new.cause is not None and (old.cause is None or new.cause.number < old.cause.number):
        old.cause = new.cause


def _reinterpreted() -> Ending:
    return Ending(0, "a view of another type", "the bits of a number are read as something else")


def _graded(known: State, tensor: Any) -> Any:
    """The grades of one tensor; None if all of its elements are algebraic, or none is exact."""
    if known.grade is None or known.dead:
        return None
    grade = _strided(known.grade, tensor)
    return grade if grade.any() else None


def _covers(tensor: Any) -> bool:
    """Whether a tensor has as many elements as its memory."""
    return bool(tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size())


def _memory(tensor: Any) -> Any:
    """All of the memory that a tensor lies in."""
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())


def _strided(flat: Any, tensor: Any) -> Any:
    return torch.as_strided(flat, tensor.size(), tensor.stride(), tensor.storage_offset())


def _flat(part: Any, tensor: Any, dtype: Any) -> Any:
    """A block laid out as the tensor's memory is, that holds *part* where the tensor lies."""
    n = tensor.untyped_storage().nbytes() // tensor.element_size()
    same = part.stride() == tensor.stride() and part.storage_offset() == tensor.storage_offset() == 0
    if same and part.dtype == dtype and part.untyped_storage().nbytes() == n * part.element_size():
        return torch.as_strided(part, (n,), (1,), 0)
    block = torch.zeros(n, dtype=dtype, device=tensor.device)
    _strided(block, tensor).copy_(part)
    return block
