"""Metrics of where time went and of the machine: bottleneck, wear, device counters, ranks."""

from collections.abc import Sequence

from tests.analysis.metric_oracle.arithmetic import grouped, ratio, size_of, total, union_ns
from tests.analysis.metric_oracle.facts import SIDES, TIERS, Facts, Numbers, Row
from tests.analysis.metric_oracle.rows import (
    CAUSES,
    io_ns,
    is_hit,
    is_ok,
    planned_ns,
    queue_ns,
    share_in,
    touches,
    waited_ns,
    weighted,
    weighted_io_ns,
)


def device_ns(row: Row) -> int:
    return int(row["device_read_ns"] + row["device_write_ns"])


def time_spent(facts: Facts) -> Numbers:
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
    covered = busy_share(facts, ("read", "write"))
    return found | {"nvme_busy_share": covered, "bottleneck": bottleneck(facts, found["idle_s"])}


def idle_s(facts: Facts) -> float:
    """Of the time between the first start and the last end, what lies outside due … end of every move."""
    if not facts.rows:
        return 0.0
    inside = union_ns((max(row["due_ns"], facts.first_ns), row["end_ns"]) for row in facts.rows)
    return (facts.last_ns - facts.first_ns - inside) / 1e9


def bottleneck(facts: Facts, idle: float) -> str:
    counted = device(facts)
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
    spent = {"device": inside, "host": max(0, work - inside), "verify": verify}
    if (counted["cpu_share"] or 0) >= 0.9:
        return "cpu"
    if any(at_ceiling(facts, sides) for sides in (SIDES, ("read",), ("write",))):
        return "device"
    if (counted["system_cpu_share"] or 0) >= 0.9:
        return "cpu"
    if busy < 0.8 * facts.workers * (facts.elapsed_s or 0) * 1e9:
        if facts.rows and idle > facts.span_s / 5:
            return "source"
        if busy < sum(waits.values()):
            return max(waits, key=lambda name: waits[name])
    return max(spent, key=lambda name: spent[name])


def in_window(facts: Facts, sides: Sequence[str]) -> tuple[int, int, list[tuple[int, int, float]]]:
    """The window, and of each move of nvme in these directions its begin and end inside, and bytes per ns."""
    begin, end = facts.window or (facts.first_ns or 0, facts.last_ns or 0)
    spans = [
        (max(row["start_ns"], begin), min(row["end_ns"], end), row["size_bytes"] / io_ns(row))
        for row in facts.every
        if any(touches(row, side, "nvme") for side in sides) and io_ns(row)
    ]
    return begin, end, [span for span in spans if span[0] < span[1]]


def busy_share(facts: Facts, sides: Sequence[str]) -> float | None:
    begin, end, spans = in_window(facts, sides)
    if not any(touches(row, side, "nvme") for side in sides for row in facts.every):
        return None
    return ratio(union_ns((first, last) for first, last, _ in spans), end - begin)


def at_ceiling(facts: Facts, sides: Sequence[str]) -> bool:
    """Whether nvme was busy, in the device, and moved as much in the third of the time with the fewest moves."""
    if (busy_share(facts, sides) or 0) < 0.95:
        return False
    spent, inside = (
        sum(row[f"{prefix}{side}_ns"] for side in sides for row in facts.rows if touches(row, side, "nvme"))
        for prefix in ("", "device_")
    )
    if 2 * inside < spent:
        return False
    begin, end, spans = in_window(facts, sides)
    width, parts = (end - begin) / 10_000, [[0.0, 0.0] for _ in range(10_000)]
    for first, last, rate in spans:
        for at in range(int((first - begin) / width), min(10_000, int((last - begin) / width) + 1)):
            inside_ns = max(0.0, min(last, begin + (at + 1) * width) - max(first, begin + at * width))
            parts[at][0] += inside_ns / width
            parts[at][1] += inside_ns * rate
    used = sorted((round(depth, 6), moved) for depth, moved in parts if round(depth, 6) > 0)
    edge = (len(used) - 1) // 3
    low = [moved for depth, moved in used if depth <= used[edge][0]]
    high = [moved for depth, moved in used if depth >= used[-1 - edge][0]]
    return round(sum(low) / len(low) / (sum(high) / len(high)), 6) >= 0.8


def worked_ns(row: Row) -> int:
    return int(row["read_ns"] + row["write_ns"])


def break_even(facts: Facts) -> Numbers:
    found = {}
    for tier in TIERS:
        hits = [row for row in facts.rows if is_hit(row) and row["from_tier"] == tier]
        found[f"{tier}_break_even_tok_s"] = ratio(total(hits, "tokens"), total(hits, "read_ns") / 1e9)
    return found


def amplification(facts: Facts) -> Numbers:
    stored = size_of(row for row in facts.rows if is_ok(row) and row["move"] == "store")
    nvme = size_of(row for row in facts.rows if touches(row, "write", "nvme"))
    written_s = weighted(facts, "size_bytes", which=lambda row: touches(row, "write", "nvme"))
    per_day = ratio(written_s * 86_400, facts.elapsed_s)
    return {
        "read_amplification": ratio(
            total((row for row in facts.rows if touches(row, "read", "nvme")), "tokens"),
            total(facts.rows, "new_tokens"),
        ),
        "nvme_write_amplification": ratio(nvme, stored),
        "nvme_write_bytes_per_day": per_day,
        "drive_writes_per_day": ratio(per_day, facts.drive_tb and facts.drive_tb * 1e12),
        "endurance_years": ratio(facts.tbw and facts.tbw * 1e12, (per_day or 0) * 365.25),
    }


Samples = list[tuple[Row, float, float]]


def weighed_samples(facts: Facts) -> Samples:
    """Each sample, its part past the warm-up and before the cut, and the share of it past the warm-up."""
    begin = facts.warm_end_ns if facts.warm_end_ns is not None else -(10**18)
    weighed = []
    for row in facts.device:
        after = min(max(row["time_ns"] - begin, 0), row["interval_ns"])
        late = min(max(row["time_ns"] - facts.cut_ns, 0), row["interval_ns"]) if facts.cut_ns is not None else 0
        weighed.append((row, max(0, after - late), after / row["interval_ns"]))
    return weighed


def device(facts: Facts) -> Numbers:
    """Each interval counts by its part past the warm-up, each device once, the CPU time of every rank."""
    weighed = weighed_samples(facts)
    own = [item for item in weighed if not item[0]["shared"] and item[0]["read_bytes"] is not None]
    cpu_ns, span_ns = sum(r["process_cpu"] * after for r, after, _ in weighed), sum(after for _, after, _ in weighed)
    sampled = len({row["rank"] for row in facts.device})
    busy_ns = sum(row["utilisation"] * after for row, after, _ in own)
    return {
        "device_utilisation": ratio(busy_ns, sum(after for _, after, _ in own)),
        "cpu_share": ratio(cpu_ns * sampled / facts.cores, span_ns),
        "system_cpu_share": ratio(sum(r["system_cpu"] / r["host_cores"] * after for r, after, _ in weighed), span_ns),
    }


def mean(samples: Samples, name: str) -> float | None:
    """Mean of a counter, weighted by time; None if a sample does not have it."""
    if any(row.get(name) is None for row, _, _ in samples):
        return None
    return ratio(sum(row[name] * ns for row, ns, _ in samples), sum(ns for _, ns, _ in samples))


def machine(facts: Facts) -> Numbers:
    """What the machine did beside the run: by host, then by rank, then by device."""
    weighed = weighed_samples(facts)
    foreign, stolen = [], []
    for on_host in grouped(weighed, lambda item: item[0]["host"]).values():
        ranks = [
            mine for mine in grouped(on_host, lambda item: item[0]["rank"]).values() if any(ns for _, ns, _ in mine)
        ]
        if ranks:
            system, process, steal = (
                [mean(mine, name) for mine in ranks] for name in ("system_cpu", "process_cpu", "steal_cpu")
            )
            foreign.append(max(0.0, sum(system) / len(ranks) - sum(process)))
            stolen += [] if None in steal else [sum(steal) / len(ranks)]
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
    found = {
        "foreign_cpu": sum(foreign) if foreign else None,
        "steal_cpu": sum(stolen) if stolen else None,
        "foreign_cpu_share": ratio(sum(foreign) + sum(stolen), facts.host_cores) if foreign else None,
        "run_delay_s": run_delay_s,
        "run_delay_share": ratio(run_delay_s and run_delay_s * 1e9, weighted(facts, "read_ns", "write_ns")),
        "throttled_s": max(waits["throttled_ns"], default=None),
        "longest_gap_s": max(waits["gap"], default=None),
        "paused_s": max(waits["paused"], default=None),
    }
    once = [item for item in weighed if not item[0]["shared"] and item[0]["read_bytes"] is not None]
    is_known = once and all(row.get("process_read_bytes") is not None for row in facts.device)
    moved, beyond = 0.0, 0.0
    for side in ("read", "written"):
        whole = sum(row[f"{side}_bytes"] * after for row, _, after in once)
        own = sum(row[f"process_{side}_bytes"] * after for row, _, after in weighed) if is_known else 0.0
        moved += whole
        beyond += max(0.0, whole - own)
    return found | {"foreign_io_share": ratio(beyond, moved) if is_known else None}
