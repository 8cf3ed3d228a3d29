"""Runs of several ranks under MPI, and ranks that fail."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from replayer.record.reading import read_run
from replayer.record.run_info import Clock
from replayer.run.mpi import combine_ranks
from replayer.tiers.cache_dir import MARKER
from tests.support.going_runs import CACHE, MODEL, SLOW, Going, info, log_of, ranks_under
from tests.support.paths import ROOT
from tests.support.run_json import run_json
from tracegen.schema import Trace


@pytest.fixture(scope="module")
def mpirun() -> list[object]:
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun")
    pytest.importorskip("mpi4py")
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", 2, sys.executable, "-m", "replayer", "run"]


def ranked(mpirun: list[object], trace: object, place: Path, *flags: object, cache: Path | None = None) -> Going:
    command = [*mpirun, trace, *MODEL, *CACHE, cache or place / "cache", *flags, "-o", place / "run"]
    return Going(command, place / "run")


def test_ranks_share_the_trace_in_each_trial(mpirun: list[object], short: Path, tmp_path: Path) -> None:
    code, said = ranked(mpirun, short, tmp_path, "--ranks", "partition", "--repeat", 2).end()
    assert code == 0, said
    for trial in ("run-1", "run-2"):
        above, found, logs = read_ranks(tmp_path / trial)
        assert above["executed_ops"] == sum(one["executed"]["ops"] for one in found) == Trace(short).ops
        assert set(logs[0]["op_id"]) | set(logs[1]["op_id"]) == set(range(Trace(short).ops))
        assert [set(log["session_id"] % 2) for log in logs] == [{0}, {1}]
    assert list((tmp_path / "cache").iterdir()) == []


def test_ranks_repeat_the_trace_and_clean_up_together(mpirun: list[object], short: Path, tmp_path: Path) -> None:
    """All find the same folders of killed runs; each is removed once, and nobody stumbles."""
    for number in range(40):
        dead = tmp_path / "cache" / f"{MARKER}-dead{number}"
        dead.mkdir(parents=True)
        for name in ("lock", "00000001.kv", "00000002.kv"):
            (dead / name).write_text("x")
    code, said = ranked(mpirun, short, tmp_path, "--ranks", "replicate", "--set", "clean=true").end()
    assert code == 0, said
    _, found, logs = read_ranks(tmp_path / "run")
    assert [one["executed"]["ops"] for one in found] == [Trace(short).ops] * 2
    assert set(logs[0]["op_id"]) == set(logs[1]["op_id"]) == set(range(Trace(short).ops))
    assert list((tmp_path / "cache").iterdir()) == []


def read_ranks(run: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[pl.DataFrame]]:
    """run.json of a complete run of two ranks, and run.json and log of each rank."""
    above, places = run_json(run), [run / f"rank_{rank}" for rank in (0, 1)]
    found, logs = [run_json(place) for place in places], [log_of(place) for place in places]
    assert (above["status"], above["ranks"], len(above["clocks"])) == ("complete", 2, 2)
    assert all(one["status"] == "complete" and one["executed"]["ops"] == one["plan"]["ops"] for one in found)
    assert [set(log["rank"]) for log in logs] == [{0}, {1}]
    return above, found, logs


def test_one_rank_that_fails_fails_the_run() -> None:
    complete = read_run(ROOT / "tests" / "data" / "run")
    ends = [
        msgspec.structs.replace(complete, rank=rank, status=status, reason=reason, clock=Clock(offset_ns=rank))
        for rank, (status, reason) in enumerate([("complete", None), ("failed", "2 moves failed"), ("complete", None)])
    ]
    found = combine_ranks(ends)
    assert (found.status, found.reason) == ("failed", "rank 1: 2 moves failed")
    assert found.executed_ops == 3 * (complete.ops_executed or 0)
    assert combine_ranks([ends[0], ends[2]]).status == "complete"


@pytest.fixture
def pair(mpirun: list[object], endless: Path, tmp_path: Path) -> Iterator[tuple[Going, dict[int, int]]]:
    """Two ranks at work, and their process ids."""
    started = ranked(mpirun, endless, tmp_path, "--ranks", "partition", *SLOW)
    folders = [tmp_path / "run" / f"rank_{rank}" for rank in (0, 1)]
    try:
        started.wait_for(lambda: all("clock" in info(folder) for folder in folders))
        yield started, ranks_under(started.process.pid)
    finally:
        started.kill()


def test_a_rank_that_is_killed_leaves_no_complete_run(pair: tuple[Going, dict[int, int]]) -> None:
    started, pids = pair
    os.kill(pids[1], signal.SIGKILL)
    code, said = started.end()
    assert code != 0
    assert "Traceback" not in said
    assert info(started.output)["status"] in ("running", "incomplete", "failed")
    for place in started.output.glob("rank_*"):
        assert info(place)["status"] != "complete"


def test_ctrl_c_ends_all_ranks(pair: tuple[Going, dict[int, int]], tmp_path: Path) -> None:
    started, _ = pair
    started.process.send_signal(signal.SIGINT)
    code, said = started.end()
    assert code != 0
    assert "Traceback" not in said
    assert info(started.output)["status"] in ("running", "incomplete")
    statuses = {info(place)["status"] for place in started.output.glob("rank_*")}
    assert statuses <= {"running", "incomplete"}
    if statuses == {"incomplete"}:  # mpirun kills ranks that end slowly, as on a busy machine
        assert list((tmp_path / "cache").iterdir()) == []


def test_one_rank_that_is_refused_ends_all(mpirun: list[object], short: Path, tmp_path: Path) -> None:
    """Only rank 1 has no trace."""
    shutil.copy(short, tmp_path / "t-0.parquet")
    code, said = ranked(mpirun, tmp_path / "t-{rank}.parquet", tmp_path, "--ranks", "replicate").end(timeout=30)
    assert code == 2, said
    assert "Traceback" not in said
    (error,) = [line for line in said.splitlines() if line.startswith("Error: ")]
    assert "t-1.parquet" in error
    assert not (tmp_path / "run").exists()
