"""Curves, knees and the Pareto front of sweeps made by hand."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analysis.sweeps.answer import tabulate_cells
from analysis.sweeps.charts import BEST, list_charts
from analysis.sweeps.sweep import SweepTable, find_front, find_knee
from tests.analysis.sweeps.sweeps import cell, make_curve, make_sweep
from views.answer import Chart


def get_chart(sweep: SweepTable, name: str) -> Chart:
    return next(chart for chart in list_charts(sweep) if chart.name == name)


def test_a_knee_is_the_point_furthest_above_the_diagonal() -> None:
    """Scaled, the points are (0, 0), (1/3, 0.8), (2/3, 0.95) and (1, 1)."""
    found = find_knee(make_curve((1, 0.1), (2, 0.5), (4, 0.575), (8, 0.6)))
    assert found is not None
    assert found.gib == 2


@pytest.mark.parametrize(
    "points",
    [
        [(1, 0.0), (2, 0.25), (4, 0.5), (8, 0.75)],  # straight
        [(1, 0.0), (2, 0.05), (4, 0.1), (8, 0.75)],  # below the diagonal
        [(1, 0.5), (2, 0.53), (4, 0.54)],  # flat
        [(1, 0.0), (2, 0.5)],  # two points
        [(1, 0.6), (2, 0.7), (4, 0.5)],  # falling
    ],
)
def test_curves_without_a_knee(points: list[tuple[float, float]]) -> None:
    assert find_knee(make_curve(*points)) is None


def test_curves_are_the_cells_by_capacity(tmp_path: Path) -> None:
    made = make_sweep(
        tmp_path,
        *(cell(number, cpu, hits) for number, (cpu, hits) in enumerate([(4, 500), (1, 100), (2, 300)])),
        *(cell(3 + number, cpu, hits, policy="s3fifo") for number, (cpu, hits) in enumerate([(1, 200), (2, 250)])),
        cell(5, 0, 0),
        cell(6, 4, 600, hit_rate_tokens=None, policy="s3fifo"),
    )
    assert made.axes == ["cpu_mem_gb"]
    lru, s3fifo = made.curves("cpu_mem_gb")
    assert (lru.label, s3fifo.label) == ("lru", "s3fifo")
    assert lru.planned == ((0, 0), (1, 0.1), (2, 0.3), (4, 0.5))
    assert lru.points == lru.planned[1:]
    assert [point.rate for point in s3fifo.points] == [0.2, 0.25]
    chart = get_chart(made, "cpu_mem_gb-tokens")
    assert [rule.y for rule in chart.rules] == [0.9]
    assert chart.rows.filter(series="lru")["y"].to_list() == [0, 0.1, 0.3, 0.5]


def test_predicted_times_are_columns(tmp_path: Path) -> None:
    made = make_sweep(tmp_path, *(cell(at, 2.0**at, 100) for at in range(3)))
    table = tabulate_cells(replace(made, cells=made.cells.with_columns(ttfb_p95_ms=pl.Series([9.0, 5.0, None]))))
    at = [column.heading for column in table.columns].index("TTFT of storage, P95, ms, predicted")
    assert [row[at] for row in table.rows] == [9.0, 5.0, None]


def test_each_size_of_the_other_tier_has_a_panel(tmp_path: Path) -> None:
    sizes = [(cpu, nvme) for cpu in (1.0, 2.0) for nvme in (0.0, 10.0, None)]
    cells = [cell(at, cpu, 100 * at, storage_capacity_gb=nvme) for at, (cpu, nvme) in enumerate(sizes)]
    made = make_sweep(tmp_path, *cells)
    by_cpu = made.curves("cpu_mem_gb")
    assert [one.beside for one in by_cpu] == ["no drive", "10 GiB of drive", "unlimited drive"]
    by_nvme = made.curves("storage_capacity_gb")
    assert [[point.gib for point in one.points] for one in by_nvme] == [[10], [10]]
    assert [one.planned[0] for one in by_nvme] == [(0, 0.0), (0, 0.3)]
    rows = get_chart(made, "storage_capacity_gb-tokens").rows
    assert rows.filter(panel="2 GiB of DRAM")["x"].to_list() == [0, 10]
    sizes_of_one = [cell(at, 1.0, 100 * at, storage_capacity_gb=size) for at, size in enumerate((1.0, None))]
    assert not list(list_charts(make_sweep(tmp_path, *sizes_of_one))), "a single capacity is no curve"


def test_the_front_has_the_cells_that_no_other_beats(tmp_path: Path) -> None:
    written = [(100, 500), (50, 500), (200, 600), (250, 550), (50, 400), (300, 700)]
    cells = [cell(at, 2**at, hits, write_bytes_nvme=gib << 30) for at, (gib, hits) in enumerate(written)]
    made = make_sweep(tmp_path, *cells)
    front = find_front(made)
    assert front.filter("front")["cell"].to_list() == [1, 2, 5]
    assert front.filter("front")["gib"].to_list() == [50, 200, 300]
    assert front["name"][0] == "waterfall, 2 GiB of DRAM"
    assert get_chart(made, "front").rows.filter(series=BEST)["x"].to_list() == [50, 200, 300]
    assert find_front(make_sweep(tmp_path, cell(0, 1, 5), cell(1, 2, 6))).is_empty()


def test_the_table_shows_what_differs_and_no_tier_that_is_absent(tmp_path: Path) -> None:
    made = make_sweep(tmp_path, cell(0, 8, 700), cell(1, 4, 650))
    table = tabulate_cells(made)
    heads = [column.heading for column in table.columns]
    assert heads[:4] == ["plan", "arrangement", "DRAM, GiB", "hit rate"]
    assert [row[3] for row in table.rows] == [0.7, 0.65]
    assert "evicted from DRAM" in heads
    assert not [head for head in heads if "drive" in head]
