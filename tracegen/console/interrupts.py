"""Ctrl-C and its like: the end at once while nothing is at stake, raised while files are open, deferred while a run is.

Every command begins here, so this imports nothing that takes time. All three packages may import it.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

WORDS: Final = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}


class Interrupted(KeyboardInterrupt):
    """A signal to stop.

    Attributes:
        exit_code: 128 + its number, as shells have it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(WORDS[signal.Signals(number)])
        self.exit_code = 128 + number


def handled_signals() -> list[signal.Signals]:
    """The signals to answer: all of WORDS, but a hang-up that `nohup` has this process ignore."""
    return [one for one in WORDS if one != signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN]


class Interrupts:
    """The process's handler; of several signals the first counts."""

    def __init__(self) -> None:
        self._first, self._deferred = 0, False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals inside."""
        self._first = 0
        before = {number: signal.signal(number, self._handle) for number in handled_signals()}
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


def end(stopped: KeyboardInterrupt, *advice: str) -> NoReturn:
    """End the process in one line, after everything has been closed.

    Args:
        stopped: its notes are printed, too.
        advice: sentences on what to do next.
    """
    with suppress(OSError, ValueError):  # the terminal may have gone
        sys.stdout.flush()
    # Python's own way out would give signals back first, and another one then win.
    number = getattr(stopped, "exit_code", 128 + signal.SIGINT) - 128
    _exit(number, *advice, *getattr(stopped, "__notes__", ()))


def end_at_once() -> None:
    """From here on a signal ends the process in one line: for the time before a command has begun."""
    for number in handled_signals():
        signal.signal(number, _end_at_once)


def _end_at_once(number: int, _frame: FrameType | None) -> NoReturn:
    _exit(number)


def _exit(number: int, *advice: str) -> NoReturn:
    told = " ".join([f"{WORDS[signal.Signals(number)].capitalize()}.", *advice])
    with suppress(OSError):
        os.write(2, f"\n{told}\n".encode())
    os._exit(128 + number)
