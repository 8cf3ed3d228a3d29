"""Child processes of a series: commands of tracegen, replayer and analysis."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from replayer.run.figures import Figures, Screen, parse_line
from tracegen.errors import ToolError

# Starts a module of ours; -P: not a user's analysis.py in the working directory
PYTHON: Final = (sys.executable, "-P", "-m")
_USAGE: Final = re.compile("Usage: |Try '")


class ChildFailedError(ToolError):
    """A child process failed; the command that started it exits with the same code."""

    def __init__(self, problem: str, remedy: str = "", *, subject: object = None, exit_code: int) -> None:
        super().__init__(problem, remedy, subject=subject)
        self.exit_code = exit_code


def run_logged(
    command: Sequence[str], log: Path, say: Callable[[str], object], show: Callable[[Figures], object] = lambda _: None
) -> int:
    """Run a command and append what it prints to a log; lines on stderr are also reported.

    The child gets SIGTERM if this process is killed, and the signal that interrupts this process.

    Args:
        command: program and arguments.
        log: made if it does not exist.
        say: takes the lines that the child prints on stderr.
        show: takes the figures among these lines; they are neither said nor logged.

    Returns:
        The exit code; 128 + the signal's number if a signal ended the child.

    Raises:
        KeyboardInterrupt: when the child has ended, too.
    """
    reader, writer = os.pipe()
    # Ends with this process, even by SIGKILL: nobody else would stop its I/O.
    tied = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    with log.open("a") as lines, os.fdopen(reader, errors="replace") as output:
        lines.write(f"$ {shlex.join(command)}\n")
        lines.flush()
        child = subprocess.Popen([*tied, *command], stdout=lines, stderr=writer, stdin=subprocess.DEVNULL)
        os.close(writer)
        try:
            lines.writelines(report_lines(output, say, show))
            code = child.wait()
        except KeyboardInterrupt as interrupt:
            # The terminal may have sent it the signal, too: it obeys the first one only.
            child.send_signal(getattr(interrupt, "exit_code", 128 + signal.SIGINT) - 128)
            lines.writelines(report_lines(output, say, show))
            child.wait()
            raise
        lines.write(f"exit {code}\n")
    return code if code >= 0 else 128 - code


def report_lines(
    output: Iterable[str], say: Callable[[str], object], show: Callable[[Figures], object]
) -> Iterator[str]:
    """Report lines of a child's stderr as they come; yield those that are not figures."""
    for line in output:
        figures = parse_line(line)
        if figures is not None:
            show(figures)
            continue
        if line.strip():
            say(line.rstrip("\n"))
        yield line


def capture(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command and return its exit code and what it prints; tests run it without a process."""
    return subprocess.run(command, check=False, capture_output=True, text=True)


def run_analysis(*arguments: str, screen: Screen) -> str:
    """Run an `analysis` command and return what it prints on stdout; its stderr is said.

    Raises:
        ChildFailedError: it failed; with its own error.
    """
    done = capture([*PYTHON, "analysis", *arguments])
    lines = [line for line in done.stderr.splitlines() if line.strip() and not _USAGE.match(line)]
    error = lines.pop().strip() if done.returncode and lines else ""
    for line in lines:
        screen.say(line)
    if done.returncode:
        # A negative one is the signal that ended it: shells say 128 + its number.
        code = done.returncode if done.returncode > 0 else 128 - done.returncode
        problem = error.removeprefix("Error: ") or f"`analysis {arguments[0]}` ended with exit code {code}"
        raise ChildFailedError(problem, exit_code=code)
    return done.stdout
