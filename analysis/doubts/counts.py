"""Counts of a log, by the names that `replayer plan` and run.json use."""

import polars as pl

from analysis.log.columns import SIDES
from replayer.schema import TIERS, Totals, to_plain

_COUNTED_KINDS = {"misses": "miss", "promotions": "promote", "drops": "drop", "bypasses": "bypass"}
"""The kinds of move that are counted without a tier."""


_PAIRS = [(upper, lower) for place, upper in enumerate(TIERS) for lower in TIERS[place + 1 :]]


def count_moves(cells: pl.DataFrame) -> dict[str, int]:
    """Count the moves of a log as `replayer plan` does.

    Args:
        cells: the cells of the log, by its enums.

    Returns:
        Counts, bytes and tokens by dotted names, e.g. `hits.nvme`.
    """
    exprs = _op_counts() | _tier_counts() | _tier_bytes()
    counts: dict[str, int] = cells.select(**{name: value.sum() for name, value in exprs.items()}).row(0, named=True)
    return counts | {"new_tokens": int(cells["new_tokens"].sum())}


def _op_counts() -> dict[str, pl.Expr]:
    """Return the counts that belong to no tier."""
    move, first, rows = pl.col("move"), pl.col("first"), pl.col("rows")
    recomputed = (move == "miss") | ((move == "bypass") & first)
    return {
        "ops": rows.filter(first),
        "reads": rows.filter(first & (pl.col("op") == "read")),
        **{name: rows.filter(move == kind) for name, kind in _COUNTED_KINDS.items()},
        "recomputed_tokens": pl.col("tokens").filter(recomputed),
    }


def _tier_counts() -> dict[str, pl.Expr]:
    """Return the counts of hits, stores, demotions and copies by tier."""
    move, rows = pl.col("move"), pl.col("rows")
    from_tier, to_tier = pl.col("from_tier"), pl.col("to_tier")
    served = move.is_in(["hit", "promote"])
    return {
        **{f"hits.{tier}": rows.filter(served & (from_tier == tier)) for tier in TIERS},
        **{f"stores.{tier}": rows.filter((move == "store") & (to_tier == tier)) for tier in TIERS},
        **{
            f"{name}.{upper}>{lower}": rows.filter((move == kind) & (from_tier == upper) & (to_tier == lower))
            for name, kind in (("demotions", "demote"), ("copies", "copy"))
            for upper, lower in _PAIRS
        },
    }


def _tier_bytes() -> dict[str, pl.Expr]:
    """Return the bytes read from and written to each tier."""
    move, size = pl.col("move"), pl.col("size_bytes")
    reads = move.is_in(["hit", "promote", "demote", "copy"])
    writes = move.is_in(["store", "demote", "copy"])
    return {
        **{f"read_bytes.{tier}": size.filter(reads & (pl.col("from_tier") == tier)) for tier in TIERS},
        **{f"write_bytes.{tier}": size.filter(writes & (pl.col("to_tier") == tier)) for tier in TIERS},
    }


def sum_lost_time(cells: pl.DataFrame) -> dict[str, tuple[int, int, int]]:
    """Sum the time of the nvme tier's moves that was neither reading nor writing.

    Moves of the gpu tier are excluded, because its clock may differ. Promotions are excluded,
    because they also remove the object's file.

    Args:
        cells: the cells of the log, by its enums.

    Returns:
        By direction: the number of moves, their time in ns, and the lost part of it in ns.
    """
    rest = pl.col("io_ns") - pl.col("read_ns") - pl.col("write_ns")
    on_host = pl.col("from_tier").ne_missing("gpu") & pl.col("to_tier").ne_missing("gpu")
    comparable = on_host & (pl.col("move") != "promote")
    sums = (pl.col("rows").sum(), pl.col("io_ns").sum(), rest.sum().alias("rest"))
    return {
        direction: cells.filter(SIDES[f"nvme_{direction}"] & comparable).select(*sums).row(0)
        for direction in ("read", "write")
    }


def flatten_totals(totals: Totals | None) -> dict[str, int]:
    """Return the counts of a plan, or of its execution, by dotted names, without missing counts.

    Copies that are left out are 0.
    """
    if totals is None:
        return {}
    plain = {"copies": {f"{upper}>{lower}": 0 for upper, lower in _PAIRS}} | to_plain(totals)
    nested = {name: value if isinstance(value, dict) else {"": value} for name, value in plain.items()}
    counts = {f"{name}.{key}" if key else name: count for name, of in nested.items() for key, count in of.items()}
    return {name: count for name, count in counts.items() if isinstance(count, int)}
