"""`analysis report autoscale.json`: sentences worked by hand, the page, other formats, wrong usage."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from analysis.cli import main
from analysis.sweeps.search import answer_search, compose_search_sentence, open_search
from tests.analysis.sweeps.searches import make_step, write_search
from tracegen.errors import InputError

STEPS = [
    make_step(8, 150.0, decision="down"),
    make_step(4, 80.0),
    make_step(2, 20.0, evidence=False),
    make_step(6, 112.0),
]
PEAK: dict[str, Any] = {"mode": "capacity", "metric": "steady_nvme_read_gib_s+steady_nvme_write_gib_s", "target": None}
PEAK |= {"target_is": None, "target_saturation": 0.95}


def report(*words: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, words)])


@pytest.fixture
def search(tmp_path: Path) -> Path:
    return write_search(tmp_path / "autoscale.json", STEPS, 4)


JUDGED = "Judged by: time to first byte (part of TTFT), P95 per request."


@pytest.mark.parametrize(
    ("steps", "users", "changes", "answer"),
    [
        (
            STEPS, 4, {},
            "4 users for the target of at most 100 ms; 4 users 80 ms (95% interval 72 to 88, 2 trials);"
            f" 6 users 112 ms (95% interval 101 to 123, 2 trials). {JUDGED}",
        ),
        (
            [make_step(1, 150.0, interval=None, trials=1)], 0, {},
            f"0 users for the target of at most 100 ms; 1 user 150 ms (1 trial). {JUDGED}",
        ),
        (
            STEPS[1:2], 4, {},
            "4 users for the target of at most 100 ms; 4 users 80 ms (95% interval 72 to 88, 2 trials)."
            f" No more users were tried. {JUDGED}",
        ),
        (
            STEPS[2:3], None, {},
            f"Too little was measured to say how many users reach the target of at most 100 ms. {JUDGED}",
        ),
        (
            [make_step(1, 0.9), make_step(2, 0.5)], 1, {"metric": "hit_rate", "target": 0.8, "target_is": "at_least"},
            "1 user for the target of at least 80.0%; 1 user 90.0% (95% interval 81.0% to 99.0%, 2 trials); 2 users"
            " 50.0% (95% interval 45.0% to 55.0%, 2 trials). Judged by: re-reads that hit (hits / reads), first"
            " touches left out.",
        ),
        (
            [make_step(2, 1.0), make_step(4, 2.9), make_step(8, 3.0)], 4, PEAK,
            "4 users for 95% of the peak; 8 users 3.00 GiB/s (95% interval 2.70 to 3.30, 2 trials). Judged by: NVMe"
            " throughput, read and written.",
        ),
    ],
)  # fmt: skip
def test_the_answer_in_words(
    tmp_path: Path, steps: list[dict[str, Any]], users: int | None, changes: dict[str, Any], answer: str
) -> None:
    assert compose_search_sentence(open_search(write_search(tmp_path / "s.json", steps, users, **changes))) == answer


def test_what_is_not_sure_is_a_doubt(tmp_path: Path) -> None:
    short = {"headline": "short run", "text": "9 s", "advice": "replay for minutes", "runs": "2 of 4 replays"}
    path = write_search(tmp_path / "s.json", STEPS, 4, doubts=["1 trial has no interval at 4"], warnings=[short])
    answer = answer_search(path, "Title")
    assert (answer.title, answer.state, answer.tone) == ("Title", "NOT SURE", "plain")
    doubts = [(doubt.headline, doubt.text, doubt.advice) for doubt in answer.doubts]
    assert doubts[0][:2] == ("the answer is not sure", "1 trial has no interval at 4")
    assert doubts[1] == ("short run", "9 s", "replay for minutes")
    assert answer_search(write_search(tmp_path / "t.json", STEPS, 4)).state == "SURE"


def test_predictions_are_called_that_and_dashed(tmp_path: Path) -> None:
    profile = {"profile": "micron-9550", "kind": "data sheet"}
    answer = answer_search(write_search(tmp_path / "s.json", STEPS, 4, prediction=profile))
    assert answer.state == "PREDICTED"
    assert "predicted from the profile micron-9550" in answer.subject
    assert all(set(chart.rows["series"]) == chart.dashed for chart in answer.charts)


def test_the_chart_and_the_table_have_the_steps_by_users(search: Path) -> None:
    answer = answer_search(search)
    (chart,) = answer.charts
    assert chart.rows["x"].to_list() == [2, 4, 6, 8]
    assert chart.rows.filter("hollow")["x"].to_list() == [2]
    assert [(rule.x, rule.y) for rule in chart.rules] == [(4, None), (None, 100)]
    (steps,) = answer.tables
    assert [row[0] for row in steps.rows] == [2, 4, 6, 8]
    assert steps.marked == {1}


def test_the_page_and_other_formats_have_the_answer(search: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = report(search, "-o", page, "--title", "How many chats?")
    assert done.exit_code == 0, done.output
    assert ET.fromstring(page.read_text()).findtext(".//h1") == "How many chats?"
    assert json.loads(report(search, "--format", "json").stdout)["search"] == json.loads(search.read_text())
    assert report(search, "--format", "csv").stdout.splitlines()[1].startswith("2,2,20.0,18.0,22.0,120")


def test_a_search_without_steps_is_refused(search: Path) -> None:
    search.write_text(json.dumps(json.loads(search.read_text()) | {"autoscaling_stats": []}))
    with pytest.raises(InputError, match="its search took no step"):
        open_search(search)
