"""
Matmul kernels to measure a checker with: faulty ones of every kind, and correct ones of every sort.

Each entry is data and a factory that makes a fresh kernel. Nothing here knows zeroulp.
"""

from . import calling, compiled, correct, epilogue, indexing, layout, memory, precision, special
from .registry import KINDS, NEEDS, TABLE, Entry

FAULTY = [entry for entry in TABLE.values() if not entry.is_correct]
CORRECT = [entry for entry in TABLE.values() if entry.is_correct]

__all__ = [
    "CORRECT",
    "FAULTY",
    "KINDS",
    "NEEDS",
    "TABLE",
    "Entry",
    "calling",
    "compiled",
    "correct",
    "epilogue",
    "indexing",
    "layout",
    "memory",
    "precision",
    "special",
]
