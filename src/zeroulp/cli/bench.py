"""``zeroulp bench``: the benchmarks of a checkout, run from the command line."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import zeroulp
from zeroulp.cli import arguments as shared
from zeroulp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

_SCRIPTS = {
    "detection": ("detection.py", "which faults of the zoo are caught, and which correct kernels accused"),
    "verification": ("verification.py", "what verifying one result costs, on the CPU or a device"),
    "cost": ("cost.py", "what a default check and its verification cost, and how that grows"),
}
_EPILOG = "\n".join(f"  {name:<14}{text}" for name, (_, text) in _SCRIPTS.items())


def add_command(commands: Any) -> None:
    """Add ``bench`` to the command line."""
    parser = commands.add_parser(
        "bench",
        help="faults caught, correct kernels accused, and costs, measured (in a checkout)",
        description="Measure zeroulp itself, with the scripts in the checkout's `benchmarks/`.",
        epilog=f"benchmarks:\n{_EPILOG}\n\n`zeroulp bench detection --help` lists the options of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared.add_common_options(parser)
    parser.add_argument("benchmark", choices=tuple(_SCRIPTS), help="what to measure")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="options of the benchmark")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the script; exit with its status."""
    name = arguments.benchmark
    folder = find_benchmarks(Path(zeroulp.__file__).resolve().parent, Path.cwd())
    with _as_program(folder, [f"zeroulp bench {name}", *arguments.words]):
        script = _load(folder / _SCRIPTS[name][0])
        try:
            return int(script.main(arguments.words))
        except SystemExit as stop:  # its argparse has said why
            return int(stop.code or 0)


def find_benchmarks(*starts: Path) -> Path:
    """
    The folder of benchmarks in the checkout that one of *starts* lies in; the first that has one.

    Raises:
        UsageError: If none does.
    """
    for start in starts:
        for directory in (start, *start.parents):
            folder = directory / "benchmarks"
            if (folder / "zoo" / "registry.py").is_file() and (folder / "detection.py").is_file():
                return folder
    raise UsageError(
        "`zeroulp bench` needs a checkout of zeroulp",
        where="no benchmarks/zoo above " + ", nor above ".join(str(start) for start in starts),
        why="the installed package has neither the benchmarks nor the zoo of faulty kernels",
        do="clone the repository, or unpack the source distribution, and run it there",
    )


@contextlib.contextmanager
def _as_program(folder: Path, words: Sequence[str]) -> Iterator[None]:
    """`sys.argv` and `sys.path` as a script in *folder* finds them, until it has ended."""
    argv, path = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = list(words), [str(folder)]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"zeroulp_benchmark_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
