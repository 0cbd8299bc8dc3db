"""Kernels that are given by a reference."""
