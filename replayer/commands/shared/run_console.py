"""The console of a run on a terminal: lines and progress on stderr."""

import json
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from time import monotonic
from typing import Any, Final, Protocol

import click
from tqdm import tqdm

from replayer.bindings.compiled import State
from replayer.commands.live.screens import Screen
from replayer.experiments.agenda import Place
from replayer.live.figures import Figures
from replayer.live.gauge import Gauge, RunExtent, estimate_left_s
from replayer.planning.executing import Records
from replayer.run.console import RunConsole, Watch
from tracegen.console.command_line import flags_of
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import ToolError

SHOWN_S: Final = 0.5
"""Seconds between two frames of an execution: each takes about a millisecond."""


class Show(Protocol):
    """Shows figures, unless the last ones are recent."""

    def __call__(self, read: Callable[[], Figures], *, at_once: bool = False) -> None:
        """Read the figures and show them."""


class TerminalConsole(RunConsole):
    """Shows a run on stderr, and asks questions if a user can answer them.

    Args:
        screen: shows progress.
        find_place: gives the place of the run in a series.
    """

    def __init__(
        self,
        screen: Screen,
        find_place: Callable[[Figures], Place | None] = lambda _: None,
    ) -> None:
        self._screen = screen
        self._find_place = find_place

    def say(self, line: str) -> None:
        """Show a line about the run before it starts."""
        self._screen.say(line)

    def warn(self, warning: str) -> None:
        """Show a warning; settings in backquotes become the flags of the command."""
        text = ToolError(warning).sentence(_flags().get)
        self._screen.say(f"Warning: {text}", bold=True)

    def confirm(self, question: str) -> bool:
        """Ask a question; the answer is no if there is no terminal."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        try:
            return click.confirm(question, err=True)
        except click.Abort:  # Ctrl-D; click gives Ctrl-C the same exception
            INTERRUPTS.check()
            return False

    @contextmanager
    def track(self, task: str, total: int, unit: str) -> Iterator[Callable[[int], object]]:
        """Show the progress of a task; give a function that takes the units newly done."""
        began_s = monotonic()
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            left_s = estimate_left_s(done, total, monotonic() - began_s)
            show(lambda: Figures(task, unit, done, total, left_s))

        with self._screen:
            show = self._begin_showing()
            yield advance

    @contextmanager
    def track_run(self, extent: RunExtent) -> Iterator[Watch]:
        """Show the progress of an execution; give a function that takes rows of its log."""
        gauge = Gauge(extent)
        has_begun_drain = False

        def watch(records: Records, state: Callable[[], State]) -> None:
            nonlocal has_begun_drain
            gauge.add(records)
            now = state()
            begins_drain = bool(now.cut) and not has_begun_drain
            has_begun_drain = has_begun_drain or begins_drain
            show(lambda: gauge.read(now), at_once=begins_drain)

        with self._screen:
            show = self._begin_showing()
            yield watch

    def _begin_showing(self) -> Show:
        """Return a function that shows figures, unless the last ones are recent."""
        shown_s = monotonic()  # a rate over less time tells little

        def show(read: Callable[[], Figures], *, at_once: bool = False) -> None:
            nonlocal shown_s
            if at_once or monotonic() - shown_s >= SHOWN_S:
                shown_s = monotonic()
                figures = read()
                self._screen.show(figures, self._find_place(figures))

        return show


def report_death(error: BaseException) -> None:
    """Show the error that ends a rank; an interrupt is shown when the command ends."""
    if isinstance(error, ToolError):
        click.echo(f"Error: {error.sentence(_flags().get)}", err=True)
    elif not isinstance(error, KeyboardInterrupt):
        traceback.print_exception(error)


def note_log(error: BaseException, directory: Path) -> None:
    """Tell the user of an interrupted run where its rows are, if it left any."""
    info = directory / "run.json"
    is_incomplete = info.exists() and json.loads(info.read_text())["status"] == "incomplete"
    if is_incomplete and any(directory.glob("**/part-*.parquet")):
        command = f"`analysis summary {shlex.quote(str(directory))}`"
        error.add_note(f"{directory} holds what was done; {command} reads it.")


def _flags() -> dict[str, str]:
    """Map the settings of the current command, by their Python names, to their flags."""
    context = click.get_current_context(silent=True)
    return {} if context is None else flags_of(context.command)


def make_bar(task: str, total: int | None, unit: str) -> "tqdm[Any]":
    """Make a bar on stderr, hidden without a terminal or work; without a total, it counts."""
    return tqdm(
        desc=task,
        total=total,
        unit=unit,
        unit_scale=True,
        disable=True if total == 0 else None,
        leave=False,
        ncols=get_terminal_size().columns,  # some terminals report 0, which hides the bar
    )
