"""
Problems of KernelBench at full size, tracked on a device: exact, and live?

How a problem is drawn is found at reduced shapes; at full size its inputs have as many fewer non-zeros as its longer
sums ask for. Drawn by PyTorch on the device, at places that are random there.
"""

from __future__ import annotations

import gc
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from agreement_settings import Setting
from kernelbench_problems import Shrunk, full_size, load
from torch.utils._python_dispatch import TorchDispatchMode

from zeroulp import track
from zeroulp.checks.footprint import available_bytes
from zeroulp.sample import Drawing, Kind, draws
from zeroulp.sample.coverage import Coverage, coverage_of
from zeroulp.track import Grade

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zeroulp.problem import Tensor

WIDE, GIB = 8, 1 << 30
COPIES = 6
"""Float64 tensors as large as the largest result that tracking holds: two results, bounds, what is tried on them."""
HELD = 3
"""Of an operand: in float64, its moduli, and what is tried on it."""
MARGIN = 0.95  # of the memory that is free
TRIES = 4


@dataclass(frozen=True)
class Task:
    """A problem by its file, and where it is tracked; *seconds*: for its strategies at reduced shapes."""

    level: int
    number: int
    path: str
    storage: str
    device: str
    seconds: float


@dataclass(frozen=True)
class Full:
    """
    What became of one problem at full size.

    Args:
        verdict: ``"exact"``, ``"partly"``, ``"vacuous"``, ``"prefix"``, ``"too large"``, ``"out of memory"`` or, said
            by whoever waits for it, ``"failed"``.
        elements: Of all operands.
        gib: Memory that it takes, by estimate.
        share: Of the elements that are exact.
        live: Of these, that change with the inputs.
        strategy: Its name, and how many elements of an input there are for each that is not zero.
        own: What the problem's own code returns in that format, there.
        note: Where exactness ends.
        seconds: All told.
    """

    verdict: str
    elements: int = 0
    gib: float = 0.0
    share: float = 0.0
    live: float = 0.0
    strategy: str = ""
    own: str = ""
    note: str = ""
    seconds: float = 0.0


def measured(task: Task) -> Iterator[Full]:
    """One problem; yields one `Full`."""
    start = time.monotonic()
    torch.set_num_threads(2)
    small = load(Path(task.path), task.storage)
    best = draws(small.reference, small.operands, storage=task.storage, seconds=task.seconds)[0]
    problem = full_size(Path(task.path), task.storage, small)
    elements = sum(tensor.size for tensor in problem.operands)
    _forget(task.device)
    gib, free = needed(problem) / GIB, free_on(task.device) / GIB
    found = Full("too large", elements, gib, note=f"it takes about {gib:.0f} GiB, and {free:.0f} are free")
    if gib <= MARGIN * free:
        try:
            pairs = zip(best.drawings, problem.operands, strict=True)
            found = _tracked(task, problem, [replace(drawing, tensor=tensor) for drawing, tensor in pairs])
        except (RuntimeError, MemoryError) as error:
            if not isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)) and "memory" not in str(error):
                raise
            found = Full("out of memory", note=f"about {gib:.0f} GiB were not enough; {free:.0f} were free")
    name = f"{best.name}{found.strategy}"
    yield replace(found, elements=elements, gib=gib, strategy=name, seconds=time.monotonic() - start)


def needed(problem: Shrunk) -> float:
    """Bytes that tracking takes: operands as stored and in float64, and the largest result, a few times each."""
    sizes = _Sizes()
    given = [torch.empty(t.shape, dtype=_dtype(t), device="meta") for t in problem.operands]
    try:
        with torch.no_grad(), torch.device("meta"), sizes:
            problem.reference(*given)
    except (RuntimeError, NotImplementedError):  # what looks at values does not run on shapes alone
        sizes.largest = max(sizes.largest, *(t.size for t in problem.operands))
    stored = sum(t.size * _dtype(t).itemsize for t in problem.operands)
    return stored + WIDE * (HELD * sum(t.size for t in problem.operands) + COPIES * sizes.largest)


def free_on(device: str) -> float:
    """Bytes."""
    return float(torch.cuda.mem_get_info()[0] if device != "cpu" else available_bytes() or math.inf)


class _Sizes(TorchDispatchMode):
    """Sees how many elements the largest result has."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        for leaf in torch.utils._pytree.tree_leaves(result):  # noqa: SLF001
            if torch.is_tensor(leaf):
                self.largest = max(self.largest, leaf.untyped_storage().nbytes() // leaf.element_size())
        return result


def _dtype(tensor: Tensor) -> Any:
    return getattr(torch, tensor.format)


def _smallest(drawing: Drawing) -> Drawing:
    """The drawing of the smallest numbers."""
    return replace(drawing, magnitude=drawing.magnitude if drawing.kind in {Kind.POWERS, Kind.DISTINCT} else 1)


def _tracked(task: Task, problem: Shrunk, drawings: Sequence[Drawing]) -> Full:
    """Track as it was drawn; as long as sums have too many bits, with the smallest numbers, then with fewer of them."""
    every = 0
    for _ in range(TRIES):
        program, coverage = _run(task, problem, drawings, max(1, every))
        powers = any(drawing.kind is Kind.POWERS for drawing in drawings)  # whose long products leave the range
        if coverage.share == 1 or (coverage.over <= 0 and not powers):
            break
        every = max(1, every) * 2 ** max(math.ceil(coverage.over), 3 if powers else 0)
        drawings = [_smallest(drawing) for drawing in drawings]
        del program
        _forget(task.device)
    else:
        program, coverage = _run(task, problem, drawings, max(1, every))
    verdict = "exact" if coverage.telling == 1 else "vacuous" if coverage.share == 1 else "partly"
    if verdict == "partly" and coverage.telling < 0.01:
        verdict = "prefix"
    ended = coverage.ended.sentence() if coverage.ended else ""
    found = Full(verdict, 0, 0.0, coverage.share, coverage.live, f", 1 in {every}" if every > 1 else "", note=ended)
    return replace(found, own=_own(task, problem, program)) if coverage.share else found


def _run(task: Task, problem: Shrunk, drawings: Sequence[Drawing], every: int) -> tuple[track.Tracked, Coverage]:
    thin = [replace(each, every=each.every * every) if each.tensor.role == "input" else each for each in drawings]
    drawn = {each.tensor.name: drawn_on(task.device, each, place) for place, each in enumerate(thin)}
    with torch.device(task.device):
        tracked = track.track(problem.reference, drawn, storage=task.storage)
        other = {
            each.tensor.name: drawn_on(task.device, each, 100 + place)
            for place, each in enumerate(thin)
            if each.tensor.role != "weight" or all(one.tensor.role == "weight" for one in thin)
        }
        return tracked, coverage_of(tracked, track.changes(tracked, other))


def drawn_on(device: str, drawing: Drawing, seed: int) -> Any:
    """One operand, as a drawing says it, in its format."""
    tensor, shape = drawing.tensor, drawing.tensor.shape
    source = torch.Generator(device).manual_seed(seed)
    options: dict[str, Any] = {"generator": source, "device": device}
    if tensor.role == "mask":
        return torch.randint(0, 2, shape, dtype=torch.int8, **options).bool()
    if tensor.below is not None:
        return torch.randint(0, tensor.below, shape, dtype=_dtype(tensor), **options)
    dtype, most = _dtype(tensor), drawing.largest
    if drawing.kind is Kind.DISTINCT:
        return _latin(shape, min(2 * most + 1, max(tensor.size, 1)), options).to(dtype) * drawing.step_kept
    if drawing.kind is Kind.POWERS:
        exponents = torch.randint(-drawing.magnitude, drawing.magnitude + 1, shape, dtype=torch.int8, **options)
        numbers = torch.exp2(exponents.to(dtype) * _chosen(drawing.every, shape, options))
        return numbers * (1 - 2 * torch.randint(0, 2, shape, dtype=torch.int8, **options))
    low = 0 if drawing.kind is Kind.NONNEGATIVE else -most
    numbers = torch.randint(low, most + 1, shape, dtype=torch.int32, **options).to(dtype)
    if drawing.every > 1:
        numbers.mul_(_chosen(drawing.every, shape, options))
    return numbers.mul_(drawing.step_kept) if shape else torch.where(numbers == 0, 1, numbers)


def _chosen(every: int, shape: tuple[int, ...], options: dict[str, Any]) -> Any:
    """1 for one in so many elements, else 0."""
    return (torch.randint(0, min(every, 1 << 30), shape, dtype=torch.int32, **options) == 0).to(torch.int8)


def _latin(shape: tuple[int, ...], count: int, options: dict[str, Any]) -> Any:
    """So many numbers around 0, no two equal along an axis."""
    modulus = max([1, *shape, min(count, 1 << 20)])
    total = torch.zeros((1,) * len(shape), dtype=torch.int32, device=options["device"])
    for axis, extent in enumerate(shape):
        order = torch.randperm(modulus, **options)[:extent].to(torch.int32)
        total = total + order.reshape((-1,) + (1,) * (len(shape) - 1 - axis))
    return total.remainder_(modulus).sub_(modulus // 2)


def _own(task: Task, problem: Shrunk, tracked: track.Tracked) -> str:
    """What the problem's own code returns in that format, there."""
    try:
        with Setting("", task.device, threads=2).active(task.storage), torch.no_grad():
            returned = problem.native(*tracked.program.operands.values())
    except (RuntimeError, NotImplementedError) as error:
        return f"does not run: {error}"[:60]
    differ = 0
    found = [leaf for leaf in torch.utils._pytree.tree_leaves(returned) if torch.is_tensor(leaf)]  # noqa: SLF001
    for output, own in zip(tracked.outputs, found, strict=True):
        algebraic = output.grade == int(Grade.ALGEBRAIC)
        differ += int(((output.values != own) & algebraic).sum())
    return f"{differ} differ" if differ else "agrees"


def _forget(device: str) -> None:
    """Give back what this process holds and does not use."""
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
