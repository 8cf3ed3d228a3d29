"""`analysis report autoscale.json`: sentences worked by hand, the page, other formats, wrong usage."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from analysis.cli import main
from analysis.searches.answer import compose_search_answer, make_search_screen
from analysis.searches.search import open_search
from tests.analysis.searches.searches import make_step, write_search
from tracegen.errors import InputError

STEPS = [
    make_step(8, 150.0, decision="down"),
    make_step(4, 80.0),
    make_step(2, 20.0, evidence=False),
    make_step(6, 112.0),
]
JUDGED = "Judged by: time to first byte (part of TTFT), P95 per request."
PEAK = {"mode": "capacity", "metric": "steady_nvme_read_gib_s+steady_nvme_write_gib_s", "target": None}
PEAK |= {"target_is": None, "target_saturation": 0.95}


def report(*words: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, words)])


@pytest.fixture
def search(tmp_path: Path) -> Path:
    return write_search(tmp_path / "autoscale.json", STEPS, 4)


@pytest.mark.parametrize(
    ("steps", "users", "changes", "answer"),
    [
        (
            STEPS, 4, {},
            "4 users stay within the target of at most 100 ms: 80 ms (72 to 88). 6 users miss it: 112 ms"
            f" (100.8 to 123.2). {JUDGED}",
        ),
        (
            STEPS[1:2], 4, {},
            "4 users stay within the target of at most 100 ms: 80 ms (72 to 88). No larger number of users"
            f" that was tried misses it. {JUDGED}",
        ),
        (
            [make_step(1, 150.0, interval=None, trials=1)], 0, {},
            f"Not even 1 user stays within the target of at most 100 ms. 1 user misses it: 150 ms (1 trial). {JUDGED}",
        ),
        (
            STEPS[2:3], None, {},
            f"Too little was measured to say how many users stay within the target of at most 100 ms. {JUDGED}",
        ),
        (
            [make_step(1, 0.9), make_step(2, 0.5)], 1, {"metric": "hit_rate", "target": 0.8, "target_is": "at_least"},
            "1 user stays within the target of at least 80.0%: 90.0% (81.0% to 99.0%). 2 users miss it: 50.0%"
            " (45.0% to 55.0%). Judged by: re-reads that hit (hits / reads), first touches left out.",
        ),
        (
            [make_step(2, 1.0), make_step(4, 2.9), make_step(8, 3.0)], 4, PEAK,
            "The peak is 3 GiB/s (2.7 to 3.3), with 8 users. 4 users reach 95% of that. Judged by: NVMe throughput,"
            " read and written.",
        ),
        (
            [make_step(2, 1.0), make_step(8, 3.0)], 8, PEAK,
            "The peak is 3 GiB/s (2.7 to 3.3), with 8 users. No smaller number of users that was tried reaches 95%"
            " of that. Judged by: NVMe throughput, read and written.",
        ),
        (
            [make_step(2, None, evidence=False)], None, PEAK,
            "Too little was measured to say where the peak is. Judged by: NVMe throughput, read and written.",
        ),
    ],
)  # fmt: skip
def test_the_answer_in_words(
    tmp_path: Path, steps: list[dict[str, Any]], users: int | None, changes: dict[str, Any], answer: str
) -> None:
    assert compose_search_answer(open_search(write_search(tmp_path / "s.json", steps, users, **changes))) == answer


def test_what_is_not_sure_is_a_doubt(tmp_path: Path) -> None:
    warnings = ["short run: 2 of 4 replays, users_2/trial_1 for example: 9 s; too short; replay for minutes."]
    warnings.append("the trace ended before the time limit with 2 users")
    text = "4 users: 80. Not sure: 1 trial has no interval at 4."
    path = write_search(tmp_path / "s.json", STEPS, 4, sure=False, text=text, warnings=warnings)
    screen = make_search_screen(open_search(path), "Title")
    assert (screen.title, screen.state, screen.tone) == ("Title", "Not sure.", "plain")
    doubts = [(doubt.headline, doubt.text, doubt.advice) for doubt in screen.doubts]
    assert doubts[0][:2] == ("The answer is not sure", "1 trial has no interval at 4")
    said = "2 of 4 replays, users_2/trial_1 for example: 9 s; too short"
    assert doubts[1] == ("Short run", said, "replay for minutes")
    assert doubts[2][0] == "Doubtful replays"
    assert make_search_screen(open_search(write_search(tmp_path / "t.json", STEPS, 4))).state == "Sure."


def test_predictions_are_called_that_and_dashed(tmp_path: Path) -> None:
    profile = {"profile": "micron-9550", "kind": "data sheet"}
    path = write_search(tmp_path / "s.json", STEPS, 4, prediction=profile)
    page = tmp_path / "page.html"
    assert report(path, "-o", page).exit_code == 0
    text = page.read_text()
    assert "Predicted, not measured." in text
    assert "predicted from the profile micron-9550" in text
    assert 'stroke-dasharray="7,4"' in text


def test_the_page_has_the_answer_the_charts_and_the_steps(search: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = report(search, "-o", page, "--title", "How many chats?")
    assert done.exit_code == 0, done.output
    text = page.read_text()
    root = ET.fromstring(text)
    assert "<script" not in text
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org)", text)
    assert root.findtext(".//h1") == "How many chats?"
    words = " ".join("".join(root.itertext()).split())
    assert "4 users stay within the target of at most 100 ms: 80 ms (72 to 88)." in words
    assert [figure.get("id") for figure in root.findall(".//figure")] == ["metric", "throughput", "latency"]
    titles = [title.text for title in root.findall(".//figure[@id='metric']//title")]
    assert "4 users: 80 ms, 2 trials" in titles
    assert "2 users: 20 ms, 2 trials, too few samples" in titles
    assert "answer: 4" in words
    assert "target 100 ms" in words
    rows = root.findall(".//section[@aria-labelledby='t1']//tbody/tr")
    assert [row.findtext("th") for row in rows] == ["2", "4", "6", "8"]


def test_other_formats_and_charts(search: Path, tmp_path: Path) -> None:
    content = json.loads(report(search, "--format", "json").stdout)
    assert content["answer"].startswith("4 users stay within the target")
    assert content["search"] == json.loads(search.read_text())
    lines = report(search, "--format", "md").stdout.splitlines()
    assert any(line.startswith("**Sure.** 4 users stay") for line in lines)
    assert report(search, "--format", "csv").stdout.splitlines()[1].startswith("2,2,20.0,18.0,22.0,120")
    done = report(search, "--charts", tmp_path / "charts")
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "charts").glob("*.png")} == {
        "metric.png",
        "throughput.png",
        "latency.png",
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["SEARCH", "SEARCH", "--format", "md"], "a search is reported alone; name only this file"),
        (["SEARCH", "--format", "md", "--baseline", "x"], "--baseline: says nothing about a search"),
        (["OTHER", "--format", "md"], "is not a record that `replayer autoscale` wrote"),
    ],
)
def test_wrong_usage_ends_in_one_sentence(search: Path, tmp_path: Path, words: list[str], expected: str) -> None:
    (tmp_path / "series.json").write_text("{}")
    paths = {"SEARCH": search, "OTHER": tmp_path / "series.json"}
    done = report(*(paths.get(word, word) for word in words))
    assert done.exit_code == 2
    assert expected in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_a_search_without_steps_is_refused(search: Path) -> None:
    search.write_text(json.dumps(json.loads(search.read_text()) | {"autoscaling_stats": []}))
    with pytest.raises(InputError, match="its search took no step"):
        open_search(search)
