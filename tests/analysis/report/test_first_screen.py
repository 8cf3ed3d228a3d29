"""The form of the first screen: what each part of a FirstScreen becomes on a page."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jinja2

import analysis.report
from analysis.comparison.intervals import summarise_metric
from analysis.log.log import Targets
from analysis.metrics.catalogue import CATALOGUE
from analysis.report.data import gather
from analysis.report.first_screen.cards import make_cards
from analysis.report.first_screen.form import Card, DoubtLine, FirstScreen
from analysis.report.first_screen.tested import list_tested
from analysis.report.headline_table import tabulate_headlines
from analysis.report.page import keep_flags_whole
from tests.analysis.report.between_runs.loads import gathered_of
from tests.analysis.report.pages import NASTY, words
from tests.support.crafted_runs import clean
from tests.support.summaries import summary_of

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


def test_caches_have_the_size_that_the_user_asked_for(tmp_path: Path) -> None:
    """Of 10 GiB of memory 8 are usable; a drive is usable wholly."""
    run = clean()
    usable = {"gpu": 0, "cpu": 8 << 30, "nvme": 8 << 30}
    run.info["conditions"] |= {"headroom": "0.8", "usable_bytes": usable}
    told = list_tested(gather([run.save(tmp_path / "run")], Targets()))
    assert "cpu 10 GiB + nvme 8 GiB" in told[1]


def test_systems_that_are_not_compared_have_no_cards() -> None:
    metrics = dict.fromkeys(CATALOGUE)
    runs = [summary_of(**metrics | {"nvme_read_gib_s": rate}) for rate in (0.5, 0.7)]
    assert make_cards(gathered_of(*runs, systems=("old", "new"))) == []


def test_commands_in_an_advice_are_code() -> None:
    text = keep_flags_whole("use `replayer run --force` <b>")
    assert text == 'use <code>replayer run <span class="flag">--force</span></code> &lt;b&gt;'


def test_a_hit_rate_of_0_is_measured_and_a_read_rate_of_0_is_not() -> None:
    metrics = dict.fromkeys(CATALOGUE) | {"hit_rate_prompt_tokens": 0.0, "nvme_read_gib_s": 0.0}
    cards = make_cards(gathered_of(summary_of(**metrics), systems=("cold",)))
    assert [(card.label, card.value) for card in (cards[1], cards[3])] == [
        ("Reads from NVMe", None),
        ("Hit rate of prompt tokens", "0.0%"),
    ]


def test_a_time_that_unfinished_requests_leave_unknown_is_more_than_a_bound() -> None:
    """One trial measured 2,000 ms, the other more than 4,000: their mean is more than 3,000, not 2,000."""
    metrics = dict.fromkeys(CATALOGUE) | {"wall_clock_tok_s": 5.0}
    known, cut = (summary_of(**metrics | {"ttfb_p95_ms": value}) for value in (2000.0, None))
    data = gathered_of(known, replace(cut, more_than={"ttfb_p95_ms": 4000.0}), systems=("one", "one"))
    card = make_cards(data)[2]
    assert (card.value, card.range) == ("> 3,000", "a cut left requests unfinished")
    rows = {row.name: row.cells for row in tabulate_headlines(data).rows}
    assert [(cell.value, cell.interval) for cell in rows["ttfb_p95_ms"]] == [("> 3,000", "")]
    stats = summarise_metric("ttfb_p95_ms", data.summaries)
    assert (stats.n, stats.mean, stats.more_than) == (2, None, 3000.0)
