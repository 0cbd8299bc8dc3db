"""Where a run first differs from what is exact, and which clause of a contract says that it may."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from zeroulp import track
from zeroulp.track import Grade
from zeroulp.track.rules import TABLE
from zeroulp.track.tracker import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agreement_settings import Setting

    from zeroulp.track import Tracked
    from zeroulp.track.call import Call

    Run = Callable[[Setting], Sequence[Any]]

IN_PLACE = {
    "col2im", "index_add", "scatter_add", "scatter_reduce", "index_put", "_unsafe_index_put", "cumsum",
    "unfold_backward", "_embedding_bag", "_embedding_bag_forward_only", "_embedding_bag_dense_backward",
    "embedding_dense_backward", "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward",
    "avg_pool2d_backward", "avg_pool3d_backward",
}  # fmt: skip
"""Operators that PyTorch adds up in the memory of their result, in its format."""

CONVOLUTIONS = {"convolution", "convolution_backward", "_convolution", "cudnn_convolution", "mkldnn_convolution"}


@dataclass(frozen=True)
class Difference:
    """
    How a run differs from what is exact.

    Args:
        output: Of the program, counted from 0.
        count: How many elements that are graded differ.
        algebraic: How many of them are algebraic.
        leaning: Whether these lean on a division.
        example: The first: place, what it should be, what it is.
    """

    output: int
    count: int
    algebraic: int
    leaning: bool
    example: str


def exact_elements(tracked: Tracked) -> tuple[int, int]:
    """How many elements are algebraic, and how many are rounded once."""
    grades = [output.grade for output in tracked.outputs]
    return tuple(sum(int((grade == int(which)).sum()) for grade in grades) for which in (0, 1))  # type: ignore[return-value]


def differences(tracked: Tracked, returned: Sequence[Any]) -> list[Difference]:
    """
    Of each output that has any. +0 and -0 are equal, and so are all NaN.

    Raises:
        ValueError: If there are other outputs, or of other shapes.
    """
    shapes = [[tuple(t.shape) for t in ts] for ts in ([o.values for o in tracked.outputs], returned)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"it returns shapes {shapes[1]}, not {shapes[0]}")
    found = []
    for number, (output, tensor) in enumerate(zip(tracked.outputs, returned, strict=True)):
        wrong = _wrong(output.values, output.grade, tensor)
        if not bool(wrong.any()):
            continue
        worst = wrong & (output.grade == int(Grade.ALGEBRAIC))
        place = tuple(int(i) for i in (worst if bool(worst.any()) else wrong).nonzero()[0])
        example = f"{list(place)}: {float(tensor[place]):.9g}, not {float(output.values[place]):.9g}"
        found.append(Difference(number, int(wrong.sum()), int(worst.sum()), bool(output.leans), example))
    return found


def _wrong(values: Any, grade: Any, found: Any) -> Any:
    """Which elements of a grade that has bits differ."""
    wide = found.detach().to(device="cpu", dtype=values.dtype)
    same = values == wide
    if values.is_floating_point():
        same |= torch.isnan(values) & torch.isnan(wide)
    return ~same & (grade < int(Grade.NOT_EXACT))


def clause(tracked: Tracked, setting: Setting, where: str, storage: str, run: Run) -> str:
    """
    The clause of a contract under which an element with a grade may differ; empty: there is none.

    Args:
        tracked: The program, with sums in float32 or what the setting allows.
        setting: In which it differs.
        where: The operation that differs first, or all that a compiler may have merged.
        storage: Format of intermediates.
        run: Runs it in another setting.
    """
    names = set(where.split(", "))
    convolves = any(each.name.rpartition("/")[2] in CONVOLUTIONS for each in tracked.operations)
    if setting.device != "cpu" and setting.cudnn and convolves:
        without = replace(setting, cudnn=False)
        if not differences(tracked, run(without)):
            return "algorithm: right without cuDNN (Winograd, FFT: other products); the self-check demotes it"
    narrow = names & IN_PLACE or (names & CONVOLUTIONS and not (setting.one_dnn and setting.cudnn))
    program = tracked.program
    if storage != "float32" and narrow and program.arithmetic.accumulate is not None:
        loose = track.track(program.reference, program.operands, storage=storage, accumulate="any")
        if not differences(loose, run(setting)):
            return f'accumulate="any": PyTorch keeps sums of {", ".join(sorted(names))} in {storage}'
    return ""


class _Noted(Tracker):
    """A tracker that notes what each operator returned, and how exact that is."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.noted: list[tuple[str, Any, Any]] = []

    def handle(self, call: Call) -> Any:
        """Run it, and note its result."""
        result = super().handle(call)
        if not self.prefix and isinstance(result, torch.Tensor) and result.dtype == torch.float64:
            grades = self.ledger.state(result).grades.reshape(result.shape)
            self.noted.append((call.name.rstrip("_"), result.clone(), grades.clone()))
        return result


class _Seen(TorchDispatchMode):
    """Notes what each operator returned."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            name = func._schema.name.partition("::")[2].rstrip("_")  # noqa: SLF001
            self.noted.append((name, result.detach().to("cpu", torch.float64, copy=True)))
        return result


def first_operation(tracked: Tracked, run: Callable[[], Any]) -> str:
    """
    The first operator whose result differs in an element with a grade; empty if none is found.

    Args:
        tracked: The program.
        run: Runs it the way that differs, without a compiler.
    """
    tracker = _Noted(tracked.program.arithmetic, TABLE)
    tracked.program.run(tracker, tracked.program.fresh())
    with _Seen() as seen:
        run()
    ours, theirs = [each[0] for each in tracker.noted], [each[0] for each in seen.noted]
    for i, j, length in SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks():
        for step in range(length):
            name, values, grades = tracker.noted[i + step]
            found = seen.noted[j + step][1]
            if found.shape == values.shape and bool(_wrong(values, grades, found).any()):
                return name
    return ""
