"""Run the console scripts as a user types them, in this process or in processes of their own."""

import contextlib
import importlib
import shlex
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from click.testing import CliRunner

from replayer.experiments.children import PYTHON, report_lines
from replayer.run.figures import Figures
from tests.support.paths import ROOT
from tracegen.console import interrupts as signals
from tracegen.errors import InputError

Run = Callable[..., subprocess.CompletedProcess[str]]


def here(tool: str, *arguments: object, cwd: Path | None = ROOT) -> subprocess.CompletedProcess[str]:
    """A console script in this process, at a tenth of the time; how signals are handled is as it was afterwards.

    Where `cwd` is None, it is that of this process.
    """
    handlers = {number: signal.getsignal(number) for number in signals.WORDS}
    try:
        with contextlib.chdir(cwd or Path.cwd()):
            done = CliRunner().invoke(importlib.import_module(f"{tool}.cli").main, [str(one) for one in arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess([tool, *map(str, arguments)], done.exit_code, done.stdout, done.stderr)


def run_logged_here(
    command: Sequence[str], log: Path, say: Callable[[str], object], show: Callable[[Figures], object] = lambda _: None
) -> int:
    """Run a command of a series in this process; report and keep its output as `run_logged` does."""
    done = capture_here(command)
    said = "".join(report_lines(done.stderr.splitlines(keepends=True), say, show))
    with log.open("a") as lines:
        lines.write(f"$ {shlex.join(command)}\n{done.stdout}{said}exit {done.returncode}\n")
    return done.returncode


def capture_here(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of a series in this process, as `children.capture` does in another."""
    assert tuple(command[:3]) == PYTHON, "several ranks need processes of their own"
    return here(*command[3:], cwd=None)


def child_here(*command: object, subject: str, timeout_s: float | None = None) -> str:
    """As `replanned.run_child`, in this process; test_a_plan_is_made_by_a_process_of_its_own has one."""
    del timeout_s
    done = here(*map(str, command))
    if done.returncode:
        raise InputError(f"{subject}: {done.stderr}")
    return done.stdout


def sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Bad input: exit code 2, one sentence that names things, no traceback, nothing on stdout."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    passed_over = ("Usage:", "Try '", "nvme tier: ")
    lines = [line for line in done.stderr.strip().splitlines() if not line.startswith(passed_over) and line]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("Error: ")
    assert done.stdout == ""
    for word in words:
        assert word in lines[0], lines[0]
