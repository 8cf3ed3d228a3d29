"""Interrupts and kills of a run."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replayer.engine import engine as engines
from tests.replayer.run.replays import _many, go, options
from tests.support import traces
from tests.support.going_runs import Going
from tests.support.run_json import run_json
from tracegen.console import interrupts as signals
from tracegen.schema import Trace


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


def test_kill_9_leaves_a_readable_log(tmp_path: Path, run: Any) -> None:
    steps: list[traces.Step] = [("w", 0, 64), *[("d", 0, 64)] * 400_000]
    trace = traces.write(tmp_path / "long.parquet", traces.columns([("w", 0, 64), ("d", 0, 64)]) | _many(steps))
    command = [sys.executable, "-m", "replayer", "run", trace.path, "--model", "tiny-1b", "--workers", 2]
    going = Going([*command, "--cache-dir", tmp_path / "cache", "-o", tmp_path / "run"], tmp_path / "run")
    going.wait_for(lambda: list(tmp_path.glob("run/moves/part-*.parquet")))
    going.kill()
    assert run_json(tmp_path / "run")["status"] == "running"
    shown = run("analysis", "summary", tmp_path / "run")
    assert "NOT VALID" in shown.stdout
    assert "incomplete: the run has not ended, or was killed" in shown.stdout
    summary = json.loads(run("analysis", "summary", tmp_path / "run", "--json").stdout)
    assert summary["hits"] > 0
    assert summary["valid"] is False
