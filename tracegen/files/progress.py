"""Progress of long work, reported to a caller that may show it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]
"""Reports by how many units the work has advanced."""


class Progress(Protocol):
    """Opens the report of one task; the context gives the function that advances it."""

    def __call__(self, task: str, unit: str, total: int | None) -> AbstractContextManager[Advance]:
        """Begin a task of `total` units (None: unknown)."""
        ...


@contextmanager
def ignore_progress(task: str, unit: str, total: int | None) -> Iterator[Advance]:  # noqa: ARG001 (the shape of Progress)
    """Report nothing."""
    yield lambda _amount: None
