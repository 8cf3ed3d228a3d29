"""Metrics of where time went and of the machine: bottleneck, wear, device counters, ranks."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from polars import col

from tests.analysis.metric_oracle.arithmetic import ratio, union_ns
from tests.analysis.metric_oracle.facts import CAUSES, SIDES, TIERS, Facts, Numbers

BOTH = (SIDES, ("read",), ("write",))


def touches_nvme(sides: Sequence[str]) -> pl.Expr:
    return pl.any_horizontal((col(f"{side}_tier") == "nvme").fill_null(value=False) for side in sides)


def time_spent(facts: Facts) -> Numbers:
    rows = facts.rows
    names = {"plan_wait": "plan_ns", "queue": "queue_ns", "device": "device_ns", "verify": "verify_ns"}
    names |= {f"{cause}_wait": f"{cause}_wait_ns" for cause in CAUSES}
    found = {f"{name}_s": rows[column].sum() / 1e9 for name, column in names.items()}
    found["idle_s"] = idle_s(facts)
    found["host_s"] = max(0, rows["work_ns"].sum() - rows["device_ns"].sum()) / 1e9
    for side in SIDES:
        found[f"nvme_device_{side}_s"] = rows.filter(touches_nvme([side]))[f"device_{side}_ns"].sum() / 1e9
    return found | {"nvme_busy_share": busy_share(facts, SIDES), "bottleneck": bottleneck(facts, found["idle_s"])}


def idle_s(facts: Facts) -> float:
    """Of the time between the first start and the last end, what lies outside due … end of every move."""
    inside = facts.rows.with_columns(col("due_ns").clip(facts.span[0]))
    return (facts.span[1] - facts.span[0] - union_ns(inside, "due_ns")) / 1e9


def bottleneck(facts: Facts, idle: float) -> str:
    counted = device(facts)
    work, inside, verify = (facts.weigh(name) for name in ("work_ns", "device_ns", "verify_ns"))
    waits = {cause: facts.weigh(f"{cause}_wait_ns") for cause in CAUSES} | {"queue": facts.weigh("queue_ns")}
    waits["plan"] = facts.weigh("plan_ns") - sum(waits[cause] for cause in CAUSES)
    busy = facts.weigh("io_ns") + verify
    spent = {"device": inside, "host": max(0, work - inside), "verify": verify}
    if (counted["cpu_share"] or 0) >= 0.9:
        return "cpu"
    if any(at_ceiling(facts, sides) for sides in BOTH):
        return "device"
    if (counted["system_cpu_share"] or 0) >= 0.9:
        return "cpu"
    if busy < 0.8 * facts.workers * (facts.elapsed_s or 0) * 1e9:
        if len(facts.rows) and idle > (facts.span[1] - facts.span[0]) / 5e9:
            return "source"
        if busy < sum(waits.values()):
            return max(waits, key=lambda name: waits[name])
    return max(spent, key=lambda name: spent[name])


def in_window(facts: Facts, sides: Sequence[str]) -> pl.DataFrame:
    """The moves of nvme in these directions, as far as they are in the window, with bytes per ns."""
    mine = facts.every.filter(touches_nvme(sides), col("io_ns") > 0).with_columns(rate=col("size_bytes") / col("io_ns"))
    return mine.with_columns(col("start_ns", "end_ns").clip(*facts.window)).filter(col("start_ns") < col("end_ns"))


def busy_share(facts: Facts, sides: Sequence[str]) -> float | None:
    if facts.every.filter(touches_nvme(sides)).is_empty():
        return None
    return ratio(union_ns(in_window(facts, sides)), facts.window[1] - facts.window[0])


def at_ceiling(facts: Facts, sides: Sequence[str]) -> bool:
    """Whether nvme was busy, in the device, and moved as much in the third of the time with the fewest moves."""
    if (busy_share(facts, sides) or 0) < 0.95:
        return False
    mine = {side: facts.rows.filter(touches_nvme([side])) for side in sides}
    spent, inside = (sum(mine[side][f"{kind}{side}_ns"].sum() for side in sides) for kind in ("", "device_"))
    if 2 * inside < spent:
        return False
    edges = np.linspace(*facts.window, 10_001)
    depth, moved = np.zeros(10_000), np.zeros(10_000)
    for first, last, rate in in_window(facts, sides).select("start_ns", "end_ns", "rate").iter_rows():
        inside_ns = np.clip(np.minimum(edges[1:], last) - np.maximum(edges[:-1], first), 0, None)
        depth += inside_ns / (edges[1] - edges[0])
        moved += inside_ns * rate
    depth = depth.round(6)
    depth, moved = depth[depth > 0], moved[depth > 0]
    edge = (len(depth) - 1) // 3
    least, most = np.sort(depth)[[edge, -1 - edge]]
    return bool(round(moved[depth <= least].mean() / moved[depth >= most].mean(), 6) >= 0.8)


def break_even(facts: Facts) -> Numbers:
    found = {}
    for tier in TIERS:
        hits = facts.rows.filter("is_hit", from_tier=tier)
        found[f"{tier}_break_even_tok_s"] = ratio(hits["tokens"].sum(), hits["read_ns"].sum() / 1e9)
    return found


def amplification(facts: Facts) -> Numbers:
    stored = facts.rows.filter("is_ok", move="store")["size_bytes"].sum()
    written = facts.weigh("size_bytes", col("write_tier") == "nvme")
    per_day = ratio(written * 86_400, facts.elapsed_s)
    tbw, drive_tb = facts.held["tbw"], facts.held["drive_tb"]
    read, wrote = (facts.rows.filter(touches_nvme([side])) for side in SIDES)
    return {
        "read_amplification": ratio(read["tokens"].sum(), facts.rows["new_tokens"].sum()),
        "nvme_write_amplification": ratio(wrote["size_bytes"].sum(), stored),
        "nvme_write_bytes_per_day": per_day,
        "drive_writes_per_day": ratio(per_day, drive_tb and drive_tb * 1e12),
        "endurance_years": ratio(tbw and tbw * 1e12, (per_day or 0) * 365.25),
    }


def weighed_samples(facts: Facts) -> pl.DataFrame | None:
    """Samples with `ns`, the part past the warm-up and before the cut, and `after`, the share past the warm-up."""
    if facts.device is None:
        return None
    begin = facts.warm_end_ns if facts.warm_end_ns is not None else -(10**18)
    after, late = ((col("time_ns") - at).clip(0, col("interval_ns")) for at in (begin, facts.cut_ns or 10**18))
    return facts.device.with_columns(ns=(after - late).clip(0), after=after / col("interval_ns"))


def weigh(samples: pl.DataFrame, name: str, by: str = "ns") -> float:
    return float((samples[name] * samples[by]).sum())


def mean(samples: pl.DataFrame, name: str) -> float | None:
    """Mean of a counter, weighted by time; None if a sample does not have it."""
    return None if samples[name].null_count() else ratio(weigh(samples, name), samples["ns"].sum())


def device(facts: Facts) -> Numbers:
    """Each interval counts by its part past the warm-up, each device once, the CPU time of every rank."""
    samples = weighed_samples(facts)
    if samples is None:
        return dict.fromkeys(("device_utilisation", "cpu_share", "system_cpu_share"))
    own = samples.filter(~col("shared"), col("read_bytes").is_not_null())
    every = samples.with_columns(system=col("system_cpu") / col("host_cores"))
    ranks = samples["rank"].n_unique()
    return {
        "device_utilisation": ratio(weigh(own, "utilisation"), own["ns"].sum()),
        "cpu_share": ratio(weigh(every, "process_cpu") * ranks / facts.cores, every["ns"].sum()),
        "system_cpu_share": ratio(weigh(every, "system"), every["ns"].sum()),
    }


def machine(facts: Facts) -> Numbers:
    """What the machine did beside the run: by host, then by rank, then by device."""
    names = ("foreign_cpu", "steal_cpu", "foreign_cpu_share", "run_delay_s", "run_delay_share", "throttled_s")
    found = Numbers(dict.fromkeys((*names, "longest_gap_s", "paused_s", "foreign_io_share")))
    samples = weighed_samples(facts)
    if samples is None:
        return found
    foreign, stolen = [], []
    for on_host in samples.partition_by("host"):
        ranks = [mine for mine in on_host.partition_by("rank") if mine["ns"].sum()]
        if ranks:
            names = ("system_cpu", "process_cpu", "steal_cpu")
            system, process, steal = ([mean(mine, name) for mine in ranks] for name in names)
            foreign.append(max(0.0, sum(system) / len(ranks) - sum(process)))
            stolen += [] if None in steal else [sum(steal) / len(ranks)]
    if foreign:
        found["foreign_cpu"], found["steal_cpu"] = sum(foreign), sum(stolen) if stolen else None
        found["foreign_cpu_share"] = ratio(sum(foreign) + sum(stolen), facts.host_cores)
    waits: dict[str, list[float]] = {"run_delay": [], "throttled": [], "paused": []}
    for mine in samples.with_columns(part=col("ns") / col("interval_ns")).partition_by("rank"):
        for name in ("run_delay", "throttled"):
            if not mine[f"{name}_ns"].null_count():
                waits[name].append(weigh(mine, f"{name}_ns", "part") / 1e9)
        explained = col("sampler_delay_ns").fill_null(0) + col("throttled_ns").fill_null(0)
        gaps = mine.with_columns(gap_s=(col("interval_ns") - explained) / 1e9).filter(col("gap_s") > 2)
        waits["paused"].append(weigh(gaps.with_columns(col("gap_s") - 1), "gap_s", "part"))
    gap_ns = samples.filter(col("ns") > 0)["interval_ns"].max()
    found["longest_gap_s"], found["paused_s"] = gap_ns and gap_ns / 1e9, max(waits["paused"], default=None)
    found["run_delay_s"] = sum(waits["run_delay"]) if waits["run_delay"] else None
    found["throttled_s"] = max(waits["throttled"], default=None)
    found["run_delay_share"] = ratio(found["run_delay_s"], facts.weigh("work_ns") / 1e9)
    once = samples.filter(~col("shared"), col("read_bytes").is_not_null())
    if len(once) and not samples["process_read_bytes"].null_count():
        whole = [weigh(once, f"{way}_bytes", "after") for way in ("read", "written")]
        own = [weigh(samples, f"process_{way}_bytes", "after") for way in ("read", "written")]
        beyond = sum(max(0.0, all_ - mine) for all_, mine in zip(whole, own, strict=True))
        found["foreign_io_share"] = ratio(beyond, sum(whole))
    return found
