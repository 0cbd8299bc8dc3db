"""``zeroulp formats``: exact ranges of every format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zeroulp.cli import arguments as shared
from zeroulp.cli.console import show, table
from zeroulp.formats import TABLE, Format

if TYPE_CHECKING:
    import argparse


def add_command(commands: Any) -> None:
    """Add ``formats`` to the command line."""
    parser = commands.add_parser("formats", help="exact ranges of every format")
    shared.add_common_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    del arguments
    show(render_formats())
    return 0


def render_formats() -> str:
    """The table of formats as text."""
    head = ["format", "also called", "bits", "precision", "integers exact to", "largest", "smallest normal"]
    return table([*head, "smallest", "not finite"], [_row(format_) for format_ in TABLE])


def _row(format_: Format) -> list[str]:
    exact = "powers of two" if format_.is_scale else f"{format_.exact_integer_limit:,}"
    special = ", ".join(
        name for name, there in (("infinities", format_.has_infinity), ("NaN", format_.has_nan)) if there
    )
    integer = format_.is_integer
    largest = f"{format_.max_finite:,.0f}" if 8 <= format_.max_finite < 1e10 else f"{format_.max_finite:.4g}"
    return [
        format_.name,
        ", ".join(format_.aliases),
        str(format_.bits),
        str(format_.precision),
        exact,
        largest,
        "-" if integer else f"2^{format_.emin}",
        "-" if integer else f"2^{format_.quantum_exponent_min}",
        special or "none",
    ]
