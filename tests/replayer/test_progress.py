"""The progress bar of a run that is cut: of its time, then of its drain."""

from types import SimpleNamespace
from typing import Any

import pytest

from replayer.commands.shared import run_console as progress
from replayer.commands.shared.run_console import RunBar
from replayer.planning.pace import Span

STATE = {"moved_bytes": 2**30, "hits": 1, "reads": 2, "failures": 0, "cut": 0, "left": 0, "retired": 0}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def show(shown: RunBar, **state: int) -> tuple[str, float, float]:
    """What it is of, how far it is, and where it ends."""
    now: Any = SimpleNamespace(**STATE | state)
    shown.show(now)
    return shown.bar.desc.rstrip(": "), shown.bar.n, shown.bar.total


@pytest.fixture(autouse=True)
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    made = progress.tqdm
    monkeypatch.setattr(progress, "tqdm", lambda **more: made(**more | {"disable": False}))


def test_a_drain_with_a_limit_is_of_seconds(clock: list[float]) -> None:
    with RunBar(1000, Span(duration_s=10, drain_s=4)) as shown:
        clock[0] = 105
        assert show(shown) == ("replaying", 5, 10)
        clock[0] = 110
        assert show(shown, cut=1, left=70) == ("draining", 0, 4), "not at its end while something is left"
        clock[0] = 111
        assert show(shown, cut=1, left=30) == ("draining", 1, 4)
        assert "at most 30 ops left" in shown.bar.postfix


def test_a_drain_without_a_limit_is_of_ops(clock: list[float]) -> None:
    with RunBar(1000, Span(duration_s=10)) as shown:
        clock[0] = 112
        assert show(shown, cut=1, left=70) == ("draining", 0, 70)
        assert show(shown, cut=1, left=30) == ("draining", 40, 70)


def test_a_run_to_its_end_is_of_ops(clock: list[float]) -> None:
    with RunBar(1000, Span()) as shown:
        assert show(shown, retired=300) == ("replaying", 300, 1000)
        assert "left" not in shown.bar.postfix
