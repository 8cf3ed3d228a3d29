"""The answer of a report: what was tested, figures, state, spread and the other formats."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.comparison.intervals import compute_statistics, summarise_metric
from analysis.log.targets import Targets
from analysis.metrics.catalogue import CATALOGUE
from analysis.report.answer import choose_state, list_figures, make_report
from analysis.report.systems import Gathered, gather
from analysis.report.tables import list_tested
from analysis.summary.across_runs import add_shared_doubts
from analysis.summary.summary import summarise
from tests.analysis.report.loads import gathered_of
from tests.analysis.report.pages import altered
from tests.support.crafted_runs import clean
from tests.support.logs import follow, write_run
from tests.support.summaries import summary_of
from views.answer import Answer
from views.formats import FORMATS


def test_caches_have_the_size_that_the_user_asked_for(tmp_path: Path) -> None:
    """Of 10 GiB of memory 8 are usable; a drive is usable wholly."""
    run = clean()
    usable = {"gpu": 0, "cpu": 8 << 30, "nvme": 8 << 30}
    run.info["conditions"] |= {"headroom": "0.8", "usable_bytes": usable}
    told = list_tested(gather([run.save(tmp_path / "run")], Targets()))
    assert "cpu 10 GiB + nvme 8 GiB" in told[1]


def test_systems_that_are_not_compared_have_no_figures() -> None:
    metrics = dict.fromkeys(CATALOGUE)
    runs = [summary_of(**metrics | {"nvme_read_gib_s": rate}) for rate in (0.5, 0.7)]
    assert list_figures(gathered_of(*runs, systems=("old", "new"))) == []


def test_a_hit_rate_of_0_is_measured_and_a_read_rate_of_0_is_not() -> None:
    metrics = dict.fromkeys(CATALOGUE) | {"hit_rate_prompt_tokens": 0.0, "nvme_read_gib_s": 0.0}
    figures = {one.name: one.value for one in list_figures(gathered_of(summary_of(**metrics), systems=("cold",)))}
    assert figures["nvme_read_gib_s"] is None
    assert figures["hit_rate_prompt_tokens"] == 0.0


def test_a_time_that_unfinished_requests_leave_unknown_is_more_than_a_bound() -> None:
    """One trial measured 2,000 ms, the other more than 4,000: their mean is more than 3,000, not 2,000."""
    metrics = dict.fromkeys(CATALOGUE) | {"wall_clock_tok_s": 5.0}
    known, cut = (summary_of(**metrics | {"ttfb_p95_ms": value}) for value in (2000.0, None))
    data = gathered_of(known, replace(cut, more_than={"ttfb_p95_ms": 4000.0}), systems=("one", "one"))
    stats = summarise_metric("ttfb_p95_ms", data.summaries)
    assert (stats.n, stats.mean, stats.more_than) == (2, None, 3000.0)
    figure = next(one for one in list_figures(data) if one.name == "ttfb_p95_ms")
    assert (figure.value, figure.is_more_than) == (3000.0, True)


def test_trials_form_one_system_with_intervals(gathered: dict[str, Gathered]) -> None:
    assert len(gathered["trials"].trials) == 1
    assert len(gathered["systems"].trials) == 2
    runs = [summary_of(**dict.fromkeys(CATALOGUE) | {"wall_clock_tok_s": speed}) for speed in (90.0, 110.0)]
    expected = compute_statistics([90.0, 110.0])
    figure = list_figures(gathered_of(*runs, systems="aa"))[0]
    assert (figure.value, figure.low, figure.high) == (expected.mean, expected.low, expected.high)


def test_an_invalid_trial_is_shown_but_not_averaged(replay: Path, tmp_path: Path) -> None:
    broken = altered(replay, tmp_path / "broken")
    info = json.loads((broken / "run.json").read_text()) | {"status": "failed", "reason": "a test"}
    (broken / "run.json").write_text(json.dumps(info))
    data = gather([replay, broken], Targets())
    assert list_figures(data)[0].value == summarise(replay).to_json()["wall_clock_tok_s"]
    assert next(iter(data.shown.values())).name == replay.name
    assert choose_state(data) == "NOT VALID: 1 of 2 runs"


def test_a_run_of_warm_up_alone_has_no_charts(tmp_path: Path) -> None:
    answer = make_report(gather([write_run(tmp_path / "warm", follow(3, 60, warm_ops=10**6))], Targets()))
    assert answer.charts == []
    assert any("nothing is left to measure" in doubt.text for doubt in answer.doubts)


def test_the_tables_agree_with_the_summary(answers: dict[str, Answer], replay: Path) -> None:
    summary = summarise(replay).to_json()
    headlines, others = (
        next(table for table in answers["one"].tables if table.name == name) for name in ("headlines", "metrics")
    )
    assert len(headlines.rows) > 8
    rows = {str(row[1]): str(row[3]) for table in (headlines, others) for row in table.rows}
    known = {name for name, value in summary.items() if value is not None}
    assert rows.keys() >= CATALOGUE.keys() & known - {"executed_ops", "host_cores", "users"}
    assert rows.pop("bottleneck") == summary["bottleneck"]
    for name in ("wall_clock_tok_s", "ttfb_p95_ms", "nvme_read_p95_ms"):
        assert float(rows[name].strip("()").replace(",", "")) == pytest.approx(summary[name], rel=0.01), name
    assert rows["nvme_read_p99_ms"].startswith("(")  # in brackets: too few samples


def select_numbers(summary: dict[str, Any]) -> dict[str, float | None]:
    return {n: v if v is None else float(v) for n, v in summary.items() if v is None or isinstance(v, int | float)}


def test_csv_contains_the_summaries(answers: dict[str, Answer], cases: dict[str, list[Path]]) -> None:
    table = pl.read_csv(FORMATS["csv"](answers["trials"]).encode(), infer_schema_length=None)
    assert table.columns == ["run", "metric", "value", "unit"]
    for path in cases["trials"]:
        own = table.filter(pl.col("run") == path.name)
        assert dict(own.select("metric", "value").iter_rows()) == select_numbers(summarise(path).to_json())
    units = dict(table.select("metric", "unit").iter_rows())
    assert (units["nvme_read_gib_s"], units["e2e_p95_ms"], units["hit_rate"]) == ("GiB/s", "ms", "share")


def test_json_contains_summaries_and_tables(answers: dict[str, Answer], cases: dict[str, list[Path]]) -> None:
    found = json.loads(FORMATS["json"](answers["trials"]))
    assert found["state"] == "VALID"
    assert [figure["name"] for figure in found["figures"]][:2] == ["wall_clock_tok_s", "nvme_read_gib_s"]
    summaries = add_shared_doubts([summarise(path) for path in cases["trials"]])
    for summary, one in zip(summaries, found["runs"], strict=True):
        tables = one.pop("tables")
        assert one == summary.to_json()
        read = sum(row["gib"] for row in tables["traffic"] if row["tier"] == "nvme" and row["side"] == "read")
        assert math.isclose(read, one["nvme_read_bytes"] / 2**30)
