"""The figures of a task that goes on, and the screens that show them."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, Self

import msgspec
from msgspec.structs import replace

_PREFIX: Final = '{"progress":'


class TierRate(msgspec.Struct, frozen=True):
    """The rates at which a tier is read and written now, in GiB/s."""

    read_gib_s: float
    write_gib_s: float

    def __str__(self) -> str:
        """Describe the rates."""
        return f"{self.read_gib_s:.2f} GiB/s read, {self.write_gib_s:.2f} written"


class Figures(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a task: how far it is; of an execution, also what it reached so far.

    Attributes:
        stage: the task, as a participle.
        unit: of `done` and `total`: op, s or B.
        total: 0: unknown.
        left_s: time left, estimated; None: unknown.
        ops_left: of a drain, the most ops that are still to be executed.
        tiers: rates of now by tier.
        in_flight: moves that workers make.
        queued: moves that wait for a worker.
        failures: moves that failed.
        ranks: processes; the figures are those of the first.
        replay: place and name of the replay in its series; empty: it is the only one.
        left_in_all_s: time left for the whole series, estimated; None: unknown.
    """

    stage: str
    unit: str = "op"
    done: float = 0
    total: float = 0
    left_s: float | None = None
    ops_left: int | None = None
    tiers: dict[str, TierRate] = {}
    in_flight: int = 0
    queued: int = 0
    failures: int = 0
    ranks: int = 1
    replay: str = ""
    left_in_all_s: float | None = None


class Agenda:
    """The replays of a series in their order: which one goes on, and how long the rest takes.

    Args:
        names: of all replays; none: each is decided when the one before has ended.
        clock: in seconds.
    """

    def __init__(self, names: Sequence[str] = (), clock: Callable[[], float] = monotonic) -> None:
        self._names = list(names)
        self._clock = clock
        self._name = ""
        self._begun_s: list[float] = []

    def begin(self, name: str) -> None:
        """Note that a replay begins."""
        self._name = name
        self._begun_s.append(self._clock())

    def place(self, figures: Figures) -> Figures:
        """Return the figures with the place of the replay that goes on."""
        count = len(self._names)
        if not self._begun_s or count == 1:
            return figures
        if not count:
            return replace(figures, replay=f"replay {len(self._begun_s)}: {self._name}")
        number = self._names.index(self._name) + 1
        left_s = figures.left_s
        if left_s is not None:
            # Others take as long as those before, pauses included; the first one says so of itself.
            first_s, last_s = self._begun_s[0], self._begun_s[-1]
            ended = len(self._begun_s) - 1
            each_s = (last_s - first_s) / ended if ended else self._clock() - last_s + left_s
            left_s += each_s * (count - number)
        return replace(figures, replay=f"replay {number} of {count}: {self._name}", left_in_all_s=left_s)


class Screen:
    """Receiver of lines and figures; this one is silent.

    Commands pass a subclass that writes to a terminal. Inside its context a screen may own lines of
    the terminal.

    Attributes:
        shows_figures: whether `show` does anything.
    """

    shows_figures = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Give the terminal back."""

    def say(self, line: str) -> None:
        """Show a line."""

    def warn(self, warning: str) -> None:
        """Show a line that stands out; settings stand in it by their Python names in backquotes."""

    def show(self, figures: Figures) -> None:
        """Show the figures of the task that goes on."""


def format_line(figures: Figures) -> str:
    """Return figures as a line of JSON: an object with one key, `progress`."""
    return f"{_PREFIX}{msgspec.json.encode(figures).decode()}}}"


def parse_line(line: str) -> Figures | None:
    """Return the figures in a line; None: it is another line."""
    text = line.strip()
    if not text.startswith(_PREFIX):
        return None
    try:
        return msgspec.json.decode(text[len(_PREFIX) : -1], type=Figures)
    except msgspec.MsgspecError:
        return None
