"""Commands on a terminal of their own, and what a user sees there."""

import os
import pty
import re
import select
import sys
import termios
import time
from collections.abc import Callable

import pytest

from tests.support.paths import ROOT

_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")


class Picture:
    """What is on a terminal: its lines. It knows what our commands use.

    Attributes:
        unknown: control sequences that it does not know, but those for colours.
    """

    def __init__(self) -> None:
        self.lines = [""]
        self.unknown: list[str] = []
        self._row = 0
        self._column = 0
        self._rest = ""

    def take(self, text: str) -> None:
        text = self._rest + text
        begun = text.rfind("\x1b")
        is_cut = begun >= 0 and not _SEQUENCE.match(text, begun)
        self._rest = text[begun:] if is_cut else ""
        end = begun if is_cut else len(text)
        at = 0
        while at < end:
            found = _SEQUENCE.match(text, at)
            if found:
                self._obey(found[1], found[2])
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def _obey(self, number: str, letter: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - int(number or 1))
        elif (number, letter) == ("2", "K"):
            self.lines[self._row] = ""
        elif letter != "m":
            self.unknown.append(number + letter)

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._row += 1
            self._column = 0
            if self._row == len(self.lines):
                self.lines.append("")
        else:
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).rstrip()


class Terminal:
    """A command on a terminal; `picture` is what is on it."""

    def __init__(self, *command: object, columns: int = 80) -> None:
        self.picture = Picture()
        self.pid, self._keys = pty.fork()
        if not self.pid:
            os.chdir(ROOT)
            words = [sys.executable, "-m", *map(str, command)]
            plain = {"TERM": "xterm-256color", "CI": "", "COLUMNS": "", "LINES": ""}
            os.execve(sys.executable, words, os.environ | plain)
        termios.tcsetwinsize(self._keys, (40, columns))

    def wait_for(self, what: Callable[[str], object], timeout_s: float = 30) -> str:
        """Read until the picture is as asked for; return its text."""
        until = time.monotonic() + timeout_s
        while not what(self.picture.text()):
            if time.monotonic() > until or not self._read():
                pytest.fail(f"it never came so far:\n{self.picture.text()}")
        return self.picture.text()

    def press(self, key: str) -> None:
        os.write(self._keys, key.encode())

    def end(self) -> int:
        """Read to the end; return the exit code."""
        while self._read():
            pass
        os.close(self._keys)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        """Take what was written; return whether the command goes on."""
        if not select.select([self._keys], [], [], 30)[0]:
            pytest.fail(f"it hangs:\n{self.picture.text()}")
        try:
            text = os.read(self._keys, 1 << 16).decode(errors="replace")
        except OSError:  # the other end is closed
            return False
        self.picture.take(text)
        return bool(text)
