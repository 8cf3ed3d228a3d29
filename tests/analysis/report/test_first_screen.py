"""The form of the first screen: what each part of a FirstScreen becomes on a page."""

from pathlib import Path
from xml.etree import ElementTree as ET

import jinja2

import analysis.report
from analysis.report.first_screen.form import Card, DoubtLine, FirstScreen
from tests.analysis.report.pages import NASTY, words

CARDS = (
    Card("Throughput", "12,714", "tokens/s", "95% interval 12,166 to 13,261, 3 trials", "higher is better"),
    Card("Break-even", None, "tokens/s", "no read came from nvme"),
)
DOUBTS = (
    DoubtLine("failed moves", "2 moves failed", "see the log", invalidates=True),
    DoubtLine("short run", "it took 12 s", "replay longer", "2 of 3 runs"),
)


def draw(screen: FirstScreen) -> ET.Element:
    loader = jinja2.FileSystemLoader(Path(str(analysis.report.__file__)).parent)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["flags"] = str
    source = '{% from "first_screen.html.jinja" import first_screen %}{{ first_screen(screen) }}'
    return ET.fromstring(environment.from_string(source).render(screen=screen))


def test_its_parts_come_in_the_order_in_which_a_reader_needs_them() -> None:
    page = draw(
        FirstScreen("a report", "Disk", ["on ext4", "by 8 users"], "NOT VALID", "It fails.", "bad", CARDS, DOUBTS)
    )
    assert words(page) == (
        "a report Disk on ext4 by 8 users ✗ NOT VALID It fails. ✗ Invalidates: failed moves: 2 moves failed. See the log."
        " Throughput, tokens/s 12,714 95% interval 12,166 to 13,261, 3 trials higher is better"
        " Break-even not measured no read came from nvme"
        " 1 doubt short run 2 of 3 runs: it took 12 s. Replay longer."
    )


def test_a_doubt_is_folded_unless_it_invalidates() -> None:
    page = draw(FirstScreen("", "", [], "", "", doubts=DOUBTS))
    assert [one.get("open") for one in page.iter("details")] == ["open", None]


def test_a_screen_without_cards_and_doubts_has_neither_part() -> None:
    page = draw(FirstScreen("", "Plan", [], "Planned", "8 GiB reach 90%."))
    assert words(page) == "Plan Planned 8 GiB reach 90%."
    assert page.find("dl") is None
    assert page.find("section") is None


def test_names_of_runs_are_escaped() -> None:
    page = draw(FirstScreen(NASTY, NASTY, [NASTY], NASTY, NASTY, cards=[Card(NASTY, NASTY, NASTY, NASTY, NASTY)]))
    assert page.find(".//img") is None
    assert words(page).count(NASTY) == 10
