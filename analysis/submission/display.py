"""Progress of a validation, passed to callables that may show it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

Advance = Callable[[int], None]
"""Takes the number of units done since the last call."""


class Progress(Protocol):
    """Begins the progress of a task; inside the context its function advances it."""

    def __call__(self, task: str, unit: str, total: int | None) -> AbstractContextManager[Advance]:
        """Begin a task of `total` units."""
        ...


@contextmanager
def ignore_progress(task: str, unit: str, total: int | None) -> Iterator[Advance]:  # noqa: ARG001 (Progress)
    """Show nothing."""
    yield lambda _count: None


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
