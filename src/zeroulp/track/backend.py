"""PyTorch, loaded when a program is first tracked; this package alone tracks, so it alone needs it."""

from __future__ import annotations

import importlib
from typing import Any

from zeroulp.errors import UsageError


def _load() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise UsageError(
            "PyTorch is not installed",
            why="a reference is tracked by watching the operations that PyTorch runs for it",
            do="pip install torch (the CPU build is enough)",
        ) from error


torch = _load()
aten = torch.ops.aten
_dispatch = importlib.import_module("torch.utils._python_dispatch")
DispatchMode: Any = _dispatch.TorchDispatchMode
without_modes = _dispatch._disable_current_modes  # noqa: SLF001
FunctionMode: Any = importlib.import_module("torch.overrides").TorchFunctionMode
pytree = importlib.import_module("torch.utils._pytree")
StorageWeakRef = importlib.import_module("torch.multiprocessing.reductions").StorageWeakRef
