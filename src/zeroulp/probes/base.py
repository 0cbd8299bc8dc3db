"""What a probe is, and the table of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from zeroulp.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zeroulp.draw import Field, Part, Seed
    from zeroulp.exactness import Family
    from zeroulp.problem import Matmul
    from zeroulp.problem.layout import Shape

Settings: TypeAlias = "dict[str, int | float | str | bool]"
"""The numbers that size a probe for one problem: plain data, kept in the report."""


Elements: TypeAlias = "Callable[[Part], Any]"
"""Some rows of an operand, as (rows, columns) integers."""


@dataclass(frozen=True)
class Options:
    """
    What a user may ask of the probes.

    Args:
        p_zero: Probability of a zero in ``binary`` and ``fractional``; None: derived.
        declared: Whether probes may lean on the accumulator that the contract declares.
        bits: Stay within sums of this many bits, whatever the contract allows; None: no such limit.
        terms: At most this many non-zero products for each output; None: no such limit.
        width: Operands of at most this many significant bits in ``wide``; None: no such limit.
        plain: Whether all numbers stay near one, without powers of two along the axes.
    """

    p_zero: float | None = None
    declared: bool = True
    bits: int | None = None
    terms: int | None = None
    width: int | None = None
    plain: bool = False


class Probe(Protocol):
    """A named family of inputs. Stateless: all it knows of a trial comes in as arguments."""

    name: str
    purpose: str
    sees: tuple[str, ...]

    def variants(self, problem: Matmul, options: Options) -> list[Settings]:
        """The settings that its trials go through in turn; whether they certify is asked later."""
        ...

    def family(self, problem: Matmul, settings: Settings) -> Family:
        """What inputs with these settings are, for the certificate."""
        ...

    def elements(self, problem: Matmul, settings: Settings, seed: Seed, name: str) -> Elements:
        """How elements of a or b, in quanta of the family's lattices, follow from their places."""
        ...

    def detection(self, problem: Matmul, settings: Settings) -> float:
        """
        Least probability that one trial sees a bilinear fault of one output; 0 if none is claimed.

        The fault is any other sum of products of entries of the output's row and column, with
        whole-number weights, in place of the right one.
        """
        ...


@runtime_checkable
class Cyclic(Protocol):
    """A probe whose trials see a bilinear fault together: its bound is that of a list of them."""

    def missed(self, problem: Matmul, trials: Sequence[Settings]) -> float:
        """Greatest probability that none of these trials sees a bilinear fault of one output."""
        ...


@runtime_checkable
class Overlaid(Protocol):
    """A probe that replaces some elements by special ones after the others are encoded."""

    def overlay(
        self, problem: Matmul, settings: Settings, seed: Seed, name: str, shape: Shape
    ) -> list[tuple[tuple[int, ...], int]]:
        """Places of special elements in an operand of this shape, and the encodings that stand there."""
        ...

    def signs_of_zeros(self, settings: Settings, seed: Seed, name: str) -> Field | None:
        """Numbers that choose the zeros of an operand with a minus sign; None: none of them."""
        ...


@runtime_checkable
class Partial(Protocol):
    """A probe with several kinds of trial, of which a problem may have some only."""

    def left_out(self, problem: Matmul) -> dict[str, str]:
        """The kinds that a check of *problem* has no trial of, each with the reason."""
        ...


TABLE: dict[str, Probe] = {}

_P = TypeVar("_P", bound="type[Any]")


def register(probe: _P) -> _P:
    """Class decorator: put an instance into the table."""
    TABLE[probe.name] = probe()
    return probe


@cache  # to ask a protocol takes as long as drawing a small matrix
def _is_one(kind: type, protocol: Any) -> bool:
    return issubclass(kind, protocol)


def overlaid(probe: Probe) -> Overlaid | None:
    """The probe, if it replaces some elements by special ones."""
    return cast("Overlaid", probe) if _is_one(type(probe), Overlaid) else None


def cyclic(probe: Probe) -> Cyclic | None:
    """The probe, if its trials see a fault together."""
    return cast("Cyclic", probe) if _is_one(type(probe), Cyclic) else None


def probe_named(name: str) -> Probe:
    """The probe called *name*. Raises UnknownNameError if there is none."""
    if name not in TABLE:
        raise UnknownNameError("probe", name, TABLE)
    return TABLE[name]
