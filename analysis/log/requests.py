"""Requests: what the moves of each waited for, and when it was done."""

from collections.abc import Iterable, Sequence
from typing import Final

import polars as pl

from analysis.log.columns import (
    CAUSES,
    FOR_OTHERS,
    MAX_REQUESTS,
    OK,
    OPENS,
    PLAN_WAIT,
    PROMPT,
    READS,
    SERVED,
    SIZE,
    STAMPS,
    waited,
)
from analysis.log.unions import sum_unions

UNTIMED: Final = ("generation",)
"""What is measured of a request under pace asap, which has all of the window due at once: no time since then."""
REQUEST_TIMES: Final = {
    "io": pl.col("io_ns"),
    "queue": pl.col("queue_ns"),
    "plan_wait": pl.col("plan_wait_ns"),
    "lateness": pl.col("start_ns") - pl.col("due_ns"),
    "ttfb": pl.col("prefill_end_ns") - pl.col("due_ns"),
    "generation": pl.col("generation_ns"),
    "e2e": pl.col("done_ns") - pl.col("due_ns"),
}
"""What is measured of a request."""
# One key is quicker than two.
_REQUEST: Final = (pl.col("rank").cast(pl.Int64) * MAX_REQUESTS + pl.col("request_id")).alias("request")


def sum_by_request(stretches: Sequence[pl.LazyFrame], token_ns: int, *, timed: bool) -> pl.DataFrame:
    """One row per request of a rank: what its own moves waited for and found, evictions for others left out.

    Columns: qos (code); due_ns of its first op; start_ns of its first move; prefill_end_ns; done_ns, generation
    included; io_ns, queue_ns, plan_wait_ns, where it is timed: how long any of its moves was at work, else any in
    the queue, else any waited for the plan; generation_ns; {cause}_wait_ns and blocked_ns, sums over its moves;
    reads, hits; session_id; prompt_tokens and prompt_hit_tokens, those of them that were found; prefill_bytes, moved
    before its first token.
    """
    prefill, own = pl.col("phase") == "prefill", ~FOR_OTHERS
    moved = OK & pl.col("move").is_in(["hit", "promote", "store"])
    generation = pl.col("new_tokens").cast(pl.Int64) * token_ns
    sums = {
        "blocked_ns": PLAN_WAIT * own,
        **{f"{cause}_wait_ns": waited(cause) * own for cause in CAUSES},
        "generation_ns": generation,
        "reads": READS,
        "hits": OK & SERVED,
        "prompt_tokens": pl.col("tokens").cast(pl.Int64) * PROMPT,
        "prompt_hit_tokens": pl.col("tokens").cast(pl.Int64) * (PROMPT & OK & SERVED),
        "prefill_bytes": SIZE * (prefill & moved),
    }
    firsts = {"qos": pl.col("qos").to_physical(), "session_id": pl.col("session_id")} | {
        n: pl.when(own).then(n) for n in ("due_ns", "start_ns")
    }
    lasts = {
        "prefill_end_ns": pl.when(prefill & own).then("end_ns"),
        "done_ns": pl.when(own).then(pl.col("end_ns") + generation * ~OPENS),
    }
    parts = [
        stretch.group_by(_REQUEST)
        .agg(
            *(value.min().alias(name) for name, value in firsts.items()),
            *(value.max().alias(name) for name, value in lasts.items()),
            *(value.cast(pl.Int64).sum().alias(name) for name, value in sums.items()),
        )
        .collect(engine="streaming")
        for stretch in stretches
    ]
    joined = _joined(parts, firsts, lasts, sums)
    found = (_generated(joined, stretches, token_ns) if token_ns else joined).collect(engine="streaming")
    return _united(found, stretches) if timed else found


def _joined(
    parts: Sequence[pl.DataFrame], firsts: Iterable[str], lasts: Iterable[str], sums: Iterable[str]
) -> pl.LazyFrame:
    """Requests of several stretches; few lie in more than one, and only these are added up again."""
    found = pl.concat(parts)
    if len(parts) > 1:
        twice = found["request"].is_duplicated()
        again = found.filter(twice).group_by("request")
        added = again.agg(pl.col(*firsts).min(), pl.col(*lasts).max(), pl.col(*sums).sum())
        found = pl.concat([found.filter(~twice), added])
    return found.lazy().filter(pl.col("due_ns").is_not_null())


def _united(requests: pl.DataFrame, stretches: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """With io_ns, queue_ns and plan_wait_ns; of requests that lie in several stretches from all of them at once."""
    rows = [stretch.filter(~FOR_OTHERS).select(_REQUEST, *STAMPS) for stretch in stretches]
    once = (some if len(rows) == 1 else some.collect(engine="streaming").lazy() for some in rows)  # not read five times
    found = pl.concat(sum_unions(some) for some in once)
    twice = found.filter(pl.col("request").is_duplicated())["request"].unique().implode()
    if len(twice[0]):
        again = pl.concat(some.filter(pl.col("request").is_in(twice)) for some in rows)
        found = pl.concat([found.filter(~pl.col("request").is_in(twice)), sum_unions(again)])
    unions = found.select(
        "request",
        "io_ns",
        queue_ns=pl.col("ready_ns") - pl.col("io_ns"),
        plan_wait_ns=pl.col("due_ns") - pl.col("ready_ns"),
    )
    return requests.join(unions, on="request", how="left")


def _generated(requests: pl.LazyFrame, stretches: Sequence[pl.LazyFrame], token_ns: int) -> pl.LazyFrame:
    """An op generates when its last row has ended, which is not the one with its tokens if there are several."""
    opens = (pl.col("seq") == 0) & (pl.col("new_tokens") > 0) & OPENS
    ends = pl.when(~FOR_OTHERS).then("end_ns").alias("end_ns")
    rows = [
        stretch.filter(opens | (pl.col("seq") > 0) & ~FOR_OTHERS)
        .select(_REQUEST, "position", ends, pl.col("new_tokens").cast(pl.Int64))
        .collect(engine="streaming")
        for stretch in stretches
    ]
    ops = pl.concat(rows).lazy().group_by("request", "position").agg(pl.col("end_ns").max(), pl.col("new_tokens").sum())
    done = (pl.col("end_ns") + pl.col("new_tokens") * token_ns).max().alias("op_done_ns")
    last = ops.filter(pl.col("new_tokens") > 0).group_by("request").agg(done)
    joined = requests.join(last, on="request", how="left")
    return joined.with_columns(pl.max_horizontal("done_ns", "op_done_ns").alias("done_ns")).drop("op_done_ns")
