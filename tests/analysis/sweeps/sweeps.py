"""Sweeps made by hand: a row per cell, with counts that only these tests choose."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.sweeps.sweep import Curve, Point, SweepTable, open_sweep
from replayer.record.conditions import OrderInfo
from replayer.record.simulation import write_simulation
from replayer.schema import SIMULATION_COLUMNS, SimulationInfo

READS = 1000


def cell(number: int, cpu: float, hits: int, **changes: Any) -> dict[str, Any]:
    """Return a cell with so many hits of READS prompt tokens; by reads half, by requests a quarter."""
    blank: dict[str, Any] = {column.name: 0 for column in SIMULATION_COLUMNS}
    rates = {"hit_rate_tokens": 1.0, "hit_rate_ops": 0.5, "hit_rate_requests": 0.25}
    words = {"model": "tiny", "arrangement": "waterfall", "policy": "lru", "lookup": "independent"}
    return {
        **blank,
        **words,
        "order": "trace",
        "promote": False,
        "cell": number,
        "cpu_mem_gb": cpu,
        "storage_capacity_gb": 0.0,
        "reads": READS,
        "hits": hits,
        "bound_tokens": 0.9,
        "bound_ops": 0.45,
        "bound_requests": 0.225,
        **{name: hits / READS * share for name, share in rates.items()},
        **changes,
    }


def write(path: Path, cells: Sequence[dict[str, Any]]) -> Path:
    info = SimulationInfo(
        version=1,
        release="tests",
        trace="made.parquet",
        trace_fingerprint="f" * 64,
        ops=READS,
        span_s=60.0,
        order=OrderInfo(),
        axes=("cpu_mem_gb",),
        settings={"headroom": "0.8"},
    )
    write_simulation(cells, info, path)
    return path


def make_sweep(folder: Path, *cells: dict[str, Any]) -> SweepTable:
    return open_sweep(write(folder / "sweep.parquet", cells))


def make_curve(*points: tuple[float, float], bound: float = 1.0) -> Curve:
    return Curve("cpu", "lru", "", tuple(Point(*point) for point in points), bound)
