"""Plans ahead of the engine in a thread of its own."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Final

from replayer.ordering import Move, Op

AHEAD: Final = 4  # stretches
Planned = tuple[Op, list[Move]]
Stretch = list[Planned]


@dataclass(frozen=True)
class Window:
    """How far the plan runs ahead of the lowest unfinished op: no op is admitted beyond either limit.

    Attributes:
        ops: admitted and not done.
        bytes: that their moves write.
    """

    ops: int = 4096
    bytes: int = 256 << 30


class Feed:
    """The plan's ops one by one, as far as they are planned.

    Args:
        plan: the ops and their moves, in stretches.
        more: called when there is more to take.
        failed: called with what ended the planning.

    Attributes:
        exhausted: every op has been taken.
    """

    def __init__(
        self, plan: Iterator[Stretch], more: Callable[[], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._plan, self._more, self._failed = plan, more, failed
        self._queue, self._stretch = Queue[Stretch | None](AHEAD), iter(Stretch())
        self._stopping, self.exhausted = False, False
        self._thread = threading.Thread(target=self._fill)

    def start(self) -> None:
        """Begin to plan."""
        self._thread.start()

    def stop(self) -> None:
        """Plan no further."""
        self._stopping = True
        self._thread.join()

    def take(self) -> Planned | None:
        """The next op with its moves; None where it is not planned yet, or there is none."""
        while (found := next(self._stretch, None)) is None:
            try:
                stretch = self._queue.get_nowait()
            except Empty:
                return None
            if stretch is None:
                self.exhausted = True
                return None
            self._stretch = iter(stretch)
        return found

    def _fill(self) -> None:
        try:
            for stretch in self._plan:
                self._put(stretch)
                if self._stopping:
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 (ends the run; the main thread raises it)
            self._failed(error)

    def _put(self, stretch: Stretch | None) -> None:
        while not self._stopping:
            try:
                self._queue.put(stretch, timeout=0.1)
            except Full:
                continue
            self._more()
            return
