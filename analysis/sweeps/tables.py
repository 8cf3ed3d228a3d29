"""Words and tables of a sweep: what its curves look like, and the cells."""

from typing import Final

import polars as pl

from analysis.sweeps.shapes import describe_curve, find_cliff
from analysis.sweeps.sweep import CAPACITIES, MEMORY, Curve, SweepTable

_DAYS: Final = "drive written, GiB/day"
_SHOWN: Final = (
    *("hit_rate_tokens", "bound_tokens", "hit_rate_ops", "hit_rate_requests"),
    *("recomputed_tokens", "evictions_cpu", "evictions_nvme"),
    *("peak_read_gib_s_nvme", "peak_write_gib_s_nvme", "drive_writes_per_day"),
)
_HEADS: Final = {
    "cell": "plan",
    "hit_rate_tokens": "hit rate",
    "bound_tokens": "bound",
    "hit_rate_ops": "hits, reads",
    "hit_rate_requests": "hits, requests",
    "recomputed_tokens": "tokens recomputed",
    "evictions_cpu": "evicted from DRAM",
    "evictions_nvme": "evicted from the drive",
    "peak_read_gib_s_nvme": "drive read, peak GiB/s",
    "peak_write_gib_s_nvme": "drive written, peak GiB/s",
    "drive_writes_per_day": "drive writes/day",
}


def list_findings(sweep: SweepTable) -> list[str]:
    """Return what each curve looks like as sentences; steep cliffs first."""
    curves = [curve for axis in sweep.axes for curve in sweep.curves(axis, "tokens")]
    return [describe_curve(curve) for curve in sorted(curves, key=_rank)]


def _rank(curve: Curve) -> float:
    cliff = find_cliff(curve)
    return 0.0 if cliff is None else -cliff.points


def tabulate_cells(sweep: SweepTable) -> pl.DataFrame:
    """Return the cells as they are shown: what differs between them, and their main counts.

    Counts of a tier that no cell has are left out.
    """
    settings = [*sweep.labels, *sweep.axes]
    rates = [name for name in _SHOWN if name.startswith(("hit_rate", "bound"))]
    percent = [pl.format("{}%", (100 * pl.col(name)).round(1)).alias(name) for name in rates]
    per_day = (pl.col("write_bytes_per_day_nvme") / 2**30).alias(_DAYS)
    absent = [tier for name, tier in CAPACITIES.items() if (sweep.cells[name] == 0).all()]
    columns = [name for name in _SHOWN if not name.endswith(tuple(absent) or ("\0",))]
    if "nvme" in absent:
        columns.remove("drive_writes_per_day")
    else:
        columns.append(_DAYS)
    cells = sweep.cells.with_columns(*percent, per_day)
    shown = cells.select("cell", *settings, *columns)
    names = {name: f"{MEMORY[tier]}, GiB" for name, tier in CAPACITIES.items()}
    heads = (_HEADS | names).items()
    return shown.rename({name: head for name, head in heads if name in shown.columns})
