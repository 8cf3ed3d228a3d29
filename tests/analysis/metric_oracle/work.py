"""Metrics of the work that was done: throughput, hits, moves, latency, bandwidth, waits."""

from tests.analysis.metric_oracle.arithmetic import grouped, quantile, ratio, size_of, spread, total, union_ns
from tests.analysis.metric_oracle.facts import GIB, MOVES, QOS, SIDES, SOURCES, TIERS, Facts, Numbers, Row, Rows
from tests.analysis.metric_oracle.requests import all_requests, complete, measures, requests_of
from tests.analysis.metric_oracle.rows import (
    CAUSES,
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


def throughput(facts: Facts) -> Numbers:
    tokens, io_s = weighted(facts, "new_tokens"), weighted_io_ns(facts) / 1e9
    begin, end = facts.window or (facts.first_ns or 0, facts.last_ns or 0)
    begun = sum(begin <= one.first("start_ns") <= end for one in all_requests(facts) if one.own)
    return {
        "tokens_generated": total(facts.rows, "new_tokens"),
        "elapsed_s": facts.elapsed_s,
        "storage_io_s": io_s,
        "wall_clock_tok_s": ratio(tokens, facts.elapsed_s),
        "requests_per_s": ratio(begun, facts.elapsed_s),
        "storage_tok_s": ratio(tokens, io_s),
        "mean_inflight": ratio(io_s, facts.elapsed_s),
        "drained_bytes": drained_bytes(facts),
    }


def drained_bytes(facts: Facts) -> float:
    """What moves read and wrote after the cut."""
    if facts.window is None or facts.last_ns <= facts.cut_ns:
        return 0.0
    moved = (row for row in facts.every for side in SIDES if touches(row, side))
    return sum(share_in(row, facts.cut_ns, facts.last_ns) * row["size_bytes"] for row in moved)


def steady(facts: Facts) -> Numbers:
    rates = ("tok_s", "decode_read_gib_s", "nvme_read_gib_s", "nvme_write_gib_s")
    sums = dict.fromkeys([f"steady_{name}" for name in rates], 0.0)
    if not facts.rows:
        return dict.fromkeys(("steady_s", *sums))
    begin = facts.first_ns if facts.warm_end_ns is None else facts.warm_end_ns
    begin, end = facts.window or (begin, max(row["start_ns"] for row in facts.rows))
    for row in facts.every:
        share = share_in(row, begin, end)
        gib = row["size_bytes"] * share / GIB
        sums["steady_tok_s"] += row["new_tokens"] * share
        sums["steady_decode_read_gib_s"] += gib * is_decode_hit(row)
        for side in SIDES:
            sums[f"steady_nvme_{side}_gib_s"] += gib * touches(row, side, "nvme")
    seconds = (end - begin) / 1e9
    return {"steady_s": seconds} | {name: ratio(value, seconds) for name, value in sums.items()}


def is_decode_hit(row: Row) -> bool:
    return is_hit(row) and row["phase"] == "decode"


def data(facts: Facts) -> Numbers:
    decode = [row for row in facts.rows if is_decode_hit(row)]
    stores = stored(facts.rows)
    found = {
        "decode_read_bytes": size_of(decode),
        "decode_read_gib_s": ratio(weighted(facts, "size_bytes", which=is_decode_hit) / GIB, facts.elapsed_s),
        "prefill_write_bytes": size_of(stores),
        "nvme_tokens_processed": total(filter(on_nvme, facts.rows), "tokens"),
    }
    for tier in TIERS:
        found[f"{tier}_decode_read_bytes"] = size_of(row for row in decode if row["from_tier"] == tier)
        found[f"{tier}_prefill_write_bytes"] = size_of(row for row in stores if row["to_tier"] == tier)
    return found


def stored(rows: Rows) -> Rows:
    return [row for row in rows if is_ok(row) and row["move"] == "store"]


def hit_rate(facts: Facts) -> Numbers:
    reads = [row for row in facts.rows if is_read(row)]
    touched = reads + [row for row in facts.rows if is_first_touch(row)]
    found = {"hit_rate_refs": hit_share(reads, touched)}
    reads = [row for row in reads if row["phase"] == "prefill"]
    hits = [row for row in reads if is_hit(row)]
    found |= {
        "hit_rate": hit_share(hits, reads),
        "hit_rate_tokens": ratio(total(hits, "tokens"), total(reads, "tokens")),
    }
    for source in SOURCES:
        mine = [row for row in reads if row["source"] == source]
        found[f"{source}_hit_rate"] = hit_share(mine, mine)
    for tier in TIERS:
        found[f"{tier}_hit_rate"] = hit_share([row for row in hits if row["from_tier"] == tier], reads)
    by_request = grouped(reads, lambda row: (row["rank"], row["request_id"])).values()
    rates = [sum(map(is_hit, rows)) / len(rows) for rows in by_request]
    return found | {"hit_rate_requests": ratio(sum(rates), len(rates))} | prompts(facts)


def hit_share(rows: Rows, whole: Rows) -> float | None:
    return ratio(sum(map(is_hit, rows)), len(whole))


def is_first_touch(row: Row) -> bool:
    return row["op"] == "write" and row["move"] in ("store", "bypass")


def prompts(facts: Facts) -> Numbers:
    """What prompts consist of, a document's ingestion being none, and what of it the cache had."""
    prefill = [row for row in facts.rows if row["phase"] == "prefill"]
    asked = [row for row in prefill if is_read(row) or (is_first_touch(row) and row["source"] != "rag")]
    sessions = grouped(asked, lambda row: (row["rank"], row["session_id"])).values()
    rates = [total(filter(is_hit, rows), "tokens") / whole for rows in sessions if (whole := total(rows, "tokens"))]
    return {
        "prompt_tokens": total(asked, "tokens"),
        "compulsory_tokens": total(filter(is_first_touch, asked), "tokens"),
        "hit_rate_prompt": hit_share(asked, asked),
        "hit_rate_prompt_tokens": ratio(total(filter(is_hit, asked), "tokens"), total(asked, "tokens")),
        "hit_rate_sessions": ratio(sum(rates), len(rates)),
        "hit_rate_sessions_p5": quantile(rates, 500),
        "hit_rate_sessions_p50": quantile(rates, 5000),
    }


def contents(facts: Facts) -> Numbers:
    ok, found = [row for row in facts.every if is_ok(row)], Numbers()
    for tier in TIERS:
        entered = [row for row in ok if row["to_tier"] == tier and row["move"] in ("store", "demote", "copy")]
        leaving = ("demote", "drop", "promote", "delete")
        gone = [row for row in ok if row["from_tier"] == tier and row["move"] in leaving]
        found[f"{tier}_left_objects"] = len(entered) - len(gone)
        found[f"{tier}_left_bytes"] = size_of(entered) - size_of(gone)
    every = sum(found[f"{tier}_left_objects"] for tier in TIERS)
    for tier in TIERS:
        found[f"{tier}_left_share"] = found[f"{tier}_left_objects"] / every if every > 0 else None
    return found


def moves(facts: Facts) -> Numbers:
    rows = facts.rows
    read, written = (size_of(row for row in rows if touches(row, side)) for side in SIDES)
    gone = [row for row in rows if row["move"] == "miss" or (row["move"] == "bypass" and row["seq"] == 0)]
    return {name: sum(row["move"] == move for row in rows) for move, name in MOVES.items()} | {
        "logged_ops": sum(row["seq"] == 0 for row in rows),
        "evictions": sum(map(is_eviction, rows)),
        "read_write_ratio": ratio(read, written),
        "recomputed_tokens": total(gone, "tokens"),
        "failed_moves": sum(row["status"] == "error" for row in rows),
        "upstream_moves": sum(row["status"] == "upstream" for row in rows),
    }


def tiers(facts: Facts) -> Numbers:
    """What each tier read and wrote, how fast, and how long each move of it took."""
    found = Numbers()
    for tier in TIERS:
        for side, able in zip(SIDES, facts.tier_gib_s.get(tier, (None, None)), strict=True):
            name, mine = f"{tier}_{side}", [row for row in facts.rows if touches(row, side, tier)]
            busy_s = union_ns((row["start_ns"], row["end_ns"]) for row in mine) / 1e9
            busy = ratio(size_of(mine) / GIB, busy_s)
            rated = weighted(facts, "size_bytes", which=lambda row, s=side, t=tier: touches(row, s, t))
            found |= {
                f"{name}s": len(mine),
                f"{name}_bytes": size_of(mine),
                f"{name}_gib_s": ratio(rated / GIB, facts.elapsed_s),
                f"{name}_busy_gib_s": busy,
                f"{name}_efficiency": ratio(busy, able),
            }
            found |= spread([row[f"{side}_ns"] for row in mine], name)
            found |= spread([row[f"device_{side}_ns"] for row in mine], f"{name}_device")
    return found


def waits(facts: Facts) -> Numbers:
    requests = requests_of(facts)
    is_known = facts.timed and facts.unfinished is not None
    unfinished = sum(one.opened is not None for one in requests) if is_known else None
    found: Numbers = {"requests": len(requests), "unfinished_requests": unfinished}
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


def qos(facts: Facts) -> Numbers:
    found = Numbers()
    for name in QOS:
        mine = [one for one in requests_of(facts) if one.qos == name]
        known = complete(facts, mine, "ttfb") if facts.timed else []
        timed = [(one, ttfb) for one in known if (ttfb := one.ttfb_ns()) is not None]
        kept = [
            ttfb / 1e6 <= facts.qos_ms[name] + facts.qos_ms_per_gib * one.prefill_bytes() / GIB for one, ttfb in timed
        ]
        found |= {
            f"{name}_requests": len(mine),
            f"{name}_ttfb_p95_ms": spread([ttfb for _, ttfb in timed], "x")["x_p95_ms"],
            f"{name}_compliance": ratio(sum(kept), len(kept)),
        }
    return found
