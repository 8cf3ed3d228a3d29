"""The user's end of a run: lines, warnings, questions and progress. Silent by default."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from replayer.bindings.compiled import State
from replayer.live.gauge import RunExtent
from replayer.planning.executing import Records

Watch = Callable[[Records, Callable[[], State]], object]
"""Taker of new rows of the log, and of a function that returns the state of the execution."""


class RunConsole:
    """Receiver of everything that a run tells its user; this one is silent and answers no.

    Commands pass a subclass that writes to a terminal.
    """

    def say(self, line: str) -> None:
        """Show a line about the run before it starts."""

    def warn(self, warning: str) -> None:
        """Show a warning; settings stand in it by their Python names in backquotes."""

    def confirm(self, question: str) -> bool:  # noqa: ARG002 (for subclasses)
        """Ask a question; return whether the answer is yes."""
        return False

    @contextmanager
    def track(
        self,
        task: str,  # noqa: ARG002 (for subclasses)
        total: int,  # noqa: ARG002
        unit: str,  # noqa: ARG002
    ) -> Iterator[Callable[[int], object]]:
        """Show the progress of a task; give a function that takes the units newly done."""
        yield lambda _done: None

    @contextmanager
    def track_run(
        self,
        extent: RunExtent,  # noqa: ARG002 (for subclasses)
    ) -> Iterator[Watch]:
        """Show the progress of an execution; give a function that takes rows of its log."""
        yield lambda _records, _state: None
