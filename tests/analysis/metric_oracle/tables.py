"""The tables of a run."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.analysis.metric_oracle.arithmetic import grouped, quantile, size_of, stats_ms, total
from tests.analysis.metric_oracle.facts import CURVE, GIB, QOS, SIDES, Facts, Numbers, Row, Rows
from tests.analysis.metric_oracle.machine import device_ns
from tests.analysis.metric_oracle.requests import measures, requests_of
from tests.analysis.metric_oracle.rows import (
    class_name,
    clocks,
    is_hit,
    is_ok,
    is_read,
    queue_ns,
    size_class,
    tier_of,
    touches,
)


def sided(rows: Rows, *groups: Callable[[Row], Any]) -> Iterator[tuple[Row, Any, Rows]]:
    """Tier and side, the group, and the rows, of the moves that read or wrote a tier."""
    for side in SIDES:
        mine = [row for row in rows if touches(row, side)]
        for (tier, *group), some in grouped(
            mine, lambda row, side=side: (tier_of(row, side), *(group_of(row) for group_of in groups))
        ).items():
            yield {"tier": tier, "side": side}, group, some


def times(rows: Rows, side: str) -> Row:
    """How many there are, and percentiles of how long they took on a side."""
    stats = in_ms([row[f"{side}_ns"] for row in rows])
    return {"count": len(rows)} | {name: stats[name] for name in ("p50_ms", "p95_ms", "p99_ms")}


def cause_of(row: Row) -> str:
    return {"demote": "eviction", "copy": "copy"}.get(row["move"], "foreground")


def class_of(row: Row) -> int:
    return size_class(row["size_bytes"])


def in_ms(values: list[int]) -> Numbers:
    return {f"{stat}_ms": value for stat, value in stats_ms(values).items()}


SPLITS: dict[str, Callable[[Row], str]] = {
    "all": lambda row: "all",
    "cause": cause_of,
    "qos": lambda row: str(row["qos"]),
    "phase": lambda row: str(row["phase"]),
    "size": lambda row: class_name(class_of(row)),
}


def table_latency(facts: Facts) -> Rows:
    found = []
    for split, group_of in SPLITS.items():
        for head, (group,), rows in sided(facts.rows, group_of):
            for clock in ("total", "device", "host", "queue"):
                stats = in_ms([clocks(row, head["side"])[clock] for row in rows])
                found.append(head | {"clock": clock, "split": split, "group": group, "count": len(rows)} | stats)
    return found


def table_curves(facts: Facts) -> Rows:
    found = []
    for head, _, rows in sided(facts.rows):
        values = sorted(row[f"{head['side']}_ns"] for row in rows)
        found += [head | {"share": q / 10_000, "ms": quantile(values, q) / 1e6} for q in CURVE]
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
    return [
        head
        | {"source": source, "cause": cause}
        | {"moves": len(rows), "gib": size_of(rows) / GIB, "tokens": total(rows, "tokens")}
        for head, (source, cause), rows in sided(facts.rows, lambda row: row["source"], cause_of)
    ]


def table_hits(facts: Facts) -> Rows:
    reads = [row for row in facts.rows if is_read(row)]
    found = []
    for source, mine in grouped(reads, lambda row: row["source"]).items():
        for server, rows in grouped(mine, lambda row: row["from_tier"] if is_hit(row) else "recomputed").items():
            counts = {"reads": len(rows), "tokens": total(rows, "tokens"), "share": len(rows) / len(mine)}
            found.append({"source": source, "served_by": server} | counts)
    return found


def table_time_spent(facts: Facts) -> Rows:
    worked = [row for row in facts.rows if touches(row, "read") or touches(row, "write")]
    found = []
    for tier, rows in grouped(worked, lambda row: row["from_tier"] or row["to_tier"]).items():
        own, evicted, copied = (
            [row for row in rows if cause_of(row) == cause] for cause in ("foreground", "eviction", "copy")
        )
        inside = sum(map(device_ns, own))
        spent = {
            "queue": sum(map(queue_ns, own)),
            "host": max(0, total(own, "read_ns", "write_ns") - inside),
            "device": inside,
            "eviction": total(evicted, "read_ns", "write_ns"),
        }
        if copying := total(copied, "read_ns", "write_ns"):
            spent["copy"] = copying
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
    for head, _, rows in sided(facts.rows):
        ended = grouped(rows, lambda row: (row["end_ns"] - facts.first_ns) // width)
        for at in range(count):
            gib_s = size_of(ended.get(at, [])) / GIB / (width / 1e9)
            found.append(head | {"t_s": at * width / 1e9, "gib_s": gib_s})
    return found


def table_latency_over_time(facts: Facts) -> Rows:
    width, _ = intervals(facts)
    return [
        head | {"t_s": at * width / 1e9} | times(rows, head["side"])
        for head, (at,), rows in sided(facts.rows, lambda row: (row["end_ns"] - facts.first_ns) // width)
    ]


def table_occupancy_over_time(facts: Facts) -> Rows:
    width, count = intervals(facts)
    changes = []
    for row in facts.every:
        if is_ok(row) and row["move"] in ("store", "demote", "copy"):
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


def table_device_over_time(facts: Facts) -> Rows:
    found = []
    for row in facts.device:
        begin, seconds = row["time_ns"] - row["interval_ns"], row["interval_ns"] / 1e9
        one = {"t_s": (begin - (facts.first_ns or 0)) / 1e9, "rank": row["rank"], "cores_busy": row["process_cpu"]}
        for side in ("read", "written"):
            moved = row[f"{side}_bytes"]
            one[f"{side}_gib_s"] = None if moved is None else moved / GIB / seconds
        found.append(one | {"utilisation": row["utilisation"]})
    return found


TABLES: dict[str, Callable[[Facts], Rows]] = {
    name.removeprefix("table_"): function for name, function in list(globals().items()) if name.startswith("table_")
}
