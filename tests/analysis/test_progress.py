"""Progress bars of the commands: the task, unit and total of each, and that it reaches its end."""

import io
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from analysis.metrics import METRICS
from tests.support import traces
from tests.support.command_line import here
from tests.support.crafted_runs import clean
from tests.support.doubts import call
from tests.support.run_json import put

JUDGING = ("judging", "metric", len(METRICS))


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> "list[tqdm[Any]]":
    """Let bars appear without a terminal, and list them."""
    made: list[tqdm[Any]] = []

    def make(**options: Any) -> "tqdm[Any]":
        assert options["disable"] is None, "without a terminal it is hidden"
        made.append(tqdm(**options | {"disable": False, "file": io.StringIO()}))
        return made[-1]

    monkeypatch.setattr("tqdm.tqdm", make)
    return made


def check(bars: "list[tqdm[Any]]", *wanted: tuple[str, str, int]) -> None:
    """Check what bars show: their task, unit and total; each is late, reached its end, and is gone."""
    assert [(bar.desc, bar.unit, bar.total) for bar in bars] == list(wanted)
    assert [bar.n for bar in bars] == [bar.total for bar in bars]
    assert {bar.delay for bar in bars} == {1}
    assert not any(bar.leave for bar in bars)


def test_summary_assess_and_report_show_that_they_judge_each_run(tmp_path: Path, bars: "list[tqdm[Any]]") -> None:
    runs = [clean(5).save(tmp_path / name) for name in "ab"]
    call("summary", *runs)
    call("assess", runs[0])
    call("report", runs[0], "--format", "csv")
    check(bars, *[JUDGING] * 4)


def test_check_also_shows_that_it_plans_again(tmp_path: Path, bars: "list[tqdm[Any]]") -> None:
    trace = traces.write(tmp_path / "t.parquet", traces.columns([("w", 0, 64), ("r", 0, 64)])).path
    replay = ["run", trace, "--model", "tiny-1b", "--layout", "null", "-o", tmp_path / "run"]
    assert here("replayer", *replay).returncode == 0
    bars.clear()
    call("check", tmp_path / "run", "--trace", trace)
    check(bars, JUDGING, ("planning again", "rank", 1))


def test_compare_shows_how_many_logs_it_read(tmp_path: Path, bars: "list[tqdm[Any]]") -> None:
    later = clean(5)
    put(later.info, "clock.zero_ns", later.info["clock"]["zero_ns"] + 10**12)
    call("compare", clean(5).save(tmp_path / "a"), later.save(tmp_path / "b"))
    check(bars, ("reading logs", "run", 2))
