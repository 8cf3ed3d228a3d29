"""Charts over time and by size: panels, bands, marked moments, thin percentiles."""

from pathlib import Path

import polars as pl
import pytest

from analysis.log.targets import Targets
from analysis.report.charts import list_run_charts
from analysis.report.systems import Gathered, find_moments, gather
from tests.analysis.metrics.comparing import log_of
from tests.support.logs import follow, write_run
from views.answer import Chart

S = 10**9


def draw(data: Gathered) -> dict[str, Chart]:
    return {chart.name: chart for chart in list_run_charts(data)}


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
    assert find_moments(log_of(rows, warm_end_ns=bounds[0], cut_ns=bounds[1])) == {
        "warm-up ends": 0.0,
        "measured until here": 2.1,
    }
    later = (first + S // 4, None)
    assert find_moments(log_of(rows, warm_end_ns=later[0], cut_ns=later[1])) == {"warm-up ends": 0.25}
    assert find_moments(log_of([row | {"warmup": True} for row in rows], warm_end_ns=first)) == {}


def test_charts_over_time_mark_the_warm_up_and_the_cut(cut: Gathered) -> None:
    moments = cut.runs[0].moments
    assert list(moments) == ["warm-up ends", "measured until here"]
    for name in ("bandwidth", "latency"):
        assert {rule.label: rule.x for rule in draw(cut)[name].rules} == moments


def test_moments_of_several_systems_are_named_if_they_differ(tmp_path: Path) -> None:
    paths = [write_cut_run(tmp_path / name, cut_s) for name, cut_s in (("long", 2.6), ("short", 1.6))]
    data = gather(paths, Targets(), labels=[(path.name, str(path)) for path in paths])
    rules = {rule.label: rule.x or 0.0 for rule in draw(data)["bandwidth"].rules}
    assert [*rules] == ["warm-up ends", "measured until here, long", "measured until here, short"]
    assert rules["measured until here, long"] - rules["measured until here, short"] == pytest.approx(1.0)


def test_charts_over_time_draw_four_systems_of_eight(tmp_path: Path) -> None:
    """Every second of eight systems, so that two sides of four cases have two each."""
    names = [f"{side}-{case}" for side in ("old", "new") for case in range(4)]
    paths = [write_run(tmp_path / name, follow(3, 60), pace="open") for name in names]
    drawn = draw(gather(paths, Targets(), labels=[(path.name, str(path)) for path in paths]))
    assert set(drawn["bandwidth"].rows["series"]) == {"old-0", "old-2", "new-0", "new-2"}
    assert drawn["bandwidth"].series == names, "a system has one colour in all charts"
    assert drawn["bandwidth"].caption.endswith("without old-1; old-3; new-1; new-3.")
    assert set(drawn["distribution"].rows["series"]) == set(names)


def test_each_tier_and_direction_has_a_panel_with_a_band(cut: Gathered) -> None:
    drawn = draw(cut)["latency"].rows
    table = cut.runs[0].tables["latency_over_time"]
    assert set(drawn["panel"]) == {f"{tier} {side}s" for tier, side in table.select("tier", "side").rows()}
    assert (drawn["low"] <= drawn["high"]).all()
    assert set(draw(cut)["bandwidth"].rows["panel"]) == set(drawn["panel"])


def test_bars_of_one_plan_are_drawn_once(tmp_path: Path) -> None:
    paths = [write_run(tmp_path / name, follow(3, 60)) for name in ("a", "b")]
    charts = draw(gather(paths, Targets(), labels=[(path.name, str(path)) for path in paths]))
    assert set(charts["hits"].rows["panel"]) == {""}
    assert charts["hits"].rows.group_by("y").agg(pl.col("x").sum())["x"].to_list() == pytest.approx(
        [1.0] * charts["hits"].rows["y"].n_unique()
    )
