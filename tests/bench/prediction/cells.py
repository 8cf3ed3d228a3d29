"""The cells of the error table: what is replayed, on which medium, and how one is measured and predicted."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import analysis
from tracegen.generate import generate
from tracegen.recipes.loading import load_recipe

MODEL: Final = "tiny-1b"
WORKERS: Final = (4, 16)
METRICS: Final = ("wall_clock_tok_s", "nvme_read_gib_s", "nvme_read_p95_ms", "ttfb_p95_ms")
CLOSED: Final = ("--pace", "closed", "--speedup", "100")  # users who hardly think: the drive is the limit
THROTTLE: Final = ("--throttle", "nvme=300,100us")  # MiB/s
_ONLY_CHATBOTS: Final = {"personas.coding.weight": 0, "personas.document.weight": 0}

Values = dict[str, float | None]
"""Metrics by name; None: the run has no such moves."""


@dataclass(frozen=True)
class Load:
    """A shipped recipe, made small enough for seconds.

    Attributes:
        name: in the table.
        recipe: that is shipped.
        changes: of its keys.
        capacities: of the cpu tier, in GiB.
    """

    name: str
    recipe: str
    changes: Mapping[str, Any]
    capacities: tuple[str, ...] = ("0.0625", "0.25")

    def make_trace(self, folder: Path) -> Path:
        """Generate the trace."""
        path = folder / f"{self.name}.parquet"
        generate(load_recipe(Path("tracegen/recipes") / f"{self.recipe}.toml", self.changes), path, force=True)
        return path


LOADS: Final = (
    Load(  # blocks of 384 KiB, many of a request at once
        "chat",
        "chat",
        {"users": 16, "requests": 110, "block_tokens": 16, "personas.chatbot.context": [128, 1024]},
    ),
    Load(  # chunks of 1.5 MiB and questions of 1.5 to 12 MiB
        "rag",
        "rag",
        {
            "users": 16,
            "requests": 160,
            "rag.documents": 24,
            "rag.document_tokens": [768, 2048],
            "rag.chunk_tokens": 64,
            "rag.ingest_s": 5,
        },
    ),
    Load(  # contexts of 0.75 to 18 MiB, read again and again by decoding
        "mlperf",
        "mlperf_option_2",
        {"users": 16, "requests": 150, "personas.chatbot.context": [128, 768]} | _ONLY_CHATBOTS,
        ("0.0625", "0.125"),
    ),
)


@dataclass(frozen=True)
class Medium:
    """Where the nvme tier is.

    Attributes:
        name: in the table.
        cache: folder for the tier's files.
        flags: of each replay, and of the measurement of the profile.
    """

    name: str
    cache: Path
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """A load with one capacity and one number of workers.

    Attributes:
        load: what is replayed.
        trace: its trace.
        capacity: of the cpu tier, in GiB.
        workers: moves in flight at most.
    """

    load: Load
    trace: Path
    capacity: str
    workers: int

    @property
    def name(self) -> str:
        """Load, capacity and workers."""
        return f"{self.load.name}, {self.capacity} GiB, {self.workers} workers"

    def flags(self) -> tuple[str, ...]:
        """Return what a replay and its prediction share."""
        plan = ("--model", MODEL, "--cpu-mem-gb", self.capacity, "--duration", "unlimited", *CLOSED)
        return (str(self.trace), *plan, "--workers", str(self.workers))


def make_cells(folder: Path, *, quick: bool = False) -> list[Cell]:
    """Generate the traces, and list the cells; a quick table has one load and one capacity."""
    cells = []
    for load in LOADS[:1] if quick else LOADS:
        trace = load.make_trace(folder)
        for capacity in load.capacities[: 1 if quick else None]:
            cells += [Cell(load, trace, capacity, workers) for workers in WORKERS]
    return cells


def measure_profile(medium: Medium, path: Path, *more: str) -> None:
    """Measure the profile of a medium."""
    _replayer("profile", "--cache-dir", str(medium.cache), *medium.flags, "--force", "-o", str(path), *more)


def measure(cell: Cell, medium: Medium, out: Path) -> Values:
    """Replay a cell, and return its metrics."""
    where = ("--cache-dir", str(medium.cache), *medium.flags)
    _replayer("run", *cell.flags(), *where, "--force", "-o", str(out))
    return read_metrics(out)


def predict(cell: Cell, profile: Path, out: Path) -> Values:
    """Predict a cell, and return its metrics."""
    _replayer("predict", *cell.flags(), "--profile", str(profile), "--force", "-o", str(out))
    return read_metrics(out)


def read_metrics(run: Path, names: tuple[str, ...] = METRICS) -> Values:
    """Read some metrics of a run."""
    metrics = analysis.load(run).summary().metrics
    return {name: metrics[name] for name in names}


def _replayer(*arguments: str) -> None:
    """Run the replayer in a process of its own.

    Raises:
        RuntimeError: it failed; the text is what it said.
    """
    command = [sys.executable, "-P", "-m", "replayer", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-2000:]}")
