"""The tables of a run."""

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
from polars import col

from tests.analysis.metric_oracle.arithmetic import in_ms
from tests.analysis.metric_oracle.facts import GIB, QOS, SIDES, Facts, Row, Rows
from tests.analysis.metric_oracle.requests import measures, requests_of

CURVE = [*(step / 50 for step in range(50)), 0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0]


def sided(rows: pl.DataFrame, *groups: str) -> Iterator[tuple[Row, pl.DataFrame]]:
    """Tier, side and groups, and the rows, of the moves that read or wrote a tier."""
    for side in SIDES:
        mine = rows.filter(col(f"{side}_tier").is_not_null())
        for (tier, *group), some in mine.partition_by(f"{side}_tier", *groups, as_dict=True).items():
            yield {"tier": tier, "side": side, **dict(zip(groups, group, strict=True))}, some


def class_name(size: int) -> str:
    """The lower bound of the class of a size: a power of 4."""
    low, unit = 4 ** ((size.bit_length() - 1) // 2 if size else 0), 0
    while low >= 1024:
        low, unit = low // 1024, unit + 1
    return f"{low} {['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}"


def table_latency(facts: Facts) -> Rows:
    found = []
    classes = col("size_bytes").map_elements(class_name, pl.String)
    for split in ("all", "cause", "qos", "phase", "size"):
        for head, rows in sided(facts.rows.with_columns(all=pl.lit("all"), size=classes), split):
            whole, device = rows[f"{head['side']}_ns"], rows[f"device_{head['side']}_ns"]
            times = {"total": whole, "device": device, "host": (whole - device).clip(0), "queue": rows["queue_ns"]}
            for clock, values in times.items():
                about = {"tier": head["tier"], "side": head["side"], "split": split, "group": head[split]}
                found.append(about | {"clock": clock, "count": len(rows)} | in_ms(values))
    return found


def table_curves(facts: Facts) -> Rows:
    found = []
    for head, rows in sided(facts.rows):
        values = np.quantile(rows[f"{head['side']}_ns"], CURVE) / 1e6
        found += [head | {"share": share, "ms": float(ms)} for share, ms in zip(CURVE, values, strict=True)]
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
        head | {"moves": len(rows), "gib": rows["size_bytes"].sum() / GIB, "tokens": rows["tokens"].sum()}
        for head, rows in sided(facts.rows, "source", "cause")
    ]


def table_hits(facts: Facts) -> Rows:
    reads = facts.rows.filter("is_read").with_columns(
        served_by=pl.when("is_hit").then("from_tier").otherwise(pl.lit("recomputed"))
    )
    found = []
    for mine in reads.partition_by("source"):
        for rows in mine.partition_by("served_by"):
            counts = {"reads": len(rows), "tokens": rows["tokens"].sum(), "share": len(rows) / len(mine)}
            found.append({name: rows[name][0] for name in ("source", "served_by")} | counts)
    return found


def table_time_spent(facts: Facts) -> Rows:
    tier = pl.coalesce("from_tier", "to_tier")
    worked = facts.rows.filter(col("read_tier").is_not_null() | col("write_tier").is_not_null())
    found = []
    for rows in worked.with_columns(tier=tier).partition_by("tier"):
        own, evicted, copied = (rows.filter(cause=cause) for cause in ("foreground", "eviction", "copy"))
        spent = {
            "queue": own["queue_ns"].sum(),
            "host": max(0, own["work_ns"].sum() - own["device_ns"].sum()),
            "device": own["device_ns"].sum(),
            "eviction": evicted["work_ns"].sum(),
        }
        if copying := copied["work_ns"].sum():
            spent["copy"] = copying
        found += [{"tier": rows["tier"][0], "part": part, "seconds": ns / 1e9} for part, ns in spent.items()]
    return found


def intervals(facts: Facts) -> tuple[int, int]:
    """Their length in ns, 1, 2 or 5 × 10^n ms, the least that gives at most 120 of them; and how many."""
    if not len(facts.rows):
        return 10**6, 0
    elapsed = facts.last_ns - facts.first_ns
    widths = (digit * 10**power for power in range(6, 18) for digit in (1, 2, 5))
    width = next(width for width in widths if elapsed // width < 120)
    return width, elapsed // width + 1


def in_intervals(facts: Facts, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(at=(col("end_ns") - facts.span[0]) // intervals(facts)[0])


def table_bandwidth_over_time(facts: Facts) -> Rows:
    width, count = intervals(facts)
    found = []
    for head, rows in sided(in_intervals(facts, facts.rows)):
        ended = dict(rows.group_by("at").agg(col("size_bytes").sum()).rows())
        found += [
            head | {"t_s": at * width / 1e9, "gib_s": ended.get(at, 0) / GIB / (width / 1e9)} for at in range(count)
        ]
    return found


def table_latency_over_time(facts: Facts) -> Rows:
    width, _ = intervals(facts)
    found = []
    for head, rows in sided(in_intervals(facts, facts.rows), "at"):
        stats = in_ms(rows[f"{head['side']}_ns"])
        times = {"count": len(rows)} | {name: stats[name] for name in ("p50_ms", "p95_ms", "p99_ms")}
        found.append({"t_s": head.pop("at") * width / 1e9} | head | times)
    return found


def table_occupancy_over_time(facts: Facts) -> Rows:
    width, count = intervals(facts)
    ok = facts.every.filter("is_ok")
    entering, leaving = ["store", "demote", "copy"], ["demote", "drop", "promote", "delete"]
    changes = [
        (row["end_ns"], row[tier], row["size_bytes"] * sign)
        for tier, kinds, sign in (("to_tier", entering, 1), ("from_tier", leaving, -1))
        for row in ok.filter(col("move").is_in(kinds), col(tier).is_not_null()).iter_rows(named=True)
    ]
    found = []
    for tier in {tier for _, tier, _ in changes}:
        for at in range(count):
            end = facts.first_ns + (at + 1) * width
            lies = sum(size for when, name, size in changes if name == tier and (when < end or at == count - 1))
            found.append({"t_s": at * width / 1e9, "tier": tier, "gib": lies / GIB})
    return found


def table_device_over_time(facts: Facts) -> Rows:
    if facts.device is None:
        return []
    seconds = col("interval_ns") / 1e9
    return facts.device.select(
        "rank",
        "utilisation",
        t_s=(col("time_ns") - col("interval_ns") - facts.span[0]) / 1e9,
        cores_busy="process_cpu",
        **{f"{way}_gib_s": col(f"{way}_bytes") / GIB / seconds for way in ("read", "written")},
    ).rows(named=True)


TABLES: dict[str, Callable[[Facts], Rows]] = {
    name.removeprefix("table_"): function for name, function in list(globals().items()) if name.startswith("table_")
}
