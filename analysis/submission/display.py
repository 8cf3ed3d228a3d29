"""Callables that may show what a validation does."""

from collections.abc import Callable
from dataclasses import dataclass

from tracegen.progress import Progress, ignore_progress


def _say_nothing(_line: str) -> None:
    """Drop a line."""


@dataclass(frozen=True)
class Display:
    """Callables that show what a validation does; silent by default.

    Attributes:
        say: takes a line.
        progress: begins the progress of a task.
    """

    say: Callable[[str], None] = _say_nothing
    progress: Progress = ignore_progress


SILENT = Display()
