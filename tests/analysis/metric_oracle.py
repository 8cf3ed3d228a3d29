"""Every number of analysis in plain Python: no Polars, no NumPy, nothing of `analysis`; from the definitions alone.

`python -m tests.analysis.metric_oracle` writes the golden answers for tests/data/run to tests/data/golden, a Parquet file per table.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Dict = dict[str, Any]
Rows = list[Dict]

GIB = 2**30
TIERS = ("gpu", "cpu", "nvme")
SIDES = ("read", "write")
SOURCES = ("user", "multi_turn", "system", "common", "rag")
QOS = ("interactive", "responsive", "batch")
MOVES = {
    "hit": "hits", "store": "stores", "miss": "misses", "demote": "demotes", "promote": "promotes", "drop": "drops",
    "bypass": "bypasses", "delete": "deletes",
}  # fmt: skip
QUANTILES = {"p50": 5000, "p90": 9000, "p95": 9500, "p99": 9900, "p999": 9990, "p9999": 9999, "max": 10_000}
"""In shares of 10,000."""
CURVE = [*range(0, 10_000, 200), 9900, 9950, 9990, 9995, 9999, 10_000]

DATA = Path(__file__).parent.parent / "data"
GOLDEN_TARGETS: Dict = {
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


def read(path: Path, targets: Dict | None = None) -> Facts:
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
    return Facts(
        every,
        round(infos[0]["conditions"].get("token_ms", 0) * 1e6),
        max(warm_ends, default=None),
        device,
        len(infos),
        sum(cores.values()),
        None if None in host_cores.values() else sum(host_cores.values()),
        max((info.get("window") or {}).get("drain_s", 0.0) for info in infos),
        cut_ns=min(cuts, default=None),
        timed=infos[0]["conditions"]["pace"] != "asap",
        workers=sum(info["conditions"]["workers"] for info in infos),
        **(settings | (targets or {})),
    )


# Arithmetic


def ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if whole and part is not None else None


def quantile(values: Iterable[int], share: int) -> float | None:
    """Linear interpolation between order statistics, at share / 10,000 × (n − 1), in whole numbers."""
    ordered = sorted(values)
    if not ordered:
        return None
    low, rest = divmod(share * (len(ordered) - 1), 10_000)
    return ordered[low] + ((ordered[low + 1] - ordered[low]) * rest / 10_000 if rest else 0)


def stats_ms(values: list[int]) -> Dict:
    """mean, p50 … max of ns, in ms."""
    found = {"mean": ratio(sum(values), len(values))} | {name: quantile(values, q) for name, q in QUANTILES.items()}
    return {name: None if value is None else value / 1e6 for name, value in found.items()}


def spread(values: list[int], name: str) -> Dict:
    return {f"{name}_{stat}_ms": value for stat, value in stats_ms(values).items()}


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """How long at least one of them lasts."""
    covered, reached = 0, None
    for start, end in sorted(intervals):
        begin = start if reached is None else max(start, reached)
        covered += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return covered


def size_of(rows: Iterable[Dict]) -> int:
    return sum(row["size_bytes"] for row in rows)


def total(rows: Iterable[Dict], *names: str) -> int:
    return sum(row[name] for row in rows for name in names)


def grouped(rows: Iterable[Dict], key: Callable[[Dict], Any]) -> dict[Any, Rows]:
    groups: dict[Any, Rows] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


# What rows are


def is_ok(row: Dict) -> bool:
    return row["status"] == "ok"


def touches(row: Dict, side: str, tier: str | None = None) -> bool:
    """Whether a move read or wrote the tier, or any."""
    if side == "read":
        name, moves = row["from_tier"], ("hit", "promote", "demote")
    else:
        name, moves = row["to_tier"], ("store", "demote")
    return is_ok(row) and row["move"] in moves and (name is not None if tier is None else name == tier)


def tier_of(row: Dict, side: str) -> str:
    return str(row["from_tier"] if side == "read" else row["to_tier"])


def on_nvme(row: Dict) -> bool:
    return touches(row, "read", "nvme") or touches(row, "write", "nvme")


def is_hit(row: Dict) -> bool:
    return is_ok(row) and row["move"] in ("hit", "promote")


def is_read(row: Dict) -> bool:
    return row["move"] in ("hit", "promote", "miss")


def is_eviction(row: Dict) -> bool:
    return row["move"] in ("demote", "drop")


def io_ns(row: Dict) -> int:
    return int(row["end_ns"] - row["start_ns"])


def queue_ns(row: Dict) -> int:
    return int(row["start_ns"] - row["ready_ns"])


def planned_ns(row: Dict) -> int:
    return int(row["ready_ns"] - row["due_ns"])


def waited_ns(row: Dict, cause: str) -> int:
    if cause in ("window", "order"):
        return int(row[f"{cause}_ns"])
    return planned_ns(row) - int(row["window_ns"]) - int(row["order_ns"]) if row["waited_for"] == cause else 0


CAUSES = ("data", "eviction", "room", "order", "window")


def share_in(row: Dict, begin: int, end: int) -> float:
    """Which part of a move lies in a span."""
    if io_ns(row):
        return max(0, min(row["end_ns"], end) - max(row["start_ns"], begin)) / io_ns(row)
    return float(begin <= row["start_ns"] <= end)


def weighted(facts: Facts, *names: str, which: Callable[[Dict], bool] = lambda row: True) -> float:
    """What rates count of columns: all of them, of a cut run by the share of each move inside the window."""
    if facts.window is None:
        return total(filter(which, facts.rows), *names)
    return sum(share_in(row, *facts.window) * row[name] for row in facts.every if which(row) for name in names)


def weighted_io_ns(facts: Facts) -> float:
    if facts.window is None:
        return sum(map(io_ns, facts.rows))
    return sum(share_in(row, *facts.window) * io_ns(row) for row in facts.every)


def size_class(size: int) -> int:
    n = 0
    while 4 ** (n + 1) <= size:
        n += 1
    return n


def class_name(n: int) -> str:
    low, unit = 4**n, 0
    while low >= 1024:
        low, unit = low // 1024, unit + 1
    return f"{low} {['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}"


# Requests


@dataclass
class Request:
    """A request's own rows; `caused` are the evictions it made for others."""

    own: Rows
    caused: Rows

    def first(self, name: str) -> int:
        return min(row[name] for row in self.own)

    def union_ns(self, since: str) -> int:
        """How long since … end of any of its moves lasts."""
        return union_ns((row[since], row["end_ns"]) for row in self.own)

    def plan_wait_ns(self) -> int:
        return self.union_ns("due_ns") - self.union_ns("ready_ns")

    def cause_ns(self, cause: str) -> int:
        """The part of its plan wait that its moves' waits for a cause have in all their plan waits, in whole ns."""
        whole = sum(planned_ns(row) for row in self.own)
        mine = sum(waited_ns(row, cause) for row in self.own)
        return round(self.plan_wait_ns() * (mine / whole)) if whole else 0

    def generation_ns(self, token_ns: int) -> int:
        """new_tokens stand on an op's first row, which may be an eviction."""
        return total(self.own + self.caused, "new_tokens") * token_ns

    def done_ns(self, token_ns: int) -> int:
        """An op's generation begins when its last row has ended; the last op to be done with it ends the request."""
        tokens = {op: total(rows, "new_tokens") for op, rows in grouped(self.own + self.caused, _op).items()}
        ends = {op: max(row["end_ns"] for row in rows) for op, rows in grouped(self.own, _op).items()}
        return max(end + tokens[op] * token_ns for op, end in ends.items())

    def ttfb_ns(self) -> int | None:
        ends = [row["end_ns"] for row in self.own if row["phase"] == "prefill"]
        return max(ends) - self.first("due_ns") if ends else None

    def prefill_bytes(self) -> int:
        """Moved before the first token: rows of misses and bypasses name an object and move nothing."""
        return size_of(
            row
            for row in self.own
            if row["phase"] == "prefill" and is_ok(row) and row["move"] in ("hit", "promote", "store")
        )

    @property
    def qos(self) -> str:
        return str(self.own[0]["qos"])


def _op(row: Dict) -> int:
    return int(row["op_id"])


def requests_of(facts: Facts) -> list[Request]:
    groups = grouped(facts.rows, lambda row: (row["rank"], row["request_id"]))
    found = [
        Request([r for r in rows if not is_eviction(r)], [r for r in rows if is_eviction(r)])
        for rows in groups.values()
    ]
    return [request for request in found if request.own]


def measures(facts: Facts, requests: list[Request]) -> dict[str, list[int]]:
    timed = {
        "io": [one.union_ns("start_ns") for one in requests],
        "queue": [one.union_ns("ready_ns") - one.union_ns("start_ns") for one in requests],
        "plan_wait": [one.plan_wait_ns() for one in requests],
        "lateness": [one.first("start_ns") - one.first("due_ns") for one in requests],
        "ttfb": [ttfb for one in requests if (ttfb := one.ttfb_ns()) is not None],
        "generation": [one.generation_ns(facts.token_ns) for one in requests],
        "e2e": [one.done_ns(facts.token_ns) - one.first("due_ns") for one in requests],
    }
    return {name: values if facts.timed or name == "generation" else [] for name, values in timed.items()}


# Metrics, in the order of `analysis metrics`


def throughput(facts: Facts) -> Dict:
    tokens, io_s = weighted(facts, "new_tokens"), weighted_io_ns(facts) / 1e9
    return {
        "tokens_generated": total(facts.rows, "new_tokens"),
        "elapsed_s": facts.elapsed_s,
        "storage_io_s": io_s,
        "wall_clock_tok_s": ratio(tokens, facts.elapsed_s),
        "requests_per_s": ratio(begun(facts), facts.elapsed_s),
        "storage_tok_s": ratio(tokens, io_s),
        "cache_io_tokens_per_sec": ratio(tokens, io_s),
        "mean_inflight": ratio(io_s, facts.elapsed_s),
        "drained_bytes": sum(
            drained(facts, row) * row["size_bytes"] for row in facts.every for side in SIDES if touches(row, side)
        ),
        "drained_tokens": sum(drained(facts, row) * row["new_tokens"] for row in facts.every),
    }


def begun(facts: Facts) -> int:
    begin, end = facts.window or (facts.first_ns, facts.last_ns)
    return sum(begin <= one.first("start_ns") <= end for one in requests_of(facts))


def drained(facts: Facts, row: Dict) -> float:
    """Which part of a move lies after the cut."""
    after = facts.window is not None and facts.last_ns > facts.cut_ns
    return share_in(row, facts.cut_ns, facts.last_ns) if after else 0.0


def steady(facts: Facts) -> Dict:
    sums = dict.fromkeys(
        ("steady_tok_s", "steady_decode_read_gib_s", "steady_nvme_read_gib_s", "steady_nvme_write_gib_s"), 0.0
    )
    if not facts.rows:
        return dict.fromkeys(("steady_s", *sums))
    begin = facts.first_ns if facts.warm_end_ns is None else facts.warm_end_ns
    end = max(row["start_ns"] for row in facts.rows)
    begin, end = facts.window or (begin, end)
    for row in facts.every:
        share = share_in(row, begin, end)
        sums["steady_tok_s"] += row["new_tokens"] * share
        if is_hit(row) and row["phase"] == "decode":
            sums["steady_decode_read_gib_s"] += row["size_bytes"] * share / GIB
        for side in ("read", "write"):
            if touches(row, side, "nvme"):
                sums[f"steady_nvme_{side}_gib_s"] += row["size_bytes"] * share / GIB
    seconds = (end - begin) / 1e9
    return {"steady_s": seconds, **{name: ratio(value, seconds) for name, value in sums.items()}}


def data(facts: Facts) -> Dict:
    decode = [row for row in facts.rows if is_hit(row) and row["phase"] == "decode"]
    stores = [row for row in facts.rows if is_ok(row) and row["move"] == "store"]
    nvme = [row for row in facts.rows if on_nvme(row)]
    decoded = weighted(facts, "size_bytes", which=lambda row: is_hit(row) and row["phase"] == "decode")
    found = {
        "decode_read_bytes": size_of(decode),
        "decode_read_gib_s": ratio(decoded / GIB, facts.elapsed_s),
        "prefill_write_bytes": size_of(stores),
        "nvme_tokens_processed": total(nvme, "tokens"),
        "nvme_tok_s": ratio(weighted(facts, "tokens", which=on_nvme), facts.elapsed_s),
    }
    for tier in TIERS:
        found[f"{tier}_decode_read_bytes"] = size_of(row for row in decode if row["from_tier"] == tier)
        found[f"{tier}_prefill_write_bytes"] = size_of(row for row in stores if row["to_tier"] == tier)
    return found


def hit_rate(facts: Facts) -> Dict:
    hits, reads = [r for r in facts.rows if is_hit(r)], [r for r in facts.rows if is_read(r)]
    writes = [r for r in facts.rows if is_first_touch(r)]
    reuse_hits, reuse_reads = ([r for r in group if r["source"] != "user"] for group in (hits, reads))
    found = {}
    for name, part, whole in (
        ("hit_rate", hits, reads),
        ("hit_rate_reuse", reuse_hits, reuse_reads),
        ("hit_rate_refs", hits, reads + writes),
    ):
        found[name] = ratio(len(part), len(whole))
        found[f"{name}_tokens"] = ratio(total(part, "tokens"), total(whole, "tokens"))
    for source in SOURCES:
        mine = [[r for r in group if r["source"] == source] for group in (hits, reads)]
        found[f"{source}_hit_rate"] = ratio(len(mine[0]), len(mine[1]))
    for tier in TIERS:
        found[f"{tier}_hit_rate"] = ratio(sum(r["from_tier"] == tier for r in hits), len(reads))
        found[f"{tier}_hit_rate_reuse"] = ratio(sum(r["from_tier"] == tier for r in reuse_hits), len(reuse_reads))
    rates = [sum(map(is_hit, group)) / len(group) for group in grouped(reads, _request).values()]
    return found | {"hit_rate_requests": ratio(sum(rates), len(rates))} | prompts(facts)


def is_first_touch(row: Dict) -> bool:
    return row["op"] == "write" and row["move"] in ("store", "bypass")


def prompts(facts: Facts) -> Dict:
    """What prompts consist of, a document's ingestion being none, and what of it the cache had."""
    asked = [r for r in facts.rows if r["phase"] == "prefill" and (is_read(r) or is_first_touch(r))]
    asked = [r for r in asked if is_read(r) or r["source"] != "rag"]
    fresh = [r for r in asked if is_first_touch(r)]
    had = [r for r in asked if is_hit(r)]
    sessions = grouped(asked, lambda row: (row["rank"], row["session_id"]))
    rates = [
        total(filter(is_hit, rows), "tokens") / whole for rows in sessions.values() if (whole := total(rows, "tokens"))
    ]
    return {
        "prompt_tokens": total(asked, "tokens"),
        "compulsory_misses": len(fresh),
        "compulsory_tokens": total(fresh, "tokens"),
        "hit_rate_prompt": ratio(len(had), len(asked)),
        "hit_rate_prompt_tokens": ratio(total(had, "tokens"), total(asked, "tokens")),
        "hit_rate_sessions": ratio(sum(rates), len(rates)),
        "hit_rate_sessions_p5": quantile(rates, 500),
        "hit_rate_sessions_p50": quantile(rates, 5000),
    }


def contents(facts: Facts) -> Dict:
    found: Dict = {}
    objects: dict[str, int] = {}
    for tier in TIERS:
        ok = [row for row in facts.every if is_ok(row)]
        entered = [row for row in ok if row["to_tier"] == tier and row["move"] in ("store", "demote")]
        kinds = ("demote", "drop", "promote", "delete")
        gone = [row for row in ok if row["from_tier"] == tier and row["move"] in kinds]
        objects[tier] = len(entered) - len(gone)
        found[f"{tier}_left_objects"] = objects[tier]
        found[f"{tier}_left_bytes"] = size_of(entered) - size_of(gone)
    every = sum(objects.values())
    return found | {f"{tier}_left_share": objects[tier] / every if every > 0 else None for tier in TIERS}


def _request(row: Dict) -> tuple[int, int]:
    return row["rank"], row["request_id"]


def moves(facts: Facts) -> Dict:
    rows = facts.rows
    found: Dict = {name: sum(row["move"] == move for row in rows) for move, name in MOVES.items()}
    for tier in TIERS:
        found[f"{tier}_hits"] = sum(is_hit(row) and row["from_tier"] == tier for row in rows)
        for side in SIDES:
            mine = [row for row in rows if touches(row, side, tier)]
            found |= {f"{tier}_{side}s": len(mine), f"{tier}_{side}_bytes": size_of(mine)}
    read, written = (size_of(row for row in rows if touches(row, side)) for side in SIDES)
    gone = [row for row in rows if row["move"] == "miss" or (row["move"] == "bypass" and row["seq"] == 0)]
    return found | {
        "logged_ops": sum(row["seq"] == 0 for row in rows),
        "evictions": sum(map(is_eviction, rows)),
        "read_write_ratio": ratio(read, written),
        "recomputed_tokens": total(gone, "tokens"),
        "failed_moves": sum(row["status"] == "error" for row in rows),
        "upstream_moves": sum(row["status"] == "upstream" for row in rows),
    }


def clocks(row: Dict, side: str) -> dict[str, int]:
    whole, device = row[f"{side}_ns"], row[f"device_{side}_ns"]
    return {"total": whole, "device": device, "host": max(0, whole - device), "queue": queue_ns(row)}


def latency(facts: Facts) -> Dict:
    found: Dict = {}
    for tier in TIERS:
        for side in SIDES:
            mine, name = [row for row in facts.rows if touches(row, side, tier)], f"{tier}_{side}"
            found |= spread([clocks(row, side)["total"] for row in mine], name)
            for clock in ("device", "host", "queue"):
                found |= spread([clocks(row, side)[clock] for row in mine], f"{name}_{clock}")
            found |= spread([row[f"{side}_ns"] for row in mine if row["move"] != "demote"], f"{name}_foreground")
            found |= spread([row[f"{side}_ns"] for row in mine if row["move"] == "demote"], f"{name}_eviction")
    return found


def bandwidth(facts: Facts) -> Dict:
    found: Dict = {}
    for tier in TIERS:
        for side, able in zip(SIDES, facts.tier_gib_s.get(tier, (None, None)), strict=True):
            mine, name = [row for row in facts.rows if touches(row, side, tier)], f"{tier}_{side}"
            gib = size_of(mine) / GIB
            busy = ratio(gib, union_ns((row["start_ns"], row["end_ns"]) for row in mine) / 1e9)
            rated = weighted(facts, "size_bytes", which=lambda row, s=side, t=tier: touches(row, s, t)) / GIB
            found[f"{name}_gib_s"] = ratio(rated, facts.elapsed_s)
            found[f"{name}_io_gib_s"] = ratio(gib, total(mine, f"{side}_ns") / 1e9)
            found[f"{name}_busy_gib_s"] = busy
            found[f"{name}_best10_gib_s"] = best10(facts, mine)
            found[f"{name}_efficiency"] = ratio(busy, able)
    return found


def best10(facts: Facts, rows: Rows) -> float | None:
    """Of ten whole seconds since the first start; null in runs below 10 s, and where there is no such move."""
    if not rows or facts.span_s < 10:
        return None
    seconds: dict[int, int] = defaultdict(int)
    for row in rows:
        seconds[(row["end_ns"] - facts.first_ns) // 10**9] += row["size_bytes"]
    windows = (sum(seconds[second] for second in range(begin, begin + 10)) for begin in range(max(seconds) + 1))
    return max(windows) / GIB / 10


def waits(facts: Facts) -> Dict:
    requests = requests_of(facts)
    found: Dict = {"requests": len(requests)}
    for name, values in measures(facts, requests).items():
        found |= spread(values, name)
    e2e = sum(measures(facts, requests)["e2e"])
    for cause in CAUSES:
        part = sum(one.cause_ns(cause) for one in requests)
        found[f"{cause}_wait_mean_ms"] = ratio(part / 1e6, len(requests)) if facts.timed else None
        found[f"{cause}_wait_share"] = ratio(part, e2e)
    means = [found[f"{name}_mean_ms"] for name in ("e2e", "io", "queue", "plan_wait", "generation")]
    return found | {"other_mean_ms": None if means[0] is None else means[0] - sum(means[1:])}


def qos(facts: Facts) -> Dict:
    found: Dict = {}
    for name in QOS:
        mine = [one for one in requests_of(facts) if one.qos == name]
        timed = [(one, ttfb) for one in mine if facts.timed and (ttfb := one.ttfb_ns()) is not None]
        kept = [
            ttfb / 1e6 <= facts.qos_ms[name] + facts.qos_ms_per_gib * one.prefill_bytes() / GIB for one, ttfb in timed
        ]
        share = ratio(sum(kept), len(kept))
        found |= {
            f"{name}_requests": len(mine),
            f"{name}_ttfb_p95_ms": spread([ttfb for _, ttfb in timed], "x")["x_p95_ms"],
            f"{name}_compliance": share,
            f"{name}_kept": None if share is None else int(share >= 0.95),
        }
    return found


def device_ns(row: Dict) -> int:
    return int(row["device_read_ns"] + row["device_write_ns"])


def time_spent(facts: Facts) -> Dict:
    rows = facts.rows
    work, inside = total(rows, "read_ns", "write_ns"), sum(map(device_ns, rows))
    found = {
        "idle_s": idle_s(facts),
        "plan_wait_s": sum(row["ready_ns"] - row["due_ns"] for row in rows) / 1e9,
        "queue_s": sum(map(queue_ns, rows)) / 1e9,
        **{f"{cause}_wait_s": sum(waited_ns(row, cause) for row in rows) / 1e9 for cause in CAUSES},
        "device_s": inside / 1e9,
        "host_s": max(0, work - inside) / 1e9,
        "verify_s": total(rows, "verify_ns") / 1e9,
    }
    for side in SIDES:
        mine = [row for row in rows if touches(row, side, "nvme")]
        found[f"nvme_device_{side}_s"] = total(mine, f"device_{side}_ns") / 1e9
    return found | {"bottleneck": bottleneck(facts, found["idle_s"])}


def idle_s(facts: Facts) -> float:
    """Of the time between the first start and the last end, what lies outside due … end of every move."""
    if not facts.rows:
        return 0.0
    inside = union_ns((max(row["due_ns"], facts.first_ns), row["end_ns"]) for row in facts.rows)
    return (facts.last_ns - facts.first_ns - inside) / 1e9


def bottleneck(facts: Facts, idle: float) -> str:
    if facts.rows and idle > facts.span_s / 2:
        return "source"
    counted, held = device(facts), held_by(facts)
    starved = (counted["system_cpu_share"] or 0) >= 0.9 and held in ("queue", "host")
    return "cpu" if (counted["cpu_share"] or 0) >= 0.9 or starved else held


def held_by(facts: Facts) -> str:
    rows = [(row, 1.0) for row in facts.rows]
    if facts.window is not None:
        rows = [(row, share_in(row, *facts.window)) for row in facts.every]
    work, inside = (sum(of(row) * weight for row, weight in rows) for of in (worked_ns, device_ns))
    verify = sum(row["verify_ns"] * weight for row, weight in rows)
    waits = {cause: sum(waited_ns(row, cause) * weight for row, weight in rows) for cause in CAUSES}
    waits["queue"] = sum(queue_ns(row) * weight for row, weight in rows)
    known = sum(waits[cause] for cause in CAUSES)
    waits["plan"] = sum(planned_ns(row) * weight for row, weight in rows) - known
    busy = weighted_io_ns(facts) + verify
    if busy >= 0.8 * facts.workers * (facts.elapsed_s or 0) * 1e9 or busy >= sum(waits.values()):
        spent = {"device": inside, "host": max(0, work - inside), "verify": verify}
        return max(spent, key=lambda name: spent[name])
    return max(waits, key=lambda name: waits[name])


def worked_ns(row: Dict) -> int:
    return int(row["read_ns"] + row["write_ns"])


def break_even(facts: Facts) -> Dict:
    found = {}
    for tier in TIERS:
        hits = [row for row in facts.rows if is_hit(row) and row["from_tier"] == tier]
        found[f"{tier}_break_even_tok_s"] = ratio(total(hits, "tokens"), total(hits, "read_ns") / 1e9)
    return found


def amplification(facts: Facts) -> Dict:
    read, written = (size_of(row for row in facts.rows if touches(row, side)) for side in SIDES)
    hits = size_of(row for row in facts.rows if is_hit(row))
    stored = size_of(row for row in facts.rows if is_ok(row) and row["move"] == "store")
    nvme = size_of(row for row in facts.rows if touches(row, "write", "nvme"))
    written_s = weighted(facts, "size_bytes", which=lambda row: touches(row, "write", "nvme"))
    per_day = ratio(written_s * 86_400, facts.elapsed_s)
    return {
        "read_amplification": ratio(
            total((row for row in facts.rows if touches(row, "read", "nvme")), "tokens"),
            total(facts.rows, "new_tokens"),
        ),
        "read_bytes_ratio": ratio(read, hits),
        "write_amplification": ratio(written, stored),
        "nvme_write_amplification": ratio(nvme, stored),
        "nvme_write_bytes_per_day": per_day,
        "drive_writes_per_day": ratio(per_day, facts.drive_tb and facts.drive_tb * 1e12),
        "endurance_years": ratio(facts.tbw and facts.tbw * 1e12, (per_day or 0) * 365.25),
    }


def weighed_samples(facts: Facts) -> list[tuple[Dict, float, float]]:
    """Each sample, its part past the warm-up and before the cut, and the share of it past the warm-up."""
    begin = facts.warm_end_ns if facts.warm_end_ns is not None else -(10**18)
    weighed = []
    for row in facts.device:
        after = min(max(row["time_ns"] - begin, 0), row["interval_ns"])
        late = min(max(row["time_ns"] - facts.cut_ns, 0), row["interval_ns"]) if facts.cut_ns is not None else 0
        weighed.append((row, max(0, after - late), after / row["interval_ns"]))
    return weighed


def device(facts: Facts) -> Dict:
    """Each interval counts by its part past the warm-up, each device once, the CPU time of every rank."""
    weighed = weighed_samples(facts)
    own = [item for item in weighed if not item[0]["shared"] and item[0]["read_bytes"] is not None]
    read, written = (
        int(sum(row[name] * share for row, _, share in own) + 0.5) if own else None
        for name in ("read_bytes", "written_bytes")
    )
    cpu_ns, span_ns = sum(r["process_cpu"] * after for r, after, _ in weighed), sum(after for _, after, _ in weighed)
    sampled = len({row["rank"] for row in facts.device})
    logged = {s: size_of(row for row in facts.rows if touches(row, s, "nvme")) for s in SIDES}
    busy_ns = sum(row["utilisation"] * after for row, after, _ in own)
    return {
        "device_read_bytes": read,
        "device_written_bytes": written,
        "device_read_ratio": ratio(read, logged["read"]),
        "device_write_ratio": ratio(written, logged["write"]),
        "device_utilisation": ratio(busy_ns, sum(after for _, after, _ in own)),
        "cpu_share": ratio(cpu_ns * sampled / facts.cores, span_ns),
        "system_cpu_share": ratio(sum(r["system_cpu"] / r["host_cores"] * after for r, after, _ in weighed), span_ns),
    }


def machine(facts: Facts) -> Dict:
    """What the machine did beside the run: by host, then by rank, then by device."""
    weighed = weighed_samples(facts)
    foreign, stolen = [], []
    for on_host in grouped(weighed, lambda item: item[0]["host"]).values():
        means = []
        for mine in grouped(on_host, lambda item: item[0]["rank"]).values():
            span = sum(ns for _, ns, _ in mine)
            steal = [row.get("steal_cpu") for row, _, _ in mine]
            if span:
                means.append(
                    [sum(row[name] * ns for row, ns, _ in mine) / span for name in ("system_cpu", "process_cpu")]
                )
                steal_ns = None if None in steal else sum(row["steal_cpu"] * ns for row, ns, _ in mine)
                means[-1].append(None if steal_ns is None else steal_ns / span)
        if means:
            system, process, steal = zip(*means, strict=True)
            foreign.append(max(0.0, sum(system) / len(means) - sum(process)))
            stolen += [] if None in steal else [sum(steal) / len(means)]
    waits: dict[str, list[float]] = {"run_delay_ns": [], "throttled_ns": [], "paused": [], "gap": []}
    for mine in grouped(weighed, lambda item: item[0]["rank"]).values():
        for name in ("run_delay_ns", "throttled_ns"):
            if all(row.get(name) is not None for row, _, _ in mine):
                waits[name].append(sum(row[name] * ns / row["interval_ns"] for row, ns, _ in mine) / 1e9)
        stopped = 0.0
        for row, ns, _ in mine:
            gap_s = (row["interval_ns"] - (row.get("sampler_delay_ns") or 0) - (row.get("throttled_ns") or 0)) / 1e9
            stopped += (gap_s - 1) * ns / row["interval_ns"] if gap_s > 2 else 0
        waits["paused"].append(stopped)
        waits["gap"] += [row["interval_ns"] / 1e9 for row, ns, _ in mine if ns]
    run_delay_s = sum(waits["run_delay_ns"]) if waits["run_delay_ns"] else None
    taken = sum(foreign) + sum(stolen) if foreign else None
    found = {
        "foreign_cpu": sum(foreign) if foreign else None,
        "steal_cpu": sum(stolen) if stolen else None,
        "foreign_cpu_share": ratio(taken, facts.host_cores),
        "run_delay_s": run_delay_s,
        "run_delay_share": ratio(run_delay_s and run_delay_s * 1e9, weighted(facts, "read_ns", "write_ns")),
        "throttled_s": max(waits["throttled_ns"], default=None),
        "longest_gap_s": max(waits["gap"], default=None),
        "paused_s": max(waits["paused"], default=None),
    }
    own: dict[str, float] = {}
    if facts.device and all(row.get("process_read_bytes") is not None for row in facts.device):
        own = {s: sum(row[f"process_{s}_bytes"] * after for row, _, after in weighed) for s in ("read", "written")}
    once = [item for item in weighed if not item[0]["shared"] and item[0]["read_bytes"] is not None]
    moved = {s: sum(row[f"{s}_bytes"] * after for row, _, after in once) for s in ("read", "written")} if once else {}
    beyond = sum(max(0.0, moved[s] - own[s]) for s in moved) if own and moved else None
    found |= {f"process_{s}_bytes": int(own[s] + 0.5) if own else None for s in ("read", "written")}
    return found | {"foreign_io_share": ratio(beyond, sum(moved.values()))}


def ranks(facts: Facts) -> Dict:
    cut = facts.window is not None
    groups = grouped(facts.every if cut else facts.rows, lambda row: row["rank"])
    begin, end = facts.window or (None, None)
    alone = [
        Facts(rows, 0, begin, [], 1, 1, 1, 0.0, facts.qos_ms, 0.0, {}, None, cut_ns=end) for rows in groups.values()
    ]
    names = {"rank_sum_wall_clock_tok_s": (throughput, "wall_clock_tok_s")}
    for tier in TIERS:
        for side in SIDES:
            name = f"{tier}_{side}"
            names[f"{name}_rank_sum_gib_s"] = (bandwidth, f"{name}_gib_s")
            names[f"{name}_rank_max_p95_ms"] = (latency, f"{name}_p95_ms")
            names[f"{name}_device_rank_max_p95_ms"] = (latency, f"{name}_device_p95_ms")
    if facts.ranks == 1:
        return dict.fromkeys(names)
    values = {metric: [metric(one) for one in alone] for metric in (throughput, bandwidth, latency)}
    found: Dict = {}
    for name, (metric, single) in names.items():
        every = [one[single] for one in values[metric]]
        if "_sum_" in name:
            found[name] = None if None in every else sum(every)
        else:
            found[name] = max((value for value in every if value is not None), default=None)
    return found


METRICS = (
    throughput, steady, data, hit_rate, moves, contents, latency, bandwidth, waits, qos, time_spent, break_even, amplification,
    device, machine, ranks,
)  # fmt: skip


def summary(facts: Facts) -> Dict:
    """Every flat name of a run's summary."""
    found: Dict = {"drain_s": facts.drain_s}
    for metric in METRICS:
        found |= metric(facts)
    return found


# Tables


def sided(rows: Rows, group_of: Callable[[Dict], Any]) -> Iterator[tuple[str, str, Any, Rows]]:
    """(side, tier, group, rows) of the moves that read or wrote a tier."""
    for side in SIDES:
        mine = [row for row in rows if touches(row, side)]
        for (tier, group), some in grouped(mine, lambda row, side=side: (tier_of(row, side), group_of(row))).items():
            yield side, tier, group, some


def cause_of(row: Dict) -> str:
    return "eviction" if row["move"] == "demote" else "foreground"


def class_of(row: Dict) -> int:
    return size_class(row["size_bytes"])


def in_ms(values: list[int]) -> Dict:
    return {f"{stat}_ms": value for stat, value in stats_ms(values).items()}


SPLITS: dict[str, Callable[[Dict], str]] = {
    "all": lambda row: "all",
    "cause": cause_of,
    "qos": lambda row: str(row["qos"]),
    "phase": lambda row: str(row["phase"]),
    "size": lambda row: class_name(class_of(row)),
}


def table_latency(facts: Facts) -> Rows:
    found = []
    for split, group_of in SPLITS.items():
        for side, tier, group, rows in sided(facts.rows, group_of):
            for clock in ("total", "device", "host", "queue"):
                head = {"tier": tier, "side": side, "clock": clock, "split": split, "group": group}
                found.append(head | {"count": len(rows)} | in_ms([clocks(row, side)[clock] for row in rows]))
    return found


def table_curves(facts: Facts) -> Rows:
    found = []
    for side, tier, _, rows in sided(facts.rows, lambda row: None):
        values = sorted(row[f"{side}_ns"] for row in rows)
        found += [{"tier": tier, "side": side, "share": q / 10_000, "ms": quantile(values, q) / 1e6} for q in CURVE]
    return found


def table_requests(facts: Facts) -> Rows:
    requests = requests_of(facts)
    found = []
    for name in ("all", *QOS):
        mine = [one for one in requests if name in ("all", one.qos)]
        for measure, values in measures(facts, mine).items():
            if values:
                found.append({"measure": measure, "qos": name, "count": len(values)} | in_ms(values))
    return found


def table_traffic(facts: Facts) -> Rows:
    found = []
    for side, tier, (source, cause), rows in sided(facts.rows, lambda row: (row["source"], cause_of(row))):
        head = {"tier": tier, "side": side, "source": source, "cause": cause}
        found.append(head | {"moves": len(rows), "gib": size_of(rows) / GIB, "tokens": total(rows, "tokens")})
    return found


def table_hits(facts: Facts) -> Rows:
    reads = [row for row in facts.rows if is_read(row)]
    by_source = grouped(reads, lambda row: row["source"])
    found = []
    for (source, served_by), rows in grouped(
        reads, lambda row: (row["source"], row["from_tier"] if is_hit(row) else "recomputed")
    ).items():
        share = len(rows) / len(by_source[source])
        found.append(
            {
                "source": source,
                "served_by": served_by,
                "reads": len(rows),
                "tokens": total(rows, "tokens"),
                "share": share,
            }
        )
    return found


def table_sizes(facts: Facts) -> Rows:
    found = []
    for side, tier, n, rows in sided(facts.rows, class_of):
        head = {"tier": tier, "side": side, "size_class": n, "size": class_name(n)}
        found.append(head | {"moves": len(rows), "gib": size_of(rows) / GIB})
    return found


def table_break_even(facts: Facts) -> Rows:
    hits = [row for row in facts.rows if is_hit(row)]
    found = []
    for (tier, n), rows in grouped(hits, lambda row: (row["from_tier"], size_class(row["size_bytes"]))).items():
        speed = ratio(total(rows, "tokens"), total(rows, "read_ns") / 1e9)
        found.append(
            {"tier": tier, "size_class": n, "size": class_name(n), "hits": len(rows), "break_even_tok_s": speed}
        )
    return found


def table_time_spent(facts: Facts) -> Rows:
    worked = [row for row in facts.rows if touches(row, "read") or touches(row, "write")]
    found = []
    for tier, rows in grouped(worked, lambda row: row["from_tier"] or row["to_tier"]).items():
        own = [row for row in rows if row["move"] != "demote"]
        inside = sum(map(device_ns, own))
        spent = {
            "queue": sum(map(queue_ns, own)),
            "host": max(0, total(own, "read_ns", "write_ns") - inside),
            "device": inside,
            "eviction": total((row for row in rows if row["move"] == "demote"), "read_ns", "write_ns"),
        }
        found += [{"tier": tier, "part": part, "seconds": ns / 1e9} for part, ns in spent.items()]
    return found


def intervals(facts: Facts) -> tuple[int, int]:
    """Their length in ns, 1, 2 or 5 × 10^n ms, the least that gives at most 120 of them; and how many."""
    if not facts.rows:
        return 10**6, 0
    elapsed, scale = facts.last_ns - facts.first_ns, 10**6
    while True:
        for width in (scale, 2 * scale, 5 * scale):
            if elapsed // width < 120:
                return width, elapsed // width + 1
        scale *= 10


def table_bandwidth_over_time(facts: Facts) -> Rows:
    width, count = intervals(facts)
    found = []
    for side, tier, _, rows in sided(facts.rows, lambda row: None):
        ended = grouped(rows, lambda row: (row["end_ns"] - facts.first_ns) // width)
        for at in range(count):
            gib_s = size_of(ended.get(at, [])) / GIB / (width / 1e9)
            found.append({"t_s": at * width / 1e9, "tier": tier, "side": side, "gib_s": gib_s})
    return found


def table_latency_over_time(facts: Facts) -> Rows:
    width, _ = intervals(facts)
    found = []
    for side, tier, at, rows in sided(facts.rows, lambda row: (row["end_ns"] - facts.first_ns) // width):
        stats = in_ms([row[f"{side}_ns"] for row in rows])
        head = {"t_s": at * width / 1e9, "tier": tier, "side": side, "count": len(rows)}
        found.append(head | {name: stats[name] for name in ("p50_ms", "p95_ms", "p99_ms")})
    return found


def table_depth_over_time(facts: Facts) -> Rows:
    width, count = intervals(facts)
    found = []
    for at in range(count):
        begin = facts.first_ns + at * width
        means = {}
        for name, since, until in (("in_flight", "start_ns", "end_ns"), ("waiting", "ready_ns", "start_ns")):
            inside = (min(row[until], begin + width) - max(row[since], begin) for row in facts.rows)
            means[name] = sum(ns for ns in inside if ns > 0) / width
        found.append({"t_s": at * width / 1e9} | means)
    return found


def table_occupancy_over_time(facts: Facts) -> Rows:
    width, count = intervals(facts)
    changes = []
    for row in facts.every:
        if is_ok(row) and row["move"] in ("store", "demote"):
            changes.append((row["end_ns"], row["to_tier"], row["size_bytes"]))
        if is_ok(row) and row["move"] in ("demote", "drop", "promote", "delete") and row["from_tier"] is not None:
            changes.append((row["end_ns"], row["from_tier"], -row["size_bytes"]))
    found = []
    for tier in {tier for _, tier, _ in changes}:
        for at in range(count):
            end = facts.first_ns + (at + 1) * width
            lies = sum(size for when, name, size in changes if name == tier and (when < end or at == count - 1))
            found.append({"t_s": at * width / 1e9, "tier": tier, "gib": lies / GIB})
    return found


def table_lateness_over_time(facts: Facts) -> Rows:
    width, count = intervals(facts)
    groups: dict[int, list[int]] = defaultdict(list)
    for one in requests_of(facts) if facts.timed else ():
        due = one.first("due_ns")
        groups[min(max((due - facts.first_ns) // width, 0), count - 1)].append(one.first("start_ns") - due)
    return [
        {"t_s": at * width / 1e9, "requests": len(late)} | {name: in_ms(late)[name] for name in ("p50_ms", "p95_ms")}
        for at, late in groups.items()
    ]


def table_device_over_time(facts: Facts) -> Rows:
    found = []
    for row in facts.device:
        seconds, begin = row["interval_ns"] / 1e9, row["time_ns"] - row["interval_ns"]
        read, written = (
            None if row[name] is None else row[name] / GIB / seconds for name in ("read_bytes", "written_bytes")
        )
        head = {"t_s": (begin - (facts.first_ns or 0)) / 1e9, "rank": row["rank"], "read_gib_s": read}
        found.append(
            head | {"written_gib_s": written, "utilisation": row["utilisation"], "cores_busy": row["process_cpu"]}
        )
    return found


TABLES: dict[str, Callable[[Facts], Rows]] = {
    name.removeprefix("table_"): function for name, function in list(globals().items()) if name.startswith("table_")
}


def golden(facts: Facts) -> dict[str, Rows]:
    """By file: the metrics as (name, number, text), and every table."""
    metrics = [
        {
            "name": name,
            "number": None if isinstance(value, str) else value,
            "text": value if isinstance(value, str) else None,
        }
        for name, value in summary(facts).items()
    ]
    return {"metrics": metrics} | {name: table(facts) for name, table in TABLES.items()}


def main() -> None:
    (DATA / "golden").mkdir(exist_ok=True)
    for name, rows in golden(read(DATA / "run", GOLDEN_TARGETS)).items():
        columns = {column: [row[column] for row in rows] for column in rows[0]}
        if name == "metrics":
            columns["number"] = [None if value is None else float(value) for value in columns["number"]]
        pq.write_table(pa.table(columns), DATA / "golden" / f"{name}.parquet", compression="zstd")


if __name__ == "__main__":
    main()
