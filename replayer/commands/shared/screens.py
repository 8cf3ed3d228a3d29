"""Screens: where progress is shown on stderr, as --progress asks for it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from shutil import get_terminal_size
from time import monotonic
from typing import Final, Never

import click
from tqdm import tqdm

from replayer.live.figures import Figures, Screen, format_line
from replayer.live.gauge import REPLAY, WARM_UP
from replayer.options.progress import PROGRESS_KEY, ProgressKind
from tracegen.console.command_line import flags_of
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import ToolError, format_count

LINES_S: Final = 30.0
"""Seconds between two lines on a pipe."""
_GIB: Final = 2**30
_BAR: Final = "{desc} {percentage:3.0f}%|{bar}| "


class TerminalScreen(Screen):
    """Shows lines on stderr, and no figures; asks questions if a user can answer them."""

    def say(self, line: str) -> None:
        """Show a line."""
        click.echo(line, err=True)

    def warn(self, warning: str) -> None:
        """Show a warning; settings in backquotes become the flags of the command."""
        context = click.get_current_context(silent=True)
        flags = {} if context is None else flags_of(context.command)
        self.say(f"Warning: {ToolError(warning).sentence(flags.get)}")

    def confirm(self, question: str) -> bool:
        """Ask a question; the answer is no if there is no terminal."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        try:
            return click.confirm(question, err=True)
        except click.Abort:  # Ctrl-D; click gives Ctrl-C the same exception
            INTERRUPTS.check()
            return False


class JsonLines(TerminalScreen):
    """Shows figures as lines of JSON, for other programs."""

    shows_figures = True

    def show(self, figures: Figures) -> None:
        """Print the figures."""
        click.echo(format_line(figures), err=True)


class PlainLines(TerminalScreen):
    """Shows figures as a line now and then: at events, and every half a minute."""

    shows_figures = True

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._shown_s = clock()
        self._last = Figures("")

    def show(self, figures: Figures) -> None:
        """Print a line if a replay begins, its warm-up ends, its drain begins, or one is due."""
        last, self._last = self._last, figures
        is_event = last.stage in (WARM_UP, REPLAY) and figures.stage not in (last.stage, WARM_UP)
        if figures.replay != last.replay:
            text = describe_place(figures)
        elif is_event or self._clock() - self._shown_s >= LINES_S:
            text = "; ".join(describe_figures(figures))
        else:
            return
        self.say(text)
        self._shown_s = self._clock()


class View(TerminalScreen):
    """Draws figures in place on a terminal, as a bar of tqdm and lines under it; lines go above.

    A terminal that has gone away is no reason to end a run: nothing more is drawn on it.
    """

    shows_figures = True

    def __init__(self) -> None:
        tqdm.monitor_interval = 0  # its thread would wake during moves
        self._rows: list[tqdm[Never]] = []

    def __exit__(self, *_error: object) -> None:
        """Erase the figures."""
        self._fit(0)

    def say(self, line: str) -> None:
        """Print a line, above the figures if there are any."""
        with suppress(OSError):
            tqdm.write(line, file=sys.stderr)

    def show(self, figures: Figures) -> None:
        """Draw the figures."""
        columns = get_terminal_size().columns - 1  # in the last one, some terminals begin a new line
        stage, *texts = describe_figures(figures)
        if figures.replay:
            texts.append(describe_place(figures))
        self._fit(1 + len(texts))
        with suppress(OSError):
            bar, *rows = self._rows
            bar.total = figures.total
            bar.n = figures.done
            bar.ncols = columns
            bar.bar_format = _BAR + describe_extent_done(figures) if figures.total else "{desc}"
            bar.set_description_str(describe_stage(figures) if figures.total else stage)
            for row, text in zip(rows, texts, strict=True):
                row.set_description_str(_trim(text, columns))

    def _fit(self, count: int) -> None:
        """Have as many rows as there are to draw; erase those of a task that showed others."""
        if len(self._rows) == count:
            return
        with suppress(OSError):
            for row in reversed(self._rows):
                row.close()
        self._rows = []
        with suppress(OSError):
            rows = (tqdm(position=at, leave=False, bar_format="{desc}") for at in range(count))
            self._rows = list(rows)


def _trim(text: str, columns: int) -> str:
    return text if len(text) <= columns else f"{text[: columns - 1]}…"


_SCREENS: Final[dict[str, type[Screen]]] = {
    "view": View,
    "lines": PlainLines,
    "json": JsonLines,
    "off": TerminalScreen,
}


def choose_screen() -> Screen:
    """Return the screen that --progress of the current command names.

    `auto` is a view on a terminal that can redraw, else lines.
    """
    kind: ProgressKind = click.get_current_context().meta[PROGRESS_KEY]
    if kind == "auto":
        kind = "view" if _can_redraw() else "lines"
    return _SCREENS[kind]()


def _can_redraw() -> bool:
    """Return whether stderr is a terminal of a person, by the usual conventions."""
    is_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    is_terminal = sys.stderr is not None and sys.stderr.isatty()  # a closed one is None
    return is_terminal and os.environ.get("TERM", "dumb") != "dumb" and not is_ci


def describe_figures(figures: Figures) -> Iterator[str]:
    """Yield the figures in lines: the stage, then each tier, then the rest."""
    yield f"{describe_stage(figures)}: {describe_extent_done(figures)}".removesuffix(": ")
    for tier, rate in figures.tiers.items():
        yield f"{tier} {rate.read_gib_s:.2f} GiB/s read, {rate.write_gib_s:.2f} written"
    if figures.tiers:
        share = "-" if figures.hit_rate is None else f"{figures.hit_rate:.1%}"
        moves = format_count(figures.in_flight, "move")
        yield f"hit rate {share}, in flight {moves}, {figures.queued:,} queued"
    if figures.failures:
        yield f"{format_count(figures.failures, 'move')} FAILED"


def describe_stage(figures: Figures) -> str:
    """Describe what is done now."""
    text = figures.stage
    if figures.ops_left is not None:
        text += f", at most {format_count(figures.ops_left, 'op')} left"
    return text + (f" (rank 0 of {figures.ranks})" if figures.ranks > 1 else "")


def describe_extent_done(figures: Figures) -> str:
    """Describe how much is done, of how much, and the time left: an estimate without a time limit."""
    if not figures.total:
        return ""
    done = f"{figures.done:,.0f} of {format_count(round(figures.total), figures.unit)}"
    if figures.unit == "s":
        done = f"{format_clock(figures.done)} of {format_clock(figures.total)}"
    elif figures.unit == "B":
        done = f"{figures.done / _GIB:.2f} of {figures.total / _GIB:.2f} GiB"
    if figures.left_s is None:
        return done
    about = "" if figures.unit == "s" else "about "
    return f"{done}, {about}{format_clock(figures.left_s)} left"


def describe_place(figures: Figures) -> str:
    """Describe which replay goes on, what its series takes yet, and what comes next."""
    text = figures.replay
    if figures.left_in_all_s is not None:
        text += f", about {format_clock(figures.left_in_all_s)} left in all"
    return text + (f"; next: {figures.next}" if figures.next else "")


def format_clock(seconds: float) -> str:
    """Return a time as m:ss, or as h:mm:ss from an hour on."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
