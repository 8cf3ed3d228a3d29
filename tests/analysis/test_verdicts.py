"""Verdicts on runs that deserve them and on runs that do not; `tests/analysis/metrics` checks the numbers."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.summary import summary
from tests.support.command_line import Run
from tests.support.logs import make_rows, ranks, write_run
from tests.support.paths import DEMO
from tracegen.errors import InputError

# Verdicts


@pytest.fixture(scope="session")
def replays(run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("replays")
    trace = place / "trace.parquet"
    run("tracegen", "generate", DEMO, "--requests", 60, "-o", trace)
    for name, workers in (("one", 1), ("many", 32)):
        command = [
            "--model",
            "tiny-1b",
            "--cpu-mem-gb",
            "0.05",
            "--cache-dir",
            place / "cache",
            "--workers",
            workers,
        ]
        command += ["--order", "trace"]  # which does not depend on the workers
        run("replayer", "run", trace, *command, "-o", place / name)
    return [place / "one", place / "many"]


def test_equal_plans_do_equal_work(run: Run, replays: list[Path]) -> None:
    shown = run("analysis", "summary", *replays).stdout
    assert shown.count(" VALID  ") == 2
    assert "NOT VALID" not in shown
    ending = shown.splitlines()[-1]
    assert re.fullmatch(
        r"VALID: 2 runs, same work: trace \w{12}…, plan \w{12}… and every count are equal, only times differ\.", ending
    )
    one, many = json.loads(run("analysis", "summary", *replays, "--json").stdout)
    assert one["elapsed_s"] != many["elapsed_s"]
    assert one["findings"] == []


def test_unlike_work_is_named(replays: list[Path]) -> None:
    one = summary.summarise(replays[0])
    other = replace(one, plan_fingerprint="x", metrics=one.metrics | {"hits": 1, "elapsed_s": 99.0})
    assert summary.find_differences([one, other]) == ["plan_fingerprint", "hits"]


# Many ranks


def test_a_rank_that_is_missing_or_was_killed_is_named(tmp_path: Path) -> None:
    place, _ = ranks(tmp_path / "run", "complete", "running", "complete")
    shutil.rmtree(place / "rank_2")
    found = summary.summarise(place).to_json()
    assert not found["valid"]
    assert "rank 1 is incomplete" in " ".join(found["findings"])
    assert "rank 2 of 3 is missing" in " ".join(found["findings"])
    for rank in (0, 1):
        shutil.rmtree(place / f"rank_{rank}")
    with pytest.raises(InputError, match="its 3 ranks left no log"):
        summary.summarise(place).to_json()


def test_ranks_without_a_recorded_start_begin_at_0(tmp_path: Path) -> None:
    place, _ = ranks(tmp_path / "run", "complete", "running")
    info = json.loads((place / "rank_1" / "run.json").read_text())
    del info["clock"]
    (place / "rank_1" / "run.json").write_text(json.dumps(info))
    found = summary.summarise(place).to_json()
    assert found["elapsed_s"] < 10
    assert found["status"] == "running"


def test_a_run_of_warm_up_alone_measures_nothing(tmp_path: Path) -> None:
    warm = [row | {"warmup": True} for row in make_rows(5, 50)]
    found = summary.summarise(write_run(tmp_path / "run", warm, warmup={"ops": 50, "end_ns": None})).to_json()
    assert not found["valid"]
    assert "every op that was executed is warm-up" in " ".join(found["findings"])
