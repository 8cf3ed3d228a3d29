"""The user's end of a run: lines, warnings and progress on a screen."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from replayer.bindings.compiled import State
from replayer.planning.executing import Records
from replayer.run.figures import Figures, Screen
from replayer.run.gauge import Gauge, estimate_left_s
from tracegen.progress import Advance

SHOWN_S: Final = 0.5
"""Seconds between two frames of an execution: each takes about a millisecond."""

Watch = Callable[[Records, Callable[[], State]], object]
"""Taker of new rows of the log, and of a function that returns the state of the execution."""


class RunConsole:
    """Tells a run's user what it does, on a screen.

    Args:
        screen: silent by default.
        place: adds the place of the run in its series to figures.
        is_predicted: the clock of the run is not the user's: only its ops are shown.
    """

    def __init__(
        self,
        screen: Screen | None = None,
        place: Callable[[Figures], Figures] = lambda figures: figures,
        *,
        is_predicted: bool = False,
    ) -> None:
        self._screen = screen or Screen()
        self.say = self._screen.say
        self.warn = self._screen.warn
        self._place = place
        self._is_predicted = is_predicted

    @contextmanager
    def track(self, task: str, unit: str, total: int | None) -> Iterator[Advance]:
        """Show the progress of a task, as any `Progress`."""
        began_s = monotonic()
        done = 0

        def read() -> Figures:
            left_s = estimate_left_s(done, total, monotonic() - began_s) if total else None
            return Figures(task, unit, done, total or 0, left_s)

        def advance(amount: int) -> None:
            nonlocal done
            done += amount
            show(read)

        with self._showing() as show:
            yield advance

    @contextmanager
    def track_run(self, gauge: Gauge) -> Iterator[Watch]:
        """Show the progress of an execution; give a function that takes rows of its log."""
        if not self._screen.shows_figures:  # the gauge would read every row for nobody
            yield lambda _records, _state: None
        elif self._is_predicted:
            with self.track("predicting", "op", gauge.ops_to_do) as advance:
                yield _watch_ops(advance)
        else:

            def watch(records: Records, state: Callable[[], State]) -> None:
                gauge.add(records)
                now = state()
                show(lambda: gauge.read(now), gauge.begins_drain(now))

            with self._showing() as show:
                yield watch

    @contextmanager
    def _showing(self) -> Iterator[Callable[..., None]]:
        """Give a function that shows figures on the screen, unless the last ones are recent."""
        shown_s = monotonic()  # a rate over less time tells little

        def show(read: Callable[[], Figures], at_once: bool = False) -> None:
            nonlocal shown_s
            if at_once or monotonic() - shown_s >= SHOWN_S:
                shown_s = monotonic()
                self._screen.show(self._place(read()))

        with self._screen:
            yield show


def _watch_ops(advance: Advance) -> Watch:
    """Return a function that advances by the ops retired since its last call."""
    done = 0

    def watch(_records: Records, state: Callable[[], State]) -> None:
        nonlocal done
        retired = state().retired
        advance(retired - done)
        done = retired

    return watch
