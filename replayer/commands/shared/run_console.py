"""The console of a run on a terminal: lines and progress bars on stderr."""

import json
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import get_terminal_size
from time import monotonic
from typing import Any

import click
from tqdm import tqdm

from replayer.bindings.compiled import State
from replayer.planning.pace import Span
from replayer.run.console import RunConsole
from tracegen.console.command_line import flags_of
from tracegen.console.interrupts import INTERRUPTS
from tracegen.errors import ToolError, format_count


class TerminalConsole(RunConsole):
    """Shows a run on stderr, and asks questions if a user can answer them."""

    def say(self, line: str) -> None:
        """Show a line about the run before it starts."""
        click.echo(line, err=True)

    def warn(self, warning: str) -> None:
        """Show a warning; settings in backquotes become the flags of the command."""
        text = ToolError(warning).sentence(_flags().get)
        click.secho(f"Warning: {text}", err=True, bold=True)

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
        """Show a progress bar; give a function that takes the units newly done."""
        with make_bar(task, total, unit) as bar:
            yield bar.update

    @contextmanager
    def track_run(self, ops: int, span: Span) -> Iterator[Callable[[State], object]]:
        """Show a progress bar of an execution; give a function that takes its state."""
        with RunBar(ops, span) as bar:
            yield bar.show


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


class RunBar:
    """Progress bar of an execution: by ops, or by time if it has a time limit; then by its drain.

    Attributes:
        bar: the bar on stderr.
    """

    def __init__(self, ops: int, span: Span) -> None:
        self._span = span
        self._began = monotonic()
        self._drain_began_s: float | None = None
        self._total = float(span.duration_s or ops)
        self.bar = make_bar("replaying", int(self._total), "s" if span.duration_s else "op")

    def __enter__(self) -> "RunBar":
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def show(self, state: State) -> None:
        """Show the state of the execution."""
        elapsed_s = monotonic() - self._began
        if state.cut and self._drain_began_s is None:
            self._begin_drain(state.left, elapsed_s)
        done = max(0.0, min(self._done(state, elapsed_s), self._total))
        self.bar.update(done - self.bar.n)
        rate = state.moved_bytes / 2**30 / elapsed_s if elapsed_s else 0
        hit_rate = state.hits / state.reads if state.reads else 0
        left = f", at most {format_count(state.left, 'op')} left" if state.cut else ""
        failures = f", {state.failures:,} FAILED" if state.failures else ""
        self.bar.set_postfix_str(f"{rate:.2f} GiB/s, hit rate {hit_rate:.1%}{left}{failures}")

    def _done(self, state: State, elapsed_s: float) -> float:
        """Return how far the run, or its drain, is, in the unit of the bar."""
        if self._drain_began_s is None:
            return elapsed_s if self._span.duration_s else float(state.retired)
        if self._span.drain_s is None:
            return self._total - float(state.left)
        return elapsed_s - self._drain_began_s

    def _begin_drain(self, left: int, elapsed_s: float) -> None:
        """Let the bar show the drain: by its limit, or by the ops that are left."""
        limit_s = self._span.drain_s
        self._drain_began_s = elapsed_s
        self.bar.set_description("draining", refresh=False)
        self.bar.unit = "op" if limit_s is None else "s"
        self._total = float(left if limit_s is None else limit_s)
        self.bar.reset(self._total)


def make_bar(task: str, total: int | None, unit: str) -> "tqdm[Any]":
    """Make a bar on stderr, hidden without a terminal or without work; seconds have no rate.

    Without a total, it counts.
    """
    seconds_form = "{l_bar}{bar}| {n_fmt}/{total_fmt} s [{elapsed}{postfix}]"
    return tqdm(
        desc=task,
        total=total,
        unit=unit,
        unit_scale=True,
        disable=True if total == 0 else None,
        leave=False,
        bar_format=seconds_form if unit == "s" else None,
        ncols=get_terminal_size().columns,  # some terminals report 0, which hides the bar
    )
