"""The figures on each screen: frames of a view, lines on a pipe, JSON for programs."""

import html
import io
import re
import sys

import click
import pytest
from rich.console import Console

from replayer.commands.live.frame import draw_frame, draw_sparkline
from replayer.commands.live.screens import JsonLines, PlainLines, Screen, choose_screen
from replayer.commands.live.view import History, View
from replayer.commands.live.wording import format_clock, format_ms
from replayer.experiments.agenda import Place
from replayer.flags.progress_flags import PROGRESS_KEY
from replayer.live.figures import Figures, TierRate, parse_line
from tests.support import view_picture
from tests.support.view_picture import PICTURE

TIERS = {"cpu": TierRate(2.314, 0.84), "nvme": TierRate(1.1, 12.525)}
FIGURES = Figures("replaying", "s", 150, 300, 150, None, TIERS, 0.612, 12.43, 1230.4, 12, 1034)
PLACE = Place("small/trial_2", "case 3 of 8, trial 2 of 3", "small/trial_3", 4210)
RATES = {"cpu": [0.0, 1.0, 2.0], "nvme": [0.0] * 30}


def drawn(figures: Figures, columns: int, place: Place | None = PLACE) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(draw_frame(figures, place, RATES, console))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_frame_of_80_columns() -> None:
    assert drawn(FIGURES, 80) == [
        f"{'case 3 of 8, trial 2 of 3: small/trial_2':55}about 1:10:10 left in all",
        f"{'replaying':57}2:30 of 5:00, 2:30 left",
        "━" * 40 + "─" * 40,
        "      read GiB/s  write GiB/s  last 30 s",
        "cpu         2.31         0.84  ▁▅█",
        "nvme        1.10        12.53  " + "▁" * 30,
        "nvme read P95 so far       12.4 ms   hit rate so far  61.2%",
        "TTFT (storage) P95 so far  1,230 ms  in flight        12 moves, 1,034 queued",
        "next: small/trial_3",
    ]


def test_a_frame_of_60_columns_is_cut_nowhere() -> None:
    lines = drawn(FIGURES, 60)
    assert max(map(len, lines)) <= 60
    assert "hit rate so far            61.2%" in lines
    assert "in flight                  12 moves, 1,034 queued" in lines
    assert lines[0].endswith("… about 1:10:10 left in all"), "the name gives way"


@pytest.mark.parametrize("columns", [20, 38, 39, 45, 76, 200])
def test_a_frame_fits_any_terminal(columns: int) -> None:
    assert max(map(len, drawn(FIGURES, columns))) <= min(columns, 100)


def test_what_failed_is_shown_and_what_was_not_measured_is_a_dash() -> None:
    failing = Figures("draining", "op", 40, 70, 3, 30, TIERS, failures=2)
    lines = drawn(failing, 80, None)
    assert lines[0].split("  ")[0] == "draining, at most 30 ops left"
    assert lines[0].endswith("40 of 70 ops, about 0:03 left")
    assert "nvme read P95 so far       -  hit rate so far  -" in lines
    assert lines[-1] == "2 moves FAILED"


def test_a_task_without_a_total_has_no_bar() -> None:
    assert drawn(Figures("starting", "op", 0, 0), 60, None) == ["starting"]
    assert drawn(Figures("preconditioning", "B", 2**29, 2**30, 1), 60, None)[0].endswith(
        "0.50 of 1.00 GiB, about 0:01 left"
    )


def test_the_picture_of_the_docs_is_a_frame_of_today() -> None:
    """Drawn anew by `python -m tests.support.view_picture`; it loads nothing from a network."""
    picture = PICTURE.read_text()
    assert words(picture) == words(view_picture.draw_picture())
    assert "case 1 of 3, trial 3 of 3: dram" in words(picture)
    assert "url(http" not in picture
    assert len(picture) < 60_000


def words(picture: str) -> str:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    return html.unescape(" ".join(texts)).replace("\xa0", " ")


def test_the_highest_rate_has_the_highest_character() -> None:
    assert draw_sparkline([0, 5, 10], "_x#") == "_x#"
    assert draw_sparkline([0, 0], "_x#") == "__"
    assert draw_sparkline([], "_x#") == ""


def test_times_as_they_are_read() -> None:
    assert list(map(format_clock, (0, 59.6, 3599, 3661))) == ["0:00", "1:00", "59:59", "1:01:01"]
    shown = ["-", "0.12 ms", "9.99 ms", "10.0 ms", "99.9 ms", "1,230 ms"]
    assert list(map(format_ms, (None, 0.123, 9.99, 10, 99.94, 1230.4))) == shown


def test_a_history_notes_a_rate_each_second_for_half_a_minute() -> None:
    now = [0.0]
    history = History(lambda: now[0])
    for quarter in range(41 * 4):
        now[0] = quarter / 4
        history.note({"cpu": TierRate(quarter // 4, 1)})
    assert history.rates == {"cpu": [second + 1 for second in range(11, 41)]}
    history.note({})
    assert history.rates == {}, "the next run begins anew"


def test_lines_come_every_half_a_minute_and_at_events(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = PlainLines(lambda: now[0])

    def shown(figures: Figures, place: Place | None, at_s: float) -> list[str]:
        now[0] = at_s
        lines.show(figures, place)
        return capsys.readouterr().err.splitlines()

    warm = Figures("warming up", "s", 0, 300, 300, tiers=TIERS)
    begun = "case 3 of 8, trial 2 of 3: small/trial_2; next: small/trial_3"
    assert shown(warm, PLACE, 1) == [begun]
    assert shown(warm, PLACE, 20) == []
    assert len(shown(warm, PLACE, 31)) == 1, "30 s after the last line"
    assert shown(FIGURES, PLACE, 32) == [
        "small/trial_2: replaying: 2:30 of 5:00, 2:30 left; cpu 2.31 GiB/s read, 0.84 written;"
        " nvme 1.10 GiB/s read, 12.53 written; P95 so far: nvme read 12.4 ms, TTFT (storage part) 1,230 ms;"
        " hit rate 61.2%; in flight: 12 moves, 1,034 queued; about 1:10:10 left in all"
    ]
    assert shown(FIGURES, PLACE, 33) == []
    (drain,) = shown(Figures("draining", "op", 40, 70, 3, 30, failures=1), PLACE, 34)
    assert drain.startswith(
        "small/trial_2: draining, at most 30 ops left: 40 of 70 ops, about 0:03 left; 1 move FAILED"
    )


def test_json_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLines().show(FIGURES, PLACE)
    assert parse_line(capsys.readouterr().err) == FIGURES


@pytest.mark.parametrize(
    ("kind", "is_terminal", "term", "ci", "screen"),
    [
        ("auto", True, "xterm", "", View),
        ("auto", True, "xterm", "false", View),
        ("auto", True, "xterm", "true", PlainLines),
        ("auto", True, "dumb", "", PlainLines),
        ("auto", False, "xterm", "", PlainLines),
        ("view", False, "dumb", "true", View),
        ("lines", True, "xterm", "", PlainLines),
        ("json", True, "xterm", "", JsonLines),
        ("off", True, "xterm", "", Screen),
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
        context.meta[PROGRESS_KEY] = "auto"
        screen = choose_screen()
    assert type(screen) is PlainLines
    screen.say("nobody reads this")


def test_a_terminal_that_has_gone_away_ends_nothing() -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(5, "Input/output error")

    console = Console(file=Gone(), force_terminal=True)
    with View(console) as view:
        view.show(FIGURES, PLACE)
        view.say("a line")
