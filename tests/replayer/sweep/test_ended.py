"""Sweeps that were interrupted or killed continue where they stopped."""

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

import pytest

from tests.replayer.sweep.grids import CASE, read_files, run_sweep, sweep_words, write_grid
from tests.support.command_line import Run, sentence
from tests.support.paths import ROOT
from tests.support.run_json import run_json


@contextmanager
def start_sweep(path: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a sweep during the block; afterwards, kill it and its children."""
    folder = path.parent
    command = [sys.executable, "-m", "replayer", *sweep_words(path, folder / "cache", folder / "sweep")]
    with (folder / "output").open("w") as output:
        started = subprocess.Popen([*map(str, command)], cwd=ROOT, text=True, stdout=output, stderr=output)
    try:
        yield started
    finally:
        descendants = list_descendants(started.pid)
        own = [started.pid] if started.poll() is None else []
        for pid in [*own, *descendants]:
            os.kill(pid, signal.SIGKILL)
        started.wait()


def list_descendants(pid: int) -> list[int]:
    """Return the ids of a process's children, their children, and so on."""
    lists = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    children = [int(child) for words in lists for child in words]
    return [*children, *(descendant for child in children for descendant in list_descendants(child))]


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition: Callable[[], object], started: subprocess.Popen[str] | None = None) -> None:
    for _ in range(2000):
        if condition():
            return
        assert started is None or started.poll() is None, "the sweep ended before"
        time.sleep(0.01)
    pytest.fail("the condition never held")


def end_sweep(started: subprocess.Popen[str], number: signal.Signals) -> int:
    """Send a signal to the sweep only; return its exit code when its children have ended, too."""
    descendants = list_descendants(started.pid)
    started.send_signal(number)
    code = started.wait(timeout=20)
    wait_for(lambda: not any(map(is_alive, descendants)))
    return code


def has_begun(run: Path) -> bool:
    """Whether a run has begun to move data."""
    try:
        info = json.loads((run / "run.json").read_text())
        return info["status"] == "running" and bool(info["clock"]) and info["clock"]["zero_ns"] is not None
    except OSError:
        return False


# The trial in which the sweep gets the signal, its exit code, and why the trial ended
SIGNALS = [
    (1, signal.SIGINT, 130, "interrupted"),
    (2, signal.SIGTERM, 143, "terminated"),
    (2, signal.SIGKILL, -9, "terminated"),
]


@pytest.mark.usefixtures("series_here")
@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv")
def test_a_sweep_continues_after_any_signal(run: Run, place: Path, tmp_path: Path) -> None:
    """A signal to the sweep only ends each trial once; the next sweep replays it."""
    shutil.copy(place / "slow.parquet", tmp_path)
    path = write_grid(tmp_path, f"trials = 2\n{CASE}throttle = 'nvme=64'\nworkers = 4\n".replace("quick", "slow"))
    trials = [tmp_path / "sweep" / "a" / f"trial_{number}" for number in (1, 2)]
    for at, number, code, reason in SIGNALS:
        trial = trials[at - 1]
        with start_sweep(path) as started:
            wait_for(lambda trial=trial: has_begun(trial), started)
            first = read_files(trials[0])
            assert end_sweep(started, number) == code
        info = run_json(trial)
        assert (info["status"], info["reason"]) == ("incomplete", reason)
        assert list((tmp_path / "cache").iterdir()) == []
        assert "Traceback" not in (tmp_path / "output").read_text()
    run_sweep(run, path)
    infos = [run_json(trial) for trial in trials]
    assert [info["status"] for info in infos] == ["complete"] * 2
    assert len({info["plan"]["plan_fingerprint"] for info in infos}) == 1
    assert {info["executed_fingerprint"] for info in infos} == {infos[0]["plan"]["plan_fingerprint"]}
    assert read_files(trials[0]) == first, "a complete trial is untouched"


def test_a_sweep_that_pauses_locks_its_directory_and_obeys_a_signal(run: Run, place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "quick.parquet", tmp_path)
    path = write_grid(tmp_path, f"trials = 1\npause_s = 60\n{CASE}workers = [1, 2]\n")
    with start_sweep(path) as started:
        wait_for(lambda: " s of pause before a-workers=2" in (tmp_path / "output").read_text(), started)
        sentence(run_sweep(run, path, ok=False), f"{tmp_path}/sweep: another process works in this directory")
        assert end_sweep(started, signal.SIGTERM) == 143
    assert (tmp_path / "output").read_text().endswith("\nTerminated. To continue, run the same command again.\n")
    assert run_json(tmp_path / "sweep" / "a-workers=1" / "trial_1")["status"] == "complete"
    assert not (tmp_path / "sweep" / "a-workers=2").exists()
