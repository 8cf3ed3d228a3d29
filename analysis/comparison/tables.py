"""Tables of comparisons: aligned columns, figures of three digits, lists of runs."""

import math
from collections.abc import Mapping, Sequence

from tracegen.errors import format_count

Rows = list[list[str]]
"""Cells by row."""


def align_columns(rows: Rows, left: Sequence[int] = (0, 6)) -> list[str]:
    """Return rows as lines with aligned columns; columns in `left` are aligned to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def format_figure(value: float | None) -> str:
    """Format a number with three digits, or with all digits before the point."""
    if value is None:
        return "-"
    decimals = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value:,.{max(0, decimals)}f}" if abs(value) >= 1e-3 or not value else f"{value:.3g}"


def abbreviate_runs(runs: Sequence[str]) -> str:
    """Return the paths of a few runs, or the first and the last of many."""
    return ", ".join(runs) if len(runs) <= 3 else f"{runs[0]} … {runs[-1]}"


def list_doubt_kinds(doubts: Mapping[str, int], runs: int) -> str:
    """Return a sentence with the kinds of doubt, and how many of the runs have each."""
    total = format_count(runs, "run")
    kinds = (f"{kind} ({count} of {total})" for kind, count in doubts.items())
    return f"Doubts: {', '.join(kinds)}; `analysis summary` explains them."
