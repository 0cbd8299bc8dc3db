"""
The one-line signature of a C kernel.

A comma-separated list of what the symbol takes, in order, each with an optional type, and an
optional return type::

    a, b, out, m, n, k
    m:i64, n:i64, k:i64, alpha:f32, a, lda:i64, b, ldb:i64, beta:f32, c, ldc:i64 -> i32

Pointers: ``a``, ``b``, ``c``, ``bias``, ``out``. With ``c`` and no ``out``, the kernel updates c
in place, as BLAS does. Integers (``i32`` unless said ``i64``): ``m``, ``n``, ``k``, ``batch``,
leading dimensions ``lda``, ``ldb``, ``ldc``, ``ldout`` and distances between matrices of a batch
``stride_a``, ``stride_b``, ``stride_c``, ``stride_out``, all in elements. Scalars (``f32`` unless
said ``f64``): ``alpha``, ``beta``. A returned integer other than 0 is an error code.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zeroulp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

POINTERS = ("a", "b", "c", "bias", "out")
LEADING = {"lda": "a", "ldb": "b", "ldc": "c", "ldout": "out"}
BATCH_STRIDES = {"stride_a": "a", "stride_b": "b", "stride_c": "c", "stride_out": "out"}
_INTEGERS = ("m", "n", "k", "batch", *LEADING, *BATCH_STRIDES)
_SCALARS = ("alpha", "beta")
_TYPES: dict[str, Any] = {
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "ptr": ctypes.c_void_p,
}
POINTER, REALS = _TYPES["ptr"], (_TYPES["f32"], _TYPES["f64"])
_ALLOWED: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (POINTERS, ("ptr",)),
    (_INTEGERS, ("i32", "i64")),
    (_SCALARS, ("f32", "f64")),
)
_EXAMPLE = "a, b, out, m, n, k, lda, ldb, ldout"


@dataclass(frozen=True)
class Parameter:
    """One parameter: its role and its ctypes type."""

    role: str
    type: Any


@dataclass(frozen=True)
class Signature:
    """
    A parsed signature.

    Args:
        parameters: In order.
        returns: ctypes type of the returned error code, or None.
    """

    parameters: tuple[Parameter, ...]
    returns: Any

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles in order."""
        return tuple(parameter.role for parameter in self.parameters)

    @property
    def in_place(self) -> bool:
        """Whether c is both addend and output."""
        return "c" in self.roles and "out" not in self.roles


def parse_signature(text: str) -> Signature:
    """
    The signature that *text* describes.

    Raises:
        UsageError: Where it names an unknown role or type, lacks a or b, or has no output.
    """
    signature = read_signature(text, _types_of, _EXAMPLE)
    for needed in ("a", "b"):
        if needed not in signature.roles:
            raise _wrong(text, f"no {needed}", "a matmul kernel reads a and b", _EXAMPLE)
    if "out" not in signature.roles and "c" not in signature.roles:
        raise _wrong(text, "no output", "it needs out, or c to be updated in place", _EXAMPLE)
    return signature


def read_signature(text: str, types_of: Callable[[str], tuple[str, ...]], example: str) -> Signature:
    """
    A signature whose roles are those that a problem has.

    Args:
        text: What it says.
        types_of: The types that a role may have, the usual one first; raises KeyError, with all roles, if it is none.
        example: One that is right, for messages.

    Raises:
        UsageError: Where it names an unknown role or type, or a role twice.
    """
    head, arrow, tail = text.partition("->")
    parameters = []
    for item in (part.strip() for part in head.split(",")):
        role, _, name = (part.strip() for part in item.partition(":"))
        try:
            allowed = types_of(role)
        except KeyError as error:
            raise _wrong(text, f"{role!r}", f"known: {error.args[0]}", example) from None
        if (name or allowed[0]) not in allowed:
            raise _wrong(text, f"{role}:{name}", f"{role} is {' or '.join(allowed)}", example)
        parameters.append(Parameter(role, _TYPES[name or allowed[0]]))
    returns = None
    if arrow and tail.strip() not in ("", "void"):
        if tail.strip() not in ("i32", "i64"):
            raise _wrong(text, f"return type {tail.strip()!r}", "it is i32, i64 or void", example)
        returns = _TYPES[tail.strip()]
    signature = Signature(tuple(parameters), returns)
    repeated = {role for role in signature.roles if signature.roles.count(role) > 1}
    if repeated:
        raise _wrong(text, f"{', '.join(sorted(repeated))} twice", "each role stands once", example)
    return signature


def _types_of(role: str) -> tuple[str, ...]:
    for roles, types in _ALLOWED:
        if role in roles:
            return types
    raise KeyError(", ".join((*POINTERS, *_INTEGERS, *_SCALARS)))


def _wrong(text: str, what: str, why: str, example: str) -> UsageError:
    return UsageError(f"{what} in the signature {text!r}", why=why, do=f"write it like {example!r}")
