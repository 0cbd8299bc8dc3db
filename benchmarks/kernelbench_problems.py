"""Problems of a checkout of KernelBench, made small: a reference, what it takes, and how it was shrunk."""

from __future__ import annotations

import ast
import contextlib
import copy
import io
import itertools
import random
import re
import sys
import time
import types
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from zeroulp.problem import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Smaller = Callable[[int, str], int]

CAPS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
"""Whole numbers at the top of a module are halved until they are no larger; the first that works and the next ones."""

SHARES = (16, 8, 4, 2)
"""Where none does they are divided by the same number, so that they keep their ratios; at last the batch alone is made
small."""

CHEAP = 0.004
"""Seconds of a plain float64 run above which shapes grow no further."""

DEAR = 1.0
"""Seconds of a plain float64 run above which a batch of one is taken, all else as it is."""

LARGE = 1 << 17
"""Elements of all operands above which they grow no further."""

_NUMBERS = itertools.count()  # a compiler remembers modules by their names


@dataclass(frozen=True)
class Shrunk:
    """
    A problem ready to be tracked.

    Args:
        reference: Function of all operands, in float64.
        native: The same in the format of the operands.
        operands: Inputs, then the parameters of the module.
        how: How numbers at the top of the module were made smaller.
        seconds: Of a plain float64 run.
        weights: As the module was constructed, by name.
    """

    reference: Callable[..., Any]
    native: Callable[..., Any]
    operands: tuple[Tensor, ...]
    how: str
    seconds: float
    weights: dict[str, Any]


def problems(checkout: Path, levels: list[int]) -> list[tuple[int, int, Path]]:
    """Level, number and file of every problem, in order."""
    found = []
    for level in levels:
        folder = next(f for f in (checkout / "KernelBench" / f"level{level}", checkout / f"level{level}") if f.is_dir())
        for path in folder.glob("*.py"):
            number = re.match(r"\d+", path.name)
            if number:
                found.append((level, int(number.group()), path))
    return sorted(found)


def _ways() -> dict[str, Smaller]:
    """How numbers are made smaller, in the order in which this is tried."""
    ways: dict[str, Smaller] = {}
    for cap in CAPS:
        ways[f"at most {cap}"] = lambda n, name, cap=cap: n if "kernel" in name else halved(n, cap)
    for share in SHARES:
        ways[f"1/{share}"] = lambda n, _, share=share: n if n <= 8 else max(8, n // share)
    ways["batch 2"] = lambda n, name: min(n, 2) if "batch" in name else n
    ways["batch 1"] = lambda n, name: 1 if "batch" in name else n
    return ways


def load(path: Path, storage: str, how: str = "") -> Shrunk:
    """
    A problem, at the largest of the small shapes that are cheap.

    Args:
        path: Its file.
        storage: Format of its operands and intermediates.
        how: As `Shrunk.how` says it, where that is known: which shapes are cheap is a matter of luck.

    Raises:
        Exception: Whatever the problem raises, where it runs at no shape.
    """
    source, best, failure, slow = path.read_text(), None, None, False
    ways = _ways()
    if how:
        return _built(source, str(path), how, ways[how], storage)
    for i, way in enumerate([*ways][:-1]):
        if (i >= len(CAPS) and best is not None) or (i < len(CAPS) and slow):
            continue
        start = time.perf_counter()
        try:
            made = _built(source, str(path), way, ways[way], storage)
        except Exception as error:  # noqa: BLE001  (any way in which a shape does not fit)
            failure, slow = error, time.perf_counter() - start > DEAR
            continue
        size = sum(tensor.size for tensor in made.operands)
        if best is not None and (made.seconds > 20 * CHEAP or size > LARGE):
            break
        best = made
        if made.seconds > CHEAP or size > LARGE:
            break
    if best is not None and best.seconds > DEAR:
        with contextlib.suppress(Exception):  # statistics over a batch may want more than one
            return _built(source, str(path), "batch 1", ways["batch 1"], storage)
    if best is None:
        raise failure or RuntimeError("it runs at no shape")
    return best


def full_size(path: Path, storage: str, small: Shrunk) -> Shrunk:
    """
    A problem as it stands in its file: nothing is made but its parameters.

    Args:
        path: Its file.
        storage: Format of its operands and intermediates.
        small: The same problem made small.
    """
    model, inputs = _made(path.read_text(), str(path), lambda n, _: n, "meta")
    below = {tensor.name: tensor.below for tensor in small.operands if tensor.below is not None}
    return _problem(model, inputs, storage, "full size", below)


def _built(source: str, name: str, how: str, smaller: Smaller, storage: str) -> Shrunk:
    model, inputs = _made(source, name, smaller)
    found = _problem(model, inputs, storage, how)
    plain = [x.double() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    torch.set_default_dtype(torch.float64)  # of what the problem makes on its way
    try:
        with torch.no_grad():
            start = time.perf_counter()
            model(*plain)
            seconds = time.perf_counter() - start
    finally:
        torch.set_default_dtype(torch.float32)
    return replace(found, seconds=seconds)


def _made(source: str, name: str, smaller: Smaller, inputs_on: str = "cpu") -> tuple[Any, list[Any]]:
    """The model in training, but for dropout, and its inputs."""
    module = types.ModuleType(f"kernelbench_problem_{next(_NUMBERS)}")
    sys.modules[module.__name__] = module  # where dataclasses and compilers look for it
    with _quietly():
        exec(compile(_shrink(source, smaller), name, "exec"), module.__dict__)
        torch.manual_seed(0)
        random.seed(0)
        model = module.Model(*module.get_init_inputs()).train()
        with torch.device(inputs_on):
            inputs = list(module.get_inputs())
    for part in model.modules():
        if type(part).__name__.startswith("Dropout"):
            part.eval()
    return model, inputs


def _problem(model: Any, inputs: list[Any], storage: str, how: str, below: dict[str, int] | None = None) -> Shrunk:
    """What is tracked and what is run; the model becomes one of float64."""
    operands, constants = _operands(inputs, storage, below or {})
    parameters = dict(model.named_parameters())
    named = {name: Tensor(name, tuple(p.shape), storage, "weight") for name, p in parameters.items() if p.numel()}
    native = copy.deepcopy(model).to(getattr(torch, storage))
    model.double()

    def bound(module: Any) -> Callable[..., Any]:
        buffers, count, arguments = dict(module.named_buffers()), len(operands), range(len(inputs))

        def reference(*given: Any) -> Any:
            taken = iter(given[:count])
            found = [constants[place] if place in constants else next(taken) for place in arguments]
            state = dict(zip(named, given[count:], strict=True))
            where = next((x.device for x in given), None)
            state.update({name: buffer.to(where, copy=True) for name, buffer in buffers.items()})
            return torch.func.functional_call(module, state, tuple(found))

        return reference

    weights = {name: parameters[name].detach().clone() for name in named}
    return Shrunk(bound(model), bound(native), (*operands, *named.values()), how, 0.0, weights)


def _operands(
    inputs: list[Any], storage: str, below: dict[str, int]
) -> tuple[list[Tensor], dict[int, Any]]:
    """Descriptions of the inputs that are tensors or floating numbers, and the others by their places."""
    operands, constants = [], {}
    for place, value in enumerate(inputs):
        name = f"input{place}"
        if isinstance(value, float):
            operands.append(Tensor(name, (), storage, "scalar"))
        elif not torch.is_tensor(value):
            constants[place] = value
        elif value.dtype == torch.bool:
            operands.append(Tensor(name, tuple(value.shape), role="mask"))
        elif value.is_floating_point():
            operands.append(Tensor(name, tuple(value.shape), storage))
        else:
            limit = below.get(name) or (int(value.max()) + 1 if value.numel() and not value.is_meta else 1)
            operands.append(Tensor(name, tuple(value.shape), "int64", "index", below=limit))
    return operands, constants


def _shrink(source: str, smaller: Smaller) -> ast.Module:
    """The module with smaller numbers at its top."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names = ast.unparse(node.targets[0])
            node.value = _Rewriter(names, smaller).visit(node.value)
    return ast.fix_missing_locations(tree)


class _Rewriter(ast.NodeTransformer):
    """Whole numbers made smaller, products of them worked out first."""

    def __init__(self, name: str, smaller: Smaller) -> None:
        self.name, self.smaller = name, smaller

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        with contextlib.suppress(Exception):
            value = eval(compile(ast.fix_missing_locations(ast.Expression(node)), "", "eval"), {})
            if isinstance(value, int):
                return ast.Constant(self.smaller(value, self.name))
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        whole = isinstance(node.value, int) and not isinstance(node.value, bool)
        return ast.Constant(self.smaller(node.value, self.name)) if whole else node


def halved(value: int, cap: int) -> int:
    """A number divided by two until it is no larger than *cap*."""
    while value > cap:
        value = value // 2
    return value


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield
