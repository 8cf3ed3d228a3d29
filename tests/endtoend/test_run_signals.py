"""Signals to a run: it closes its log, drains or not, and exits with the signal's code."""

import signal
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.replayer.arrangements.oracle import Row, fingerprint
from tests.support import traces
from tests.support.command_line import Run, here, sentence
from tests.support.going_runs import CACHE, MODEL, READS, USERS, Going, going, info, log_of, replayed
from tests.support.run_json import run_json
from tracegen.schema import Trace


@pytest.mark.parametrize(
    ("layout", "number", "code", "reason"),
    [("files", signal.SIGTERM, 143, "terminated"), ("slab", signal.SIGINT, 130, "interrupted")],
)
def test_a_signal_closes_the_run(
    endless: Path, tmp_path: Path, layout: str, number: signal.Signals, code: int, reason: str
) -> None:
    with going(endless, tmp_path, "--layout", layout) as started:
        time.sleep(0.2)
        started.process.send_signal(number)
        assert (ended := started.end())[0] == code, ended
    assert "Traceback" not in ended[1]
    found = run_json(started.output)
    assert (found["status"], found["reason"]) == ("incomplete", reason)
    assert list((tmp_path / "cache").iterdir()) == []
    log = log_of(started.output)
    assert set(log["status"]) == {"ok"}
    assert found["executed"]["ops"] <= len(log), "every move that was done is in the log"
    assert len(log) < USERS * READS
    assert pq.read_table(started.output / "device.parquet").num_rows > 0
    assert not list(started.output.rglob("*.partial"))


def test_more_signals_change_nothing(endless: Path, tmp_path: Path) -> None:
    """An impatient user: both at once, then again and again while the moves in flight, 0.4 s each, are waited for."""
    with going(endless, tmp_path, "--throttle", "nvme=64,400ms") as started:
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            started.process.send_signal(number)
        while started.process.poll() is None and list(tmp_path.glob("cache/*")):
            for again in (signal.SIGINT, signal.SIGTERM):
                started.process.send_signal(again)
            time.sleep(0.002)
        code, said = started.end()
    assert code in (130, 143), said
    assert "Traceback" not in said
    assert info(started.output)["status"] == "incomplete"
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_signal_before_the_run_leaves_nothing(endless: Path, tmp_path: Path) -> None:
    """While the nvme tier is filled beforehand: there is no run yet, and the cache is gone."""
    command = [sys.executable, "-m", "replayer", "run", endless, *MODEL, "--precondition", "500"]
    started = Going([*command, *CACHE, tmp_path / "cache", "-o", tmp_path / "run"], tmp_path / "run")
    started.wait_for(lambda: list(tmp_path.glob("cache/*/*.kv")))
    started.process.send_signal(signal.SIGTERM)
    assert (ended := started.end())[0] == 143, ended
    assert ended[1].endswith("\nTerminated.\n"), "there is nothing to read"
    assert not (tmp_path / "run").exists()
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.fixture(scope="module")
def overtaken(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """400 stores of 24 KiB that are in no hurry, and after them 400 that are, and go first."""
    batch = traces.columns([("w", key, 1) for key in range(800)], qos=[2] * 400 + [0] * 400)
    return traces.write(tmp_path_factory.mktemp("overtaken") / "t.parquet", batch)


DRAINED = ("--pace", "asap", "--order", "trace", "--throttle", "nvme=64,50ms", "--workers", "2")


def test_a_signal_ends_a_drain(overtaken: Trace, tmp_path: Path) -> None:
    """Ten seconds of stores are to be drained; half a second of them is waited for."""
    with going(overtaken.path, tmp_path, *DRAINED, "--duration", 0.5, "--set", "drain=unlimited") as started:
        time.sleep(1)
        started.process.send_signal(signal.SIGINT)
        assert (ended := started.end())[0] == 130, ended
    assert "Traceback" not in ended[1]
    found, log = run_json(started.output), log_of(started.output)
    assert (found["status"], found["reason"]) == ("incomplete", "interrupted")
    assert found["window"]["cut_s"] >= 0.5
    assert found["window"]["stopped_s"] is None
    check_prefix(found, log)
    assert log.filter(pl.col("start_ns") > found["window"]["cut_s"] * 1e9)["position"].max() < 400, "the drain"
    assert list((tmp_path / "cache").iterdir()) == []


def check_prefix(found: dict[str, Any], log: pl.DataFrame) -> None:
    """Of `overtaken`: what counts is what came before the first op that is lacking; the log holds more than that."""
    executed, positions = found["executed_ops"], log["position"].to_list()
    assert 0 < executed < 400
    assert positions[:executed] == list(range(executed))
    assert 400 in positions
    assert executed not in positions
    assert set(log["status"]) == {"ok"}
    size = int(log["size_bytes"][0])
    rows: list[Row] = [(key, 0, "store", key, -1, 2, size) for key in range(executed)]
    assert found["executed_fingerprint"] == fingerprint(rows)
    assert found["executed"]["ops"] == executed


def test_a_drain_takes_a_tenth_of_the_duration(overtaken: Trace, tmp_path: Path, run: Run) -> None:
    """Then nothing more starts, and the run is complete."""
    replayed(run, overtaken.path, tmp_path, *DRAINED, "--duration", 1)
    found = run_json(tmp_path / "run")
    assert found["status"] == "complete"
    assert found["conditions"]["drain_s"] == found["window"]["drain_limit_s"] == 0.1
    assert found["window"]["stopped_s"] >= max(1.1, found["window"]["issued_s"])
    check_prefix(found, log_of(tmp_path / "run"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--set", "drain=3"], ("--set drain", "--duration")),
        (["--placement", "live", "--order", "trace"], ("--placement", "leave --order out")),
        (["--set", "io_engine=psync", "--io-depth", 2], ("--io-depth 2", "--set io_engine=uring")),
    ],
)
def test_flags_that_mean_nothing_are_refused(short: Path, tmp_path: Path, flags: list[object], words: Any) -> None:
    command = ["run", short, *MODEL, *CACHE, tmp_path / "cache", *flags, "-o", tmp_path / "run"]
    sentence(here("replayer", *command), *words)
    assert list(tmp_path.iterdir()) == []


def test_what_a_live_run_did_is_done_again(short: Path, tmp_path: Path, run: Run) -> None:
    """On another disk, by its run directory; so is what a run did that was cut short."""
    bounded = ["--cpu-mem-gb", "0.0002", "--storage-capacity-gb", "0.0003"]
    for name, flags in (("live", ["--placement", "live"]), ("some", ["--placement", "live", "--ops", 30])):
        (tmp_path / name / "again").mkdir(parents=True)
        replayed(run, short, tmp_path / name, *bounded, *flags, "--throttle", "nvme=32,3ms")
        replayed(run, short, tmp_path / name / "again", *bounded, "--order", tmp_path / name / "run", "--workers", 2)
        found, again = (run_json(tmp_path / name / place) for place in ("run", "again/run"))
        assert (found["status"], again["status"]) == ("complete", "complete")
        assert found["executed_fingerprint"] == again["executed_fingerprint"] == again["plan"]["plan_fingerprint"]
        assert found["executed"] == again["executed"]
        assert found["executed_ops"] == again["executed_ops"] == (30 if name == "some" else Trace(short).ops)
