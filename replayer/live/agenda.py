"""The agenda of a series: which replay is going on, what comes next, how long the rest takes."""

from collections.abc import Callable, Sequence
from statistics import fmean
from time import monotonic

from msgspec.structs import replace

from replayer.live.figures import Figures


class Agenda:
    """The replays of a series in their order.

    Args:
        names: of all replays; none: each is decided when the one before has ended.
        clock: in seconds.
    """

    def __init__(self, names: Sequence[str] = (), clock: Callable[[], float] = monotonic) -> None:
        self._names = list(names)
        self._clock = clock
        self._name = ""
        self._began_s = 0.0
        self._begun = 0
        self._ended_s: list[float] = []

    def begin(self, name: str) -> None:
        """Note that a replay begins."""
        self._name = name
        self._began_s = self._clock()
        self._begun += 1

    def end(self) -> None:
        """Note that the replay has ended."""
        self._ended_s.append(self._clock() - self._began_s)

    def place(self, figures: Figures) -> Figures:
        """Return the figures with the place of the replay that goes on."""
        if not self._begun:
            return figures
        if not self._names:
            return replace(figures, replay=f"replay {self._begun}: {self._name}")
        if self._name not in self._names or len(self._names) == 1:
            return figures
        number = self._names.index(self._name) + 1
        rest = self._names[number:]
        return replace(
            figures,
            replay=f"replay {number} of {len(self._names)}: {self._name}",
            next=rest[0] if rest else "",
            left_in_all_s=self._estimate_left_s(figures, len(rest)),
        )

    def _estimate_left_s(self, figures: Figures, others: int) -> float | None:
        """Return the time left if the other replays take as long as those that have ended.

        Before any has ended, they take as long as the one that is going on.
        """
        if figures.left_s is None:
            return None
        whole_s = self._clock() - self._began_s + figures.left_s
        return figures.left_s + others * (fmean(self._ended_s) if self._ended_s else whole_s)
