"""The view of a person at a terminal: a few lines that are drawn anew in place."""

from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from replayer.commands.live.frame import HISTORY_S, draw_frame
from replayer.commands.live.screens import Screen
from replayer.experiments.agenda import Place
from replayer.live.figures import Figures, TierRate


class History:
    """The rates of each tier in the last seconds, both directions together, in GiB/s.

    Attributes:
        rates: by tier, the oldest first.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.rates: dict[str, list[float]] = {}
        self._clock = clock
        self._noted_s: float | None = None

    def note(self, tiers: dict[str, TierRate]) -> None:
        """Note the rates of now, once a second; without tiers, begin anew."""
        now_s = self._clock()
        if not tiers:
            self.rates = {}
            self._noted_s = None
        elif self._noted_s is None or now_s - self._noted_s >= 1:
            self._noted_s = now_s
            for tier, rate in tiers.items():
                both = rate.read_gib_s + rate.write_gib_s
                self.rates[tier] = [*self.rates.get(tier, []), both][-HISTORY_S:]


class View(Screen):
    """Draws figures in place on a terminal, and lines above them.

    A terminal that has gone away is no reason to end a run: nothing more is drawn on it.

    Args:
        console: of the terminal; None: stderr.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._history = History()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._live = Live(
            console=self._console,
            auto_refresh=False,  # a thread of its own would wake during moves
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with suppress(OSError):
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Erase the figures, and give the cursor back."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None

    def say(self, text: str, *, bold: bool = False) -> None:
        """Print a line, above the figures if there are any."""
        with suppress(OSError):
            self._console.out(text, style="bold" if bold else None, highlight=False)

    def show(self, figures: Figures, place: Place | None = None) -> None:
        """Draw the figures."""
        self._history.note(figures.tiers)
        if self._live is not None:
            with suppress(OSError):
                frame = draw_frame(figures, place, self._history.rates, self._console)
                self._live.update(frame, refresh=True)
