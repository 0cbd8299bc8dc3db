"""
A program run in float64, whatever formats it names.

Two PyTorch modes see to it. One, below autograd, sees every operator: it turns formats that are named into float64,
and remembers them. The other sees what the program asks in Python: it answers with the formats that were named, and
stops values from leaving PyTorch unseen.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from zeroulp.errors import ProgramError
from zeroulp.track.backend import DispatchMode, FunctionMode, torch
from zeroulp.track.call import METADATA, Call, tensors_in
from zeroulp.track.dyadic import FORMATS, dtype_of
from zeroulp.track.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroulp.formats import Format

_RANDOM = torch.Tag.nondeterministic_seeded
_SWITCHES = ("train", "training")
_EXITS = ("numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage")
_VIEWS = frozenset(
    [torch.ops.aten._unsafe_view, torch.ops.aten.unsafe_split, torch.ops.aten.unsafe_split_with_sizes]  # noqa: SLF001
)
_NAMESPACE = "__array_namespace__"
_DTYPE = torch.Tensor.dtype.__get__


class Float64Mode(DispatchMode):  # type: ignore[misc]
    """
    Runs every operator in float64, and remembers the formats that the program names.

    Args:
        storage: Format of tensors that the program gives none.

    Attributes:
        kept: Names of the operands by their memory, which nobody may write to.
    """

    def __init__(self, storage: Format) -> None:
        super().__init__()
        self.ledger = Ledger(storage)
        self.prefix = ""
        self.kept: dict[int, str] = {}
        self._widened: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        compiler = sys.modules.get("torch._dynamo")
        see = Float64Mode._see
        self._seen = see if compiler is None else compiler.disable(see)  # not bound: memory goes with the mode

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """PyTorch would import its compiler to keep it off this, for a second; where that is there, it is kept off."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        return self._seen(self, func, args, kwargs or {})

    def _see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with torch._C.DisableTorchFunction():  # noqa: SLF001
            call = Call(func, args, kwargs, self.ledger, self.prefix)
            self._refuse(call)
            call.widen(self.widened)
            return self.handle(call)

    def handle(self, call: Call) -> Any:
        """Run an operator, and say in which formats its results are."""
        result = call.run()
        if not call.func._schema.is_mutable and not is_view(call.func):  # noqa: SLF001
            format_ = call.result_format()
            for tensor in tensors_in(result):
                if tensor.dtype == torch.float64 and format_ not in {None, self.ledger.storage}:
                    self.ledger.name_format(tensor, format_)
        return result

    def _refuse(self, call: Call) -> None:
        """Raise if the operator is random, or would write where float64 cannot be put."""
        off = any(call.arguments.get(switch) is False for switch in _SWITCHES)
        if _RANDOM in call.func.tags and not off:
            raise ProgramError(
                f"the reference is random: it calls {call.label}",
                why="a kernel cannot draw the same numbers, so there are no bits to expect",
                do="make what is random an operand, or switch it off (dropout: eval mode)",
            )
        if call.func is torch.ops.aten.view.dtype:
            raise ProgramError(
                "the reference reads the bits of numbers as something else, by view(dtype)",
                why="it runs in float64 here, so there are other bits",
                do="take such steps out of the reference, or make their result an operand",
            )
        for argument in call.func._schema.arguments:  # noqa: SLF001
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tensors_in(call.arguments[argument.name]):
                    name = self.kept.get(tensor.untyped_storage()._cdata)  # noqa: SLF001
                    if name is not None and call.name not in METADATA:
                        raise changed_in_place(name)
                    if tensor.is_floating_point() and tensor.dtype != torch.float64:
                        raise ProgramError(
                            f"the reference changes a tensor of {tensor.dtype} in place, in {call.label}",
                            why="it was made outside the reference, and it runs in float64 here",
                            do="pass it as an operand, or make it within the reference",
                        )

    def widened(self, tensor: Any) -> Any:
        """A floating tensor from outside as float64; the same one each time, as long as nobody writes to it."""
        if tensor.layout is not torch.strided:
            raise ProgramError(f"a tensor of layout {tensor.layout} cannot be tracked", do="make it dense")
        place = tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride()  # noqa: SLF001
        version = -1 if tensor.is_inference() else tensor._version  # noqa: SLF001
        key = (*place, version, tensor.dtype)
        if key not in self._widened:
            wide = tensor.detach().to(torch.float64)
            self._widened[key] = tensor, wide
            if tensor.dtype in FORMATS:
                self.ledger.name_format(wide, FORMATS[tensor.dtype])
            made = self.ledger.find(tensor)
            if made is not None and not made.state.clean:  # the program made it, of what is not exact
                self.ledger.name_format(wide, self.ledger.storage)
                self.ledger.spoil(wide, made.state.cause)
        return self._widened[key][1]

    def read(self, tensor: Any) -> None:
        """The program looks at the elements of a tensor in Python."""


def changed_in_place(name: str) -> ProgramError:
    """That the program wrote to an operand."""
    return ProgramError(
        f"the reference changes its operand {name!r} in place",
        why="a kernel gets that operand too, and is to leave it as it is",
        do="clone it first",
    )


class NamedFormats(FunctionMode):  # type: ignore[misc]
    """
    Answers what the program asks of a tensor's type, and keeps its values in PyTorch.

    Args:
        mode: The mode that runs the operators.
    """

    def __init__(self, mode: Float64Mode) -> None:
        super().__init__()
        self.mode = mode

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__" and func == _DTYPE:
            return self.dtype(args[0])
        if name in _EXITS and args and isinstance(args[0], torch.Tensor):
            raise ProgramError(
                f"the reference takes a tensor out of PyTorch, by {name}()",
                why="what becomes of its values cannot be seen",
                do="write the reference with PyTorch operations alone (one for NumPy arrays: with the array API, "
                "its namespace being torch)",
            )
        if name == "tolist":
            with torch._C.DisableTorchFunction():  # noqa: SLF001
                self.mode.read(args[0])
                return args[0].tolist()
        if name == "type_as":
            return args[0].to(self.dtype(args[1]))
        if name == "double" or (name == "to" and torch.float64 in (*args[1:], *kwargs.values())):
            return self._in_float64(args[0])
        if name == "to" and len(args) > 1 and isinstance(args[1], torch.Tensor):
            return args[0].to(self.dtype(args[1]))
        return func(*args, **kwargs)

    def dtype(self, tensor: Any) -> Any:
        """The type that the program takes a tensor to be of."""
        with torch._C.DisableTorchFunction():  # noqa: SLF001
            if tensor.dtype != torch.float64:
                return tensor.dtype
            return dtype_of(self.mode.ledger.format(tensor))

    def _in_float64(self, tensor: Any) -> Any:
        """A tensor that the program takes to float64 on purpose."""
        if self.dtype(tensor) == torch.float64:
            return tensor
        with torch._C.DisableTorchFunction():  # noqa: SLF001
            return torch.ops.aten._to_copy.default(tensor, dtype=torch.float64)  # noqa: SLF001


def is_view(func: Any) -> bool:
    """Whether an operator returns other views of its argument's memory, by its schema or in fact."""
    if func.overloadpacket in _VIEWS:
        return True
    return any(r.alias_info is not None and not r.alias_info.is_write for r in func._schema.returns)  # noqa: SLF001


@contextlib.contextmanager
def array_namespace() -> Iterator[None]:
    """Tensors that answer, as the array API wants, that their functions are those of PyTorch."""
    if hasattr(torch.Tensor, _NAMESPACE):
        yield
        return
    setattr(torch.Tensor, _NAMESPACE, lambda self, api_version=None: torch)  # noqa: ARG005
    try:
        yield
    finally:
        delattr(torch.Tensor, _NAMESPACE)


@contextlib.contextmanager
def running(mode: Float64Mode, *, gradients: bool) -> Iterator[None]:
    """Both modes, float64 by default, attention without its fused kernels."""
    default, fast = torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled()
    attention = torch.nn.attention
    torch.set_default_dtype(torch.float64)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        plain = attention.sdpa_kernel(attention.SDPBackend.MATH)
        with torch.set_grad_enabled(gradients), plain, array_namespace(), NamedFormats(mode), mode:
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.set_default_dtype(default)
