"""Ctrl-C and its like: raised at once while nothing is at stake, and at a safe place while a run is."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

WORDS: Final = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}


class Interrupted(KeyboardInterrupt):
    """A signal to stop.

    Attributes:
        exit_code: 128 + its number, as shells have it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(WORDS[signal.Signals(number)])
        self.exit_code = 128 + number


class Interrupts:
    """The process's handler; of several signals the first counts."""

    def __init__(self) -> None:
        self._first, self._deferred = 0, False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals inside."""
        self._first = 0
        before = {number: signal.signal(number, self._handle) for number in WORDS}
        yield
        for number, handler in before.items():  # not after an exception: another signal must not win over the first
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self._first:
            self._first = number
            if not self._deferred:
                raise Interrupted(number)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Inside, a signal is raised by `check` only; at the end, if nothing else is and it has not been."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        self.check()

    def check(self) -> None:
        """Raise what has come.

        Raises:
            Interrupted: a signal has.
        """
        if self._first:
            raise Interrupted(self._first)


INTERRUPTS: Final = Interrupts()  # as signal handlers are, one for the process
