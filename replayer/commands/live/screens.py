"""Screens: where progress is shown. One says lines only; the others also show figures."""

import os
import sys
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Final, Self

import click

from replayer.commands.live.wording import describe_line, describe_replay
from replayer.experiments.agenda import Place
from replayer.flags.progress_flags import PROGRESS_KEY, ProgressKind
from replayer.live.figures import Figures, format_line
from replayer.live.gauge import REPLAY, WARM_UP

LINES_S: Final = 30.0
"""Seconds between two lines on a pipe."""


class Screen:
    """Shows lines on stderr, and no figures. The subclasses show figures, too.

    Inside its context a screen may own lines of the terminal.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back."""

    def say(self, text: str, *, bold: bool = False) -> None:  # noqa: ARG002 (for subclasses)
        """Show a line; without control characters, even a bold one, but on a view."""
        click.echo(text, err=True)

    def show(self, figures: Figures, place: Place | None = None) -> None:
        """Show figures.

        Args:
            figures: of the task that goes on.
            place: of its replay in a series; None: there is no series.
        """


class JsonLines(Screen):
    """Shows figures as lines of JSON, for other programs."""

    def show(self, figures: Figures, place: Place | None = None) -> None:  # noqa: ARG002
        """Print the figures of this process; which replay it is, the reader knows."""
        click.echo(format_line(figures), err=True)


class PlainLines(Screen):
    """Shows figures as a line now and then: at events, and every half a minute.

    Args:
        clock: in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._shown_s = clock()
        self._stage: str | None = None
        self._name: str | None = None

    def show(self, figures: Figures, place: Place | None = None) -> None:
        """Print a line if one is due."""
        name = None if place is None else place.name
        line = ""
        if place is not None and place.position and name != self._name:
            line = describe_replay(place) + (f"; next: {place.next}" if place.next else "")
        elif self._is_event(figures) or self._clock() - self._shown_s >= LINES_S:
            line = describe_line(figures, place)
        self._stage = figures.stage
        self._name = name
        if line:
            self.say(line)
            self._shown_s = self._clock()

    def _is_event(self, figures: Figures) -> bool:
        """Return whether the warm-up has ended, or a drain begins."""
        return self._stage in (WARM_UP, REPLAY) and figures.stage not in (self._stage, WARM_UP)


def choose_screen() -> Screen:
    """Return the screen that --progress of the current command names.

    `auto` is a view on a terminal that can redraw, else lines.
    """
    kind: ProgressKind = click.get_current_context().meta[PROGRESS_KEY]
    if kind == "auto":
        kind = "view" if _can_redraw() else "lines"
    if kind == "view":
        from replayer.commands.live.view import View  # noqa: PLC0415 (takes 50 ms)

        return View()
    others: dict[str, type[Screen]] = {"lines": PlainLines, "json": JsonLines, "off": Screen}
    return others[kind]()


def _can_redraw() -> bool:
    """Return whether stderr is a terminal of a person, by the usual conventions."""
    is_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    is_terminal = sys.stderr is not None and sys.stderr.isatty()  # a closed one is None
    return is_terminal and os.environ.get("TERM", "dumb") != "dumb" and not is_ci
