"""A replay from trace to log: exact bytes, equal counts with any workers, and every fault a row."""

import ctypes
import errno
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer import engine as engines
from replayer import log as logs
from replayer import machine, opening
from replayer.compiled import call
from replayer.engine import Engine
from replayer.execution import Elsewhere, Staging
from replayer.model import TokenBytes
from replayer.opening import Settings, request_bytes
from replayer.order import DEFAULT_REFERENCE, Order, of_run, reference
from replayer.pace import Demand, Pace, Span, Window
from replayer.payload import Payload
from replayer.plan import Plan, PlanHash, PlanOptions
from replayer.run import replay
from replayer.schema import parts, read_run
from replayer.selection import Selection
from replayer.tiers.contract import ALIGNMENT
from replayer.tiers.memory import CpuTier, NullTier
from replayer.tiers.reserve import Reserve
from replayer.tiers.throttled import Throttle
from tests.support import traces
from tests.support.fault_injection import Transfer, injected, key_of, path_of
from tests.support.mounts import tmpfs
from tests.support.paths import ROOT
from tracegen import signals
from tracegen.schema import InputError, Trace

MIB = 1 << 20
UNIT = 64 * 1024  # bytes per token of these tests: objects of 64 KiB and more


def gib(units: int) -> Decimal:
    return Decimal(units * UNIT) / 2**30


def options(cpu: int, nvme: int | None, **more: Any) -> PlanOptions:
    """Capacities in tokens."""
    limit = None if nvme is None else gib(nvme)
    return PlanOptions(TokenBytes(UNIT), (Decimal(0), gib(cpu), limit), headroom=Decimal(1), **more)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """12 requests of four users; objects of 1 to 5 tokens, each read again by later requests."""
    steps: list[traces.Step] = []
    requests: list[int] = []
    for request in range(12):
        size = 1 + request % 5
        earlier = [("r", key, 1 + key % 5) for key in range(max(0, request - 3), request)]
        ops: list[traces.Step] = [*earlier, ("w", request, size), ("d", request, size), ("d", request, size)]
        steps += ops
        requests += [request] * len(ops)
    return traces.write(tmp_path / "trace.parquet", traces.columns(steps, requests))


ORDERS = {"trace": Order(), "reference": reference(DEFAULT_REFERENCE), "live": Order("live")}
OF_THE_RUN = ("worker", "waited_for")  # besides times, what may differ from run to run


def the_same(log: pl.DataFrame) -> pl.DataFrame:
    """What does not differ from run to run."""
    kept = [name for name in log.columns if not name.endswith("_ns") and name not in OF_THE_RUN]
    return log.sort("position", "seq").select(kept)


def kept_files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.glob("cache/*/*.kv")}


def go(trace: Trace, place: Path, plan: PlanOptions, **settings: Any) -> tuple[dict[str, Any], pl.DataFrame]:
    chosen = Settings(**({"workers": 4, "cache_dir": place / "cache", "make_cache_dir": True} | settings))
    info = replay(trace, "test", replace(plan, demand=chosen.demand), chosen, place / "run")
    return info, pl.read_parquet(parts(place / "run"))


CASES = {
    "cpu only": options(8, 0),
    "nvme only": options(0, None),
    "cpu over nvme": options(6, None),
    "both bounded": options(6, 9),
    "promote": options(6, 20, promote=True),
    "spillover": options(6, 9, promote=True, arrangement="spillover"),
    "contiguous": options(6, 9, lookup="contiguous"),
    "decode once": options(6, 9, selection=Selection("once")),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("window", [Window(1, 1), Window()], ids=["window of 1", "default window"])
def test_the_log_is_the_plan(trace: Trace, tmp_path: Path, name: str, order: str, window: Window) -> None:
    plan = replace(CASES[name], order=ORDERS[order])
    info, log = go(trace, tmp_path, plan, window=window, verify="full")
    assert info["status"] == "complete"
    if CASES[name].selection == Selection():
        assert (info["executed_ops"], info["executed"]["ops"]) == (trace.ops, trace.ops)
    assert log["op_id"].n_unique() == log["position"].n_unique() == info["executed"]["ops"]
    assert info["executed_fingerprint"] == info["plan"]["plan_fingerprint"]
    assert log["status"].cast(pl.String).unique().to_list() == ["ok"]
    log = log.with_columns(pl.col("move", "from_tier", "to_tier").cast(pl.String))
    for tier in ("cpu", "nvme"):
        read = log.filter((pl.col("from_tier") == tier) & pl.col("move").is_in(["hit", "promote", "demote"]))
        written = log.filter(pl.col("to_tier") == tier)
        assert read["size_bytes"].sum() == info["plan"]["read_bytes"][tier]
        assert written["size_bytes"].sum() == info["plan"]["write_bytes"][tier]
    assert log["new_tokens"].sum() == trace.metadata.counts["tokens_generated"]
    assert list(tmp_path.glob("cache/*")) == [], "the run takes its files along"


def test_any_number_of_workers_does_the_same_work(trace: Trace, tmp_path: Path) -> None:
    """What one worker did, 500 do, but for which of them did what, and when."""
    logs = []
    for workers in (1, 4, 32, 500):
        (tmp_path / str(workers)).mkdir()
        info, log = go(trace, tmp_path / str(workers), CASES["both bounded"], workers=workers)
        assert info["status"] == "complete"
        assert log["worker"].is_between(0, workers - 1).all()
        logs.append((info["executed_fingerprint"], the_same(log).rows()))
    assert logs[0] == logs[1] == logs[2] == logs[3]


@pytest.mark.parametrize("layout", ["files", "slab"])
def test_both_io_engines_do_the_same_work(trace: Trace, tmp_path: Path, layout: str) -> None:
    logs = []
    for name, depth in (("psync", 1), ("uring", 1), ("uring", 4)):
        place = tmp_path / f"{name}-{depth}"
        place.mkdir()
        io = opening.BlockIO(size=16 << 10, depth=depth, engine=name)  # type: ignore[arg-type]
        info, log = go(trace, place, CASES["both bounded"], io=io, layout=layout, verify="full")
        assert (info["status"], info["conditions"]["io_engine"]) == ("complete", name)
        logs.append((info["executed_fingerprint"], the_same(log).rows()))
    assert logs[0] == logs[1] == logs[2]


def test_times_are_in_order(trace: Trace, tmp_path: Path) -> None:
    _, log = go(trace, tmp_path, CASES["both bounded"])
    for earlier, later in (("due_ns", "ready_ns"), ("ready_ns", "start_ns"), ("start_ns", "end_ns")):
        assert (log[earlier] <= log[later]).all()
    inside = log["read_ns"] + log["write_ns"]
    assert (inside <= log["end_ns"] - log["start_ns"]).all(), "verification and making bytes lie outside"
    assert (log.filter(pl.col("move").cast(pl.String).is_in(["hit", "store", "demote"]))["verify_ns"] > 0).all()
    assert (log["device_read_ns"] <= log["read_ns"]).all()
    assert (log["device_write_ns"] <= log["write_ns"]).all()
    kind = pl.col("move").cast(pl.String)
    for side, moves in (("write", ["store", "demote"]), ("read", ["hit", "demote", "promote"])):
        assert (log.filter(kind.is_in(moves)).select(f"{side}_ns", f"device_{side}_ns").min_horizontal() > 0).all()


@pytest.mark.parametrize("order", ORDERS)
def test_no_tier_is_ever_past_its_room(trace: Trace, tmp_path: Path, order: str) -> None:
    """Bytes on the disk, watched from outside at every write; each object is one."""
    most = 0

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        nonlocal most
        files = list(path_of(descriptor).parent.glob("*.kv"))
        assert not offset
        most = max(most, size + sum(path.stat().st_size for path in files))
        return true(descriptor, memory, size, offset)

    with injected(pwrite=pwrite):
        info, log = go(trace, tmp_path, replace(options(6, 9), order=ORDERS[order]), workers=1)
    assert info["status"] == "complete"
    assert 0 < most <= 9 * UNIT
    check_room(log, {"cpu": 6 * UNIT, "nvme": 9 * UNIT})


@pytest.mark.parametrize("workers", [1, 4, 500])
@pytest.mark.parametrize("promote", [False, True])
def test_live_placement_is_a_plan_that_can_be_repeated(
    trace: Trace, tmp_path: Path, workers: int, promote: bool
) -> None:
    """On a disk that is slow, and on one that is not, with other users beside."""
    chosen = options(6, 9, promote=promote, order=Order("live"))
    slow = {"nvme": Throttle(100, 2000)}
    info, log = go(trace, tmp_path, chosen, workers=workers, throttles=slow, verify="full")
    assert (info["status"], info["executed_ops"]) == ("complete", trace.ops)
    assert (info["conditions"]["placement"], info["conditions"]["order"]["kind"]) == ("live", "live")
    plan = info["plan"] | {}
    assert plan.pop("plan_fingerprint") == info["executed_fingerprint"]
    assert plan.pop("plan_checkpoints") is None
    assert plan == info["executed"]
    check_room(log, {"cpu": 6 * UNIT, "nvme": 9 * UNIT})
    (tmp_path / "again").mkdir()
    other = replace(chosen, order=of_run(tmp_path / "run"))
    fast, repeated = go(trace, tmp_path / "again", other, workers=3, layout="slab", verify="full")
    assert fast["status"] == "complete"
    assert fast["conditions"]["placement"] == "planned"
    assert fast["executed_fingerprint"] == fast["plan"]["plan_fingerprint"] == info["executed_fingerprint"]
    assert the_same(repeated).equals(the_same(log))
    check_room(repeated, {"cpu": 6 * UNIT, "nvme": 9 * UNIT})


def test_live_placement_stays_within_memory_that_is_full(trace: Trace, tmp_path: Path) -> None:
    """Every cpu arena is as large as its usable bytes, and answers ENOMEM to one byte more; so are slabs."""
    for workers in (2, 16):
        (tmp_path / str(workers)).mkdir()
        chosen = options(5, 5, order=Order("live"))
        info, _ = go(trace, tmp_path / str(workers), chosen, workers=workers, layout="slab", verify="full")
        assert (info["status"], info["executed_ops"]) == ("complete", trace.ops)


def test_live_placement_with_faults_goes_on(trace: Trace, tmp_path: Path, broken: dict[int, OSError]) -> None:
    broken[3] = OSError(errno.ENOSPC, "No space left on device")
    info, log = go(trace, tmp_path, options(0, None, order=Order("live")))
    assert (info["status"], info["executed_ops"]) == ("failed", trace.ops)
    lost = log.filter(pl.col("status").cast(pl.String) != "ok")
    assert set(lost["key"]) == {3}
    assert lost.sort("start_ns")["status"].cast(pl.String).to_list() == ["error", *["upstream"] * (len(lost) - 1)]


def check_room(log: pl.DataFrame, usable: dict[str, int]) -> None:
    """By the log's own times: from the start of the move that brings an object till the end of that which takes it."""
    log = log.with_columns(pl.col("move", "from_tier", "to_tier").cast(pl.String))
    for tier, limit in usable.items():
        came = log.filter(pl.col("to_tier") == tier).select("start_ns", "size_bytes")
        leaves = pl.col("move").is_in(["demote", "promote", "drop", "delete"])
        left = log.filter((pl.col("from_tier") == tier) & leaves).select("end_ns", -pl.col("size_bytes"))
        changes = sorted([*left.rows(), *came.rows()])
        held = peak = 0
        for _, size in changes:
            held += size
            peak = max(peak, held)
        assert 0 < peak <= limit, tier


def test_buffers_stay_bounded_for_any_number_of_workers() -> None:
    sizes = {workers: request_bytes(workers, 1) for workers in (1, 4, 64, 65, 128, 257, 500, 9000)}
    assert all(size & (size - 1) == 0 and 256 << 10 <= size <= MIB for size in sizes.values())
    assert sizes[4] == sizes[64] == sizes[128] == sizes[256 // 2] == MIB
    assert sizes[257] == request_bytes(33, 8) == MIB // 2
    assert all(workers * size <= 256 * MIB for workers, size in sizes.items() if workers <= 1024)


def test_what_lies_on_the_disk_is_the_payload_of_the_traces_seed(trace: Trace, tmp_path: Path) -> None:
    """Stored and demoted alike, padding included: no sector repeats anywhere, and another seed writes other bytes."""
    plan = replace(options(0, None), bytes_per_token=TokenBytes(70_272), capacity_gib=(Decimal(0), gib(6), None))
    found = []
    for seed in (0, 1):
        trace.metadata.seed = seed
        place = tmp_path / str(seed)
        go(trace, place, plan, keep_cache=True)
        found.append(kept_files(place))
    assert set(found[0]) == set(found[1])
    sectors = [data[at : at + 512] for files in found for data in files.values() for at in range(0, len(data), 512)]
    assert len(set(sectors)) == len(sectors) > 1000


def test_a_plan_that_fits_but_for_its_padding_is_refused(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = options(0, None)
    exact = sum(1 + key % 5 for key in range(12)) * UNIT

    def free(size: int) -> None:
        sizes = {"f_blocks": 0, "f_bavail": size, "f_frsize": 1}
        monkeypatch.setattr(os, "statvfs", lambda _: type("Free", (), sizes))

    free(exact)
    assert "the plan needs" in refused(trace, tmp_path, chosen)
    free(exact + 12 * ALIGNMENT)
    assert go(trace, tmp_path, chosen)[0]["status"] == "complete"


@pytest.mark.parametrize("rows", [1000, 50_000, 65_536, 1 << 17])
def test_checkpoints_do_not_depend_on_row_groups(tmp_path: Path, rows: int) -> None:
    """A checkpoint is the digest of all moves of ops below a multiple of 65,536, spelled out op by op here."""
    made = traces.write(tmp_path / "t.parquet", _many([("w", 0, 2), ("d", 0, 2)] + [("d", 0, 2)] * 200_000))
    table, metadata = pq.read_table(made.path), pq.ParquetFile(made.path).metadata.metadata
    pq.write_table(table.replace_schema_metadata(metadata), made.path, row_group_size=rows)
    chosen = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None))
    planned = Plan(Trace(made.path), chosen).simulate()
    hashed, checkpoints = hashlib.sha256((1).to_bytes(8, "little")), []
    for op in range(200_002):
        if op and op % 65_536 == 0:
            checkpoints.append(hashed.hexdigest())
        hashed.update(struct.pack("<7q", op, 0, 1 if op == 0 else 0, 0, -1 if op == 0 else 2, 2 if op == 0 else -1, 2))
    assert len(checkpoints) == 3
    assert planned["plan_checkpoints"] == checkpoints
    assert planned["plan_fingerprint"] == hashed.hexdigest()


# Faults


@pytest.fixture
def broken() -> Iterator[dict[int, OSError]]:
    """Keys whose next write to the disk fails, and how."""
    faults: dict[int, OSError] = {}

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        if (key := key_of(descriptor)) in faults:
            raise faults.pop(key)
        return true(descriptor, memory, size, offset)

    with injected(pwrite=pwrite):
        yield faults


def test_a_failed_store_is_a_row_and_what_follows_is_upstream(
    trace: Trace, tmp_path: Path, broken: dict[int, OSError]
) -> None:
    broken[3] = OSError(errno.ENOSPC, "No space left on device")
    info, log = go(trace, tmp_path, options(0, None))
    assert (info["status"], info["executed_ops"]) == ("failed", trace.ops)
    log = log.with_columns(pl.col("status", "move").cast(pl.String))
    (failed,) = log.filter(pl.col("status") == "error").iter_rows(named=True)
    assert (failed["key"], failed["move"]) == (3, "store")
    assert "No space left" in failed["error"]
    upstream = log.filter(pl.col("status") == "upstream")
    assert set(upstream["key"]) == {3}
    assert (upstream["end_ns"] - upstream["start_ns"]).max() < 50_000_000
    assert len(upstream) == 5
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_disk_that_fills_up_fails_the_run_with_rows(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real ENOSPC: a tmpfs of 1 MiB, whose free space is claimed to be more."""
    with tmpfs(tmp_path / "small", "1m") as place:
        free = os.statvfs(tmp_path)
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        info, log = go(trace, tmp_path, options(0, None), cache_dir=place, reserve=Reserve(bytes=0))
        assert (info["status"], info["executed_ops"]) == ("failed", trace.ops)
        errors = log.filter(pl.col("status").cast(pl.String) == "error")
        assert "No space left on device" in errors["error"][0]
        assert list(place.iterdir()) == [], "what was half written is gone, too"


def test_a_disk_that_fills_up_beforehand_is_refused(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tmpfs(tmp_path / "small", "1m") as place:
        free = os.statvfs(tmp_path)
        monkeypatch.setattr(os, "statvfs", lambda _: free)
        message = refused(trace, tmp_path, options(0, None), cache_dir=place, precondition_gib=0.01)
        assert "--precondition" in message
        assert "No space left" in message
        assert list(place.iterdir()) == []


def test_the_tier_is_written_beforehand_as_often_as_was_asked_for(trace: Trace, tmp_path: Path) -> None:
    """70 MiB into the room of a plan of 2.1 MiB: many rounds, nothing left of them, and the run as without."""
    written = []

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        written.append(true(descriptor, memory, size, offset))
        return written[-1]

    with injected(pwrite=pwrite):
        info, _ = go(trace, tmp_path, options(0, None), precondition_gib=70 / 1024)
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
        assert info["status"] == read_run(place / "run")["status"] == "failed"
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
        info, log = go(trace, tmp_path, options(6, 40, promote=True), workers=1)
    failed = log.filter(pl.col("status").cast(pl.String) == "error")["move"].cast(pl.String)
    assert info["status"] == "failed"
    assert set(failed) == {"promote"}


def test_evictions_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read: while key 0 is demoted, the memory of all that lies beside it turns over. Key 1 is found to be
    wrong when it is demoted, in turn; what came after it is as it should be."""
    made = traces.write(tmp_path / "t.parquet", traces.columns([("w", key, 3) for key in range(6)], qos=[0] * 6))
    arenas: list[Any] = []

    class Watched(CpuTier):
        def __init__(self, usable: int, objects: int = 0) -> None:
            super().__init__(usable, objects)
            arenas.append(self._arena)

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        if key_of(descriptor) == 0:
            arenas[0][512::4096] ^= 255
        return true(descriptor, memory, size, offset)

    monkeypatch.setattr(opening, "CpuTier", Watched)
    with injected(pwrite=pwrite):
        info, log = go(made, tmp_path, options(6, None), workers=1)
    assert info["status"] == "failed"
    log = log.with_columns(pl.col("move", "status").cast(pl.String))
    assert log.filter(pl.col("status") == "error").select("key", "move").rows() == [(1, "demote")]
    assert log.filter(pl.col("move") == "demote").sort("key")["key"].to_list() == [0, 1, 2, 3]
    assert "of key 1 holds" in log.filter(pl.col("status") == "error")["error"][0]


steps = st.lists(st.tuples(st.sampled_from("wrrddd"), st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=40)


@settings(max_examples=60)
@given(
    steps,
    st.tuples(st.integers(3, 9), st.one_of(st.none(), st.integers(3, 9))),
    st.booleans(),
    st.integers(1, 16),
    st.integers(1, 9),
    st.sampled_from(sorted(ORDERS)),
    st.sampled_from([None, 1, 2]),
)
def test_real_workers_never_deadlock_nor_exceed_a_tier(
    picks: list[tuple[str, int, int]],
    units: tuple[int, int | None],
    promote: bool,
    workers: int,
    window: int,
    order: str,
    depth: int | None,
) -> None:
    """Both tiers are arenas of exactly their usable bytes, which answer ENOMEM to one byte more."""
    known, numbers, ops, order_of = dict[int, int](), dict[int, int](), list[traces.Step](), list[int]()
    for op, key, request in picks:
        name = "w" if key not in known else "r" if op == "w" else op
        dense = known.setdefault(key, len(known))
        ops.append((name, dense, 1 + dense % 3))
        order_of.append(numbers.setdefault(request, len(numbers)))
    step_of = [order_of[:row].count(request) for row, request in enumerate(order_of)]
    with tempfile.TemporaryDirectory() as folder:
        made = traces.write(Path(folder) / "t.parquet", traces.columns(ops, order_of, step=step_of))
        small = 600  # bytes per token: not a multiple of a sector
        limits = (0, units[0] * small, None if units[1] is None else units[1] * small)
        gib_of = [None if limit is None else Decimal(limit) / 2**30 for limit in limits]
        demand = Demand(Pace(request_depth=depth), workers)
        chosen = PlanOptions(
            TokenBytes(small), (Decimal(0), gib_of[1] or Decimal(0), gib_of[2]), Decimal(1), promote,
            order=ORDERS[order], demand=demand,
        )  # fmt: skip
        tiers: list[Any] = [None, CpuTier(limits[1] or 0, 10), CpuTier(limits[2] or 40 * small, 10)]
        plan, payload = Plan(made, chosen), Payload(0)
        expected = plan.simulate()["plan_fingerprint"] if order != "live" else None
        engine = Engine(
            plan, tiers, payload, lambda _: Staging(256 << 10), Elsewhere(tiers, payload, "full"), "full", 256 << 10,
            Window(ops=window), Span(),
        )  # fmt: skip
        rows, hashed = [], PlanHash(chosen.order.plan_version)

        def flush(records: Any, errors: dict[int, str], executed: Any) -> None:
            rows.append((len(records), errors))
            hashed.add(executed)

        engine.run(flush, every_s=60)
        state = engine.state()
        engine.close()
        assert (state.over, state.retired, state.in_window) == (1, len(ops), 0)
        assert not state.failures, [errors for _, errors in rows]
        assert expected in (None, hashed.hexdigest())


def test_a_log_that_is_not_taken_holds_the_workers_up(tmp_path: Path) -> None:
    """More moves than the engine keeps, and nobody who takes them for two seconds: it waits, and loses none."""
    count = 700_000
    made = traces.write(tmp_path / "t.parquet", _many([("w", 0, 2), ("d", 0, 2)] + [("d", 0, 2)] * (count - 2)))
    chosen = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None), demand=Demand(Pace(), 2))
    tiers, payload = [None, None, NullTier()], Payload(0)
    engine = Engine(
        Plan(made, chosen), tiers, payload, lambda _: Staging(1 << 18), Elsewhere(tiers, payload, "off"), "off",
        1 << 18, Window(), Span(),
    )  # fmt: skip
    found: list[Any] = []
    engine.run(lambda records, _errors, _rows: found.append(records["op_id"].copy()), every_s=2)
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
    + [("bit", "full", True), ("bit", "stamps", False), ("torn", "off", False)],
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
    errors = log.filter(pl.col("status").cast(pl.String) == "error")
    assert set(errors["key"]) == ({4} if seen else set())
    if seen:
        assert errors["move"].cast(pl.String).to_list() == ["hit"]
        told = {"gone": "No such file", "short": "short read: ends at byte 4096", "bit": "of key 4"}
        assert told.get(damage, "of key 4 holds") in errors["error"][0]


class Dying(CpuTier):
    """Its moves are made in Python, which goes wrong where nobody thought of it."""

    def __init__(self, usable: int, objects: int = 0) -> None:
        super().__init__(usable, objects)
        self._elsewhere = int(call("tier_elsewhere")())

    @property
    def engine_handle(self) -> int:
        return self._elsewhere

    def create(self, key: int, size: int) -> Any:
        return 1 / 0

    def close(self) -> None:
        call("tier_free")(self._elsewhere)
        super().close()


@pytest.mark.parametrize("workers", [1, 4, 64])
def test_a_dead_worker_fails_the_run(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(opening, "CpuTier", Dying)
    chosen = Settings(workers=workers, cache_dir=tmp_path / "cache", make_cache_dir=True)
    info = replay(trace, "test", options(8, None, demand=chosen.demand), chosen, tmp_path / "run")
    assert info["status"] == "failed"
    assert "ZeroDivisionError" in info["reason"]
    assert read_run(tmp_path / "run")["executed_ops"] == 0
    assert list(tmp_path.glob("cache/*")) == []


# What is refused before anything is written


def refused(trace: Trace, place: Path, plan: PlanOptions, **settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        go(trace, place, plan, **settings)
    assert not (place / "run").exists(), "refused before the run directory is made"
    return caught.value.message


def test_plans_that_cannot_fit_are_refused(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small:
        f_blocks, f_bavail, f_frsize = 1, 1, 1_000_000

    monkeypatch.setattr(os, "statvfs", lambda _: Small)
    assert "name another directory" in refused(trace, tmp_path, options(0, None))
    monkeypatch.undo()
    monkeypatch.setattr(machine, "meminfo", lambda _: UNIT)
    assert "--cpu-mem-gb" in refused(trace, tmp_path, options(6, None))


def test_settings_that_cannot_work_are_refused(trace: Trace, tmp_path: Path) -> None:
    assert "pass --cache-dir DIR" in refused(trace, tmp_path, options(0, None), cache_dir=None)
    gpu = PlanOptions(TokenBytes(UNIT), (gib(4), Decimal(0), None))
    assert "--gpu-mem-gb 0" in refused(trace, tmp_path, gpu)
    assert "no tier has any room" in refused(trace, tmp_path, options(0, 0))
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(trace, tmp_path, options(0, None), cache_dir=tmp_path / "file")


def test_a_run_directory_in_use_is_refused(trace: Trace, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("x")
    with pytest.raises(InputError, match="is not empty"):
        go(trace, tmp_path, options(8, 0))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


# Signals, in processes of their own


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A replay that takes long enough to be interrupted, once its first part is written."""
    steps: list[traces.Step] = [("w", 0, 64), *[("d", 0, 64)] * 400_000]
    trace = traces.write(tmp_path / "long.parquet", traces.columns([("w", 0, 64), ("d", 0, 64)]) | _many(steps))
    command = [sys.executable, "-m", "replayer", "run", trace.path, "--model", "tiny-1b", "--workers", "2"]
    command += ["--cache-dir", tmp_path / "cache", "--make-cache-dir", "-o", tmp_path / "run"]
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, text=True, stderr=subprocess.PIPE)
    for _ in range(600):
        if list((tmp_path / "run" / "moves").glob("part-*.parquet")) or process.poll() is not None:
            break
        time.sleep(0.1)
    yield process, tmp_path / "run"
    process.kill()
    process.wait()


def _many(steps: list[traces.Step]) -> traces.Columns:
    count = len(steps)
    one = traces.columns(steps[:2], [0, 0])
    batch = {name: np.repeat(column[1:], count) for name, column in one.items()}
    for name in ("op", "phase", "source"):
        batch[name][0] = one[name][0]
    batch |= {"op_id": np.arange(count), "time_ns": np.arange(count), "step": np.arange(count, dtype=np.int32)}
    return batch


def test_ctrl_c_closes_the_run(long_run: tuple[subprocess.Popen[str], Path]) -> None:
    process, run = long_run
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors.endswith(f"\nInterrupted. {run} holds what was done; `analysis summary {run}` reads it.\n")
    info = read_run(run)
    assert (info["status"], info["reason"]) == ("incomplete", "interrupted")
    log = pl.read_parquet(parts(run))
    assert len(log) == info["executed_ops"] > 0
    assert list((run.parent / "cache").iterdir()) == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A signal in this process, and nothing left of it."""
    before = {number: signal.getsignal(number) for number in signals.WORDS}
    try:
        with signals.INTERRUPTS.handled():
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        with signals.INTERRUPTS.handled():  # forgets the first one
            pass


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_before_the_clock_starts(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the window is filled: a run of no moves, whose time 0 never was."""
    monkeypatch.setattr(engines, "_start", lambda *_: os.kill(os.getpid(), signal.SIGINT) or 0)
    with pytest.raises(KeyboardInterrupt):
        go(trace, tmp_path, options(6, 9))
    info = read_run(tmp_path / "run")
    assert (info["status"], info["reason"], info["executed_ops"]) == ("incomplete", "interrupted", 0)
    assert "zero_ns" not in info["clock"]
    assert list((tmp_path / "run" / "moves").iterdir()) == []
    assert list((tmp_path / "cache").iterdir()) == []


def test_kill_9_leaves_a_readable_log(long_run: tuple[subprocess.Popen[str], Path], run: Any) -> None:
    process, directory = long_run
    process.kill()
    process.communicate()
    assert read_run(directory)["status"] == "running"
    shown = run("analysis", "summary", directory)
    assert "NOT VALID" in shown.stdout
    assert "incomplete: the run has not ended, or was killed" in shown.stdout
    summary = json.loads(run("analysis", "summary", directory, "--json").stdout)
    assert summary["hits"] > 0
    assert summary["valid"] is False
