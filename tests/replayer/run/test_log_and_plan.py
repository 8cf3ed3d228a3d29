"""The log is the plan, with any order, workers, engine and window."""

import hashlib
import struct
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from replayer.models.geometry import TokenBytes
from replayer.options.settings import choose_request_bytes
from replayer.planning.order import Order, read_order
from replayer.planning.pace import PlanWindow
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.trace_selection import Selection
from replayer.tiers.request import BlockIO
from replayer.tiers.throttled import Throttle
from tests.replayer.run.replays import (
    MIB,
    ORDERS,
    UNIT,
    WRITE_THROUGH,
    _many,
    check_room,
    gib,
    go,
    kept_files,
    options,
    the_same,
)
from tests.support import traces
from tests.support.arrangements import arranged
from tests.support.fault_injection import Transfer, injected, path_of
from tracegen.schema import Trace

CASES = {
    "cpu only": options(8, 0),
    "nvme only": options(0, None),
    "cpu over nvme": options(6, None),
    "both bounded": options(6, 9),
    "promote": options(6, 20, arrangement=arranged(promote=True)),
    "spillover": options(6, 9, arrangement=arranged("spillover", promote=True)),
    "contiguous": options(6, 9, lookup="contiguous"),
    "copies": options(6, 40, arrangement=WRITE_THROUGH),
    "decode once": options(6, 9, selection=Selection("once")),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("window", [PlanWindow(1, 1), PlanWindow()], ids=["window of 1", "default window"])
def test_the_log_is_the_plan(trace: Trace, tmp_path: Path, name: str, order: str, window: PlanWindow) -> None:
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
        read = log.filter((pl.col("from_tier") == tier) & pl.col("move").is_in(["hit", "promote", "demote", "copy"]))
        written = log.filter(pl.col("to_tier") == tier)
        assert read["size_bytes"].sum() == info["plan"]["read_bytes"][tier]
        assert written["size_bytes"].sum() == info["plan"]["write_bytes"][tier]
    copies = info["executed"].get("copies", {})
    assert sum(copies.values()) == log.filter(pl.col("move") == "copy").height
    assert bool(copies) == (name == "copies")
    assert log["new_tokens"].sum() == trace.metadata.counts["tokens_generated"]
    assert list(tmp_path.glob("cache/*")) == [], "the run takes its files along"


def test_any_number_of_workers_does_the_same_work(trace: Trace, tmp_path: Path) -> None:
    """What one worker did, 500 do, but for which of them did what, and when."""
    logs = []
    for workers in (1, 4, 500):
        (tmp_path / str(workers)).mkdir()
        info, log = go(trace, tmp_path / str(workers), CASES["both bounded"], workers=workers)
        assert info["status"] == "complete"
        assert log["worker"].is_between(0, workers - 1).all()
        logs.append((info["executed_fingerprint"], the_same(log).rows()))
    assert logs[0] == logs[1] == logs[2]


@pytest.mark.parametrize("layout", ["files", "slab"])
def test_both_io_engines_do_the_same_work(trace: Trace, tmp_path: Path, layout: str) -> None:
    logs = []
    for name, depth in (("psync", 1), ("uring", 4)):
        place = tmp_path / f"{name}-{depth}"
        place.mkdir()
        io = BlockIO(size=16 << 10, depth=depth, engine=name)  # type: ignore[arg-type]
        info, log = go(trace, place, CASES["both bounded"], io=io, layout=layout, verify="full")
        assert (info["status"], info["conditions"]["io_engine"]) == ("complete", name)
        logs.append((info["executed_fingerprint"], the_same(log).rows()))
    assert logs[0] == logs[1]


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


@pytest.mark.parametrize(("workers", "promote"), [(1, True), (4, False), (500, True)])
def test_live_placement_is_a_plan_that_can_be_repeated(
    trace: Trace, tmp_path: Path, workers: int, promote: bool
) -> None:
    """On a disk that is slow, and on one that is not, with other users beside."""
    chosen = options(6, 9, arrangement=arranged(promote=promote), order=Order("live"))
    slow = {"nvme": Throttle(100, 2000)}
    info, log = go(trace, tmp_path, chosen, workers=workers, throttles=slow, verify="full")
    assert (info["status"], info["executed_ops"]) == ("complete", trace.ops)
    assert (info["conditions"]["placement"], info["conditions"]["order"]["kind"]) == ("live", "live")
    plan = info["plan"] | {}
    assert plan.pop("plan_fingerprint") == info["executed_fingerprint"]
    assert plan.pop("plan_checkpoints") is None
    assert plan.pop("peak_bytes") is None
    assert plan == info["executed"]
    check_room(log, {"cpu": 6 * UNIT, "nvme": 9 * UNIT})
    (tmp_path / "again").mkdir()
    other = replace(chosen, order=read_order(tmp_path / "run"))
    fast, repeated = go(trace, tmp_path / "again", other, workers=3, layout="slab", verify="full")
    assert fast["status"] == "complete"
    assert fast["conditions"]["placement"] == "planned"
    assert fast["executed_fingerprint"] == fast["plan"]["plan_fingerprint"] == info["executed_fingerprint"]
    assert the_same(repeated).equals(the_same(log))
    check_room(repeated, {"cpu": 6 * UNIT, "nvme": 9 * UNIT})


def test_buffers_stay_bounded_for_any_number_of_workers() -> None:
    """256 MiB of all together, in powers of two from 256 KiB to 1 MiB."""
    sizes = {workers: choose_request_bytes(workers, 1) for workers in (1, 256, 257, 500, 1024, 9000)}
    assert list(sizes.values()) == [MIB, MIB, MIB // 2, MIB // 2, MIB // 4, MIB // 4]
    assert choose_request_bytes(33, 8) == MIB // 2


def test_checkpoints_do_not_depend_on_row_groups(tmp_path: Path) -> None:
    """A checkpoint is the digest of all moves of ops below a multiple of 65,536, spelled out op by op here."""
    made = traces.write(tmp_path / "t.parquet", _many([("w", 0, 2), ("d", 0, 2)] + [("d", 0, 2)] * 200_000))
    table, metadata = pq.read_table(made.path), pq.ParquetFile(made.path).metadata.metadata
    pq.write_table(table.replace_schema_metadata(metadata), made.path, row_group_size=50_000)
    chosen = PlanOptions(TokenBytes(1), (Decimal(0), Decimal(0), None))
    planned = Plan(Trace(made.path), chosen).simulate()
    hashed, checkpoints = hashlib.sha256((1).to_bytes(8, "little")), []
    for op in range(200_002):
        if op and op % 65_536 == 0:
            checkpoints.append(hashed.hexdigest())
        hashed.update(struct.pack("<7q", op, 0, 1 if op == 0 else 0, 0, -1 if op == 0 else 2, 2 if op == 0 else -1, 2))
    assert len(checkpoints) == 3
    assert planned.plan_checkpoints == tuple(checkpoints)
    assert planned.plan_fingerprint == hashed.hexdigest()


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
