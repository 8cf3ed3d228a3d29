"""Processes and pairs of measurements, and how they are shown."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PAIRS = 5


class Used(NamedTuple):
    """What a process took: seconds of wall clock and of CPU, and its peak memory in MiB."""

    seconds: float
    cpu_s: float
    peak_mib: float


def run_process(*words: object, prefix: Sequence[str] = ()) -> Used:
    """Run a command to its end; one that fails is an error."""
    began = time.perf_counter()
    command = [*prefix, *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Used(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def run_tool(*words: object, prefix: Sequence[str] = ()) -> Used:
    """Run a command of the project in a process of its own."""
    return run_process(sys.executable, "-P", "-m", *words, prefix=prefix)


def summarise(run: Path) -> dict[str, Any]:
    """Return the summary of a run, as `analysis summary --json` prints it."""
    command = [sys.executable, "-P", "-m", "analysis", "summary", str(run), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def pairs(ours: Callable[[], Any], reference: Callable[[], Any], count: int = PAIRS) -> list[tuple[Any, Any]]:
    """Measure both in turn; one pair to warm up is thrown away."""
    return [(ours(), reference()) for _ in range(count + 1)][1:]


def show(what: str, measured: list[tuple[float, float]], unit: str, target: str) -> None:
    """The median of each side and of the ratio, pair by pair."""
    mine, theirs = (statistics.median(side) for side in zip(*measured, strict=True))
    ratio = statistics.median(a / b for a, b in measured)
    print(f"  {what:46} {mine:10.3f} {unit} against {theirs:10.3f}: ratio {ratio:.2f} (wanted {target})", flush=True)


def tabulate(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(map(str, line))} |" for line in lines]


def elapsed(work: Callable[[], object]) -> float:
    """Seconds of wall clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
