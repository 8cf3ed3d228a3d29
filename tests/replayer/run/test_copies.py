"""Arrangements with copies on real tiers: what is executed is what is planned, in every tier."""

import errno
import os
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from replayer.arrangements.loading import make_arrangement
from replayer.arrangements.rules import Usable
from replayer.engine.engine import Engine
from replayer.engine.move_executor import Staging
from replayer.models.geometry import TokenBytes
from replayer.planning.executing import make_settings
from replayer.planning.pace import Demand, PlanWindow, Span
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_hash import PlanHash
from replayer.run.footprint import Footprint
from replayer.schema import LOG_COLUMNS, MOVES
from replayer.tiers.base import HostBuffer
from replayer.tiers.native import CpuTier
from replayer.tiers.payload import Payload
from replayer.tiers.request import TierRequest
from tests.replayer.arrangements.compiled_plan import gib_of
from tests.replayer.arrangements.strategies import tables
from tests.replayer.arrangements.tiers import Table
from tests.replayer.ordering import strategies
from tests.replayer.run.replays import ORDERS, WRITE_THROUGH, go, options
from tests.replayer.tiers.contract import file_tier, slab_tier
from tests.support import traces
from tests.support.fault_injection import Transfer, injected, key_of

TOKEN = 20_000  # bytes: no multiple of a sector
CHUNK = 1 << 15
PAYLOAD = Payload(7)


class Elsewhere(CpuTier):
    """A tier whose moves compiled code hands to Python, as those of a GPU."""

    is_compiled = False


class Machine:
    """Tiers of memory and a disk, and an engine that makes the moves of a plan on them."""

    def __init__(self, plan: Plan, place: Path, layout: str, window: int, *, has_gpu: bool) -> None:
        live = plan.options.order.kind == "live"
        objects = Footprint(plan, None if live else plan.simulate(), PlanWindow(window)).objects
        room = plan.workload.keys * 5 * TOKEN
        limits = [room if limit is None else limit for limit in plan.capacity]
        kinds = (Elsewhere if has_gpu else CpuTier, CpuTier)
        memory = [kind(TierRequest(limits[tier], objects[tier])) for tier, kind in enumerate(kinds)]
        disk = file_tier(place) if layout == "files" else slab_tier(place, limits[2] + (objects[2] << 12))
        self.plan, self.payload, self.tiers = plan, PAYLOAD, [*memory, disk]
        self.sizes, self.buffer = plan.workload.sizes(), HostBuffer(1 << 18)
        chosen = make_settings(plan, "full", CHUNK, PlanWindow(window), Span())
        self.engine = Engine(plan, chosen, self.tiers, self.payload, lambda _: Staging(CHUNK))

    def run(self) -> pl.DataFrame:
        """Execute the plan; return its log."""
        found, rows = list[Any](), PlanHash(self.plan.options.plan_version)

        def flush(records: Any, errors: dict[int, str], executed: Any) -> None:
            assert not errors, errors
            found.append(records.copy())
            rows.add(executed)

        self.engine.run(flush, every_s=60)
        self.fingerprint = rows.hexdigest()
        records = np.concatenate(found)
        log = pl.DataFrame({name: records[name] for name in LOG_COLUMNS if name not in ("rank", "error")})
        return log.with_columns(move=pl.Series([MOVES[move] for move in log["move"]])).sort("position", "seq")

    def holds(self, tier: int, key: int) -> bool:
        """Whether a tier has an object, whose every byte is then checked."""
        size, buffer = int(self.sizes[key]), self.buffer
        try:
            with self.tiers[tier].open(key, size) as found:
                found.read(0, size, buffer)
        except FileNotFoundError:
            return False
        assert self.payload.check(buffer.words, key, 0, size) is None
        return True

    def close(self) -> None:
        self.engine.close()
        for tier in self.tiers:
            tier.close()


def holders(log: pl.DataFrame) -> set[tuple[int, int]]:
    """(tier, key) of all copies that are left, by the log in plan order."""
    held = set[tuple[int, int]]()
    for move, key, source, target in log.select("move", "key", "from_tier", "to_tier").iter_rows():
        if move in ("demote", "promote", "drop", "delete") and source >= 0:
            held.remove((source, key))
        if target >= 0:
            assert (target, key) not in held
            held.add((target, key))
    return held


@settings(max_examples=100)
@given(
    picks=strategies.rows,
    sizes=st.lists(st.integers(1, 4), min_size=10, max_size=10),
    limits=strategies.capacities,
    headroom=strategies.headrooms,
    demand=strategies.demand,
    table=tables(),
    order=st.sampled_from(sorted(ORDERS)),
    layout=st.sampled_from(["files", "slab"]),
    window=st.integers(1, 40),
    has_gpu=st.booleans(),
)
def test_what_is_executed_is_what_is_planned(
    picks: list[Any], sizes: list[int], limits: Usable, headroom: str, demand: Demand, table: Table,
    order: str, layout: str, window: int, has_gpu: bool,
) -> None:  # fmt: skip
    """Arenas are of exactly the usable bytes and answer ENOMEM to one byte more."""
    table = {**table, "ttl_s": table.get("ttl_s", 0) / 10**6}  # the trace lasts microseconds
    chosen = PlanOptions(
        TokenBytes(TOKEN), gib_of([None if limit is None else limit * TOKEN for limit in limits]),
        headroom=Decimal(headroom), arrangement=make_arrangement("drawn", table), order=ORDERS[order], demand=demand,
    )  # fmt: skip
    plan = Plan(traces.Held(strategies.columns(picks, sizes)), chosen)
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(plan, Path(folder), layout, window, has_gpu=has_gpu)
        try:
            log = machine.run()
            assert set(log["status"]) <= {0}
            executed = machine.engine.totals()
            if order != "live":
                summary = plan.simulate()
                assert executed == type(executed)(
                    **{name: getattr(summary, name) for name in executed.__struct_fields__}
                )
                assert machine.fingerprint == summary.plan_fingerprint
            held = holders(log)
            found = {(tier, key) for tier in range(3) for key in range(plan.workload.keys) if machine.holds(tier, key)}
            assert found == held, "each tier holds what the plan leaves there, byte for byte"
        finally:
            machine.close()


def test_a_failed_copy_is_a_row_and_the_original_still_hits(tmp_path: Path) -> None:
    """Of two objects one is never written to the disk; later both are pushed out of cpu."""
    steps = [("w", 0, 2), ("w", 1, 2), ("r", 0, 2), ("r", 1, 2), ("w", 2, 4), ("r", 0, 2), ("r", 1, 2), ("x", 1, 2)]
    trace = traces.write(tmp_path / "t.parquet", traces.columns(steps))

    def pwrite(true: Transfer, descriptor: int, memory: int, size: int, offset: int) -> int:
        if key_of(descriptor) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return true(descriptor, memory, size, offset)

    with injected(pwrite=pwrite):
        info, log = go(trace, tmp_path, options(4, None, arrangement=WRITE_THROUGH), workers=2)
    rows = log.with_columns(pl.col("move", "status", "from_tier", "to_tier").cast(pl.String)).sort("position", "seq")
    found = [
        (row["move"], row["key"], row["from_tier"], row["status"])
        for row in rows.filter(pl.col("move") != "drop").iter_rows(named=True)
    ]
    assert info["status"] == "failed"
    assert info["executed"]["copies"] == {"gpu>cpu": 0, "gpu>nvme": 0, "cpu>nvme": 3}
    assert found == [
        ("store", 0, None, "ok"), ("copy", 0, "cpu", "ok"), ("store", 1, None, "ok"), ("copy", 1, "cpu", "error"),
        ("hit", 0, "cpu", "ok"), ("hit", 1, "cpu", "ok"), ("store", 2, None, "ok"), ("copy", 2, "cpu", "ok"),
        ("hit", 0, "nvme", "ok"), ("hit", 1, "nvme", "upstream"), ("delete", 1, "nvme", "upstream"),
    ]  # fmt: skip
    assert rows.filter(pl.col("move") == "drop")["status"].to_list() == ["ok", "ok"]
    assert not list((tmp_path / "cache").glob("*/*"))
