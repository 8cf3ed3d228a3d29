"""The report as a file: well-formed, self-contained, with every figure, metric and definition."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from analysis.comparison.intervals import compute_statistics
from analysis.log.log import Targets
from analysis.report import comparison_charts, export, svg
from analysis.report import text as wording
from analysis.report.data import Gathered, gather
from analysis.summary.summary import summarise
from tests.analysis.report.pages import CASES, NASTY, slower, tree, words
from tests.support.logs import follow, write_run


@pytest.mark.parametrize("case", CASES)
def test_a_page_is_well_formed_and_self_contained(pages: dict[str, Path], case: str) -> None:
    text, root = pages[case].read_text(), tree(pages[case])
    assert len(text.encode()) < (650_000 if case == "one" else 2_000_000)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {element.tag for element in root.iter()}.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            if name.split("}")[-1] in ("href", "src"):
                assert value.removeprefix("#") in ids
            assert all(target in ids for target in re.findall(r"url\(#([^)]*)\)", value))
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org)", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize("case", CASES)
def test_every_figure_has_a_title_an_explanation_and_its_data(pages: dict[str, Path], case: str) -> None:
    figures = tree(pages[case]).findall(".//figure")
    assert len(figures) >= 10
    for figure in figures:
        assert words(figure.find("h3"))  # type: ignore[arg-type]
        assert len(words(figure.find("figcaption"))) > 40  # type: ignore[arg-type]
        assert len(figure.findall(".//svg[@role='img'][@aria-label]")) == 1
        for table in figure.findall("details//table"):
            width = len(table.findall("thead//th"))
            rows = table.findall("tbody/tr")
            assert rows, table.findtext("caption")
            assert all(len(row) == width for row in rows)
        assert figure.findall("details//table")


def test_axes_name_their_units(pages: dict[str, Path]) -> None:
    for figure in tree(pages["one"]).findall(".//figure"):
        if figure.get("id") == "device":  # the titles of its panels name the units
            continue
        for chart in figure.findall(".//svg"):
            texts = {words(text) for text in chart.iter("text")}
            units = r"\b(ms|s|GiB/s|GiB|tok/s|seconds|moves|share)\b"
            assert any(re.search(units, text) for text in texts), figure.get("id")
            assert all("log scale" in words(chart) for _ in [0] if figure.get("id") in ("latency", "tail", "by_size"))


def test_verdict_and_doubts_come_first(pages: dict[str, Path]) -> None:
    text = words(tree(pages["one"])[1])
    order = [
        "kv-tier-bench report of one run",
        "✓ VALID",
        "Throughput, tok/s",
        " doubts ",
        "throughput by the wall clock",
        "Throughput over time",
        "Trace, plan and time",
        "What these",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    bad = words(tree(pages["bad"])[1])
    assert "✗ NOT VALID" in bad
    assert bad.index("✗ NOT VALID") < bad.index("✗ Invalidates: Incomplete") < bad.index(" doubts ")
    assert "Do not publish these figures: " in bad


def test_the_headline_agrees_with_the_summary(pages: dict[str, Path], replay: Path) -> None:
    summary = summarise(replay).to_json()
    rows = {
        words(row[0]).split()[-1]: words(row[2])
        for row in tree(pages["one"]).findall(".//table[@class='headline']/tbody/tr")
    }
    assert len(rows) > 12
    assert rows.pop("bottleneck") == summary["bottleneck"]
    for name, text in rows.items():
        number = float(text.strip("()%").replace(",", "")) / (100 if "%" in text else 1)
        assert number == pytest.approx(summary[name], rel=0.01), name
    assert rows["nvme_read_p99_ms"].startswith("(")  # in brackets: too few samples


def test_every_metric_has_a_value_and_a_definition(pages: dict[str, Path], replay: Path) -> None:
    text = words(tree(pages["one"]))
    known = [name for name, value in summarise(replay).to_json().items() if isinstance(value, float)]
    assert [name for name in known if name not in text] == []
    assert "Placement was decided by the plan" in text
    assert summarise(replay).to_json()["trace_fingerprint"] in text


def test_names_and_reasons_are_escaped(pages: dict[str, Path]) -> None:
    page = pages["systems"].read_text()
    assert "<img" not in page
    assert "<script" not in page
    assert NASTY.replace("/", "") in words(tree(pages["systems"]))
    assert "disk </title><script>alert(2)</script>" in words(tree(pages["bad"]))


def test_trials_form_one_system_with_intervals(gathered: dict[str, Gathered], pages: dict[str, Path]) -> None:
    data = gathered["trials"]
    assert len(data.systems) == 1
    compared = comparison_charts.compare_trials(data).filter(pl.col("metric") == "wall_clock_tok_s")
    speeds = [run.summary.metrics["wall_clock_tok_s"] for run in data.runs]
    assert speeds[0] > speeds[1]
    expected = compute_statistics(speeds)
    assert compared["mean"].unique().to_list() == [expected.mean]
    assert (compared["low"][0], compared["high"][0]) == (expected.low, expected.high)
    text = words(tree(pages["trials"]))
    assert "kv-tier-bench report of 2 trials" in text
    low, high = (f"{end:,.0f}" for end in (expected.low or 0, expected.high or 0))
    assert (f"95% interval {low} to {high}, 2 trials" if low != high else "equal in 2 trials") in text
    assert len(gathered["systems"].systems) == 2


def test_an_invalid_trial_is_shown_but_not_averaged(replay: Path, tmp_path: Path) -> None:
    broken = slower(replay, tmp_path / "broken")
    info = json.loads((broken / "run.json").read_text()) | {"status": "failed", "reason": "a test"}
    (broken / "run.json").write_text(json.dumps(info))
    data = gather([replay, broken], Targets())
    compared = comparison_charts.compare_trials(data).filter(pl.col("metric") == "wall_clock_tok_s")
    assert compared["valid"].to_list() == [True, False]
    assert compared["mean"].to_list() == [summarise(replay).to_json()["wall_clock_tok_s"]] * 2
    assert next(iter(data.shown.values())).name == replay.name
    assert wording.format_state(data) == "NOT VALID: 1 of 2 runs"


def test_a_run_of_warm_up_alone_has_no_charts(tmp_path: Path) -> None:
    rows = follow(3, 60, warm_ops=10**6)
    data = gather([write_run(tmp_path / "warm", rows)], Targets())
    page = tmp_path / "warm.html"
    page.write_bytes(export.as_html(data))
    assert not tree(page).findall(".//figure")
    assert "nothing is left to measure" in words(tree(page))


def test_targets_reach_the_page(pages: dict[str, Path]) -> None:
    text = words(tree(pages["one"]))
    assert "batch 123,456 ms" in text
    assert "nvme_read_efficiency" in text


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it."""

    def luminance(hexed: str) -> float:
        parts = [int(hexed[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_have_contrast(theme: int) -> None:
    colours = {name: pair[theme] for name, pair in svg.COLOURS.items()}
    assert len({pair[0] for pair in svg.COLOURS.values()}) == len(colours)
    paper = colours.pop("paper")
    for name, value in colours.items():
        least = {"ink": 7.0, "muted": 4.5, "grid": 1.1}.get(name, 2.4)
        assert contrast(value, paper) >= least, name
