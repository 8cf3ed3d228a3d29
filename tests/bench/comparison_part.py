"""How often the ratio of cut runs is that of their drives: predicted pairs on drives that differ by an exact factor."""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from click.testing import CliRunner

from analysis.comparison.spans import EqualWork, find_equal_work
from analysis.comparison.work import read_work
from analysis.runs.opening import open_run
from replayer.cli import main as replayer
from tests.bench.measure import make_trace, show_row
from tracegen.cli import main as tracegen

CELLS: Final = 240
SEED: Final = 65537
"""Of the draws; thresholds were chosen on cells of other seeds."""
RIGHT: Final = 0.02
"""Most by which a right ratio is off the factor."""
MOST_GB: Final = 600.0
"""Most that the faster drive of a cell can move, so that a cell takes seconds and its trace outlasts the cut."""
REQUESTS: Final = {
    "chat": 2000, "agentic": 120, "rag": 2000, "burst": 1500, "mixed": 1500,
    "mlperf_option_1": 2500, "mlperf_option_2": 2500, "mlperf_option_3": 2500, "excerpt": 600,
}  # fmt: skip
"""Requests in a trace of each recipe, and of the shipped excerpt of Mooncake's: seconds for a cell."""
DRIVE: Final = """
profile_version = 2
name = "{gb_s} GB/s"
kind = "data sheet"
source = "exact"
[cpu]
cores = 1024.0
make_ns_per_byte = 0.0
check_ns_per_byte = 0.0
move_us = 0.0
read = {{ latency_us = 0.0, stream_gb_s = 80.0, bandwidth_gb_s = 80.0 }}
write = {{ latency_us = 0.0, stream_gb_s = 80.0, bandwidth_gb_s = 80.0 }}
{common}
[nvme]
read = {{ latency_us = 0.0, stream_gb_s = {stream_gb_s}, bandwidth_gb_s = {gb_s} }}
write = {{ latency_us = 0.0, stream_gb_s = {stream_gb_s}, bandwidth_gb_s = {gb_s} }}
{common}
"""
COMMON: Final = """
writes_on_reads = {weight}
reads_on_writes = {weight}
smallest_bytes = 1
largest_bytes = 1_099_511_627_776
"""


@dataclass(frozen=True)
class Cell:
    """A pair of runs: the trace's recipe, users and seed, the drives, the moves in flight that saturate
    them, and flags of both replays."""

    recipe: str
    users: int
    seed: int
    factor: float
    base_gb_s: float
    is_joint: bool
    streams: int
    flags: Mapping[str, str] = field(hash=False)

    def __str__(self) -> str:
        limits = "joint" if self.is_joint else "separate"
        flags = " ".join(f"{flag.removeprefix('--')} {value}" for flag, value in self.flags.items())
        return f"{self.recipe}, {self.users} users, {self.base_gb_s:g} GB/s × {self.factor:g} {limits}, {self.streams} streams, {flags}"


def draw_cells(seed: int) -> Iterator[Cell]:
    """Draw cells without end."""
    draws = Random(seed)
    while True:
        cut = draws.choice((10, 30, 60, 120, 300))
        flags = {
            "--duration": f"{cut}s",
            "--pace": draws.choice(("closed", "closed", "asap")),
            "--speedup": draws.choice(("1", "10", "60")),
            "--cpu-mem-gb": draws.choice(("0", "0", "1", "4", "16")),
            "--decode": draws.choice(("reread", "once", "none")),
            "--warmup": draws.choice(("", "", "20s", f"{cut / 10:g}s", "200ops")),
            "--arrangement": draws.choice(("", "", "", "", "vllm", "lmcache")),
            "--model": draws.choice(("llama3.1-8b", "llama3.1-8b", "tiny-1b")),
        }
        cell = Cell(
            recipe=draws.choice(tuple(REQUESTS)),
            users=draws.choice((8, 24, 50, 100, 200)),
            seed=1000 + draws.randrange(4),
            factor=draws.choice((1.25, 2.0, 3.3, 4.7, 8.0)),
            base_gb_s=draws.choice((0.5, 1.0, 3.0, 7.0)),
            is_joint=draws.random() < 0.5,
            streams=draws.choice((1, 1, 1, 4, 16)),
            flags={flag: value for flag, value in flags.items() if value},
        )
        is_all_warmup = flags["--warmup"] == "20s" and cut <= 20
        if not is_all_warmup and cell.base_gb_s * cell.factor * cut <= MOST_GB:
            yield cell


def compare_cell(cell: Cell, folder: Path) -> EqualWork | str:
    """Predict both runs of a cell and find their equal work; return the error of a replay that is refused."""
    trace = folder / f"{cell.recipe}-{cell.users}-{cell.seed}.parquet"
    if not trace.exists():
        _make_trace(cell, trace)
    works = {}
    for system, gb_s in (("slow", cell.base_gb_s), ("fast", cell.base_gb_s * cell.factor)):
        profile, run = folder / f"{system}.toml", folder / system
        common = COMMON.format(weight=float(cell.is_joint))
        profile.write_text(DRIVE.format(gb_s=gb_s, stream_gb_s=gb_s / cell.streams, common=common))
        shutil.rmtree(run, ignore_errors=True)
        flags = [*("predict", trace, "--profile", profile, "--progress", "off", "-o", run)]
        result = CliRunner().invoke(
            replayer, [*map(str, flags), *(word for flag in cell.flags.items() for word in flag)]
        )
        if result.exit_code != 0:
            return result.output.strip().splitlines()[-1]
        works[system] = [read_work(open_run(run), "bytes")]
    return find_equal_work(works, "bytes")


def _make_trace(cell: Cell, path: Path) -> None:
    if cell.recipe == "excerpt":
        flags = f"import mooncake traces/mooncake_excerpt.jsonl --jitter 3 --seed {cell.seed} -o"
        CliRunner().invoke(tracegen, [*flags.split(), str(path)], catch_exceptions=False)
        return
    changes = {"users": cell.users, "requests": REQUESTS[cell.recipe], "duration_s": 86400, "seed": cell.seed}
    make_trace(path, cell.recipe, changes)


def comparison(folder: Path) -> None:
    """Figures like those of docs/validity.md: accepted and refused pairs of cut runs, and how many of them are right."""
    counts = Counter[str]()
    drawn = draw_cells(SEED)
    while counts["cells"] < CELLS:
        cell = next(drawn)
        equal = compare_cell(cell, folder)
        if isinstance(equal, str) or not equal.is_cut:
            counts["not cut or not replayed"] += 1
            continue
        slow, fast = (spans[0] for spans in equal.spans_s.values())
        ratio = slow / fast if fast > 0 else 0.0
        is_right = abs(ratio / cell.factor - 1) <= RIGHT
        outcome = f"{'refused' if equal.reason else 'accepted'}, {'right' if is_right else 'wrong'}"
        counts.update(["cells", outcome])
        show_row(cell, f"{ratio:.3f}", f"{ratio / cell.factor - 1:+.1%}", outcome, equal.reason)
    print(dict(counts))
