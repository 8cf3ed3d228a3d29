"""Crafted runs to compare."""

from tests.analysis.comparison.crafting import craft

__all__ = ["craft"]
