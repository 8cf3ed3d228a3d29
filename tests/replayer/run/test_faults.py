"""Every fault is a row of the log; a full disk fails the run."""

import ctypes
import errno
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replayer.engine.engine import Engine
from replayer.engine.move_executor import Staging
from replayer.models.geometry import TokenBytes
from replayer.planning.executing import make_settings
from replayer.planning.pace import Demand, Pace, PlanWindow, Span
from replayer.planning.plan import Plan, PlanOptions
from replayer.run import log_writer as logs
from replayer.tiers import BACKENDS
from replayer.tiers.native import CpuTier, NullTier
from replayer.tiers.payload import Payload
from replayer.tiers.request import TierRequest
from tests.replayer.run.replays import MIB, UNIT, _many, go, options, refused
from tests.support import traces
from tests.support.arrangements import arranged
from tests.support.fault_injection import Transfer, injected, key_of, path_of
from tests.support.mounts import tmpfs
from tests.support.run_json import run_json
from tracegen.schema import Trace


def test_a_failed_store_is_a_row_and_what_follows_is_upstream(
    trace: Trace, tmp_path: Path, broken: dict[int, OSError]
) -> None:
    broken[3] = OSError(errno.ENOSPC, "No space left on device")
    info, log = go(trace, tmp_path, options(0, None))
    assert (info["status"], info["executed_ops"]) == ("failed", trace.ops)
    log = log.with_columns(pl.col("status", "move").cast(pl.String))
    (failed,) = log.filter(pl.col("status") == "error").iter_rows(named=True)
    assert (failed["key"], failed["move"]) == (3, "store")
    upstream = log.filter(pl.col("status") == "upstream")
    assert set(upstream["key"]) == {3}
    assert (upstream["end_ns"] - upstream["start_ns"]).max() < 50_000_000
    assert len(upstream) == 5
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_disk_that_fills_up_beforehand_is_refused(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tmpfs(tmp_path / "small", "1m") as place:
        free = os.statvfs(tmp_path)
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        error = refused(trace, tmp_path, options(0, None), cache_dir=place, precondition=0.01)
        assert error.setting == "precondition"
        assert list(place.iterdir()) == []


def test_the_tier_is_written_beforehand_as_often_as_was_asked_for(trace: Trace, tmp_path: Path) -> None:
    """70 MiB into the room of a plan of 2.1 MiB: many rounds, nothing left of them, and the run as without."""
    written = []

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        written.append(true(descriptor, memory, size, offset))
        return written[-1]

    with injected(pwrite=pwrite):
        info, _ = go(trace, tmp_path, options(0, None), precondition=70 / 1024)
    stored = info["plan"]["write_bytes"]["nvme"]
    assert sum(written) == 70 * MIB + stored
    assert info["status"] == "complete"
    assert info["precondition"]["gib"] == 70 / 1024


def test_a_disk_that_fills_up_under_the_log_fails_the_run(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cache and run directory on one tmpfs; parts are due at once. The cache's room is given back before the end."""
    with tmpfs(tmp_path / "small", "2m") as place:
        free = os.statvfs(tmp_path)
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        monkeypatch.setattr(logs, "PART_SECONDS", 0)
        info, log = go(trace, place, options(0, None))
        assert info["status"] == run_json(place / "run")["status"] == "failed"
        assert len(log) > 0
        assert not list(place.glob("run/**/*.partial"))
        assert list(place.glob("cache/*")) == []


def flip(memory: int) -> None:
    """Turn the stamp of a buffer's second sector over."""
    ctypes.memset(memory + 512, ctypes.c_ubyte.from_address(memory + 512).value ^ 255, 1)


def test_promotions_are_verified(trace: Trace, tmp_path: Path) -> None:
    """A sector that turns over on the disk is found when its object moves on, not only when it is hit: each one fits
    the cpu tier, so that nothing else than promotions reads the disk."""

    def pread(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        done = true(descriptor, memory, size, offset)
        flip(memory)
        return done

    with injected(pread=pread):
        info, log = go(trace, tmp_path, options(6, 40, arrangement=arranged(promote=True)), workers=1)
    failed = log.filter(pl.col("status").cast(pl.String) == "error")["move"].cast(pl.String)
    assert info["status"] == "failed"
    assert set(failed) == {"promote"}


def test_evictions_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read: while key 0 is demoted, the memory of all that lies beside it turns over. Key 1 is found to be
    wrong when it is demoted, in turn; what came after it is as it should be."""
    made = traces.write(tmp_path / "t.parquet", traces.columns([("w", key, 3) for key in range(6)], qos=[0] * 6))
    arenas: list[Any] = []

    class Watched(CpuTier):
        def __init__(self, request: TierRequest) -> None:
            super().__init__(request)
            arenas.append(self._arena)

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        if key_of(descriptor) == 0:
            arenas[0][512::4096] ^= 255
        return true(descriptor, memory, size, offset)

    monkeypatch.setitem(BACKENDS, "cpu", Watched)
    with injected(pwrite=pwrite):
        info, log = go(made, tmp_path, options(6, None), workers=1)
    assert info["status"] == "failed"
    log = log.with_columns(pl.col("move", "status").cast(pl.String))
    assert log.filter(pl.col("status") == "error").select("key", "move").rows() == [(1, "demote")]
    assert log.filter(pl.col("move") == "demote").sort("key")["key"].to_list() == [0, 1, 2, 3]
    assert "of key 1 holds" in log.filter(pl.col("status") == "error")["error"][0]


def test_a_log_that_is_not_taken_holds_the_workers_up(tmp_path: Path) -> None:
    """More moves than the engine keeps, and nobody who takes them for a second: it waits, and loses none."""
    count = 300_000  # the engine keeps 2^18 records
    made = traces.write(tmp_path / "t.parquet", _many([("w", 0, 2), ("d", 0, 2)] + [("d", 0, 2)] * (count - 2)))
    chosen = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None), demand=Demand(Pace(), 2))
    plan = Plan(made, chosen)
    of_engine = make_settings(plan, "off", 1 << 18, PlanWindow(), Span())
    engine = Engine(plan, of_engine, [None, None, NullTier()], Payload(0), lambda _: Staging(1 << 18))
    found: list[Any] = []
    engine.run(lambda records, _errors, _rows: found.append(records["op_id"].copy()), every_s=1)
    state = engine.state()
    engine.close()
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(count))
    assert state.log_stalled_ns > 0


def test_a_failed_demotion_still_gives_its_room(trace: Trace, tmp_path: Path, broken: dict[int, OSError]) -> None:
    broken[1] = OSError(errno.EIO, "Input/output error")
    info, log = go(trace, tmp_path, options(6, None), workers=1)
    assert info["status"] == "failed"
    statuses = dict(log["status"].cast(pl.String).value_counts().iter_rows())
    assert statuses["error"] == 1
    assert "ENOMEM" not in str(log["error"].to_list())
    assert info["executed_ops"] == trace.ops


@pytest.mark.parametrize(
    ("damage", "verify", "seen"),
    [("gone", "stamps", True), ("short", "stamps", True), ("torn", "stamps", True), ("swapped", "stamps", True)]
    + [("bit", "full", True), ("bit", "stamps", False)],
)
def test_damaged_files_are_seen(trace: Trace, tmp_path: Path, damage: str, verify: str, seen: bool) -> None:
    """Damage is done to key 4's file between its store and its first read."""

    def harm(path: Path) -> None:
        content = bytearray(path.read_bytes())
        if damage == "gone":
            path.unlink()
            return
        if damage == "short":
            content = content[:4096]
        elif damage == "torn":
            content[8192:16384] = bytes(8192)
        elif damage == "swapped":
            content[512:1024], content[1024:1536] = content[1024:1536], content[512:1024]
        else:
            content[1000] ^= 4
        path.write_bytes(content)

    harmed = []

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        done = true(descriptor, memory, size, offset)
        if key_of(descriptor) == 4:
            harmed.append(done)
            harm(path_of(descriptor))
        return done

    with injected(pwrite=pwrite):
        info, log = go(trace, tmp_path, options(0, None), verify=verify, workers=1)
    assert harmed == [5 * UNIT], "whole, before"
    assert info["status"] == ("failed" if seen else "complete")
    errors = log.filter(pl.col("status").cast(pl.String) == "error").select(pl.col("move").cast(pl.String), "key")
    assert errors.rows() == ([("hit", 4)] if seen else [])


class Dying(CpuTier):
    """Its moves are made in Python, which goes wrong where nobody thought of it."""

    is_compiled = False

    def create(self, key: int, size: int) -> Any:
        return 1 / 0


@pytest.mark.parametrize("workers", [1, 64])
def test_a_dead_worker_fails_the_run(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setitem(BACKENDS, "cpu", Dying)
    info, _ = go(trace, tmp_path, options(8, None), workers=workers)
    assert (info["status"], info["executed_ops"]) == ("failed", 0)
    assert "ZeroDivisionError" in info["reason"]
    assert list(tmp_path.glob("cache/*")) == []
