"""Replays of a small trace, and the log without what may differ from run to run."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from replayer.arrangements.arrangement import Arrangement, TierRules
from replayer.models.geometry import TokenBytes
from replayer.planning.order import DEFAULT_REFERENCE, Order, load_reference
from replayer.planning.plan import PlanOptions
from replayer.run.console import RunConsole
from replayer.run.replay import Replay
from replayer.schema import parts
from tests.support import traces
from tests.support.run_settings import settings as make_settings
from tracegen.errors import InputError
from tracegen.schema import Trace

MIB = 1 << 20
UNIT = 64 * 1024  # bytes per token of these tests: objects of 64 KiB and more


def gib(units: int) -> Decimal:
    return Decimal(units * UNIT) / 2**30


def options(cpu: int, nvme: int | None, **more: Any) -> PlanOptions:
    """Capacities in tokens."""
    limit = None if nvme is None else gib(nvme)
    return PlanOptions(TokenBytes(UNIT), (Decimal(0), gib(cpu), limit), headroom=Decimal(1), **more)


WRITE_THROUGH = Arrangement("test", copies="inclusive", nvme=TierRules(down="on-store"))
ORDERS = {"trace": Order(), "reference": load_reference(DEFAULT_REFERENCE), "live": Order("live")}
OF_THE_RUN = ("worker", "waited_for")  # besides times, what may differ from run to run


def the_same(log: pl.DataFrame) -> pl.DataFrame:
    """What does not differ from run to run."""
    kept = [name for name in log.columns if not name.endswith("_ns") and name not in OF_THE_RUN]
    return log.sort("position", "seq").select(kept)


def kept_files(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.glob("cache/*/*.kv")}


def go(
    trace: Trace,
    place: Path,
    plan: PlanOptions,
    *,
    run: str = "run",
    nonce: int = 0,
    console: RunConsole | None = None,
    **settings: Any,
) -> tuple[dict[str, Any], pl.DataFrame]:
    """run.json and the log; 0: a nonce of its own."""
    place.mkdir(parents=True, exist_ok=True)
    chosen = make_settings(**({"workers": 4, "cache_dir": place / "cache"} | settings))
    more: dict[str, Any] = {"nonce": nonce} if nonce else {}
    plan = replace(plan, demand=chosen.demand)
    Replay(trace, "test", plan, chosen, place / run, console=console or RunConsole(), **more).run()
    info = json.loads((place / run / "run.json").read_text())
    return info, pl.read_parquet(parts(place / run)) if info["executed_ops"] else pl.DataFrame()


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


def refused(trace: Trace, place: Path, plan: PlanOptions, **settings: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        go(trace, place, plan, **settings)
    assert not (place / "run").exists(), "refused before the run directory is made"
    return caught.value


def _many(steps: list[traces.Step]) -> traces.Columns:
    count = len(steps)
    one = traces.columns(steps[:2], [0, 0])
    batch = {name: np.repeat(column[1:], count) for name, column in one.items()}
    for name in ("op", "phase", "source"):
        batch[name][0] = one[name][0]
    batch |= {"op_id": np.arange(count), "time_ns": np.arange(count), "step": np.arange(count, dtype=np.int32)}
    return batch
