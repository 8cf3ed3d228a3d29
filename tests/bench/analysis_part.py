"""analysis over logs of millions of moves, beside a bare read of the same columns."""

import sys
from pathlib import Path

from tests.bench.logs import write_log
from tests.bench.measure import PAIRS, run_process, run_tool, show

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
