"""Predicted runs in reports: names, dashes, errors, and what the page says of them."""

import csv
import json
import re
from pathlib import Path

import pytest

from analysis.log.log import Targets
from analysis.report import charts, comparison_charts, export
from analysis.report import text as wording
from analysis.report.data import Gathered, gather
from analysis.report.first_screen.screen import make_first_screen
from analysis.report.first_screen.tested import list_tested
from analysis.report.svg import WIDTH
from analysis.summary.answer import list_verdicts
from tests.analysis.report.pages import tree, words
from tests.support.browser import Browser
from tests.support.crafted_runs import Crafted, clean
from tests.support.latencies import latencies_known
from tests.support.predicted_runs import SHEET, mark, measured


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Gathered]:
    """Gather two trials, a prediction and one from a data sheet; and that prediction alone."""
    place = tmp_path_factory.mktemp("predictions")
    trials = [measured(clean(), started=n).save(place / f"drive-{n}") for n in range(2)]
    other = mark(clean().slower(1.05)).save(place / "what-if")
    sheet = mark(clean().slower(0.5), **SHEET).save(place / "predicted-sheet")
    with latencies_known():
        return {
            "both": gather([*trials, other, sheet], Targets()),
            "alone": gather([other], Targets()),
            "measured": gather(trials, Targets()),
        }


@pytest.fixture(scope="module")
def page(reported: dict[str, Gathered], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "both.html"
    path.write_bytes(export.as_html(reported["both"]))
    return path


def test_names_are_marked_unless_they_say_it(reported: dict[str, Gathered]) -> None:
    both = reported["both"]
    assert [run.name for run in both.runs] == ["drive-0", "drive-1", "what-if (predicted)", "predicted-sheet"]
    assert both.systems == ["drive", "what-if (predicted)", "predicted-sheet"]
    assert both.predicted == {"what-if (predicted)", "predicted-sheet"}
    assert reported["measured"].predicted == set()


def dashes_of(data: Gathered) -> dict[str, list[int]]:
    scale = charts.choose_system_look(data).dashes().to_dict()
    return dict(zip(scale["domain"], scale["range"], strict=True))


def test_predicted_lines_are_dashed_and_measured_lines_are_not(reported: dict[str, Gathered]) -> None:
    found = dashes_of(reported["both"])
    solid, *dashed = found.values()
    assert solid == [1, 0]
    assert [1, 0] not in dashed
    assert len({*map(tuple, dashed)}) == 2
    for draw in (charts.draw_bandwidth, charts.draw_latency, charts.draw_depth, charts.draw_occupancy):
        drawn = draw(reported["alone"], WIDTH)
        assert drawn is not None
        (scale,) = scales(drawn.chart.to_dict(validate=False), "strokeDash")
        assert [1, 0] not in scale["range"]
        assert len({*map(tuple, scale["range"])}) == len(scale["domain"])


def scales(spec: object, channel: str) -> list[dict[str, list[list[int]]]]:
    """Find the scales of a channel in a chart."""
    if isinstance(spec, list):
        return [scale for part in spec for scale in scales(part, channel)]
    if not isinstance(spec, dict):
        return []
    own = [spec[channel]["scale"]] if isinstance(spec.get(channel), dict) else []
    return own + [scale for name, part in spec.items() if name != channel for scale in scales(part, channel)]


def test_both_series_are_in_one_chart(reported: dict[str, Gathered]) -> None:
    drawn = charts.draw_bandwidth(reported["both"], WIDTH)
    assert drawn is not None
    panels = drawn.rows.group_by("panel").agg("series").rows()
    assert all(set(series) == {"drive", "what-if (predicted)", "predicted-sheet"} for _, series in panels)


def test_bars_of_predictions_have_no_interval(reported: dict[str, Gathered]) -> None:
    rows = comparison_charts.compare_trials(reported["both"]).filter(metric="nvme_read_p95_ms")
    found = {row["system"]: row for row in rows.iter_rows(named=True)}
    other = found["what-if (predicted)"]
    assert (other["mean"], other["low"], other["high"]) == (pytest.approx(51.27, rel=1e-3), None, None)
    assert (found["predicted-sheet"]["low"], found["predicted-sheet"]["predicted"]) == (None, True)
    assert (found["drive"]["trials"], found["drive"]["predicted"]) == (2, False)


def test_the_page_says_what_is_predicted(page: Path) -> None:
    root = tree(page)
    text = words(root)
    assert words(root.find(".//h1")) == "drive, what-if (predicted), predicted-sheet"  # type: ignore[arg-type]
    assert "PREDICTED, not measured, with the profile drive (measured) (what-if (predicted))" in text
    assert "4 VALID RUNS, 2 predicted" in text
    assert "Runs marked as predicted were not measured" in text
    assert "the profile acme-1 (data sheet: acme.example, 2026-11-01)" in text
    heads = [words(cell) for cell in root.findall(".//table[@class='headline']/thead//th")]
    assert heads[2:5] == ["drive", "what-if (predicted)", "predicted-sheet"]
    legends = page.read_text().count(">what-if (predicted)</text>")
    assert legends > 10


def test_a_page_of_measured_runs_says_nothing_of_predictions(reported: dict[str, Gathered]) -> None:
    assert "redicted" not in words_of_page(reported["measured"]).replace("A dashed bar is predicted", "")


def words_of_page(data: Gathered) -> str:
    text = export.as_html(data).decode()
    return re.sub(r"<[^>]*>", " ", text[text.index("<body>") :])


def test_a_prediction_alone_is_no_verdict_on_a_machine(reported: dict[str, Gathered]) -> None:
    alone = reported["alone"]
    assert wording.format_state(alone) == "VALID PREDICTION"
    assert list_tested(alone)[0] == "PREDICTED, not measured, with the profile drive (measured)"
    told = make_first_screen(alone).answer
    assert told.startswith("By the profile this machine would serve ")
    assert told.count("Predictions for a disk were off by 10% (median), nine of ten by at most 30%; ") == 1


def test_a_prediction_outside_its_profile_is_not_called_valid(tmp_path: Path) -> None:
    def go_outside(*, is_outside: bool) -> Crafted:
        run = mark(clean(), **SHEET)
        run.info["warnings"] = [{"kind": "outside the profile", "text": "there are 64 workers"}] if is_outside else []
        return run

    places = [go_outside(is_outside=n == 0).save(tmp_path / f"run-{n}") for n in range(2)]
    with latencies_known():
        both, alone = gather(places, Targets()), gather(places[:1], Targets())
    assert wording.format_state(both) == "PREDICTED OUTSIDE THE PROFILE: 1 of 2 runs"
    assert wording.format_state(alone) == "PREDICTED OUTSIDE THE PROFILE"
    assert [make_first_screen(data).tone for data in (both, alone)] == ["plain", "plain"]
    assert list_verdicts(alone.summaries)[0][:2] == (str(places[0]), "PREDICTED OUTSIDE THE PROFILE")


def test_other_formats_are_marked(reported: dict[str, Gathered]) -> None:
    both = reported["both"]
    markdown = export.as_markdown(both).decode()
    assert "\n**4 VALID RUNS, 2 predicted** " in markdown
    assert "PREDICTED with the profile drive (measured)" in markdown
    rows = list(csv.reader(export.as_csv(both).decode().splitlines()))
    marks = {run: value for run, metric, value, _ in rows if metric == "predicted"}
    assert marks == {"drive-0": "0.0", "drive-1": "0.0", "what-if (predicted)": "1.0", "predicted-sheet": "1.0"}
    runs = json.loads(export.as_json(both))["runs"]
    assert [run["predicted"] for run in runs] == [False, False, True, True]
    assert [run.get("prediction_errors", "")[:4] for run in runs] == ["", "", "Pred", "No p"]


DASHED = """[...document.querySelectorAll('#bandwidth path')].map(path => [
  getComputedStyle(path).stroke, path.getAttribute('stroke-dasharray') || ''
]).filter(([stroke, dash]) => dash)"""


@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_the_dashes(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, 1280, dark=dark)
    assert browser.complaints() == []
    patterns = {dash for _, dash in browser.value(DASHED)}
    assert {"5,3", "2,2"} <= patterns
    assert browser.value("document.documentElement.scrollWidth") <= 1280
    browser.open(page, 390, dark=dark)
    assert browser.value("document.documentElement.scrollWidth") <= 390
