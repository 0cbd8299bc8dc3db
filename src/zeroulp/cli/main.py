"""``main(argv) -> int``: parse, run the command, turn errors into one message and a status."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from zeroulp.cli import check, formats, plan, replay, rules
from zeroulp.errors import KernelError, ZeroulpError
from zeroulp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

_EPILOG = """\
exit status: 0 CORRECT, 1 INCORRECT, 2 usage error, 3 INCONCLUSIVE, 4 BROKEN
"""


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
    for module in (check, plan, replay, rules, formats):
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
    arguments = build_parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except ZeroulpError as error:
        if arguments.debug:
            raise
        print(f"zeroulp: {error}", file=sys.stderr)  # noqa: T201
        return 4 if isinstance(error, KernelError) else 2
    except KeyboardInterrupt:
        print("zeroulp: interrupted; nothing was decided", file=sys.stderr)  # noqa: T201
        return 130
    except BrokenPipeError:
        return 0
    return status
