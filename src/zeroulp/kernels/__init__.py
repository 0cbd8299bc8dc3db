"""
How to call a candidate: a Python function on some framework's arrays, or a C symbol.

``spec`` says in plain data which kernel is meant, ``load`` finds it, ``python`` and
``shared_library`` call it, ``device`` says where its arrays live, ``frameworks`` is the only file
that knows array libraries, which it recognises and never imports on its own account.
"""

from zeroulp.kernels.load import load, wrap
from zeroulp.kernels.spec import Kernel, KernelSpec

__all__ = ["Kernel", "KernelSpec", "load", "wrap"]
