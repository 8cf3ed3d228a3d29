"""Replays in processes of their own, which a test may signal, kill or disturb."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from replayer.schema import parts
from replayer.tiers.cache_dir import MARKER
from tests.support.command_line import Run
from tests.support.paths import ROOT

MODEL = ("--model", "tiny-1b")
CACHE = ("--cache-dir",)
SLOW = ("--throttle", "nvme=64", "--workers", "4")
USERS, READS = 4, 5000


class Going:
    """A command that runs while the test goes on."""

    def __init__(self, command: list[object], output: Path) -> None:
        self.output = output
        self.process = subprocess.Popen(
            list(map(str, command)), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def wait_for(self, what: Callable[[], object]) -> None:
        for _ in range(3000):
            if what():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        pytest.fail(f"it never came so far: {self.kill()}")

    def end(self, timeout: float = 30) -> tuple[int, str]:
        """Its exit code, and what it said on stderr."""
        try:
            _, errors = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"it hangs: {self.kill()}")
        return self.process.returncode, errors

    def kill(self) -> tuple[str, str]:
        """End it and its ranks for certain; what it said."""
        for pid in ranks_under(self.process.pid).values():
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        return self.process.communicate()


def info(run: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((run / "run.json").read_text())
    except FileNotFoundError:
        return {}
    return found


def is_written(file: Path) -> bool:
    """Slabs are there before anything is stored in them."""
    with file.open("rb") as opened:
        return any(opened.read(4096))


@contextmanager
def going(trace: Path, place: Path, *flags: object, cache: Path | None = None) -> Iterator[Going]:
    """A replay into place/run that is storing and reading."""
    cache, output = cache or place / "cache", place / "run"
    command: list[object] = [sys.executable, "-m", "replayer", "run", trace, *MODEL, *SLOW, *flags]
    started = Going([*command, *CACHE, cache, "-o", output], output)
    try:
        mine = f"{MARKER}-*-{started.process.pid}"
        started.wait_for(lambda: "clock" in info(output) and any(map(is_written, cache.glob(f"{mine}/*.kv"))))
        yield started
    finally:
        started.kill()


def replayed(run: Run, trace: Path, place: Path, *flags: object, ok: bool = True) -> Any:
    return run("replayer", "run", trace, *MODEL, *CACHE, place / "cache", *flags, "-o", place / "run", ok=ok)


def log_of(run: Path) -> pl.DataFrame:
    return pl.read_parquet(parts(run)).with_columns(pl.col("move", "status").cast(pl.String)).sort("op_id", "seq")


def ranks_under(mpirun: int) -> dict[int, int]:
    found = {}
    for task in Path(f"/proc/{mpirun}/task").glob("*/children"):
        for pid in map(int, task.read_text().split()):
            variables = Path(f"/proc/{pid}/environ").read_text()
            if rank := re.search(r"OMPI_COMM_WORLD_RANK=(\d+)", variables):
                found[int(rank[1])] = pid
    return found
