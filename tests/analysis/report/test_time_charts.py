"""Charts over time, by size and by depth: panels, bands, marked moments, thin percentiles."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from analysis.log.log import Targets
from analysis.report import charts
from analysis.report.chart_kinds import Plot
from analysis.report.data import Gathered, find_moments, gather
from analysis.report.figures import SECTIONS, limit_systems
from analysis.report.svg import WIDTH
from tests.analysis.metrics.comparing import log_of
from tests.support.logs import follow, write_run

S = 10**9


def draw(function: Callable[[Gathered, int], Plot | None], data: Gathered) -> Plot:
    drawn = function(data, WIDTH)
    assert drawn is not None
    return drawn


def write_cut_run(place: Path, cut_s: float) -> Path:
    info = {"warmup": {"ops": 20, "end_ns": 300_000_000}, "window": {"cut_s": cut_s}}
    return write_run(place, follow(3, 300, warm_ops=20), **info)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    return gather([write_cut_run(tmp_path_factory.mktemp("cut") / "run", 2.6)], Targets())


def test_moments_worked_by_hand() -> None:
    """The first move after the warm-up begins at 0.5 s, the warm-up ended at 0.4 s, the run was cut at 2.6 s."""
    rows = [row | {"warmup": row["op_id"] < 20} for row in follow(3, 300)]
    first = min(row["start_ns"] for row in rows if not row["warmup"])
    bounds = (first - S // 10, first + 21 * S // 10)
    assert find_moments(log_of(rows, bounds_ns=bounds)) == {"warm-up ends": 0.0, "measured until here": 2.1}
    later = (first + S // 4, None)
    assert find_moments(log_of(rows, bounds_ns=later)) == {"warm-up ends": 0.25}
    cold = [row | {"warmup": False} for row in rows]
    assert find_moments(log_of(cold, bounds_ns=(first, None))) == {}
    assert find_moments(log_of([row | {"warmup": True} for row in rows], bounds_ns=(first, None))) == {}


@pytest.mark.parametrize("function", [charts.draw_bandwidth, charts.draw_latency, charts.draw_depth])
def test_each_panel_marks_the_warm_up_and_the_cut(
    cut: Gathered, function: Callable[[Gathered, int], Plot | None]
) -> None:
    rows = draw(function, cut).rows
    marks = rows.filter(pl.col("mark").is_not_null())
    moments = cut.runs[0].moments
    assert list(moments) == ["warm-up ends", "measured until here"]
    for panel in rows["panel"].unique():
        assert dict(marks.filter(panel=panel).select("mark", "x").rows()) == moments
    assert marks["y"].null_count() == len(marks)


def test_moments_of_several_systems_are_named_if_they_differ(tmp_path: Path) -> None:
    paths = [write_cut_run(tmp_path / name, cut_s) for name, cut_s in (("long", 2.6), ("short", 1.6))]
    data = gather(paths, Targets(), names=["long/1", "short/1"])
    moments = charts.list_moments(data)
    warm = data.runs[0].moments["warm-up ends"]
    ends = [run.moments["measured until here"] for run in data.runs]
    assert moments == [
        ("warm-up ends", warm),
        ("measured until here, long", ends[0]),
        ("measured until here, short", ends[1]),
    ]
    assert ends[0] - ends[1] == pytest.approx(1.0)


def test_charts_over_time_draw_four_systems_in_the_colours_of_all(tmp_path: Path) -> None:
    """Every second of eight systems, so that two sides of four cases have two each."""
    rows = follow(3, 60)
    names = [f"{side}-{case}" for side in ("old", "new") for case in range(4)]
    paths = [write_run(tmp_path / name, rows, pace="open") for name in names]
    whole = gather(paths, Targets(), names=[f"{name}/1" for name in names])
    figures = {figure.name: figure for section in SECTIONS.values() for figure in section}
    assert limit_systems(figures["tail"], whole) == (figures["tail"], whole)
    figure, some = limit_systems(figures["bandwidth"], whole)
    drawn = ["old-0", "old-2", "new-0", "new-2"]
    assert list(some.shown) == drawn
    assert figure.reading.endswith("Drawn are 4 of 8 systems, without old-1; old-3; new-1; new-3.")
    every, own = (charts.choose_system_look(data).words for data in (whole, some))
    assert own == {name: every[name] for name in drawn}
    assert len(set(every.values())) == 8
    assert set(draw(charts.draw_lateness, some).rows["series"]) == set(drawn)


def test_each_tier_and_direction_has_a_panel_with_a_band(cut: Gathered) -> None:
    drawn = draw(charts.draw_latency, cut).rows.filter(pl.col("mark").is_null())
    table = cut.runs[0].tables["latency_over_time"]
    assert set(drawn["panel"]) == {f"{tier} {side}s" for tier, side in table.select("tier", "side").rows()}
    assert drawn["low"].to_list() == drawn["p50_ms"].clip(charts.LEAST_MS).to_list()
    assert (drawn["low"] <= drawn["y"]).all()
    panels = draw(charts.draw_bandwidth, cut).rows.filter(pl.col("mark").is_null())
    assert set(panels["panel"]) == set(drawn["panel"])


def test_percentiles_of_too_few_moves_are_left_out(cut: Gathered) -> None:
    rows = draw(charts.draw_by_depth, cut).rows
    table = cut.runs[0].tables["latency_by_depth"]
    kept = {name: table.filter(pl.col("count") >= least) for name, least in (("p50", 1), ("p95", 100), ("p99", 500))}
    assert {name: len(rows.filter(series=name.upper())) for name in kept} == {
        name: len(some) for name, some in kept.items()
    }
    assert len(kept["p50"]) > len(kept["p95"])
    assert sorted(rows["x"].unique(), key=int) == [str(depth) for depth in sorted(table["depth"].unique())]
