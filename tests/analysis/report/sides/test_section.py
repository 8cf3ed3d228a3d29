"""The comparison on the page, in a browser, and as typed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.cli import main
from tests.analysis.report.pages import altered, tree, words
from tests.support.browser import Browser
from tests.support.crafted_runs import clean
from tests.support.latencies import latencies_known
from tests.support.predicted_runs import measured

SLOWER = {"old": (1.5, 1.52, 1.51), "new": (1.0, 1.01, 1.0)}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report of two drives: three trials each, and the old one takes 1.5 times as long."""
    place = tmp_path_factory.mktemp("drives")
    for n, (side, factors) in enumerate(SLOWER.items()):
        for trial, factor in enumerate(factors):
            run = measured(clean().slower(factor), started=10 * n + trial)
            run.save(place / side / f"trial_{trial}")
    target = place / "drives.html"
    with latencies_known():
        done = CliRunner().invoke(main, ["report", str(place / "old"), str(place / "new"), "-o", str(target)])
    assert done.exit_code == 0, done.output
    return target


def test_the_page_answers_which_drive_is_better(page: Path) -> None:
    """Work and time differ by (1.5 × 1.52 × 1.51) ÷ (1 × 1.01 × 1), and its cube root is 1.505."""
    root = tree(page)
    answer = words(root.find(".//p[@class='answer']"))  # type: ignore[arg-type]
    assert answer.startswith("new is better than old: equal work per second and tokens/s 1.50 × (95% interval 1.4")
    table = root.find(".//table[@class='forests']")
    assert table is not None
    rows = {words(row[0]): [words(cell) for cell in row[1:]] for row in table.findall(".//tbody/tr")}
    rate = rows["throughput, tok/s"]
    assert rate[2] == "1.50 ×"
    assert rate[-1] == "new is better"
    cards = words(root.find(".//dl[@class='cards']"))  # type: ignore[arg-type]
    assert cards.startswith("Equal work per second 1.50 × 95% interval 1.4")
    assert "Throughput 1.50 × 95% interval" in cards
    trials = root.findall(".//section[@id='sides']/details//tbody/tr")
    assert len(trials) == 6


DOTS = """[...document.querySelectorAll('.forest')].filter(svg => svg.querySelector('circle')).map(svg => {
  const box = svg.querySelector('circle').getBoundingClientRect();
  const one = svg.querySelector('.one').getBoundingClientRect();
  return [box.left + box.width / 2 - one.left, getComputedStyle(svg.querySelector('circle')).fill, box.width];
})"""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_draws_the_dots_right_of_one(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width, dark=dark)
    assert browser.complaints() == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    dots = browser.value(DOTS)
    assert len(dots) >= 6
    fills = {fill for _, fill, _ in dots}
    assert all(right > 20 for right, _, _ in dots), "every metric of the new drive is better"
    assert ("rgb(92, 179, 240)" if dark else "rgb(0, 102, 170)") in fills
    assert all(size > 10 for _, _, size in dots)
    small = "[...document.querySelectorAll('#sides td, #sides th, .axis text')].map(e => parseFloat(getComputedStyle(e).fontSize))"
    assert min(browser.value(small)) >= 13


def test_equal_runs_of_two_firmwares_are_sides_by_label(replay: Path, tmp_path: Path) -> None:
    runs = [altered(replay, tmp_path / name) for name in ("a1", "a2")]
    typed = ["report", *map(str, runs), "--format", "json"]
    plain = json.loads(CliRunner().invoke(main, typed).output)
    assert "comparison" not in plain
    labels = ["--label", f"before={runs[0]}", "--label", f"after={runs[1]}"]
    found = json.loads(CliRunner().invoke(main, [*typed, *labels]).output)["comparison"]
    assert found["baseline"] == "before"
    assert found["sentence"].startswith("after against before, no verdict (one trial each)")


def test_a_baseline_turns_the_ratios(page: Path) -> None:
    place = page.parent
    typed = ["report", str(place / "old"), str(place / "new"), "--baseline", str(place / "new" / "trial_0")]
    with latencies_known():
        found = json.loads(CliRunner().invoke(main, [*typed, "--format", "json"]).output)
    assert found["comparison"]["baseline"] == "new"
    assert found["comparison"]["sentence"].startswith("old is worse than new: ")
    assert found["comparison"]["ranking"] == ["new", "old"]
