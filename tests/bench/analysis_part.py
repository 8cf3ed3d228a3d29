"""analysis over logs of millions of moves, beside a bare read of the same columns."""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from replayer.record.run_directory import RunDirectory
from replayer.schema import LOG_ENUMS
from tests.bench.measure import PAIRS, run_process, run_tool, show
from tests.support.paths import ROOT
from tests.support.run_json import run_json, save_run_json

PART = 1 << 17
WORKERS = 64
OPS_PER_REQUEST = 10
EXAMPLE = run_json(ROOT / "tests" / "data" / "run")
CODE = {name: {word: code for code, word in enumerate(words)} for name, words in LOG_ENUMS.items()}
KINDS = [  # share, move, op, phase, source, from, to, seq
    (0.40, "hit", "read", "decode", "user", "nvme", None, 0),
    (0.15, "hit", "read", "decode", "user", "cpu", None, 0),
    (0.20, "hit", "read", "prefill", "multi_turn", "nvme", None, 0),
    (0.05, "hit", "read", "prefill", "system", "cpu", None, 0),
    (0.02, "miss", "read", "prefill", "multi_turn", None, None, 0),
    (0.08, "store", "write", "prefill", "user", None, "cpu", 0),
    (0.08, "demote", "write", "prefill", "user", "cpu", "nvme", 1),
    (0.02, "drop", "write", "prefill", "user", "nvme", None, 1),
]


def write_log(place: Path, rows: int, seed: int = 0) -> Path:
    """A run directory of so many rows, as conversations on a cpu and an nvme tier would leave them."""
    directory, rng = RunDirectory(place), np.random.default_rng(seed)
    for begin in range(0, rows, PART):
        directory.write_part(_part(rng, begin, min(PART, rows - begin)))
    # Its counts are not those of the plan: analysis computes as much, and says so.
    trace = EXAMPLE["trace"] | {"ops": rows}
    save_run_json(
        place,
        EXAMPLE | {"trace": trace, "executed_ops": rows, "conditions": EXAMPLE["conditions"] | {"workers": WORKERS}},
    )
    directory.close()
    return place


def _part(rng: np.random.Generator, begin: int, count: int) -> dict[str, Any]:
    at = np.arange(begin, begin + count)
    kind = rng.choice(len(KINDS), count, p=[one[0] for one in KINDS])
    words = {
        name: np.array([CODE[name].get(one[place], -1) for one in KINDS])[kind]
        for place, name in enumerate(("move", "op", "phase", "source", "from_tier", "to_tier"), 1)
    }
    seq = np.array([one[7] for one in KINDS])[kind]
    tokens = rng.integers(16, 2048, count)
    size = tokens * EXAMPLE["conditions"]["bytes_per_token"]
    reads, writes = words["from_tier"] >= 0, words["to_tier"] >= 0
    reads &= words["move"] != CODE["move"]["drop"]
    pace = size / 2e9 * 1e9 * rng.lognormal(0, 0.5, count)
    read, write = (pace * reads).astype(np.int64), (pace * 1.5 * writes).astype(np.int64)
    start = 10_000_000 + at * 40_000 + rng.integers(2_200_000, 6_200_000, count)  # nothing was due before the run
    ready = start - rng.integers(0, 2_000_000, count)
    return {
        "op_id": at, "position": at, "window_ns": np.zeros(count, np.int64), "order_ns": np.zeros(count, np.int64), "waited_for": np.full(count, -1), "seq": seq, "request_id": at // OPS_PER_REQUEST, "session_id": at // 50, "user_id": at // 10 % 200,
        "turn": at // 10 % 5 + 1, "step": at % OPS_PER_REQUEST, "qos": at // 10 % 3, **words,
        "new_tokens": np.where(seq == 0, rng.integers(0, 32, count), 0), "key": at // 7, "tokens": tokens,
        "size_bytes": size, "status": np.zeros(count, np.int8), "due_ns": ready - rng.integers(0, 100_000, count),
        "ready_ns": ready, "start_ns": start, "end_ns": start + read + write + 20_000, "read_ns": read, "write_ns": write,
        "device_read_ns": read * 9 // 10, "device_write_ns": write * 9 // 10, "verify_ns": size // 8, "worker": at % WORKERS,
        "rank": np.zeros(count, np.int64), "warmup": np.zeros(count, bool), "error": np.full(count, None),
    }  # fmt: skip


READ = """
import sys, polars as pl
from glob import glob
from replayer.schema import LOG_ENUMS
columns = pl.all().exclude("error", *LOG_ENUMS).sum(), pl.col(list(LOG_ENUMS)).drop_nulls().first()
pl.scan_parquet(sorted(glob(sys.argv[1] + "/moves/*")), glob=False).select(*columns).collect(engine="streaming")
"""


def analysis(place: Path, rows: int = 10_000_000) -> None:
    """Summary and report of 10 million rows; `python -m tests.bench analysis100` for 100 million."""
    print(f"analysis of {rows:,} rows")
    log = write_log(place / "log", rows)
    summary = ["summary", log]
    report = ["report", log, "--force", "-o", place / "report.html"]
    pairs = PAIRS if rows <= 10_000_000 else 1
    for name, command, wanted in (("summary", summary, "5 s, 2 GiB"), ("report", report, "15 s, 5 MB")):
        runs = [(run_tool("analysis", *command), run_process(sys.executable, "-c", READ, log)) for _ in range(pairs)]
        peak = max(ours.peak_mib for ours, _ in runs)
        measured = [(ours.seconds, read.seconds) for ours, read in runs]
        show(f"{name}, peak {peak:,.0f} MiB", measured, "s", f"{wanted}, for 10 M rows")
    print(f"  report: {(place / 'report.html').stat().st_size / 1e6:.2f} MB")


def analysis100(place: Path) -> None:
    """The same of 100 million rows; 3 GB of disk."""
    analysis(place, 100_000_000)
