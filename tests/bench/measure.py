"""Processes and pairs of measurements, and how they are shown."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tracegen.generate import generate
from tracegen.recipes.loading import load_recipe

PAIRS = 5


class Used(NamedTuple):
    """What a process took: seconds of wall clock, and its peak memory in MiB."""

    seconds: float
    peak_mib: float


def run_process(*words: object) -> Used:
    """Run a command to its end; one that fails is an error."""
    began = time.perf_counter()
    command = [*map(str, words)]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        assert process.returncode == 0, f"{' '.join(command)}\n{said.read()}"
    return Used(time.perf_counter() - began, usage.ru_maxrss / 1024)


def run_tool(*words: object) -> Used:
    """Run a command of the project in a process of its own."""
    return run_process(sys.executable, "-P", "-m", *words)


def summarise(run: Path) -> dict[str, Any]:
    """Return the summary of a run, as `analysis summary --json` prints it."""
    command = [sys.executable, "-P", "-m", "analysis", "summary", str(run), "--json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found


def make_trace(path: Path, recipe: str | None, changes: dict[str, Any]) -> int:
    """Generate the trace of a shipped recipe, or of the defaults, with changes; return the number of its ops."""
    shipped = Path(f"tracegen/recipes/{recipe}.toml") if recipe else None
    return generate(load_recipe(shipped, changes), path, force=True).counts["ops"]


def show(what: str, measured: list[tuple[float, float]], unit: str, target: str) -> None:
    """The median of each side and of the ratio, pair by pair."""
    mine, theirs = (statistics.median(side) for side in zip(*measured, strict=True))
    ratio = statistics.median(a / b for a, b in measured)
    print(f"  {what:46} {mine:10.3f} {unit} against {theirs:10.3f}: ratio {ratio:.2f} (wanted {target})", flush=True)


def show_row(*cells: object) -> None:
    """A row of a table in Markdown."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def elapsed(work: Callable[[], object]) -> float:
    """Seconds of wall clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
