"""Screens: where progress is shown on stderr, as --progress asks for it."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from shutil import get_terminal_size
from time import monotonic
from typing import Final, Never

import click
from msgspec.structs import replace

from replayer.options.command_line import PROGRESS_KEY, ProgressKind
from replayer.run.figures import Figures, Screen, format_line
from tracegen.console.command_line import flags_of
from tracegen.errors import ToolError, format_count

# Seconds between two lines on a pipe.
LINES_S: Final = 30.0
_GIB: Final = 2**30
_BAR: Final = "{desc} {percentage:3.0f}%|{bar}| "


class TerminalScreen(Screen):
    """Shows lines on stderr, and no figures."""

    def say(self, line: str) -> None:
        """Show a line."""
        click.echo(line, err=True)

    def warn(self, warning: str) -> None:
        """Show a warning; settings in backquotes become the flags of the command."""
        context = click.get_current_context(silent=True)
        flags = {} if context is None else flags_of(context.command)
        self.say(f"Warning: {ToolError(warning).sentence(flags.get)}")


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
        # Lines in a log file: events, and otherwise few.
        if figures.replay != last.replay:
            self.say(describe_place(figures))
        elif (last.tiers and figures.stage != last.stage) or self._clock() - self._shown_s >= LINES_S:
            stage, *texts = describe_figures(replace(figures, replay=""))
            extent = describe_extent(figures)
            self.say("; ".join([f"{stage}: {extent}" if extent else stage, *texts]))
        else:
            return
        self._shown_s = self._clock()


class Bar(TerminalScreen):
    """Draws figures in place on a terminal, as a bar of tqdm and lines under it; lines go above.

    A terminal that has gone away is no reason to end a run: nothing more is drawn on it.
    """

    shows_figures = True

    def __init__(self) -> None:
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # its thread would wake during moves
        self._tqdm = tqdm
        self._rows: list[tqdm[Never]] = []

    def __exit__(self, *_error: object) -> None:
        """Erase the figures."""
        with suppress(OSError):
            self._fit(0)

    def say(self, line: str) -> None:
        """Print a line, above the figures if there are any."""
        with suppress(OSError):
            self._tqdm.write(line, file=sys.stderr)

    def show(self, figures: Figures) -> None:
        """Draw the figures."""
        columns = get_terminal_size().columns - 1  # in the last one, some terminals begin a new line
        texts = describe_figures(figures)
        with suppress(OSError):
            self._fit(len(texts))
            bar = self._rows[0]
            bar.total = figures.total
            bar.n = figures.done
            bar.ncols = columns
            bar.bar_format = _BAR + describe_extent(figures) if figures.total else "{desc}"
            for row, text in zip(self._rows, texts, strict=True):
                row.set_description_str(text if len(text) <= columns else f"{text[: columns - 1]}…")

    def _fit(self, count: int) -> None:
        """Have as many rows as there are to draw; erase those of a task that showed others."""
        if len(self._rows) != count:
            for row in reversed(self._rows):
                row.close()
            self._rows = [self._tqdm(position=at, leave=False, bar_format="{desc}") for at in range(count)]


_SCREENS: Final[dict[str, type[Screen]]] = {"bar": Bar, "lines": PlainLines, "json": JsonLines, "off": TerminalScreen}


def choose_screen() -> Screen:
    """Return the screen that --progress of the current command names; a bar needs a terminal that can redraw."""
    kind: ProgressKind = click.get_current_context().meta[PROGRESS_KEY]
    is_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    is_terminal = sys.stderr is not None and sys.stderr.isatty()  # a closed one is None
    # Logs of CI jobs keep every redrawn line.
    can_redraw = is_terminal and not is_ci and os.environ.get("TERM", "dumb") != "dumb"
    return _SCREENS["lines" if kind == "bar" and not can_redraw else kind]()


def describe_figures(figures: Figures) -> list[str]:
    """Return the figures in lines: the stage, each tier, the rest, the place in the series."""
    stage = figures.stage
    if figures.ops_left is not None:
        stage += f", at most {format_count(figures.ops_left, 'op')} left"
    lines = [stage + (f" (rank 0 of {figures.ranks})" if figures.ranks > 1 else "")]
    lines += [f"{tier} {rate}" for tier, rate in figures.tiers.items()]
    if figures.tiers:
        moves = format_count(figures.in_flight, "move")
        lines.append(f"in flight {moves}, {figures.queued:,} queued")
    if figures.failures:
        lines.append(f"{format_count(figures.failures, 'move')} FAILED")
    return [*lines, describe_place(figures)] if figures.replay else lines


def describe_place(figures: Figures) -> str:
    """Describe which replay goes on, and how long its series takes yet."""
    left_s = figures.left_in_all_s
    return figures.replay + ("" if left_s is None else f", about {_clock(left_s)} left in all")


def describe_extent(figures: Figures) -> str:
    """Describe how much is done, of how much, and the time left: an estimate without a time limit."""
    if not figures.total:
        return ""
    done = f"{figures.done:,.0f} of {format_count(round(figures.total), figures.unit)}"
    if figures.unit == "s":
        done = f"{_clock(figures.done)} of {_clock(figures.total)}"
    elif figures.unit == "B":
        done = f"{figures.done / _GIB:.2f} of {figures.total / _GIB:.2f} GiB"
    if figures.left_s is None:
        return done
    return f"{done}, {'' if figures.unit == 's' else 'about '}{_clock(figures.left_s)} left"


def _clock(seconds: float) -> str:
    from tqdm import tqdm

    return tqdm.format_interval(round(seconds))
