"""Signal handling of the commands: Ctrl-C, SIGTERM and SIGHUP.

Before a command has begun, a signal ends the process at once. While files are open, it raises an
exception. During a run it is deferred to a safe point.

Every command imports this module first, so it imports nothing slow. All packages may import it.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

WORDS: Final = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hung up",
}


class Interrupted(KeyboardInterrupt):
    """A signal to stop, raised as an exception.

    Attributes:
        exit_code: 128 + the signal's number, as shells report it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(WORDS[signal.Signals(number)])
        self.exit_code = 128 + number


def handled_signals() -> list[signal.Signals]:
    """Return the signals to handle: those of WORDS, without a SIGHUP that `nohup` ignores."""
    return [number for number in WORDS if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]


class Interrupts:
    """The process's signal handler; the first of several signals counts."""

    def __init__(self) -> None:
        self._first = 0
        self._is_deferred = False

    @contextmanager
    def handle(self) -> Iterator[None]:
        """Handle signals inside the context."""
        self._first = 0
        before = {number: signal.signal(number, self._receive) for number in handled_signals()}
        yield
        # Not restored after an exception: a second signal must not replace the first.
        for number, handler in before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if not self._first:
            self._first = number
            if not self._is_deferred:
                raise Interrupted(number)

    @contextmanager
    def defer(self) -> Iterator[None]:
        """Inside the context, let only `check` raise a signal.

        At its end, raise a signal that came, unless `check` has raised it or another exception has
        ended the context.
        """
        self._is_deferred = True
        try:
            yield
        finally:
            self._is_deferred = False
        self.check()

    def check(self) -> None:
        """Raise the signal that has come.

        Raises:
            Interrupted: a signal has come.
        """
        if self._first:
            raise Interrupted(self._first)


INTERRUPTS: Final = Interrupts()  # one per process, as signal handlers are


def end(interrupt: KeyboardInterrupt, *advice: str) -> NoReturn:
    """End the process with one line, after everything has been closed.

    Args:
        interrupt: the signal; its notes are printed, too.
        advice: sentences on what the user can do next.
    """
    with suppress(OSError, ValueError):  # the terminal may have gone
        sys.stdout.flush()
    # A normal exit would restore the signal handlers first, and a second signal could change the
    # exit code.
    number = getattr(interrupt, "exit_code", 128 + signal.SIGINT) - 128
    _exit(number, *advice, *getattr(interrupt, "__notes__", ()))


def end_at_once() -> None:
    """From now on let a signal end the process with one line, until a command handles signals."""
    for number in handled_signals():
        signal.signal(number, _end_at_once)


def _end_at_once(number: int, _frame: FrameType | None) -> NoReturn:
    _exit(number)


def _exit(number: int, *advice: str) -> NoReturn:
    message = " ".join([f"{WORDS[signal.Signals(number)].capitalize()}.", *advice])
    with suppress(OSError):
        os.write(2, f"\n{message}\n".encode())
    os._exit(128 + number)
