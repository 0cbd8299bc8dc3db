"""Options that several commands share, and the problem that they describe."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from zeroulp.checks.judging import REFERENCES
from zeroulp.checks.problem_file import load_problem
from zeroulp.errors import UsageError
from zeroulp.problem import LAYOUTS, Matmul
from zeroulp.problem.contract import CLAUSES
from zeroulp.shapes import SHAPES

if TYPE_CHECKING:
    from zeroulp.sizes import Sizes

_PROBLEM = (
    ("m", int, "rows of the output"),
    ("n", int, "columns of the output"),
    ("k", int, "length of the sums"),
)


def add_problem_options(parser: argparse.ArgumentParser) -> None:
    """Everything that describes the problem and its contract."""
    group = parser.add_argument_group("the problem: out = alpha a @ b + beta c + bias")
    for name, kind, text in _PROBLEM:
        group.add_argument(f"-{name}", type=kind, metavar=name.upper(), help=text)
    group.add_argument("--batch", type=int, nargs="+", metavar="SIZE", help="leading dimensions")
    for name, text in (("a", "float16, bf16, fp32, e4m3, int8, ..."), ("b", "default: as a"), ("out", "default: as a")):
        group.add_argument(f"--{name}", metavar="FORMAT", help=f"format of {name}: {text}")
    group.add_argument("--transpose-a", action="store_true", default=None, help="a is given as (k, m)")
    group.add_argument("--transpose-b", action="store_true", default=None, help="b is given as (n, k)")
    group.add_argument("--alpha", type=float, help="factor of the product (default: 1)")
    group.add_argument("--beta", type=float, help="factor of c, a further operand (default: 0)")
    group.add_argument("--bias", metavar="FORMAT", help="format of a bias of shape (n,), a further operand")
    names = [*LAYOUTS, "any"]
    group.add_argument("--layouts", metavar="LAYOUT", help=f"memory layout: {', '.join(names)} (default: contiguous)")
    group.add_argument(
        "--problem", metavar="FILE.py[:NAME]", help="a Python file that defines it, as `problem` or NAME"
    )
    contract = parser.add_argument_group("the contract")
    for clause, words in CLAUSES.items():
        contract.add_argument(f"--{clause.replace('_', '-')}", metavar="|".join(words), help=f"clause {clause}")
    contract.add_argument("--accumulator-precision", type=int, metavar="BITS", help="bits that sums keep")
    contract.add_argument(
        "--saturate",
        action=argparse.BooleanOptionalAction,
        help="overflow gives the largest number, or infinity (default: infinity, but either for outputs of 8 bits)",
    )


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Which trials."""
    group = parser.add_argument_group("the trials")
    group.add_argument("--probe", action="append", metavar="NAME", help="use this probe (again for more; default: all)")
    group.add_argument("--trials", type=int, metavar="N", help="this many trials of each probe")
    group.add_argument("--p-zero", type=float, metavar="P", help="probability of a zero in binary and fractional")
    group.add_argument(
        "--escape-probability",
        type=float,
        metavar="P",
        help="bound that is asked for, within 1,000 calls (default: 1e-9, or what about 34 calls reach)",
    )
    group.add_argument("--repeat", type=int, metavar="N", help="further calls on one unchanged input (default: 1)")
    group.add_argument("--race-rate", type=float, metavar="P", help="instead: so many that a race of this rate shows")


def add_judging_options(parser: argparse.ArgumentParser) -> None:
    """How results are judged."""
    group = parser.add_argument_group("judging")
    text = "verified in O(n^2) where results lie, or dense: multiplied out on the host (default: verified)"
    group.add_argument("--reference", choices=REFERENCES, default=REFERENCES[0], help=text)
    group.add_argument("--workspace", type=int, metavar="MIB", help="memory for verification (default: 256 MiB)")


def add_shapes_option(parser: argparse.ArgumentParser, *, file: bool = False) -> None:
    """Which shapes beside the given one; or, with *file*, those in a file."""
    text = f"the shapes beside it too: {', '.join(SHAPES)} (default: the given one alone)"
    if file:
        text += "; or a file of shapes instead, one a line: m n k, CSV under a header, or JSON Lines"
    parser.add_argument("--shapes", metavar="SET|FILE" if file else "SET", help=text)


def add_kernel_options(parser: argparse.ArgumentParser) -> None:
    """Which kernel, and where it runs."""
    parser.add_argument(
        "kernel", metavar="KERNEL", help="file.py:function, package.module:function or library.so:symbol"
    )
    group = parser.add_argument_group("the kernel")
    group.add_argument("--framework", metavar="NAME", help="numpy, torch or jax (default: found from its module)")
    group.add_argument("--device", metavar="NAME", default="cpu", help="cpu, cuda or cuda:1 (default: cpu)")
    group.add_argument("--signature", metavar="ROLES", help="of a C symbol: 'a, b, out, m, n, k, lda, ldb, ldout'")
    group.add_argument("--destination-passing", action="store_true", help="it writes into a last argument out")
    add_isolation_options(parser)


def add_isolation_options(parser: argparse.ArgumentParser) -> None:
    """Where the kernel runs, and for how long."""
    group = parser.add_argument_group("isolation")
    group.add_argument("--isolate", choices=("process", "none"), default="process", help="default: process")
    group.add_argument("--deadline", type=float, default=60.0, metavar="SECONDS", help="of one call (default: 60)")


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """What every command has."""
    parser.add_argument("--debug", action="store_true", help="show tracebacks of errors")


def problem_from(arguments: argparse.Namespace, sizes: Sizes | None = None, *, linear: bool = False) -> Any:
    """
    The problem that the options describe; its sizes are *sizes* where these are given.

    A `Matmul`; or, from a file and if *linear* says so, a `Linear`.

    Raises:
        UsageError: If sizes or formats are missing, or contradict each other.
    """
    given = {name: getattr(arguments, name) for name in _fields() if getattr(arguments, name, None) is not None}
    if arguments.problem:
        if given:
            names = ", ".join(sorted(given))
            raise UsageError(f"--problem and also {names}", do="say it in the file, or leave --problem out")
        problem = load_problem(arguments.problem)
        if isinstance(problem, Matmul):
            return problem if sizes is None else problem.replace(**sizes._asdict())
        if linear and sizes is None:
            return problem
        do = "run `zeroulp check` or `zeroulp plan` on it, without other shapes"
        raise UsageError(f"{arguments.problem} is given by a reference, and this is for matmul alone", do=do)
    if sizes is not None:
        both = [f"-{name}" for name in ("m", "n", "k") if name in given]
        if both:
            raise UsageError(f"{', '.join(both)} and also a grid of shapes", do="leave out one of them")
        given |= sizes._asdict()
    missing = [name for name in ("m", "n", "k") if name not in given]
    if missing or "a" not in given:
        wanted = [f"-{name}" for name in missing] + ([] if "a" in given else ["--a"])
        example = "--grid 64,128,256" if sizes else "-m 512 -n 512 -k 4096"
        raise UsageError(f"no {', '.join(wanted)}", do=f"for example: {example} --a float16")
    if "batch" in given:
        given["batch"] = tuple(given["batch"])
    return Matmul(**given)


def _fields() -> tuple[str, ...]:
    return (
        *("m", "n", "k", "batch", "a", "b", "out", "transpose_a", "transpose_b", "alpha", "beta", "bias", "layouts"),
        *CLAUSES,
        *("accumulator_precision", "saturate"),
    )
