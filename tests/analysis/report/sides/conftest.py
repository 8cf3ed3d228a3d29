"""Crafted runs to compare in a report."""

from tests.analysis.comparison.crafting import craft

__all__ = ["craft"]
