"""The receivers of an experiment's reports: callables that a command passes down."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from replayer.experiments.agenda import Place
from replayer.live.figures import Figures


def _be_silent(*_report: Any) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Display:
    """The receivers of an experiment's reports; silent by default.

    Attributes:
        say: takes a line on the progress.
        warn: takes a line that should stand out.
        show: takes the figures of the replay that goes on, and its place in the series.
    """

    say: Callable[[str], object] = _be_silent
    warn: Callable[[str], object] = _be_silent
    show: Callable[[Figures, Place], object] = _be_silent


SILENT = Display()
