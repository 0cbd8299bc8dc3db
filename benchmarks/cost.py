"""What zeroulp costs: the default check against the kernel's calls, verification against products, and their growth."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import check_cost
import verification
from common import Tables, add_output_option

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLES = ("check", "verification")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="default: both")
    check_cost.add_options(parser)
    verification.add_options(parser, prefix="verify-")
    add_output_option(parser)
    arguments = parser.parse_args(argv)
    with Tables(arguments.output) as tables:
        if "check" in arguments.tables:
            check_cost.measure(tables, arguments.sizes, arguments.repeats)
        if "verification" in arguments.tables:
            verification.measure(tables, arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
