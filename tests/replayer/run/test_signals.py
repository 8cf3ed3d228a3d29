"""Interrupts and kills of a run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from replayer.engine import engine as engines
from replayer.schema import parts
from tests.replayer.run.replays import _many, go, options
from tests.support import traces
from tests.support.paths import ROOT
from tests.support.run_json import run_json
from tracegen.console import interrupts as signals
from tracegen.schema import Trace


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A replay that takes long enough to be interrupted, once its first part is written."""
    steps: list[traces.Step] = [("w", 0, 64), *[("d", 0, 64)] * 400_000]
    trace = traces.write(tmp_path / "long.parquet", traces.columns([("w", 0, 64), ("d", 0, 64)]) | _many(steps))
    command = [sys.executable, "-m", "replayer", "run", trace.path, "--model", "tiny-1b", "--workers", "2"]
    command += ["--cache-dir", tmp_path / "cache", "-o", tmp_path / "run"]
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, text=True, stderr=subprocess.PIPE)
    for _ in range(600):
        if list((tmp_path / "run" / "moves").glob("part-*.parquet")) or process.poll() is not None:
            break
        time.sleep(0.1)
    yield process, tmp_path / "run"
    process.kill()
    process.wait()


def test_ctrl_c_closes_the_run(long_run: tuple[subprocess.Popen[str], Path]) -> None:
    process, run = long_run
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.endswith(f"\nInterrupted. {run} holds what was done; `analysis summary {run}` reads it.\n")
    info = run_json(run)
    assert (info["status"], info["reason"]) == ("incomplete", "interrupted")
    log = pl.read_parquet(parts(run))
    assert len(log) == info["executed_ops"] > 0
    assert list((run.parent / "cache").iterdir()) == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A signal in this process, and nothing left of it."""
    before = {number: signal.getsignal(number) for number in signals.WORDS}
    try:
        with signals.INTERRUPTS.handle():
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        with signals.INTERRUPTS.handle():  # forgets the first one
            pass


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_before_the_clock_starts(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the window is filled: a run of no moves, whose time 0 never was."""
    monkeypatch.setattr(engines, "_start", lambda *_: os.kill(os.getpid(), signal.SIGINT) or 0)
    with pytest.raises(KeyboardInterrupt):
        go(trace, tmp_path, options(6, 9))
    info = run_json(tmp_path / "run")
    assert (info["status"], info["reason"], info["executed_ops"]) == ("incomplete", "interrupted", 0)
    assert info["clock"]["zero_ns"] is None
    assert list((tmp_path / "run" / "moves").iterdir()) == []
    assert list((tmp_path / "cache").iterdir()) == []


def test_kill_9_leaves_a_readable_log(long_run: tuple[subprocess.Popen[str], Path], run: Any) -> None:
    process, directory = long_run
    process.kill()
    process.communicate()
    assert run_json(directory)["status"] == "running"
    shown = run("analysis", "summary", directory)
    assert "NOT VALID" in shown.stdout
    assert "incomplete: the run has not ended, or was killed" in shown.stdout
    summary = json.loads(run("analysis", "summary", directory, "--json").stdout)
    assert summary["hits"] > 0
    assert summary["valid"] is False
