"""Sweeps that are ended go on where they stopped."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.replayer.sweep.grids import CASE, FINISHED, content, grid, swept, words
from tests.support.command_line import Run, sentence
from tests.support.paths import ROOT
from tests.support.run_json import run_json


@contextmanager
def going(path: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A sweep that runs while the test goes on; what it started ends with it."""
    place = path.parent
    command = [
        sys.executable,
        "-m",
        "replayer",
        *words(path, place / "cache", place / "sweep"),
    ]
    with (place / "said").open("w") as said:
        started = subprocess.Popen([*map(str, command)], cwd=ROOT, text=True, stdout=said, stderr=said)
    try:
        yield started
    finally:
        below = children(started.pid)
        for pid in [started.pid, *below] if started.poll() is None else below:
            os.kill(pid, signal.SIGKILL)
        started.wait()


def children(pid: int) -> list[int]:
    """Processes below one that lives."""
    found = [int(one) for path in Path(f"/proc/{pid}/task").glob("*/children") for one in path.read_text().split()]
    return [*found, *(other for one in found for other in children(one))]


def lives(pid: int) -> bool:
    """Whether it does, and is not only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(what: Callable[[], object], started: subprocess.Popen[str] | None = None) -> None:
    for _ in range(2000):
        if what():
            return
        assert started is None or started.poll() is None, "it ended before"
        time.sleep(0.01)
    pytest.fail("it never came so far")


def ended(started: subprocess.Popen[str], number: signal.Signals) -> int:
    """Send a signal to the sweep alone; its exit code, when all that it started has ended, too."""
    below = children(started.pid)
    started.send_signal(number)
    code = started.wait(timeout=20)
    wait_for(lambda: not any(map(lives, below)))
    return code


def going_on(run: Path) -> bool:
    """Whether it has begun to move data."""
    try:
        return "zero_ns" in json.loads((run / "run.json").read_text()).get("clock", {})
    except OSError:
        return False


SIGNALS = [
    (signal.SIGINT, 130, "interrupted"),
    (signal.SIGTERM, 143, "terminated"),
    (signal.SIGKILL, -9, "terminated"),
]


@pytest.mark.usefixtures("series_here")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv")
def test_a_sweep_goes_on_after_whatever_ended_it(run: Run, place: Path, tmp_path: Path) -> None:
    """Each trial is ended once, by a signal to the sweep alone, and replayed when it is begun again."""
    shutil.copy(place / "slow.parquet", tmp_path)
    path = grid(tmp_path, f"trials = 3\n{CASE}throttle = 'nvme=64'\nworkers = 4\n".replace("quick", "slow"))
    trials = [tmp_path / "sweep" / "a" / f"trial_{number}" for number in (1, 2, 3)]
    done: dict[Path, dict[str, Any]] = {}
    for trial, (number, code, reason) in zip(trials, SIGNALS, strict=True):
        with going(path) as started:
            wait_for(lambda trial=trial: going_on(trial), started)
            done = {one: content(one) for one in trials[: trials.index(trial)]}
            assert ended(started, number) == code
        found = run_json(trial)
        assert (found["status"], found["reason"]) == ("incomplete", reason)
        assert list((tmp_path / "cache").iterdir()) == []
        assert "Traceback" not in (tmp_path / "said").read_text()
    swept(run, path)
    infos = [run_json(trial) for trial in trials]
    assert [one["status"] for one in infos] == ["complete"] * 3
    assert len({one["plan"]["plan_fingerprint"] for one in infos} | {one["executed_fingerprint"] for one in infos}) == 1
    assert [one.name for one in done] == ["trial_1", "trial_2"]
    assert {one: content(one) for one in done} == done, "what was complete is untouched"


@pytest.mark.usefixtures("series_here")
def test_a_sweep_goes_on_where_its_traces_are_half_made(run: Run, finished: Path, tmp_path: Path) -> None:
    shutil.copy(finished / "quick.parquet", tmp_path)
    path = grid(tmp_path, FINISHED)
    for number, code, _ in SIGNALS:
        with going(path) as started:
            wait_for(lambda: list(tmp_path.glob("sweep/traces/*")) and children(started.pid), started)
            assert ended(started, number) == code
    swept(run, path)
    for name in ("a-workers=1", "a-workers=2", "b"):
        one, other = (run_json(folder / "sweep" / name / "trial_1") for folder in (tmp_path, finished))
        assert one["plan"] == other["plan"]
        assert one["executed_fingerprint"] == other["executed_fingerprint"]


def test_a_sweep_that_is_ended_while_it_rests(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    path = grid(tmp_path, f"trials = 1\npause_s = 60\n{CASE}workers = [1, 2]\n")
    with going(path) as started:
        wait_for(lambda: " s of pause before a-workers=2" in (tmp_path / "said").read_text(), started)
        told = f"{tmp_path}/sweep: another process is at work there; wait for it, or name another."
        sentence(swept(run, path, ok=False), told)
        assert ended(started, signal.SIGTERM) == 143
    assert (tmp_path / "said").read_text().endswith("\nTerminated. To continue, run the same command again.\n")
    assert run_json(tmp_path / "sweep" / "a-workers=1" / "trial_1")["status"] == "complete"
    assert not (tmp_path / "sweep" / "a-workers=2").exists()
