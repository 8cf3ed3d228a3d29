"""The error table of predictions: measured replays on up to three media beside predicted ones, half an hour."""

import argparse
import contextlib
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl

from tests.bench.disk_part import fast_disk
from tests.bench.measure import make_trace, run_tool, show_row, summarise

TRIALS: Final = 2
CLOSED: Final = ("--pace", "closed", "--speedup", "100")  # users who hardly think: the drive is the limit
METRICS: Final = {
    "wall_clock_tok_s": "tokens/s",
    "nvme_read_gib_s": "nvme read GiB/s",
    "nvme_read_p95_ms": "nvme read P95 ms",
    "ttfb_p95_ms": "storage part of TTFT P95 ms",
}
GROUPS: Final = {"rates": ["tokens/s", "nvme read GiB/s"], "read P95": [METRICS["nvme_read_p95_ms"]],
                 "TTFT P95": [METRICS["ttfb_p95_ms"]]}  # fmt: skip
LOADS: Final[dict[str, tuple[str, dict[str, Any], tuple[str, ...]]]] = {  # recipe, changes, GiB of the cpu tier
    # Blocks of 384 KiB, many of a request at once.
    "chat": (
        "chat",
        {"users": 16, "requests": 110, "block_tokens": 16, "personas.chatbot.context": [128, 1024]},
        ("0.0625", "0.25"),
    ),
    # Chunks of 1.5 MiB and questions of 1.5 to 12 MiB.
    "rag": (
        "rag",
        {
            "users": 16, "requests": 160, "rag.documents": 24, "rag.document_tokens": [768, 2048],
            "rag.chunk_tokens": 64, "rag.ingest_s": 5,
        },
        ("0.0625", "0.25"),
    ),
    # Contexts of 0.75 to 18 MiB, read again and again by decoding.
    "mlperf": (
        "mlperf_option_2",
        {
            "users": 16, "requests": 150, "personas.chatbot.context": [128, 768],
            "personas.coding.weight": 0, "personas.document.weight": 0,
        },
        ("0.0625", "0.125"),
    ),
}  # fmt: skip

Values = dict[str, float | None]
"""Metrics by name; None: the run has no such moves."""


@dataclass
class Cell:
    """A load with one capacity of the cpu tier and one number of workers; what was measured and predicted of it."""

    load: str
    trace: Path
    cpu_gib: str
    workers: int
    measured: list[Values] = field(default_factory=list)
    predicted: Values = field(default_factory=dict)

    def replay(self, command: str, run: Path, *flags: object) -> Values:
        """Replay or predict it; both share their flags."""
        plan = ("--model", "tiny-1b", "--cpu-mem-gb", self.cpu_gib, "--duration", "unlimited", *CLOSED)
        shared = (self.trace, *plan, "--workers", self.workers, "--force", "-o", run)
        run_tool("replayer", command, *shared, *flags)
        found = summarise(run)
        return {metric: found[metric] for metric in METRICS}

    def errors(self, medium: str) -> list[dict[str, Any]]:
        """Give the cell's rows of docs/predicting-errors.csv; a metric without such moves has none."""
        rows = []
        for metric, label in METRICS.items():
            trials = [value for one in self.measured if (value := one[metric])]
            predicted = self.predicted[metric]
            if trials and predicted:
                measured = statistics.median(trials)
                values = {"measured": measured, "predicted": predicted, "error": predicted / measured - 1}
                where = {"medium": medium, "load": self.load, "cpu_gib": float(self.cpu_gib), "workers": self.workers}
                rows.append(where | {"metric": label} | values)
        return rows


def main(arguments: Sequence[str]) -> None:
    """Measure and predict all cells, write their errors as CSV, and show the table of docs/predicting.md."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench predict", description=main.__doc__)
    parser.add_argument("--folder", type=Path, help="on the disk that is measured; without it there is no such medium")
    parser.add_argument("--ram", type=Path, help="on a disk over RAM; without it one is mounted, which needs root")
    parser.add_argument("--out", type=Path, default=Path("predict"), help="folder for errors.csv and the profiles")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        ram = options.ram or stack.enter_context(fast_disk(Path(name)))
        media: dict[str, tuple[Path, tuple[str, ...]]] = {
            "throttled to 300 MiB/s and 100 us": (ram, ("--throttle", "nvme=300,100us")),
            "disk over RAM": (ram, ()),
        }
        if options.folder:
            media["disk"] = (options.folder, ())
        for medium, (place, flags) in media.items():
            cells = list(_make_cells(Path(name)))
            cache = stack.enter_context(tempfile.TemporaryDirectory(dir=place))
            profile = options.out / f"{medium.replace(' ', '-').replace('/', '-')}.toml"
            _measure(medium, cells, profile, Path(name) / "run", ("--cache-dir", cache, *flags))
            rows += [row for cell in cells for row in cell.errors(medium)]
            pl.DataFrame(rows).write_csv(options.out / "errors.csv")
    show_row("medium", *GROUPS, "all: median", "90% quantile", "most")
    for row in summarise_errors(pl.DataFrame(rows)).rows():
        show_row(row[0], *(f"{share:.1%}" for share in row[1:]))


def _make_cells(folder: Path) -> Iterator[Cell]:
    for load, (recipe, changes, capacities) in LOADS.items():
        trace = folder / f"{load}.parquet"
        make_trace(trace, recipe, changes)
        for capacity in capacities:
            for workers in (4, 16):
                yield Cell(load, trace, capacity, workers)


def _measure(medium: str, cells: Sequence[Cell], profile: Path, run: Path, flags: tuple[str, ...]) -> None:
    """Measure the medium's profile, replay each cell TRIALS times, predict each, and show how noisy the medium is."""
    if not profile.exists():
        run_tool("replayer", "profile", *flags, "-o", profile)
    again = list[Values]()
    for trial in range(TRIALS):
        for index, cell in enumerate(cells):
            print(f"{medium}: trial {trial + 1}, {cell.load}, {cell.cpu_gib} GiB, {cell.workers} workers", flush=True)
            cell.measured.append(cell.replay("run", run, *flags))
            if index % 3 == 0:  # evenly over the whole time, as a shared drive drifts
                again.append(cells[0].replay("run", run, *flags))
    for cell in cells:
        cell.predicted = cell.replay("predict", run, "--profile", profile)
    rates = [value for one in again if (value := one["wall_clock_tok_s"])]
    noise = statistics.median(abs(rate / statistics.median(rates) - 1) for rate in rates)
    print(f"{medium}: {len(rates)} replays of the first cell, tokens/s {noise:.1%} from their median", flush=True)


def summarise_errors(errors: pl.DataFrame) -> pl.DataFrame:
    """Return a row per medium: medians of |error| of groups of metrics; median, 90% quantile and most of all."""
    size = pl.col("error").abs()
    groups = [size.filter(pl.col("metric").is_in(metrics)).median().alias(name) for name, metrics in GROUPS.items()]
    of_all = [size.median().alias("all"), size.quantile(0.9, "linear").alias("90%"), size.max().alias("most")]
    return errors.group_by("medium", maintain_order=True).agg(*groups, *of_all)
