"""Metrics of the work that was done: throughput, hits, moves, latency, bandwidth, waits."""

import numpy as np
import polars as pl
from polars import col

from tests.analysis.metric_oracle.arithmetic import in_ms, ratio, spread, union_ns
from tests.analysis.metric_oracle.facts import (
    CAUSES,
    GIB,
    MOVES,
    QOS,
    SIDES,
    SOURCES,
    TIERS,
    Facts,
    Numbers,
    share_in,
)
from tests.analysis.metric_oracle.requests import all_requests, complete, measures, requests_of

DECODE_HIT = col("is_hit") & (col("phase") == "decode")
STORED = col("is_ok") & (col("move") == "store")


def throughput(facts: Facts) -> Numbers:
    tokens, io_s = facts.weigh("new_tokens"), facts.weigh("io_ns") / 1e9
    begin, end = facts.window
    begun = sum(begin <= one.first("start_ns") <= end for one in all_requests(facts) if len(one.own))
    return {
        "tokens_generated": facts.rows["new_tokens"].sum(),
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
    if facts.cut_ns is None or facts.span[1] <= facts.cut_ns:
        return 0.0
    touched = facts.every["size_bytes"] * sum(facts.every[f"{side}_tier"].is_not_null().cast(int) for side in SIDES)
    return float((touched * share_in(facts.every, facts.cut_ns, facts.last_ns)).sum())


def steady(facts: Facts) -> Numbers:
    rates = {"decode_read_gib_s": DECODE_HIT, **{f"nvme_{side}_gib_s": col(f"{side}_tier") == "nvme" for side in SIDES}}
    if not len(facts.rows):
        return dict.fromkeys(("steady_s", "steady_tok_s", *(f"steady_{name}" for name in rates)))
    begin, end = facts.window
    if facts.cut_ns is None:
        begin, end = facts.first_ns if facts.warm_end_ns is None else facts.warm_end_ns, facts.rows["start_ns"].max()
    rows, seconds = facts.every.with_columns(share=share_in(facts.every, begin, end)), (end - begin) / 1e9
    found = {"steady_s": seconds, "steady_tok_s": ratio((rows["new_tokens"] * rows["share"]).sum(), seconds)}
    for name, where in rates.items():
        mine = rows.filter(where)
        found[f"steady_{name}"] = ratio((mine["size_bytes"] * mine["share"]).sum() / GIB, seconds)
    return found


def data(facts: Facts) -> Numbers:
    decode, stores = facts.rows.filter(DECODE_HIT), facts.rows.filter(STORED)
    on_nvme = (col("read_tier") == "nvme") | (col("write_tier") == "nvme")
    found = {
        "decode_read_bytes": decode["size_bytes"].sum(),
        "decode_read_gib_s": ratio(facts.weigh("size_bytes", DECODE_HIT) / GIB, facts.elapsed_s),
        "prefill_write_bytes": stores["size_bytes"].sum(),
        "nvme_tokens_processed": facts.rows.filter(on_nvme)["tokens"].sum(),
    }
    for tier in TIERS:
        found[f"{tier}_decode_read_bytes"] = decode.filter(from_tier=tier)["size_bytes"].sum()
        found[f"{tier}_prefill_write_bytes"] = stores.filter(to_tier=tier)["size_bytes"].sum()
    return found


def hit_share(rows: pl.DataFrame, whole: pl.DataFrame) -> float | None:
    return ratio(rows["is_hit"].sum(), len(whole))


def token_share(rows: pl.DataFrame) -> float | None:
    return ratio(rows.filter("is_hit")["tokens"].sum(), rows["tokens"].sum())


def hit_rate(facts: Facts) -> Numbers:
    touched = facts.rows.filter(col("is_read") | col("is_first_touch"))
    reads = facts.rows.filter("is_read", phase="prefill")
    requests = reads.partition_by("rank", "request_id")
    found = {
        "hit_rate_refs": hit_share(touched, touched),
        "hit_rate": hit_share(reads, reads),
        "hit_rate_tokens": token_share(reads),
        "hit_rate_requests": ratio(sum(rows["is_hit"].mean() for rows in requests), len(requests)),
    }
    for source in SOURCES:
        mine = reads.filter(source=source)
        found[f"{source}_hit_rate"] = hit_share(mine, mine)
    for tier in TIERS:
        found[f"{tier}_hit_rate"] = hit_share(reads.filter(from_tier=tier), reads)
    return found | prompts(facts)


def prompts(facts: Facts) -> Numbers:
    """What prompts consist of, a document's ingestion being none, and what of it the cache had."""
    is_written = col("is_first_touch") & (col("source") != "rag")
    asked = facts.rows.filter(col("is_read") | is_written, phase="prefill")
    sessions = [rows for rows in asked.partition_by("rank", "session_id") if rows["tokens"].sum()]
    rates = [token_share(rows) for rows in sessions]
    return {
        "prompt_tokens": asked["tokens"].sum(),
        "compulsory_tokens": asked.filter("is_first_touch")["tokens"].sum(),
        "hit_rate_prompt": hit_share(asked, asked),
        "hit_rate_prompt_tokens": token_share(asked),
        "hit_rate_sessions": ratio(sum(rates), len(rates)),
        "hit_rate_sessions_p5": float(np.quantile(rates, 0.05)) if rates else None,
        "hit_rate_sessions_p50": float(np.quantile(rates, 0.5)) if rates else None,
    }


def contents(facts: Facts) -> Numbers:
    ok, found = facts.every.filter("is_ok"), Numbers()
    for tier in TIERS:
        entered = ok.filter(col("move").is_in(["store", "demote", "copy"]), to_tier=tier)
        gone = ok.filter(col("move").is_in(["demote", "drop", "promote", "delete"]), from_tier=tier)
        found[f"{tier}_left_objects"] = len(entered) - len(gone)
        found[f"{tier}_left_bytes"] = entered["size_bytes"].sum() - gone["size_bytes"].sum()
    every = sum(found[f"{tier}_left_objects"] for tier in TIERS)
    for tier in TIERS:
        found[f"{tier}_left_share"] = found[f"{tier}_left_objects"] / every if every > 0 else None
    return found


def moves(facts: Facts) -> Numbers:
    rows = facts.rows
    read, written = (rows.filter(col(f"{side}_tier").is_not_null())["size_bytes"].sum() for side in SIDES)
    gone = (col("move") == "miss") | ((col("move") == "bypass") & (col("seq") == 0))
    return {name: len(rows.filter(move=move)) for move, name in MOVES.items()} | {
        "logged_ops": len(rows.filter(seq=0)),
        "evictions": len(rows.filter(col("move").is_in(["demote", "drop"]))),
        "read_write_ratio": ratio(read, written),
        "recomputed_tokens": rows.filter(gone)["tokens"].sum(),
        "failed_moves": len(rows.filter(status="error")),
        "upstream_moves": len(rows.filter(status="upstream")),
    }


def tiers(facts: Facts) -> Numbers:
    """What each tier read and wrote, how fast, and how long each move of it took."""
    found = Numbers()
    for tier in TIERS:
        for side, able in zip(SIDES, facts.held["tier_gib_s"].get(tier, (None, None)), strict=True):
            name, where = f"{tier}_{side}", col(f"{side}_tier") == tier
            mine = facts.rows.filter(where)
            busy = ratio(mine["size_bytes"].sum() / GIB, union_ns(mine) / 1e9)
            found |= {
                f"{name}s": len(mine),
                f"{name}_bytes": mine["size_bytes"].sum(),
                f"{name}_gib_s": ratio(facts.weigh("size_bytes", where) / GIB, facts.elapsed_s),
                f"{name}_busy_gib_s": busy,
                f"{name}_efficiency": ratio(busy, able),
            }
            found |= spread(mine[f"{side}_ns"], name) | spread(mine[f"device_{side}_ns"], f"{name}_device")
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
    found, requests = Numbers(), requests_of(facts)
    for name in QOS:
        mine = [one for one in requests if one.qos == name]
        known = complete(facts, mine, "ttfb") if facts.timed else []
        timed = [ttfb for one in known if (ttfb := one.ttfb_ns()) is not None]
        kept = [ttfb / 1e6 <= facts.held["qos_ms"][name] for ttfb in timed]
        found |= {
            f"{name}_requests": len(mine),
            f"{name}_ttfb_p95_ms": in_ms(timed)["p95_ms"],
            f"{name}_compliance": ratio(sum(kept), len(kept)),
        }
    return found
