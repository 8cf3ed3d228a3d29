"""analysis over logs of millions of moves, beside a bare read of the same columns."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.logs import write_log
from tests.bench.measure import PAIRS, show

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
    summary = [sys.executable, "-P", "-m", "analysis", "summary", str(log)]
    report = [sys.executable, "-P", "-m", "analysis", "report", str(log), "--force", "-o", str(place / "report.html")]
    pairs = PAIRS if rows <= 10_000_000 else 1
    for name, command, wanted in (("summary", summary, "5 s, 2 GiB"), ("report", report, "15 s, 5 MB")):
        measured, peaks = [], []
        for _ in range(pairs):
            seconds, peak = used(command)
            measured.append((seconds, used([sys.executable, "-c", READ, str(log)])[0]))
            peaks.append(peak)
        show(f"{name}, peak {max(peaks) / 2**20:,.0f} MiB", measured, "s", f"{wanted}, for 10 M rows")
    print(f"  report: {(place / 'report.html').stat().st_size / 1e6:.2f} MB")


def analysis100(place: Path) -> None:
    """The same of 100 million rows; 3 GB of disk."""
    analysis(place, 100_000_000)


def used(command: list[str]) -> tuple[float, int]:
    """Seconds of wall clock and peak memory in bytes of a process."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, command
    process.returncode = 0
    return time.perf_counter() - began, usage.ru_maxrss * 1024
