"""A run directory, read as docs/run-directory.md describes it, with what the definitions say of a row."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from polars import col

Row = dict[str, Any]
Rows = list[Row]
Numbers = dict[str, Any]
"""Metrics by name."""
GIB = 2**30
TIERS = ("gpu", "cpu", "nvme")
SIDES = ("read", "write")
SOURCES = ("user", "multi_turn", "system", "common", "rag")
QOS = ("interactive", "responsive", "batch")
CAUSES = ("data", "eviction", "room", "order", "window")
WORDS = ("qos", "phase", "op", "source", "move", "status", "from_tier", "to_tier", "waited_for")
MOVES = {
    "hit": "hits", "store": "stores", "miss": "misses", "demote": "demotes", "promote": "promotes", "drop": "drops",
    "bypass": "bypasses", "delete": "deletes", "copy": "copies",
}  # fmt: skip
DATA = Path(__file__).parent.parent.parent / "data"
GOLDEN_TARGETS: Numbers = {
    "tier_gib_s": {"nvme": (6.5, 4.0), "cpu": (20.0, 15.0)},
    "tbw": 600.0, "drive_tb": 3.84,
}  # fmt: skip
DEFAULTS: Numbers = {
    "qos_ms": {"interactive": 50.0, "responsive": 100.0, "batch": 1000.0}, "tbw": None,
    "tier_gib_s": {}, "drive_tb": None,
}  # fmt: skip


def is_move(*kinds: str) -> pl.Expr:
    return col("move").is_in(kinds)


IS_OK = col("status") == "ok"
SAID = {
    "is_ok": IS_OK,
    "is_hit": IS_OK & is_move("hit", "promote"),
    "is_read": is_move("hit", "promote", "miss"),
    "is_first_touch": (col("op") == "write") & is_move("store", "bypass"),
    "is_for_others": is_move("demote", "drop", "copy"),
    "read_tier": pl.when(IS_OK & is_move("hit", "promote", "demote", "copy")).then("from_tier"),
    "write_tier": pl.when(IS_OK & is_move("store", "demote", "copy")).then("to_tier"),
    "cause": col("move").replace_strict({"demote": "eviction", "copy": "copy"}, default="foreground"),
    "io_ns": col("end_ns") - col("start_ns"),
    "queue_ns": col("start_ns") - col("ready_ns"),
    "plan_ns": col("ready_ns") - col("due_ns"),
    "work_ns": col("read_ns") + col("write_ns"),
    "device_ns": col("device_read_ns") + col("device_write_ns"),
}
"""What the definitions say of a row; `read_tier` and `write_tier` are null unless the move touched one."""


def frame(rows: Rows) -> pl.DataFrame:
    return pl.DataFrame(rows, schema_overrides=dict.fromkeys(WORDS, pl.String), infer_schema_length=None)


@dataclass
class Facts:
    """What a run directory says: rows of all ranks on one clock, warm-up included, and what they are held against."""

    every: pl.DataFrame
    token_ns: int = 0
    warm_end_ns: int | None = None
    device: pl.DataFrame | None = None
    cores: int = 1
    host_cores: int | None = 1
    drain_s: float = 0.0
    cut_ns: int | None = None
    timed: bool = True
    workers: int = 1
    due_from_ns: int | None = None
    unfinished: Rows | None = None
    targets: Numbers | None = None

    def __post_init__(self) -> None:
        waits = {cause: pl.when(col("waited_for") == cause).then(col("left")).otherwise(0) for cause in CAUSES[:3]}
        waits |= {cause: col(f"{cause}_ns") for cause in CAUSES[3:]}
        said = self.every.with_columns(**SAID).with_columns(left=col("plan_ns") - col("window_ns") - col("order_ns"))
        self.every = said.with_columns(**{f"{cause}_wait_ns": wait for cause, wait in waits.items()})
        self.held = DEFAULTS | (self.targets or {})
        self.rows = self.every.filter(~col("warmup"))
        self.first_ns, self.last_ns = self.rows["start_ns"].min(), self.rows["end_ns"].max()
        self.span = (self.first_ns or 0, self.last_ns or 0)
        self.window = self.span
        if len(self.rows) and self.cut_ns is not None:
            begin = self.first_ns if self.warm_end_ns is None else self.warm_end_ns
            self.window = (begin, max(begin, self.cut_ns))
        self.elapsed_s = (self.window[1] - self.window[0]) / 1e9 if len(self.rows) else None

    @cached_property
    def rated(self) -> pl.DataFrame:
        """The rows that rates count, with the share of each: of a cut run all, by their part in the window."""
        if self.cut_ns is None or not len(self.rows):
            return self.rows.with_columns(share=pl.lit(1))
        return self.every.with_columns(share=share_in(self.every, *self.window))

    def weigh(self, name: str, where: pl.Expr | None = None) -> float:
        rows = self.rated if where is None else self.rated.filter(where)
        return float((rows[name] * rows["share"]).sum())


def share_in(rows: pl.DataFrame, begin: int, end: int) -> np.ndarray:
    """Which part of each move lies in a span."""
    starts, ends, io_ns = rows.select("start_ns", "end_ns", "io_ns").to_numpy().T
    inside = np.clip(np.minimum(ends, end) - np.maximum(starts, begin), 0, None)
    return np.where(io_ns > 0, inside / np.maximum(io_ns, 1), (begin <= starts) & (starts <= end))


def read(path: Path, targets: Numbers | None = None) -> Facts:
    """A run directory as docs/run-directory.md describes it."""
    above = json.loads((path / "run.json").read_text())
    places = [path / f"rank_{rank}" for rank in range(above["ranks"])] if "ranks" in above else [path]
    infos = [json.loads((place / "run.json").read_text()) for place in places]
    zeros = [(info.get("clock") or {}).get("zero_ns") for info in infos]
    first = next((zero for zero in zeros if zero is not None), 0)
    shifts = [0 if zero is None else zero - first for zero in zeros]
    machines = [info.get("machine") or {} for info in infos]
    windows = [info.get("window") or {} for info in infos]
    ranks = list(zip(range(len(places)), places, shifts, machines, strict=True))
    stamps = col("due_ns", "ready_ns", "start_ns", "end_ns")
    every = [
        pl.read_parquet(part).with_columns(stamps + shift, col(WORDS).cast(pl.String), rank=pl.lit(rank))
        for rank, place, shift, _ in ranks
        for part in sorted((place / "moves").glob("part-*.parquet"))
    ]
    warm_ends = [(info.get("warmup") or {}).get("end_ns") for info in infos]
    warm_end = max((end + shift for end, shift in zip(warm_ends, shifts, strict=True) if end is not None), default=None)
    cuts = [(window.get("cut_s"), shift) for window, shift in zip(windows, shifts, strict=True)]
    conditions = infos[0]["conditions"]
    timed = conditions["pace"] != "asap"
    by_time = timed and (conditions.get("warmup") or {}).get("s")
    host_cores = {machine.get("host"): machine.get("host_cores") for machine in machines}
    return Facts(
        pl.concat(every),
        round(conditions.get("token_ms", 0) * 1e6),
        warm_end,
        sample(ranks),
        cores=sum({machine.get("host"): machine.get("cores", 1) for machine in machines}.values()),
        host_cores=None if None in host_cores.values() else sum(host_cores.values()),
        drain_s=max(window.get("drain_s", 0.0) for window in windows),
        cut_ns=min((round(cut_s * 1e9) + shift for cut_s, shift in cuts if cut_s is not None), default=None),
        timed=timed,
        due_from_ns=(10**18 if warm_end is None else warm_end) if by_time else None,
        unfinished=unfinished_of(infos, shifts),
        workers=sum(info["conditions"]["workers"] for info in infos),
        targets=targets,
    )


def sample(ranks: list[tuple[int, Path, int, Row]]) -> pl.DataFrame | None:
    """The samples of all ranks; of those on one device of a host, all but the one that lasted longest are `shared`."""
    found, longest = [], {}
    for rank, place, shift, machine in ranks:
        if (place / "device.parquet").exists():
            name = (machine.get("host"), (machine.get("storage") or {}).get("device"))
            about = {"rank": rank, "host": machine.get("host") or "", "device": str(name)}
            about["host_cores"] = machine.get("host_cores") or machine.get("cores", 1)
            own = pl.read_parquet(place / "device.parquet")
            found.append(own.with_columns(col("time_ns") + shift, **{key: pl.lit(one) for key, one in about.items()}))
            last = (found[-1]["time_ns"].max() or 0, -rank)
            longest[str(name)] = max(last, longest.get(str(name), last))
    if not found:
        return None
    lasting = {name: -rank for name, (_, rank) in longest.items()}
    return pl.concat(found).with_columns(shared=col("rank") != col("device").replace_strict(lasting))


def unfinished_of(infos: Rows, shifts: list[int]) -> Rows | None:
    """Requests that are not done; None if a run that was cut does not list them."""
    if any(info.get("unfinished") is None and (info.get("window") or {}).get("cut_s") is not None for info in infos):
        return None
    found = []
    for rank, (info, shift) in enumerate(zip(infos, shifts, strict=True)):
        listed = info.get("unfinished") or {}
        columns = [listed.get(name, ()) for name in ("request_id", "due_ns", "qos", "in_prefill")]
        for request, due, qos, prefill in zip(*columns, strict=True):
            about = {"rank": rank, "request_id": request, "due_ns": due + shift}
            found.append(about | {"qos": QOS[qos], "in_prefill": prefill})
    return found
