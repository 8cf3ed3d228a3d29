"""Counts of a log, by the names that `replayer plan` and run.json use."""

from collections import Counter
from itertools import combinations
from typing import Final

import msgspec
import polars as pl

from replayer.schema import TIERS, Totals

_NAMES: Final = {
    "hit": "hits.{from_tier}",
    "promote": "hits.{from_tier}",
    "store": "stores.{to_tier}",
    "demote": "demotions.{from_tier}>{to_tier}",
    "copy": "copies.{from_tier}>{to_tier}",
    "miss": "misses",
    "drop": "drops",
    "bypass": "bypasses",
}
"""What a move is counted as; a promotion is counted apart, too."""
_READS: Final = ("hit", "promote", "demote", "copy")
_WRITES: Final = ("store", "demote", "copy")
_NO_COPIES: Final = {f"{upper}>{lower}": 0 for upper, lower in combinations(TIERS, 2)}


def count_moves(cells: pl.DataFrame) -> Counter[str]:
    """Count the moves of a log as `replayer plan` does, by dotted names, e.g. `hits.nvme`.

    Args:
        cells: the cells of the log, by its enums; there are some hundreds.
    """
    counts = Counter[str]()
    for cell in cells.iter_rows(named=True):
        move, rows = cell["move"], cell["rows"]
        if move in _NAMES:
            counts[_NAMES[move].format_map(cell)] += rows
        if move == "promote":
            counts["promotions"] += rows
        if move in _READS:
            counts[f"read_bytes.{cell['from_tier']}"] += cell["size_bytes"]
        if move in _WRITES:
            counts[f"write_bytes.{cell['to_tier']}"] += cell["size_bytes"]
        if move == "miss" or (move == "bypass" and cell["first"]):
            counts["recomputed_tokens"] += cell["tokens"]
        if cell["first"]:
            counts["ops"] += rows
            counts["reads"] += rows if cell["op"] == "read" else 0
    return counts


def flatten_totals(totals: Totals | None) -> dict[str, int]:
    """Return the counts of a plan, or of its execution, by dotted names, without missing counts."""
    if totals is None:
        return {}
    # A plan that copies nothing leaves them out.
    plain = {"copies": _NO_COPIES} | msgspec.to_builtins(totals)
    counts = dict[str, int]()
    for name in Totals.__struct_fields__:
        parts = plain[name] if isinstance(plain[name], dict) else {"": plain[name]}
        counts |= {f"{name}.{part}".rstrip("."): count for part, count in parts.items() if count is not None}
    return counts
