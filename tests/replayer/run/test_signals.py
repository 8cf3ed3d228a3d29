"""An interrupt before a run has begun."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from replayer.engine import engine as engines
from tests.replayer.run.replays import go, options
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
