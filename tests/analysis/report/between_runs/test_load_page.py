"""The page of runs at several loads: its title, cards, answer and chart, in a browser too."""

import re
from pathlib import Path

import pytest

from analysis.log.log import Targets
from analysis.report import export
from analysis.report.between_runs.load import find_load, is_one_curve
from analysis.report.between_runs.load_screen import make_load_cards, make_load_title
from analysis.report.data import Gathered, gather
from analysis.report.first_screen.screen import make_first_screen
from tests.analysis.report.between_runs.loads import gathered_of, loaded
from tests.support.browser import Browser
from tests.support.crafted_runs import clean
from tests.support.latencies import latencies_known


def test_the_cards_of_one_curve() -> None:
    """Loads 1, 2 and 4 take 20, 40 and 155 ms; the target of 50 ms is kept up to 2."""
    data = gathered_of(loaded(4, 155.0), loaded(1, 20.0, nvme_read_gib_s=0.5), loaded(2, 40.0))
    cards = {card.label: card for card in make_load_cards(data)}
    limit = cards["Highest load within its target"]
    assert (limit.value, limit.unit) == ("2", "× speed-up")
    assert (limit.range, limit.hint) == ("P95 of requests within 50 ms", "higher is better")
    served = cards["Requests served at most"]
    assert (served.value, served.hint) == ("4", "at speed-up 4; higher is better")
    assert cards["Storage part of TTFT, P95, at the lowest load"].value == "20"
    highest = cards["Storage part of TTFT, P95, at the highest load"]
    assert (highest.value, highest.range) == ("155", "one trial")
    assert highest.hint == "all requests at speed-up 4; lower is better"
    assert cards["Reads from NVMe at most"].value == "0.5"
    assert make_load_title(data) == "Latency against load: speed-up 1 to 4"


def test_what_nothing_reached_is_said() -> None:
    missed = make_load_cards(gathered_of(loaded(1, 60.0), loaded(2, 90.0)))
    assert missed[0].value == "none"
    assert [card.value for card in missed if card.label == "Reads from NVMe at most"] == [None]
    unjudged = gathered_of(loaded(1, 60.0), loaded(2, 90.0), targets=Targets(qos_ms_per_gib=1.0))
    assert make_load_cards(unjudged)[0].value is None


def test_several_curves_have_a_card_each() -> None:
    runs = [loaded(load, ms * load, conditions={"workers": n}) for n, ms in ((4, 30.0), (8, 20.0)) for load in (1, 2)]
    cards = make_load_cards(gathered_of(*runs))
    assert [(card.label, card.value) for card in cards] == [("workers 4", "1"), ("workers 8", "2")]


def test_users_are_named() -> None:
    data = gathered_of(loaded(1, 20.0, users=8), loaded(1, 155.0, users=16))
    assert make_load_title(data) == "Latency against load: 8 to 16 users"
    assert (make_load_cards(data)[0].value, make_load_cards(data)[0].unit) == ("8", "users")


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    """Three trials at each of two loads; at the second everything takes as long, twice as often."""
    place = tmp_path_factory.mktemp("swept")
    paths = []
    for load in (1, 2):
        for trial in range(3):
            run = clean().slower((1 + trial / 50) * load)
            run.info["conditions"] |= {"pace": "open", "speedup": float(load)}
            paths.append(run.save(place / f"load-speedup={load}" / f"trial_{trial + 1}"))
    with latencies_known():
        return gather(paths, Targets(qos_ms={"interactive": 150.0, "responsive": 150.0, "batch": 150.0}))


def test_a_title_of_the_user_comes_first(swept: Gathered) -> None:
    screen = make_first_screen(swept)
    assert screen.title == "Latency against load: speed-up 1 to 2"
    assert screen.kicker == "kv-tier-bench report of 6 runs at 2 loads"
    assert not any("Differs" in line for line in screen.tested), "the title says it"
    assert "stays within its target of 150 ms up to speed-up 1" in screen.answer
    assert screen.cards[0].value == "1"


POINTS = """[...document.querySelectorAll('#load path title')].map(title => [
  title.textContent, title.parentElement.getBoundingClientRect().y])"""
TARGETS = "[...document.querySelectorAll('#load text')].map(e => e.textContent).filter(t => /^target/.test(t))"
ORDER = """['h1', '#load', '#figures'].map(place => document.querySelector(place).getBoundingClientRect().y)"""


@pytest.fixture(scope="module")
def page(swept: Gathered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "load.html"
    path.write_bytes(export.as_html(swept))
    return path


def test_loads_of_one_configuration_are_not_compared_as_systems(swept: Gathered, page: Path) -> None:
    """The curve compares them; another run beside them is a system to compare with."""
    assert is_one_curve(swept)
    assert "not compared" not in page.read_text()
    beside = gathered_of(loaded(1, 10.0), loaded(2, 20.0), loaded(2, 20.0, conditions={"workers": 4}))
    assert find_load(beside)
    assert not is_one_curve(beside)


@pytest.mark.parametrize("width", [1280, 390])
def test_the_curve_is_on_top_of_the_page(page: Path, browser: Browser, width: int) -> None:
    browser.open(page, width)
    assert browser.complaints() == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    places = browser.value(ORDER)
    assert places == sorted(places)
    assert browser.value("document.querySelectorAll('#load').length") == 1
    heights = {
        (match[1], match[2]): y
        for text, y in browser.value(POINTS)
        if (match := re.match(r"(P\d\d), speed-up (\d)", text))
    }
    assert len(heights) == 6
    for name in ("P50", "P95", "P99"):
        assert heights[name, "2"] < heights[name, "1"], "twice the time is a higher point"
    assert browser.value(TARGETS) == ["target of interactive, responsive, batch 150 ms"]
