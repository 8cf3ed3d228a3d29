"""The figures on each screen: a view on a terminal, lines on a pipe, JSON for programs."""

import io
import os
import sys

import click
import pytest
from msgspec.structs import replace

from replayer.commands.shared import screens
from replayer.commands.shared.screens import Bar, JsonLines, PlainLines, TerminalScreen, choose_screen
from replayer.options.command_line import PROGRESS_KEY
from replayer.run.figures import Figures, Screen, TierRate, parse_line
from tests.support.terminals import Picture

TIERS = {"cpu": TierRate(2.314, 0.84), "nvme": TierRate(1.1, 12.525)}
ALONE = Figures("replaying", "s", 150, 300, 150, None, TIERS, 12, 1034)
FIGURES = replace(ALONE, replay="replay 5 of 24: small/trial_2", left_in_all_s=4210)
DRAIN = Figures("draining", "op", 40, 70, 3, 30, TIERS, failures=1)


class Drawn(io.StringIO):
    """A terminal: what was drawn on it is in `picture`."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = Picture()

    def write(self, text: str) -> int:
        self.picture.take(text)
        return len(text)


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> Picture:
    drawn = Drawn()
    monkeypatch.setattr(sys, "stderr", drawn)
    monkeypatch.setattr(screens, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    return drawn.picture


def test_a_view_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with Bar() as view:
        view.show(Figures("starting"))
        assert terminal.text() == "starting"
        view.show(FIGURES)
        bar, *rows = terminal.text().splitlines()
        assert bar.startswith("replaying  50%|")
        assert bar.endswith("| 02:30 of 05:00, 02:30 left")
        assert rows == [
            "cpu 2.31 GiB/s read, 0.84 written",
            "nvme 1.10 GiB/s read, 12.53 written",
            "in flight 12 moves, 1,034 queued",
            "replay 5 of 24: small/trial_2, about 1:10:10 left in all",
        ]
        view.say("a line")
        assert terminal.text().splitlines()[:2] == ["a line", bar]
        view.show(DRAIN)
        assert terminal.text().splitlines()[-1] == "1 move FAILED"
    assert terminal.text() == "a line", "the figures are erased"
    assert terminal.unknown == []


@pytest.mark.parametrize("columns", [20, 38, 60])
def test_a_view_fits_any_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    terminal = on_terminal(monkeypatch, columns)
    with Bar() as view:
        view.show(FIGURES)
        assert max(map(len, terminal.lines)) < columns


def test_a_terminal_that_has_gone_away_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    with Bar() as view:
        view.show(FIGURES)
        view.say("a line")


def test_lines_come_every_half_a_minute_and_at_events(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = PlainLines(lambda: now[0])

    def shown(figures: Figures, at_s: float) -> list[str]:
        now[0] = at_s
        lines.show(figures)
        return capsys.readouterr().err.splitlines()

    warm = replace(FIGURES, stage="warming up")
    assert shown(warm, 1) == ["replay 5 of 24: small/trial_2, about 1:10:10 left in all"]
    assert shown(warm, 20) == []
    assert len(shown(warm, 31)) == 1, "30 s after the last line"
    assert shown(FIGURES, 32) == [
        "replaying: 02:30 of 05:00, 02:30 left; cpu 2.31 GiB/s read, 0.84 written; nvme 1.10 GiB/s read, 12.53 written;"
        " in flight 12 moves, 1,034 queued"
    ]
    assert shown(FIGURES, 33) == []
    drain = replace(DRAIN, replay=FIGURES.replay)
    (line,) = shown(drain, 34)
    assert line.startswith("draining, at most 30 ops left: 40 of 70 ops, about 00:03 left; cpu ")
    assert line.endswith("; 1 move FAILED")


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines().show(FIGURES)
    assert parse_line(capsys.readouterr().err) == FIGURES


@pytest.mark.parametrize(
    ("kind", "is_terminal", "term", "ci", "screen"),
    [
        ("bar", True, "xterm", "", Bar),
        ("bar", True, "xterm", "true", PlainLines),
        ("bar", False, "xterm", "", PlainLines),
        ("json", True, "xterm", "", JsonLines),
        ("off", True, "xterm", "", TerminalScreen),
    ],
)
def test_the_screen_fits_where_stderr_goes(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_terminal: bool, term: str, ci: str, screen: type[Screen]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("CI", ci)
    with click.Context(click.Command("run")) as context:
        context.meta[PROGRESS_KEY] = kind
        assert type(choose_screen()) is screen


def test_a_closed_stderr_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a program that was started with 2>&-."""
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setenv("TERM", "xterm")
    with click.Context(click.Command("run")) as context:
        context.meta[PROGRESS_KEY] = "bar"
        screen = choose_screen()
    assert type(screen) is PlainLines
    screen.say("nobody reads this")
