"""The agenda of a series: which replay is going on, what comes next, how long the rest takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from statistics import fmean
from time import monotonic

from replayer.live.figures import Figures


@dataclass(frozen=True)
class Place:
    """The place of a replay in its series.

    Attributes:
        name: of the replay.
        position: such as "case 3 of 8, trial 2 of 3"; empty if it is the only
            replay; "in between" if it is not on the agenda, as a prediction is.
        next: name of the replay that comes next; None: none, or it is not decided.
        left_s: time left for the whole series, estimated; None: unknown, or it is the only replay.
    """

    name: str
    position: str = ""
    next: str | None = None
    left_s: float | None = None


class Agenda:
    """The replays of a series in their order; names are case/trial.

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

    def find_place(self, figures: Figures | None = None) -> Place:
        """Return the place of the replay that is going on.

        Args:
            figures: of it; None: it has none yet.
        """
        name = self._name
        if name not in self._names:
            return Place(name, "in between" if self._names else f"replay {self._begun}")
        rest = self._names[self._names.index(name) + 1 :]
        left_s = None
        if figures is not None and len(self._names) > 1:
            left_s = self._estimate_left_s(figures, len(rest))
        return Place(name, self._describe_position(), rest[0] if rest else None, left_s)

    def _describe_position(self) -> str:
        """Return the numbers of the case and of the trial, unless there is only one."""
        case = PurePath(self._name).parent
        cases = list(dict.fromkeys(PurePath(name).parent for name in self._names))
        trials = [name for name in self._names if PurePath(name).parent == case]
        counts = (
            ("case", cases.index(case) + 1, len(cases)),
            ("trial", trials.index(self._name) + 1, len(trials)),
        )
        return ", ".join(f"{word} {number} of {of}" for word, number, of in counts if of > 1)

    def _estimate_left_s(self, figures: Figures, others: int) -> float | None:
        """Return the time left if the other replays take as long as those that have ended.

        Before any has ended, they take as long as the one that is going on.
        """
        if figures.left_s is None:
            return None
        whole_s = self._clock() - self._began_s + figures.left_s
        return figures.left_s + others * (fmean(self._ended_s) if self._ended_s else whole_s)
