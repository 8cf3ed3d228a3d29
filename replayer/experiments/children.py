"""Child processes of a series: commands of tracegen, replayer and analysis."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from replayer.experiments.display import Display
from tracegen.errors import ToolError

PYTHON: Final = (sys.executable, "-P", "-m")
"""Starts a module of ours; -P: not a user's analysis.py in the working directory."""
_USAGE: Final = re.compile("Usage: |Try '")
_STYLES: Final = re.compile(r"\x1b\[[;?0-9]*[a-zA-Z]")


class ChildFailedError(ToolError):
    """A child process failed.

    Args:
        problem: what it did, with the value; as of any ToolError.
        remedy: what the user can do.
        subject: what it was to make.
        exit_code: of the child; the command that started it exits with the same.
    """

    def __init__(self, problem: str, remedy: str = "", *, subject: object = None, exit_code: int) -> None:
        super().__init__(problem, remedy, subject=subject)
        self.exit_code = exit_code


class _Readable(Protocol):
    """The reading end of a pipe or terminal."""

    def read(self, size: int, /) -> bytes | None:
        """Return the next bytes; none at the end."""


def run_logged(command: Sequence[str], log: Path, display: Display) -> int:
    """Run a command and append what it prints to a log; what it prints on stderr is also relayed.

    The child gets SIGTERM if this process is killed, and the signal that interrupts this process.

    Args:
        command: program and arguments.
        log: made if it does not exist.
        display: where stderr is relayed to; with a window, the child's stderr is a terminal.

    Returns:
        The exit code; 128 + the signal's number if a signal ended the child.

    Raises:
        KeyboardInterrupt: when the child has ended, too.
    """
    reader, writer = _open_stderr(display)
    tied = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    with log.open("a") as lines, os.fdopen(reader, "rb", buffering=0) as output:
        lines.write(f"$ {shlex.join(command)}\n")
        lines.flush()
        child = subprocess.Popen([*tied, *command], stdout=lines, stderr=writer, stdin=subprocess.DEVNULL)
        os.close(writer)
        try:
            lines.writelines(_relay(output, display))
            code = child.wait()
        except KeyboardInterrupt as interrupt:
            # The terminal may have sent it the signal, too: it obeys the first one only.
            child.send_signal(getattr(interrupt, "exit_code", 128 + signal.SIGINT) - 128)
            lines.writelines(_relay(output, display))
            child.wait()
            raise
        lines.write(f"exit {code}\n")
    return code if code >= 0 else 128 - code


def _open_stderr(display: Display) -> tuple[int, int]:
    """Open a terminal or a pipe for a child's stderr; return its reading and its writing end."""
    if display.window is None:
        return os.pipe()
    reader, writer = os.openpty()
    termios.tcsetwinsize(writer, display.window)
    return reader, writer


def _relay(output: _Readable, display: Display) -> Iterator[str]:
    """Relay output as it comes, and yield its whole lines without styles and redrawn bars."""
    rest = ""
    with contextlib.suppress(OSError):  # raised by a terminal whose other end is closed
        while block := output.read(1 << 16):
            text = block.decode(errors="replace")
            display.relay(text)
            *lines, rest = (rest + text).split("\n")
            yield from _last_drawn(lines)
    yield from _last_drawn([rest] if rest else [])


def _last_drawn(lines: Iterable[str]) -> Iterator[str]:
    """Yield what each line shows in the end, without lines on which a bar was erased."""
    for line in lines:
        last = _STYLES.sub("", line.rstrip("\r").rpartition("\r")[2])
        if last.strip() or not line.strip():
            yield last + "\n"


def capture(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and return its exit code and what it prints."""
    return subprocess.run(command, check=False, capture_output=True, text=True)


def run_analysis(*arguments: str, display: Display) -> str:
    """Run an `analysis` command and return what it prints on stdout; its stderr is relayed.

    Raises:
        ChildFailedError: it failed; with its own error.
    """
    done = capture([*PYTHON, "analysis", *arguments])
    if not done.returncode:
        display.relay(done.stderr)
        return done.stdout
    *others, last = done.stderr.splitlines(keepends=True) or [""]
    display.relay("".join(line for line in others if line.strip() and not _USAGE.match(line)))
    code = done.returncode if done.returncode > 0 else 128 - done.returncode
    problem = last.strip().removeprefix("Error: ") or f"`analysis {arguments[0]}` ended with exit code {code}"
    raise ChildFailedError(problem, exit_code=code)


def summarise_run(run: Path, display: Display) -> dict[str, Any]:
    """Return the summary of a run, as the command prints it for programs.

    Raises:
        ChildFailedError: the run cannot be read.
    """
    summary: dict[str, Any] = json.loads(run_analysis("summary", str(run), "--json", display=display))
    return summary
