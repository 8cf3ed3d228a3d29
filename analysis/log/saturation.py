"""Whether a tier was at its ceiling: how long it was busy, and if more moves moved more."""

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import col

from analysis.log.columns import IO, SIZE
from analysis.log.log import Log
from analysis.log.quantiles import covered_ns

# The equal parts of the window in which depth and rate are means.
PARTS: Final = 10_000
_DIGITS: Final = 6  # equal depths stay equal whatever their sums were rounded to

Floats = NDArray[np.float64]


def measure_busy_share(log: Log, touching: pl.Expr) -> float | None:
    """Return the share of the window that the moves' intervals start … end cover.

    Args:
        log: a log; its warm-up counts where it reaches into the window.
        touching: which moves.

    Returns:
        None if the log has no such move, or its window has no length.
    """
    if log.window is None or log.window[0] == log.window[1]:
        return None
    if not log.every_cell.filter(touching).select(col("rows").sum()).collect().item():
        return None
    begin, end = log.window
    stamps = log.every_move.filter(touching).select(col("start_ns", "end_ns").clip(begin, end))
    # Moves outside the window were clipped to its edges, where they would bridge gaps.
    return covered_ns(stamps.filter(IO > 0).collect(engine="streaming")) / (end - begin)


def measure_flatness(log: Log, touching: pl.Expr) -> float:
    """Return the rate with the fewest moves in flight over that with the most, bytes per time.

    A device at its ceiling moves as many bytes with few moves in flight as with many: 1. One that
    waits for more work moves more the more there is.

    Args:
        log: a log with a window.
        touching: which moves; at least one has a length inside the window.

    Returns:
        The mean rate over the third of PARTS with the lowest depth, over that of the third with the
        highest; parts as deep as those on the edge belong to the third, parts with depth 0 to none.
    """
    depth, rate = _by_part(log, touching)
    depth, rate = depth[depth > 0], rate[depth > 0]
    order = np.sort(depth)
    low, high = order[(len(order) - 1) // 3], order[len(order) - 1 - (len(order) - 1) // 3]
    return round(float(rate[depth <= low].mean() / rate[depth >= high].mean()), _DIGITS)


def _by_part(log: Log, touching: pl.Expr) -> tuple[Floats, Floats]:
    """Return mean depth, and bytes, of each part of the window; shape (PARTS,) both.

    A move counts from its start on, and no more from its end on; so each stamp adds to its own part
    what is left of it, and to all later ones a whole part.
    """
    begin, end = log.window or (0, 1)
    rows = log.every_move.filter(touching, IO > 0).select(
        "start_ns", "end_ns", weight=SIZE / IO * ((end - begin) / PARTS)
    )
    sums = {}
    for stamp in ("start_ns", "end_ns"):
        at = (col(stamp) - begin) * (PARTS / (end - begin))
        part = at.floor().clip(0, PARTS).cast(pl.Int64).alias("part")
        late = 1 - (at.clip(0, PARTS) - part)
        table = (
            rows.group_by(part)
            .agg(pl.len(), col("weight").sum(), left=late.sum(), bytes=(late * col("weight")).sum())
            .collect(engine="streaming")
        )
        sums[stamp] = _spread(table, "len", "left"), _spread(table, "weight", "bytes")
    depth, rate = (one - other for one, other in zip(sums["start_ns"], sums["end_ns"], strict=True))
    return depth.round(_DIGITS), rate


def _spread(table: pl.DataFrame, whole: str, own: str) -> Floats:
    """Return for each part its own sum, and the whole sums of all parts before it."""
    sums = np.zeros((2, PARTS + 1))
    sums[:, table["part"].to_numpy()] = table.select(whole, own).to_numpy().T
    spread: Floats = (np.cumsum(sums[0]) - sums[0] + sums[1])[:PARTS]
    return spread
