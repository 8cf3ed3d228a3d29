"""Counters of the kernel: device, CPU and page cache."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from replayer.machine import description as machine
from replayer.schema import DEVICE_SCHEMA
from tests.support.command_line import Run
from tests.support.going_runs import going, replayed
from tests.support.mounts import ext4
from tests.support.run_json import run_json


def test_device_counters_are_as_documented(endless: Path, tmp_path: Path) -> None:
    with going(endless, tmp_path) as started:
        started.wait_for((started.output / "device.parquet").exists)
        started.process.send_signal(signal.SIGTERM)
        _, _, usage = os.wait4(started.process.pid, 0)
        started.process.returncode = 143  # it has been waited for
    table = pq.read_table(started.output / "device.parquet")
    assert table.schema.equals(DEVICE_SCHEMA)
    rows = table.to_pylist()
    ends = [row["time_ns"] for row in rows]
    assert ends == np.cumsum([row["interval_ns"] for row in rows]).tolist(), "the intervals leave no gap"
    assert len(rows) >= 2
    assert all(row["interval_ns"] >= 900_000_000 for row in rows[:-1])
    busy = sum(row["process_cpu"] * row["interval_ns"] for row in rows) / 1e9
    assert 0 < busy <= usage.ru_utime + usage.ru_stime + 0.05
    cores = os.cpu_count() or 1
    assert all(0 <= row["system_cpu"] <= cores * 1.1 for row in rows[:-1])
    counted = [row["read_bytes"] for row in rows]
    if machine.block_device(tmp_path) is None:
        assert set(counted) == {None}
    else:
        assert all(count >= 0 for count in counted)
        assert all(0 <= row["utilisation"] <= 1 and row["queue"] >= 0 for row in rows)


_NEIGHBOUR = """
import mmap, os, sys
block = mmap.mmap(-1, 1 << 20)
block.write(bytes(1 << 20))
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
os.pwritev(file, [block], 0)
while True:
    os.preadv(file, [block], 0)
"""


def test_reads_that_a_cache_served_are_told(storing: Path, tmp_path: Path, run: Run) -> None:
    """Though a neighbour reads more from that disk, in whose counters the run's own reads would drown."""
    with ext4(tmp_path) as disk:
        neighbour = subprocess.Popen([sys.executable, "-c", _NEIGHBOUR, disk / "neighbour"])
        try:
            warned = replayed(run, storing, tmp_path, "--direct", "off", "--cache-dir", disk / "c")
            (text,) = told_of_the_cache(tmp_path / "run")
            assert text in warned.stderr
            replayed(run, storing, tmp_path, "--direct", "on", "--force", "--cache-dir", disk / "c")
        finally:
            neighbour.kill()
            neighbour.wait()
    assert told_of_the_cache(tmp_path / "run") == []
    rows, executed = (
        pq.read_table(tmp_path / "run" / "device.parquet").to_pylist(),
        run_json(tmp_path / "run")["executed"],
    )
    assert sum(row["read_bytes"] for row in rows) >= executed["read_bytes"]["nvme"] > 50 << 20
    assert sum(row["written_bytes"] for row in rows) >= executed["write_bytes"]["nvme"]


def told_of_the_cache(run: Path) -> list[str]:
    """The warnings of a run that say so."""
    return [warning["text"] for warning in run_json(run)["warnings"] if "cache served reads" in warning["text"]]
