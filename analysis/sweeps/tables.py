"""Words and tables of a sweep: the best cell, what its curves look like, and the cells."""

from typing import Final

import polars as pl

from analysis.sweeps.shapes import describe_curve, find_cliff
from analysis.sweeps.sweep import CAPACITIES, Curve, SweepTable

_DAYS: Final = "nvme written, GiB/day"
_SHOWN: Final = (
    *("hit_rate_ops", "hit_rate_tokens", "hit_rate_requests", "bound_ops"),
    *("recomputed_tokens", "evictions_cpu", "evictions_nvme"),
    *("peak_read_gib_s_nvme", "peak_write_gib_s_nvme", "drive_writes_per_day"),
)
_HEADS: Final = {
    "hit_rate_ops": "hits, reads",
    "hit_rate_tokens": "hits, tokens",
    "hit_rate_requests": "hits, requests",
    "bound_ops": "bound, reads",
    "recomputed_tokens": "tokens recomputed",
    "evictions_cpu": "evicted from cpu",
    "evictions_nvme": "evicted from nvme",
    "peak_read_gib_s_nvme": "nvme read, peak GiB/s",
    "peak_write_gib_s_nvme": "nvme written, peak GiB/s",
    "drive_writes_per_day": "drive writes/day",
}


def list_findings(sweep: SweepTable) -> list[str]:
    """Return what each curve looks like by share of reads, as sentences; steep cliffs first."""
    curves = [curve for axis in sweep.axes for curve in sweep.curves(axis, "ops")]
    return [describe_curve(curve) for curve in sorted(curves, key=_rank)]


def _rank(curve: Curve) -> float:
    cliff = find_cliff(curve)
    return 0.0 if cliff is None else -cliff.points


def describe_best(sweep: SweepTable) -> str:
    """Return the cell that hits the most reads, and with the fewest bytes written among those."""
    cells = sweep.cells.drop_nulls("hit_rate_ops")
    if cells.is_empty():
        return "no cell has a read."
    others = ["write_bytes_nvme", *CAPACITIES, "cell"]
    row = cells.sort(-pl.col("hit_rate_ops"), *others).row(0, named=True)
    return (
        f"the most reads hit in cell {row['cell']} ({sweep.name(row)}): {row['hit_rate_ops']:.1%};"
        f" unlimited memory reaches {row['bound_ops']:.1%}."
    )


def tabulate_cells(sweep: SweepTable) -> pl.DataFrame:
    """Return the cells as they are shown: what differs between them, and their main counts."""
    settings = [*sweep.labels, *sweep.axes]
    share = pl.col("^(hit_rate|bound)_.*$")
    per_day = (pl.col("write_bytes_per_day_nvme") / 2**30).alias(_DAYS)
    shown = sweep.cells.with_columns(share.round(4)).select("cell", *settings, *_SHOWN, per_day)
    names = {name: name.replace("_gb", "").replace("_", " ") + ", GiB" for name in CAPACITIES}
    heads = (_HEADS | names).items()
    return shown.rename({name: head for name, head in heads if name in shown.columns})
