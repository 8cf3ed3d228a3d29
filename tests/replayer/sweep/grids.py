"""Sweep files and how they are run."""

import subprocess
from pathlib import Path
from typing import Any

from tests.support.command_line import Run
from tests.support.paths import ROOT

RECIPE = ROOT / "tracegen" / "recipes" / "mlperf_option_1.toml"
READS = 18


def grid(place: Path, text: str) -> Path:
    path = place / "grid.toml"
    path.write_text(text)
    return path


def content(folder: Path) -> dict[str, Any]:
    """What lies there, and since when."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def words(grid: Path, cache: Path, output: Path, *flags: object) -> list[object]:
    return ["sweep", grid, "--make-cache-dir", "--cache-dir", cache, *flags, "-o", output]


def swept(run: Run, grid: Path, *flags: object, ok: bool = True) -> subprocess.CompletedProcess[str]:
    place = grid.parent
    return run("replayer", *words(grid, place / "cache", place / "sweep", *flags), ok=ok)


CASE = '[[case]]\nname = "a"\ntrace = "quick.parquet"\nmodel = "tiny-1b"\n'


FINISHED = f"""
trials = 1
[[case]]
name = "a"
trace = "quick.parquet"
model = "tiny-1b"
workers = [1, 2]
[[case]]
name = "b"
recipe = "{RECIPE}"
model = "tiny-1b"
pace = "asap"
duration = "unlimited"
[case.set]
users = 2
duration_s = 1
"personas.coding.weight" = 0
"personas.document.weight" = 0
"personas.chatbot.context" = [64, 128]
"""
