"""One call of an operator: its arguments by name, and what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.track.arithmetic import FLOAT64
from zeroulp.track.backend import torch
from zeroulp.track.dyadic import FORMATS
from zeroulp.track.state import State, of_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zeroulp.formats import Format
    from zeroulp.track.ledger import Ledger

METADATA = frozenset(
    [
        "as_strided_",
        "detach_",
        "resize_",
        "resize_as_",
        "set_",
        "squeeze_",
        "swapaxes_",
        "swapdims_",
        "t_",
        "transpose_",
        "unsqueeze_",
    ]
)
"""Operators that write to a tensor's shape or place alone."""


def tensors_in(*trees: Any) -> Iterator[Any]:
    """All tensors in arguments, or in lists of them."""
    for tree in trees:
        if isinstance(tree, torch.Tensor):
            yield tree
        elif isinstance(tree, (list, tuple)):
            yield from tensors_in(*tree)


class Call:
    """
    A call of an operator.

    Args:
        func: The overload.
        args: As PyTorch passes them.
        kwargs: As PyTorch passes them.
        ledger: What is known of tensors.
        prefix: Names of the operators that this call is part of, for messages.

    Attributes:
        arguments: By the names of the operator's schema, defaults included.
        named_format: The format that the program names for the result, if it does.
    """

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ledger: Ledger, prefix: str) -> None:
        self.func, self.ledger = func, ledger
        self.name = name_of(func)
        self.label = f"{prefix}{self.name}"
        self.named_format: Format | None = None
        self.arguments: dict[str, Any] = {}
        self._keywords = frozenset(a.name for a in func._schema.arguments if a.kwarg_only)  # noqa: SLF001
        for position, argument in enumerate(func._schema.arguments):  # noqa: SLF001
            if position < len(args):
                value = args[position]
            elif argument.name in kwargs:
                value = kwargs[argument.name]
            else:
                value = argument.default_value
            if isinstance(value, torch.dtype) and value in FORMATS:
                self.named_format, value = FORMATS[value], torch.float64
            self.arguments[argument.name] = value
        if self.name == "_to_copy" and self.named_format is None:
            asked, source = self.arguments["dtype"], self.arguments["self"]
            if asked is torch.float64 and source.dtype == torch.float64:  # on purpose: it is float64 as it stands
                self.named_format = FLOAT64

    def widen(self, fn: Callable[[Any], Any]) -> None:
        """Replace every floating tensor that is not float64 by what *fn* makes of it."""
        self.arguments = {name: _widened(value, fn) for name, value in self.arguments.items()}

    def run(self, /, **changes: Any) -> Any:
        """The operator on its arguments, some of them changed."""
        arguments = {**self.arguments, **changes} if changes else self.arguments
        positional = [value for name, value in arguments.items() if name not in self._keywords]
        return self.func(*positional, **{name: arguments[name] for name in self._keywords})

    def decompose(self) -> Any:
        """The operators that this one is composed of, run in its place; NotImplemented if it is not composed."""
        positional = [value for name, value in self.arguments.items() if name not in self._keywords]
        return self.func.decompose(*positional, **{name: self.arguments[name] for name in self._keywords})

    def tensors(self, *names: str) -> list[Any]:
        """All tensors among these arguments, or among all."""
        return list(tensors_in([self.arguments[name] for name in names] if names else list(self.arguments.values())))

    @property
    def floats(self) -> list[Any]:
        """All float64 tensors among the arguments."""
        return [tensor for tensor in self.tensors() if tensor.dtype == torch.float64]

    def state(self, name: str) -> State:
        """What is known of an argument: a tensor or a number."""
        value = self.arguments[name]
        return self.ledger.state(value) if isinstance(value, torch.Tensor) else of_number(value)

    def result_format(self) -> Format | None:
        """The format of a result: the one named, else that of the floating tensors, promoted."""
        return self.named_format or self.ledger.promoted(self.tensors())

    def doubts(self, *beside: str) -> State | None:
        """What is known of the first integer or truth value, but those *beside*, that is not exact; None if all are."""
        for name, value in self.arguments.items():
            if name not in beside:
                for tensor in tensors_in(value):
                    if tensor.dtype != torch.float64 and (state := self.ledger.doubtful(tensor)):
                        return state
        return None


def _widened(tree: Any, fn: Callable[[Any], Any]) -> Any:
    if isinstance(tree, torch.Tensor) and tree.is_floating_point() and tree.dtype != torch.float64:
        return fn(tree)
    return [_widened(x, fn) for x in tree] if isinstance(tree, (list, tuple)) else tree


def name_of(func: Any) -> str:
    """An operator's name without its overload; with its namespace unless that is aten."""
    namespace, _, name = func._schema.name.partition("::")  # noqa: SLF001
    return str(name if namespace == "aten" else f"{namespace}::{name}")
