"""Progress of long work, reported to a caller that may show it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], object]
"""Takes the number of units done since the last call."""


class Progress(Protocol):
    """Begins the progress of a task; inside the context its function advances it."""

    def __call__(self, task: str, unit: str, total: int | None) -> AbstractContextManager[Advance]:
        """Begin a task of `total` units; None: unknown."""
        ...


@contextmanager
def ignore_progress(
    task: str,  # noqa: ARG001 (a `Progress` takes these)
    unit: str,  # noqa: ARG001
    total: int | None,  # noqa: ARG001
) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda _amount: None
