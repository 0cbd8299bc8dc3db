"""Shipped problems."""
