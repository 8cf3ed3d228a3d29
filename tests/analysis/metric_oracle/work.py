"""Metrics of the work that was done: throughput, hits, moves, latency, bandwidth, waits."""

from typing import Any

from tests.analysis.metric_oracle.arithmetic import grouped, quantile, ratio, size_of, spread, total, union_ns
from tests.analysis.metric_oracle.facts import GIB, MOVES, QOS, SIDES, SOURCES, TIERS, Facts
from tests.analysis.metric_oracle.requests import all_requests, complete, measures, requests_of
from tests.analysis.metric_oracle.rows import (
    CAUSES,
    clocks,
    is_eviction,
    is_hit,
    is_ok,
    is_read,
    on_nvme,
    share_in,
    touches,
    weighted,
    weighted_io_ns,
)


def throughput(facts: Facts) -> dict[str, Any]:
    tokens, io_s = weighted(facts, "new_tokens"), weighted_io_ns(facts) / 1e9
    return {
        "tokens_generated": total(facts.rows, "new_tokens"),
        "elapsed_s": facts.elapsed_s,
        "storage_io_s": io_s,
        "wall_clock_tok_s": ratio(tokens, facts.elapsed_s),
        "requests_per_s": ratio(begun(facts), facts.elapsed_s),
        "storage_tok_s": ratio(tokens, io_s),
        "mean_inflight": ratio(io_s, facts.elapsed_s),
        "drained_bytes": sum(
            drained(facts, row) * row["size_bytes"] for row in facts.every for side in SIDES if touches(row, side)
        ),
    }


def begun(facts: Facts) -> int:
    begin, end = facts.window or (facts.first_ns or 0, facts.last_ns or 0)
    return sum(begin <= one.first("start_ns") <= end for one in all_requests(facts) if one.own)


def drained(facts: Facts, row: dict[str, Any]) -> float:
    """Which part of a move lies after the cut."""
    after = facts.window is not None and facts.last_ns > facts.cut_ns
    return share_in(row, facts.cut_ns, facts.last_ns) if after else 0.0


def steady(facts: Facts) -> dict[str, Any]:
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


def data(facts: Facts) -> dict[str, Any]:
    decode = [row for row in facts.rows if is_hit(row) and row["phase"] == "decode"]
    stores = [row for row in facts.rows if is_ok(row) and row["move"] == "store"]
    nvme = [row for row in facts.rows if on_nvme(row)]
    decoded = weighted(facts, "size_bytes", which=lambda row: is_hit(row) and row["phase"] == "decode")
    found = {
        "decode_read_bytes": size_of(decode),
        "decode_read_gib_s": ratio(decoded / GIB, facts.elapsed_s),
        "prefill_write_bytes": size_of(stores),
        "nvme_tokens_processed": total(nvme, "tokens"),
    }
    for tier in TIERS:
        found[f"{tier}_decode_read_bytes"] = size_of(row for row in decode if row["from_tier"] == tier)
        found[f"{tier}_prefill_write_bytes"] = size_of(row for row in stores if row["to_tier"] == tier)
    return found


def hit_rate(facts: Facts) -> dict[str, Any]:
    hits, reads = [r for r in facts.rows if is_hit(r)], [r for r in facts.rows if is_read(r)]
    writes = [r for r in facts.rows if is_first_touch(r)]
    found = {}
    found["hit_rate_refs"] = ratio(len(hits), len(reads + writes))
    hits, reads = ([r for r in group if r["phase"] == "prefill"] for group in (hits, reads))
    found["hit_rate"] = ratio(len(hits), len(reads))
    found["hit_rate_tokens"] = ratio(total(hits, "tokens"), total(reads, "tokens"))
    for source in SOURCES:
        mine = [[r for r in group if r["source"] == source] for group in (hits, reads)]
        found[f"{source}_hit_rate"] = ratio(len(mine[0]), len(mine[1]))
    for tier in TIERS:
        found[f"{tier}_hit_rate"] = ratio(sum(r["from_tier"] == tier for r in hits), len(reads))
    rates = [sum(map(is_hit, group)) / len(group) for group in grouped(reads, _request).values()]
    return found | {"hit_rate_requests": ratio(sum(rates), len(rates))} | prompts(facts)


def is_first_touch(row: dict[str, Any]) -> bool:
    return row["op"] == "write" and row["move"] in ("store", "bypass")


def prompts(facts: Facts) -> dict[str, Any]:
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
        "compulsory_tokens": total(fresh, "tokens"),
        "hit_rate_prompt": ratio(len(had), len(asked)),
        "hit_rate_prompt_tokens": ratio(total(had, "tokens"), total(asked, "tokens")),
        "hit_rate_sessions": ratio(sum(rates), len(rates)),
        "hit_rate_sessions_p5": quantile(rates, 500),
        "hit_rate_sessions_p50": quantile(rates, 5000),
    }


def contents(facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    objects: dict[str, int] = {}
    for tier in TIERS:
        ok = [row for row in facts.every if is_ok(row)]
        entered = [row for row in ok if row["to_tier"] == tier and row["move"] in ("store", "demote", "copy")]
        kinds = ("demote", "drop", "promote", "delete")
        gone = [row for row in ok if row["from_tier"] == tier and row["move"] in kinds]
        objects[tier] = len(entered) - len(gone)
        found[f"{tier}_left_objects"] = objects[tier]
        found[f"{tier}_left_bytes"] = size_of(entered) - size_of(gone)
    every = sum(objects.values())
    return found | {f"{tier}_left_share": objects[tier] / every if every > 0 else None for tier in TIERS}


def _request(row: dict[str, Any]) -> tuple[int, int]:
    return row["rank"], row["request_id"]


def moves(facts: Facts) -> dict[str, Any]:
    rows = facts.rows
    found: dict[str, Any] = {name: sum(row["move"] == move for row in rows) for move, name in MOVES.items()}
    for tier in TIERS:
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


def latency(facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tier in TIERS:
        for side in SIDES:
            mine, name = [row for row in facts.rows if touches(row, side, tier)], f"{tier}_{side}"
            found |= spread([clocks(row, side)["total"] for row in mine], name)
            found |= spread([clocks(row, side)["device"] for row in mine], f"{name}_device")
    return found


def bandwidth(facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for tier in TIERS:
        for side, able in zip(SIDES, facts.tier_gib_s.get(tier, (None, None)), strict=True):
            mine, name = [row for row in facts.rows if touches(row, side, tier)], f"{tier}_{side}"
            gib = size_of(mine) / GIB
            busy = ratio(gib, union_ns((row["start_ns"], row["end_ns"]) for row in mine) / 1e9)
            rated = weighted(facts, "size_bytes", which=lambda row, s=side, t=tier: touches(row, s, t)) / GIB
            found[f"{name}_gib_s"] = ratio(rated, facts.elapsed_s)
            found[f"{name}_busy_gib_s"] = busy
            found[f"{name}_efficiency"] = ratio(busy, able)
    return found


def waits(facts: Facts) -> dict[str, Any]:
    requests = requests_of(facts)
    is_known = facts.timed and facts.unfinished is not None
    unfinished = sum(one.opened is not None for one in requests) if is_known else None
    found: dict[str, Any] = {"requests": len(requests), "unfinished_requests": unfinished}
    for name, values in measures(facts, requests).items():
        found |= spread(values, name)
    e2e = sum(one.done_ns(facts.token_ns) - one.first("due_ns") for one in requests) if facts.timed else 0
    known = complete(facts, requests, "plan_wait") if facts.timed else []
    for cause in CAUSES:
        found[f"{cause}_wait_mean_ms"] = ratio(sum(one.cause_ns(cause) for one in known) / 1e6, len(known))
        found[f"{cause}_wait_share"] = ratio(sum(one.cause_ns(cause) for one in requests), e2e)
    found["plan_wait_share"] = ratio(sum(one.plan_wait_ns() for one in requests), e2e)
    means = [found[f"{name}_mean_ms"] for name in ("e2e", "io", "queue", "plan_wait", "generation")]
    return found | {"other_mean_ms": None if means[0] is None else means[0] - sum(means[1:])}


def qos(facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in QOS:
        mine = [one for one in requests_of(facts) if one.qos == name]
        known = complete(facts, mine, "ttfb")
        timed = [(one, ttfb) for one in known if facts.timed and (ttfb := one.ttfb_ns()) is not None]
        kept = [
            ttfb / 1e6 <= facts.qos_ms[name] + facts.qos_ms_per_gib * one.prefill_bytes() / GIB for one, ttfb in timed
        ]
        found |= {
            f"{name}_requests": len(mine),
            f"{name}_ttfb_p95_ms": spread([ttfb for _, ttfb in timed], "x")["x_p95_ms"],
            f"{name}_compliance": ratio(sum(kept), len(kept)),
        }
    return found
