"""A run directory, read as docs/run-directory.md describes it, and the constants of the definitions."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = dict[str, Any]
Rows = list[Row]
Numbers = dict[str, Any]
"""Metrics by name."""
GIB = 2**30
TIERS = ("gpu", "cpu", "nvme")
SIDES = ("read", "write")
SOURCES = ("user", "multi_turn", "system", "common", "rag")
QOS = ("interactive", "responsive", "batch")
MOVES = {
    "hit": "hits", "store": "stores", "miss": "misses", "demote": "demotes", "promote": "promotes", "drop": "drops",
    "bypass": "bypasses", "delete": "deletes", "copy": "copies",
}  # fmt: skip


QUANTILES = {"p50": 5000, "p90": 9000, "p95": 9500, "p99": 9900, "p999": 9990, "p9999": 9999, "max": 10_000}


"""In shares of 10,000."""


CURVE = [*range(0, 10_000, 200), 9900, 9950, 9990, 9995, 9999, 10_000]
DATA = Path(__file__).parent.parent.parent / "data"
OPENED = ("request_id", "due_ns", "qos", "in_prefill")
GOLDEN_TARGETS: Numbers = {
    "qos_ms_per_gib": 100.0, "tier_gib_s": {"nvme": (6.5, 4.0), "cpu": (20.0, 15.0)},
    "tbw": 600.0, "drive_tb": 3.84,
}  # fmt: skip


@dataclass
class Facts:
    """What a run directory says: rows of all ranks on one clock, warm-up included, and what they are held against."""

    every: Rows
    token_ns: int
    warm_end_ns: int | None
    device: Rows
    ranks: int
    cores: int
    host_cores: int | None
    drain_s: float
    qos_ms: dict[str, float]
    qos_ms_per_gib: float
    tier_gib_s: dict[str, tuple[float, float]]
    tbw: float | None
    drive_tb: float | None = None
    cut_ns: int | None = None
    timed: bool = True
    workers: int = 1
    due_from_ns: int | None = None
    unfinished: Rows | None = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = [row for row in self.every if not row["warmup"]]
        self.first_ns = min((r["start_ns"] for r in self.rows), default=None)
        self.last_ns = max((r["end_ns"] for r in self.rows), default=None)
        self.span_s = (self.last_ns - self.first_ns) / 1e9 if self.rows else None
        self.elapsed_s = self.span_s
        self.window = None
        if self.rows and self.cut_ns is not None:
            begin = self.first_ns if self.warm_end_ns is None else self.warm_end_ns
            self.window = (begin, max(begin, self.cut_ns))
            self.elapsed_s = (self.window[1] - begin) / 1e9


def unfinished_of(infos: Rows, shifts: list[int]) -> Rows | None:
    """Requests that are not done; None if a run that was cut does not list them."""
    if any(info.get("unfinished") is None and (info.get("window") or {}).get("cut_s") is not None for info in infos):
        return None
    found = []
    for rank, (info, shift) in enumerate(zip(infos, shifts, strict=True)):
        listed = info.get("unfinished") or {}
        for request, due, qos, prefill in zip(*(listed.get(name, ()) for name in OPENED), strict=True):
            about = {"rank": rank, "request_id": request, "due_ns": due + shift}
            found.append(about | {"qos": QOS[qos], "in_prefill": prefill})
    return found


def read(path: Path, targets: Numbers | None = None) -> Facts:
    """A run directory as docs/run-directory.md describes it."""
    above = json.loads((path / "run.json").read_text())
    places = [path / f"rank_{rank}" for rank in range(above["ranks"])] if "ranks" in above else [path]
    infos = [json.loads((place / "run.json").read_text()) for place in places]
    zeros = [(info.get("clock") or {}).get("zero_ns") for info in infos]
    known = [zero for zero in zeros if zero is not None]
    every: Rows = []
    device: Rows = []
    warm_ends, cuts, sampled, cores, host_cores = [], [], {}, {}, {}
    for rank, (place, info, zero) in enumerate(zip(places, infos, zeros, strict=True)):
        shift = zero - known[0] if zero is not None else 0
        for part in sorted((place / "moves").glob("part-*.parquet")):
            for row in pq.read_table(part).to_pylist():
                stamps = {n: row[n] + shift for n in ("due_ns", "ready_ns", "start_ns", "end_ns")}
                older = {"position": row["op_id"], "window_ns": 0, "order_ns": 0, "waited_for": None}
                every.append(older | row | stamps | {"rank": rank})
        if (cut_s := (info.get("window") or {}).get("cut_s")) is not None:
            cuts.append(round(cut_s * 1e9) + shift)
        if (end := (info.get("warmup") or {}).get("end_ns")) is not None:
            warm_ends.append(end + shift)
        machine = info.get("machine") or {}
        cores[machine.get("host")] = machine.get("cores", 1)
        host_cores[machine.get("host")] = machine.get("host_cores")
        if (place / "device.parquet").exists():
            name = (machine.get("host"), (machine.get("storage") or {}).get("device"))
            mine = [
                row
                | {
                    "time_ns": row["time_ns"] + shift,
                    "host_cores": machine.get("host_cores") or machine.get("cores", 1),
                }
                for row in pq.read_table(place / "device.parquet").to_pylist()
            ]
            sampled.setdefault(name, {})[rank] = mine
    for ranks in sampled.values():
        longest = max(ranks, key=lambda rank: (max((row["time_ns"] for row in ranks[rank]), default=0), -rank))
        host = next(name for name, mine in sampled.items() if mine is ranks)[0]
        device += [
            row | {"rank": rank, "host": host, "shared": rank != longest}
            for rank, mine in ranks.items()
            for row in mine
        ]
    settings = {
        "qos_ms": {"interactive": 50.0, "responsive": 100.0, "batch": 1000.0}, "qos_ms_per_gib": 0.0, "tbw": None,
        "tier_gib_s": {}, "drive_tb": None,
    }  # fmt: skip
    warm_end = max(warm_ends, default=None)
    timed = infos[0]["conditions"]["pace"] != "asap"
    by_time = timed and (infos[0]["conditions"].get("warmup") or {}).get("s")
    return Facts(
        every,
        round(infos[0]["conditions"].get("token_ms", 0) * 1e6),
        warm_end,
        device,
        len(infos),
        sum(cores.values()),
        None if None in host_cores.values() else sum(host_cores.values()),
        max((info.get("window") or {}).get("drain_s", 0.0) for info in infos),
        cut_ns=min(cuts, default=None),
        timed=timed,
        due_from_ns=(10**18 if warm_end is None else warm_end) if by_time else None,
        unfinished=unfinished_of(infos, [0 if zero is None else zero - known[0] for zero in zeros]),
        workers=sum(info["conditions"]["workers"] for info in infos),
        **(settings | (targets or {})),
    )
