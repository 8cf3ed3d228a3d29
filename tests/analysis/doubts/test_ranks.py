"""Doubts about the ranks of one run."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.summary.summary import summarise
from replayer.schema import parts
from tests.support.crafted_runs import REQUESTS, Crafted
from tests.support.doubts import call, conditions, rank_runs
from tests.support.run_json import edit

pytestmark = pytest.mark.usefixtures("latencies_once")


def test_one_rank_alone_is_not_a_run(tmp_path: Path) -> None:
    place = rank_runs(tmp_path / "run")
    summary = summarise(place / "rank_0").to_json()
    assert summary["findings"] == ["this is one of 2 ranks; the others are left out"]


def test_ranks_stay_apart_if_the_first_is_missing(tmp_path: Path) -> None:
    place = rank_runs(tmp_path / "run", 3)
    shutil.rmtree(place / "rank_0")
    summary = summarise(place).to_json()
    assert not summary["valid"]
    assert summary["requests"] == sum(summarise(place / f"rank_{rank}").to_json()["requests"] for rank in (1, 2))


def test_a_rank_without_rows_contradicts_its_run_json(tmp_path: Path) -> None:
    place = rank_runs(tmp_path / "run")
    for part in parts(place / "rank_1"):
        pl.read_parquet(part).clear().write_parquet(part)
    assert "parts are missing or altered" in summarise(place).findings[0]


@pytest.mark.parametrize(
    ("above", "finding"),
    [
        ({"status": "failed", "reason": "rank 1 fell"}, "the run is failed: rank 1 fell"),
        ({"status": "incomplete"}, "the run is incomplete"),
        ({"status": "running"}, "the run is running"),
        ({"executed_ops": 5}, "the ranks executed"),
        ({"clocks": [{"offset_ns": 1}, {}]}, "the clocks of the ranks"),
        ({"ranks": 1}, "rank_1 does not belong to this run"),
        ({"ranks": 3}, "rank 2 of 3 is missing"),
    ],
)
def test_run_json_above_the_ranks_is_compared_with_theirs(tmp_path: Path, above: dict[str, Any], finding: str) -> None:
    place = rank_runs(tmp_path / "run")
    edit(place / "run.json", above)
    summary = summarise(place).to_json()
    assert not summary["valid"]
    assert any(finding in one for one in summary["findings"]), summary["findings"]
    assert summary["status"] == above.get("status", summary["status"])


def test_ranks_under_unlike_conditions_and_on_unlike_machines(tmp_path: Path) -> None:
    def unlike(rank: int, run: Crafted) -> None:
        conditions(run, fsync=("none", "data")[rank])
        run.info["machine"]["cores"] = 16 + rank

    told = summarise(rank_runs(tmp_path / "run", 2, unlike, REQUESTS)).to_json()["doubts"]
    assert [(doubt["kind"], doubt["invalidates"]) for doubt in told] == [("ranks", True), ("unlike machines", False)]
    assert told[0]["text"].endswith("unlike conditions: fsync")


def test_ranks_with_parts_of_one_trace_have_equal_conditions(tmp_path: Path) -> None:
    """`--ranks partition` gives each rank a part of its own."""

    def part(rank: int, run: Crafted) -> None:
        conditions(run, part=[rank, 2])
        run.info["trace"]["counts"] = {}

    assert summarise(rank_runs(tmp_path / "run", 2, part)).is_valid


def test_clocks_that_are_days_apart(tmp_path: Path) -> None:
    def far(rank: int, run: Crafted) -> None:
        run.info["clock"]["zero_ns"] = rank * (1 << 62)

    place = rank_runs(tmp_path / "run", 2, far)
    assert "days apart" in call("summary", place, code=2).stderr
