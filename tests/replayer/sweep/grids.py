"""Sweep files, and how they are run."""

import subprocess
from pathlib import Path

from tests.support.command_line import Run
from tests.support.paths import ROOT

RECIPE = ROOT / "tracegen" / "recipes" / "mlperf_option_1.toml"
READS = 18


def write_grid(folder: Path, text: str) -> Path:
    path = folder / "grid.toml"
    path.write_text(text)
    return path


def read_files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the time of modification and the bytes of each file in a folder and below."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def sweep_words(grid: Path, cache: Path, output: Path, *flags: object) -> list[object]:
    """Return the words of a sweep's command line after `replayer`."""
    return ["sweep", grid, "--cache-dir", cache, *flags, "-o", output]


def run_sweep(run: Run, grid: Path, *flags: object, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a sweep into the folder `sweep` next to its file."""
    folder = grid.parent
    return run("replayer", *sweep_words(grid, folder / "cache", folder / "sweep", *flags), ok=ok)


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
