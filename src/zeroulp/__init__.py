"""zeroulp: tell whether a matmul kernel is numerically correct, by exact match, without a tolerance."""

__version__ = "0.1.0"
