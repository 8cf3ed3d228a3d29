"""Curves, knees, cliffs and the Pareto front of sweeps made by hand."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analysis.sweeps.charts import BOUND, draw_curves, tabulate_curves
from analysis.sweeps.figures import list_figures
from analysis.sweeps.front_chart import draw_front
from analysis.sweeps.shapes import describe_curve, find_cliff, find_front, find_knee
from analysis.sweeps.sweep import Curve, Point, SweepTable, open_sweep
from analysis.sweeps.tables import tabulate_cells
from tests.analysis.sweeps.sweeps import cell, write
from tracegen.errors import InputError


def curve(*points: tuple[float, float], bound: float = 1.0) -> Curve:
    cells = tuple(Point(gib, rate, number) for number, (gib, rate) in enumerate(points))
    return Curve("cpu", "tokens", "lru", "", cells, bound)


def sweep(tmp_path: Path, *cells: dict[str, object]) -> SweepTable:
    return open_sweep(write(tmp_path / "sweep.parquet", cells))


def test_a_cliff_is_the_steepest_halving() -> None:
    found = find_cliff(curve((1, 0.1), (2, 0.15), (4, 0.6), (8, 0.62)))
    assert found is not None
    assert (found.below.gib, found.above.gib) == (2, 4)
    assert found.points == pytest.approx(45)
    # Two halvings that lose 45 points lose 22.5 each.
    found = find_cliff(curve((1, 0.1), (4, 0.55), (8, 0.7)))
    assert found is not None
    assert (found.below.gib, found.points) == (1, pytest.approx(22.5))


@pytest.mark.parametrize(("rate", "has_cliff"), [(0.1, True), (0.0999, False)])
def test_a_cliff_loses_ten_points_per_halving(rate: float, has_cliff: bool) -> None:
    assert (find_cliff(curve((1, 0), (2, rate))) is not None) is has_cliff


def test_a_knee_is_the_point_furthest_above_the_diagonal() -> None:
    """Scaled, the points are (0, 0), (1/3, 0.8), (2/3, 0.95) and (1, 1)."""
    found = find_knee(curve((1, 0.1), (2, 0.5), (4, 0.575), (8, 0.6)))
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
    assert find_knee(curve(*points)) is None


def test_a_curve_in_words() -> None:
    text = describe_curve(curve((1, 0.1), (2, 0.5), (4, 0.575), (8, 0.6), bound=0.9))
    assert text == (
        "DRAM, lru: 10.0% at 1 GiB to 60.0% at 8 GiB; a cliff between 1 and 2 GiB, where halving"
        " loses 40.0 points; a knee at 2 GiB (50.0%), above which 4 times the memory brings 10.0"
        " points; 30.0 points below unlimited memory."
    )
    fallen = describe_curve(curve((1, 0.6), (2, 0.5), (4, 1.0)))
    assert "more memory hits less from 1 to 2 GiB; the bound is reached." in fallen


def test_curves_are_the_cells_by_capacity(tmp_path: Path) -> None:
    made = sweep(
        tmp_path,
        *(cell(number, cpu, hits) for number, (cpu, hits) in enumerate([(4, 500), (1, 100), (2, 300)])),
        *(cell(3 + number, cpu, hits, policy="s3fifo") for number, (cpu, hits) in enumerate([(1, 200), (2, 250)])),
        cell(5, 0, 0),
        cell(6, 4, 600, hit_rate_tokens=None, policy="s3fifo"),
    )
    assert made.axes == ["cpu_mem_gb"]
    lru, s3fifo = made.curves("cpu_mem_gb", "tokens")
    assert (lru.label, s3fifo.label) == ("lru", "s3fifo")
    assert [(point.gib, point.rate, point.cell) for point in lru.points] == [(1, 0.1, 1), (2, 0.3, 2), (4, 0.5, 0)]
    assert [point.rate for point in s3fifo.points] == [0.2, 0.25]
    assert [point.rate for point in made.curves("cpu_mem_gb", "ops")[0].points] == [0.05, 0.15, 0.25]
    rows = tabulate_curves([lru, s3fifo])
    bound = rows.filter(series=BOUND)
    assert bound["x"].to_list() == [0, 1, 2, 4]
    assert set(bound["y"]) == {0.9}
    assert rows.filter(series="lru")["y"].to_list() == [0, 0.1, 0.3, 0.5]
    assert draw_curves(made, "cpu_mem_gb", "requests") is not None


def test_predicted_times_are_curves_without_a_bound_and_dashed(tmp_path: Path) -> None:
    made = sweep(tmp_path, *(cell(at, 2.0**at, 100) for at in range(3)))
    made = replace(made, cells=made.cells.with_columns(ttfb_p95_ms=pl.Series([9.0, 5.0, None])))
    (curve,) = made.curves("cpu_mem_gb", "ttfb_p95_ms")
    assert [(point.gib, point.rate) for point in curve.points] == [(1, 9), (2, 5)]
    assert curve.bound is None
    figures = {figure.name: figure for figure in list_figures(made)}
    figure = figures["cpu_mem_gb-ttfb_p95_ms"]
    assert figure.title == "Storage part of the time to first token, P95, ms, against DRAM: predicted"
    assert figure.table()["storage part of the time to first token, P95, ms"].to_list() == [9, 5]
    plot = figure.draw()
    assert plot is not None
    assert "[7, 4]" in str(plot.chart.to_dict(validate=False))


def test_each_size_of_the_other_tier_has_a_panel(tmp_path: Path) -> None:
    sizes = [(cpu, nvme) for cpu in (1.0, 2.0) for nvme in (0.0, 10.0, None)]
    cells = [cell(at, cpu, 100 * at, storage_capacity_gb=nvme) for at, (cpu, nvme) in enumerate(sizes)]
    made = sweep(tmp_path, *cells)
    by_cpu = made.curves("cpu_mem_gb", "tokens")
    assert [one.beside for one in by_cpu] == ["no drive", "10 GiB of drive", "unlimited drive"]
    by_nvme = made.curves("storage_capacity_gb", "tokens")
    assert [[point.gib for point in one.points] for one in by_nvme] == [[10], [10]]
    without = [one.without for one in by_nvme]
    assert [point and (point.gib, point.rate) for point in without] == [(0, 0.0), (0, 0.3)]
    plot = draw_curves(made, "storage_capacity_gb", "tokens")
    assert plot is not None
    assert plot.rows.filter(panel="2 GiB of DRAM", series="waterfall")["x"].to_list() == [0, 10, 10]
    lonely = sweep(
        tmp_path, *(cell(at, 1.0, 100 * at, storage_capacity_gb=size) for at, size in enumerate((1.0, None)))
    )
    assert draw_curves(lonely, "storage_capacity_gb", "tokens") is None  # a single capacity is no curve


def test_the_front_has_the_cells_that_no_other_beats(tmp_path: Path) -> None:
    written = [(100, 500), (50, 500), (200, 600), (250, 550), (50, 400), (300, 700)]
    cells = [cell(at, 2**at, hits, write_bytes_nvme=gib << 30) for at, (gib, hits) in enumerate(written)]
    made = sweep(tmp_path, *cells)
    front = find_front(made)
    assert front.filter("front")["cell"].to_list() == [1, 2, 5]
    assert front.filter("front")["gib"].to_list() == [50, 200, 300]
    assert front["name"][0] == "waterfall, 2 GiB of DRAM"
    plot = draw_front(made)
    assert plot is not None
    named = plot.rows.drop_nulls("side")
    assert set(named["name"]) == {"waterfall, 2 GiB of DRAM", "waterfall, 4 GiB of DRAM", "waterfall, 32 GiB of DRAM"}
    assert find_front(sweep(tmp_path, cell(0, 1, 5), cell(1, 2, 6))).is_empty()


def test_the_table_shows_what_differs_and_no_tier_that_is_absent(tmp_path: Path) -> None:
    made = sweep(tmp_path, cell(0, 8, 700), cell(1, 4, 650))
    table = tabulate_cells(made)
    assert table.columns[:4] == ["plan", "arrangement", "DRAM, GiB", "hit rate"]
    assert table["hit rate"].to_list() == ["70.0%", "65.0%"]
    assert "evicted from DRAM" in table.columns
    assert not [name for name in table.columns if "drive" in name]


def test_another_file_is_no_sweep(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(other)
    with pytest.raises(InputError, match="is not a table that"):
        open_sweep(other)
