"""Runs made by hand that `analysis` calls VALID and has no doubt about; tests change one thing and see what is said."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
import polars as pl

from replayer.models.geometry import TokenBytes
from replayer.planning.counts import PlanCounts
from replayer.planning.moves import Stretch
from replayer.planning.order import Order
from replayer.planning.plan import Plan, PlanOptions
from replayer.planning.plan_hash import PlanHash
from replayer.record.run_directory import RunDirectory
from replayer.run.mpi import combine_ranks
from replayer.schema import LOG_COLUMNS, LOG_ENUMS, read_run
from tests.support.paths import ROOT
from tests.support.run_json import save_run_json
from tests.support.traces import columns, write
from tracegen.schema import Columns, Trace

PER_TOKEN = 1 << 17
TOKENS = 400
SIZE = TOKENS * PER_TOKEN
REQUESTS = 600
SECOND = 10**9
EXAMPLE = json.loads((ROOT / "tests" / "data" / "run" / "run.json").read_text())


@dataclass
class Crafted:
    """A run before it is written: change it, `settle` what follows from the change, and `save`.

    Attributes:
        rows: the log, enums as codes, -1 for none.
        samples: of device.parquet; None: there is none.
    """

    info: dict[str, Any]
    rows: dict[str, Any]
    samples: list[dict[str, Any]] | None

    def settle(self) -> "Crafted":
        """Let run.json and the counters tell of the times that the log now has."""
        rows, info = self.rows, self.info
        last_s, asked_s = float(rows["end_ns"].max()) / 1e9, info["conditions"]["duration_s"]
        cut = info["window"]["cut_s"] is not None
        info["window"] |= {
            "duration_s": asked_s, "issued_s": float(rows["start_ns"].max()) / 1e9,
            "drain_s": max(0.0, last_s - asked_s) if cut else 0.0,
        }  # fmt: skip
        steady = rows["start_ns"][~rows["warmup"]]
        info["warmup"] = {
            "ops": int(rows["position"][rows["warmup"]].max(initial=-1)) + 1,
            "end_ns": int(steady.min()) if len(steady) else None,
        }
        info["conditions"]["warmup"] = {"ops": info["warmup"]["ops"], "s": 0.0}
        self.samples = sampled(rows) if self.samples is not None else None
        return self

    def slower(self, times: float) -> "Crafted":
        """The same, everything so many times as late and long."""
        for name in [name for name in self.rows if name.endswith("_ns")]:
            self.rows[name] = (self.rows[name] * times).astype(np.int64)
        return self.settle()

    def save(self, path: Path, parts: int = 2) -> Path:
        directory = RunDirectory(path)
        for part in range(parts):
            directory.write_part({name: self.rows[name][part::parts] for name in LOG_COLUMNS})
        if self.samples is not None:
            directory.write_device(self.samples)
        save_run_json(path, self.info)
        directory.close()
        return path


def save_ranks(place: Path, runs: Sequence[Crafted]) -> Path:
    """Write the run of so many ranks."""
    for rank, run in enumerate(runs):
        run.save(place / f"rank_{rank}")
    above = combine_ranks([read_run(place / f"rank_{rank}") for rank in range(len(runs))])
    save_run_json(place, msgspec.to_builtins(above))
    return place


def sampled(rows: dict[str, Any], read: float = 1.0, written: float = 1.0) -> list[dict[str, Any]]:
    """Counters that agree with a log, a row per second, or that saw only a share of its bytes."""
    nvme, moves = LOG_ENUMS["from_tier"].index("nvme"), LOG_ENUMS["move"]
    second = rows["start_ns"] // SECOND
    found, ends = [], int(rows["end_ns"].max()) // SECOND + 1
    reads = (rows["from_tier"] == nvme) & np.isin(rows["move"], [moves.index(m) for m in ("hit", "promote", "demote")])
    for at in range(ends):
        here = second == at
        found.append({
            "time_ns": (at + 1) * SECOND, "interval_ns": SECOND, "queue": 1.0, "utilisation": 0.8, "process_cpu": 0.3,
            "system_cpu": 0.5, "read_requests": 1, "write_requests": 1,
            "read_bytes": int(rows["size_bytes"][here & reads].sum() * read),
            "written_bytes": int(rows["size_bytes"][here & (rows["to_tier"] == nvme)].sum() * written),
        })  # fmt: skip
    return found


def steps(requests: int) -> tuple[Columns, list[int]]:
    """Each request writes its object, reads the one before, and reads its own to decode."""
    ops, owner = [], []
    for i in range(requests):
        mine = [("w", i, TOKENS), *([("r", i - 1, TOKENS)] if i else []), ("d", i, TOKENS)]
        ops += mine
        owner += [i] * len(mine)
    return columns(ops, owner), owner


@cache
def _planned(requests: int, cpu_objects: int, nvme_objects: int | None, executed: int | None, ordered: bool) -> Any:
    with TemporaryDirectory() as place:
        batch, _ = steps(requests)
        written = write(Path(place) / "trace.parquet", batch, counts={"tokens_generated": len(batch["op_id"])})
        trace = Trace(written.path)
        gib = Decimal(SIZE) / 2**30
        capacity = (Decimal(0), gib * cpu_objects, None if nvme_objects is None else gib * nvme_objects)
        order = Order("run", "crafted", op_ids=np.arange(len(batch["op_id"]))) if ordered else Order()
        options = PlanOptions(TokenBytes(PER_TOKEN), capacity, headroom=Decimal(1), order=order)
        plan, hashed = Plan(trace, options), PlanHash(options.plan_version)
        whole = msgspec.to_builtins(plan.simulate().to_info())
        planner = plan.planner()
        part = next(planner.stretches(len(batch["op_id"])))
        ops = part.ops[:executed]
        counts = PlanCounts(plan.workload)
        moved = counts.list_moves(Stretch(ops, part.moves[: int(ops["moves"].sum())]))
        hashed.add(moved)
        counted = msgspec.to_builtins(counts.totals)
        of_op = np.repeat(ops["row"], ops["moves"])
        mine = {name: column[of_op].astype(np.int64) for name, column in batch.items()}
        names = ("op_id", "seq", "move", "key", "from_tier", "to_tier", "size_bytes")
        mine |= dict(zip(names, moved.T.copy(), strict=True))
        return trace, whole, counted, hashed.hexdigest(), mine


def clean(
    requests: int = REQUESTS,
    *,
    cpu_objects: int = 0,
    nvme_objects: int | None = None,
    executed: int | None = None,
    ordered: bool = False,
) -> Crafted:
    """A complete run of a trace of `steps`, planned by the replayer itself, on a device that moves 1 GiB/s.

    Args:
        requests: of the trace.
        cpu_objects: how many fit the cpu tier.
        nvme_objects: how many fit the nvme tier; None: all.
        executed: cut after so many ops.
        ordered: the plan's order is another than the trace's, though it gives the same.
    """
    trace, whole, counted, fingerprint, moved = _planned(requests, cpu_objects, nvme_objects, executed, ordered)
    count = len(moved["move"])
    at = np.arange(count) * 50_000_000 + 1000
    io = np.full(count, SIZE // 2**20 * SECOND // 1024)
    reads, writes = np.isin(moved["move"], [0, 3, 4]) * io, np.isin(moved["move"], [1, 3]) * io
    rows = {name: moved[name] for name in LOG_COLUMNS[2:11]} | {
        **{name: moved[name] for name in ("op_id", "seq", "key", "size_bytes", "move", "from_tier", "to_tier")},
        "position": moved["op_id"], "tokens": np.full(count, TOKENS),
        "new_tokens": np.where(moved["seq"] == 0, moved["new_tokens"], 0),
        "status": np.zeros(count, np.int64), "due_ns": at, "ready_ns": at + 1000, "start_ns": at + 2000,
        "end_ns": at + 2000 + reads + writes, "read_ns": reads, "write_ns": writes, "device_read_ns": reads * 9 // 10,
        "device_write_ns": writes * 9 // 10, "verify_ns": reads // 100 + writes // 100, "worker": np.arange(count) % 4,
        "rank": np.zeros(count, np.int64), "warmup": np.zeros(count, bool), "error": np.full(count, None),
        "window_ns": np.zeros(count, np.int64), "order_ns": np.zeros(count, np.int64), "waited_for": np.full(count, -1),
    }  # fmt: skip
    info = deepcopy(EXAMPLE)
    info["trace"] |= {
        "ops": trace.ops,
        "fingerprint": trace.metadata.fingerprint,
        "counts": dict(trace.metadata.counts),
    }
    info["conditions"] |= {
        "bytes_per_token": PER_TOKEN, "workers": 4, "pace": "closed", "headroom": "1.0",
        "usable_bytes": {"gpu": 0, "cpu": cpu_objects * SIZE, "nvme": nvme_objects and nvme_objects * SIZE},
    }  # fmt: skip
    info |= {
        "plan": deepcopy(whole), "executed": deepcopy(counted), "executed_fingerprint": fingerprint,
        "executed_ops": trace.ops if executed is None else executed, "warnings": [], "payload_nonce": "7" * 16,
        "machine": info["machine"]
        | {"cores": 16, "host_cores": 16, "storage": info["machine"]["storage"] | {"mount_point": "/mnt/nvme"}},
    }  # fmt: skip
    if executed is not None:
        asked_s = float(rows["start_ns"].max()) / 1e9
        info["conditions"]["duration_s"] = asked_s
        info["window"] |= {"cut_s": asked_s}
    info["unfinished"] = {"request_id": [], "qos": [], "due_ns": [], "in_prefill": []}
    return Crafted(info, rows, []).settle()


def frame(run: Path) -> pl.DataFrame:
    """The log of a run that was saved, as one table."""
    return pl.read_parquet(sorted((run / "moves").glob("*.parquet")))
