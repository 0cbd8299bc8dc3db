"""``main(argv) -> int``: parse, run the command, turn errors into one message and a status."""

from __future__ import annotations

import argparse
import sys
import traceback
from typing import TYPE_CHECKING

from zeroulp.cli import bench, check, formats, plan, replay, rules
from zeroulp.errors import KernelError, ZeroulpError
from zeroulp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPILOG = """\
exit status: 0 CORRECT, 1 INCORRECT, 2 usage error, 3 INCONCLUSIVE, 4 BROKEN
"""
_OUR_FAULT = 70  # EX_SOFTWARE of sysexits.h
_INTERRUPTED = 130


def build_parser() -> argparse.ArgumentParser:
    """The parser with all commands."""
    parser = argparse.ArgumentParser(
        prog="zeroulp",
        description="Tell whether a matmul kernel is numerically correct, by exact match, without a tolerance.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"zeroulp {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (check, plan, replay, rules, formats, bench):
        module.add_command(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the command line.

    Args:
        argv: Arguments without the program's name; default: those of the process.

    Returns:
        The exit status.
    """
    try:
        arguments = build_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said why; --help and --version come here too
        return int(stop.code or 0)
    try:
        status: int = arguments.run(arguments)
    except ZeroulpError as error:
        return _explain(str(error), 4 if isinstance(error, KernelError) else 2, debug=arguments.debug)
    except KeyboardInterrupt:
        return _explain("interrupted; nothing was decided", _INTERRUPTED, debug=arguments.debug)
    except MemoryError as error:
        why = f"the problem needs more memory than there is\n  why    {error}\n  do     choose smaller sizes"
        return _explain(why, 2, debug=arguments.debug)
    except Exception as error:  # noqa: BLE001  (Python's own exit status of 1 would say INCORRECT)
        what = f"{type(error).__name__}: {error}\n  why    this is a fault of zeroulp; nothing was decided"
        do = "\n  do     run it again with --debug, and report what that shows"
        return _explain(what + do, _OUR_FAULT, debug=arguments.debug)
    return status


def _explain(message: str, status: int, *, debug: bool) -> int:
    """Say on stderr what went wrong; with its traceback where that was asked for."""
    if debug:
        traceback.print_exc()
    print(f"zeroulp: {message}", file=sys.stderr)  # noqa: T201
    return status
