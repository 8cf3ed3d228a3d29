"""The receivers of an experiment's reports: callables that a command passes down."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _be_silent(_text: Any) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Display:
    """The receivers of an experiment's reports; silent by default.

    Attributes:
        say: takes a line on the progress.
        warn: takes a line that should stand out.
        relay: takes what child processes print, as it comes, with the control characters of bars.
        window: rows and columns of the terminal that `relay` writes to; None: it is no terminal.
    """

    say: Callable[[str], object] = _be_silent
    warn: Callable[[str], object] = _be_silent
    relay: Callable[[str], object] = _be_silent
    window: tuple[int, int] | None = None


SILENT = Display()
