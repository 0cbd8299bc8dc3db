"""Kernels in C, compiled once to a temporary directory when the first of them is asked for."""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from .kit import shape
from .registry import correct, faulty


@functools.cache
def _built() -> tuple[ctypes.CDLL | None, str]:
    """The library, or None and the reason why there is none."""
    compiler = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")))), None)
    if compiler is None:
        return None, "no C compiler was found"
    directory = Path(tempfile.mkdtemp(prefix="zoo-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    target = directory / "kernels.so"
    source = Path(__file__).with_name("kernels.c")
    command = [compiler, "-O1", "-std=c99", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, f"{compiler} failed: {done.stderr.strip()[:200]}"
    return ctypes.CDLL(str(target)), ""


def why_not() -> str:
    """Why C kernels cannot be made here; empty if they can."""
    return _built()[1]


def pointer(x):
    return ctypes.c_void_p(x.ctypes.data)


def bound(symbol, *extra):
    """A kernel that writes into its last argument; *extra* pointers follow the sizes."""
    library = _built()[0]
    assert library is not None, why_not()
    function = library[symbol]
    function.restype = None

    def kernel(a, b, out):
        sizes = (a.shape[0], b.shape[1], a.shape[1])
        function(pointer(a), pointer(b), pointer(out), *map(ctypes.c_int, sizes), *map(pointer, extra))

    return kernel


def in_c(name, kind, models, sentence, size, *, finding="wrong-result", extra=tuple):
    """Register a faulty kernel of ``kernels.c``."""

    def factory():
        return bound(name.replace("-", "_"), *extra())

    factory.__doc__ = sentence
    faulty(
        name,
        kind=kind,
        models=models,
        finding=finding,
        problem=shape(*size, a="float32"),
        options={"destination_passing": True},
        available=why_not,
    )(factory)


in_c(
    "k-tiles-counted-in-8-bits",
    "int-overflow",
    "pytorch/pytorch#167086",
    "In C: the number of tiles of k wraps at 256.",
    (3, 4, 600),
)
in_c(
    "k-bound-rounded-up",
    "k-tail",
    "ROCm/composable_kernel#512",
    "In C: the bound of k is the next multiple of 8.",
    (4, 5, 21),
    finding="out-of-bounds-read",
)
in_c(
    "tile-cleared-once",
    "uninitialised",
    "tile-ai/tilelang#2537",
    "In C: the accumulators are cleared for the first tile of the output only.",
    (20, 6, 9),
)
in_c(
    "vector-store-past-the-end",
    "m-n-tail",
    "CUDA vector stores",
    "In C: the last vector of 4 runs past the output.",
    (5, 6, 9),
    finding="out-of-bounds-write",
)
in_c(
    "panel-kept",
    "stale-state",
    "weights packed once by libraries",
    "In C: the packed b is kept between calls.",
    (5, 6, 9),
    finding=("stale-result", "wrong-result"),
    extra=lambda: (np.zeros(54, np.float32), np.zeros(1, np.int32)),
)
in_c(
    "fixed-point-products",
    "dtype-confusion",
    "ROCm/triton#958",
    "In C: products are cut to multiples of 2^-10.",
    (5, 6, 9),
    finding=("wrong-result", "input-precision"),
)


@correct(
    "c-four-accumulators",
    models="unrolled dot products",
    problem=shape(5, 6, 23, a="float32"),
    options={"destination_passing": True},
    available=why_not,
)
def c_four_accumulators():
    """In C: four accumulators, added in an odd order."""
    return bound("four_accumulators")


@correct(
    "c-outer-products",
    models="k outermost, reversed, in double",
    problem=shape(5, 6, 23, a="float32"),
    options={"destination_passing": True},
    available=why_not,
)
def c_outer_products():
    """In C: outer products summed in double."""
    return bound("outer_products", np.zeros(64))
