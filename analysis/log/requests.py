"""Requests: the time each one waited and took, summed over its moves."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from polars import col

from analysis.log.columns import CAUSES, FOR_OTHERS, MAX_REQUESTS, OK, PLAN_WAIT, PROMPT, READS, SERVED, STAMPS, waited
from analysis.log.quantiles import Ints, ascending

# Rank and request id as one number: grouping by one key is faster than by two.
REQUEST: Final = (col("rank").cast(pl.Int64) * MAX_REQUESTS + col("request_id")).alias("request")


def sum_by_request(stretches: Sequence[pl.LazyFrame], token_ns: int, *, timed: bool) -> pl.DataFrame:
    """Sum the moves of each request of each rank, except evictions and copies.

    Args:
        stretches: the rows of the log.
        token_ns: generation time per token in ns.
        timed: whether to compute io_ns, queue_ns and plan_wait_ns.

    Returns:
        One row per request. Columns:

        - qos (its code), session_id, and warmup: whether any of its moves is of the warm-up;
        - due_ns of its first op, start_ns of its first move, prefill_end_ns, and done_ns, which
          includes generation;
        - if `timed`: io_ns, the time in which any of its moves was executed; queue_ns, the rest of
          the time in which any was in the queue; plan_wait_ns, the rest of the time in which any
          waited for the plan;
        - sums over its moves: generation_ns, {cause}_wait_ns, and blocked_ns;
        - sums over its moves after the warm-up: reads, hits, prompt_tokens, and prompt_hit_tokens
          (of them, those that hit).
    """
    aggregates = _aggregates(token_ns)
    parts = [
        stretch.group_by(REQUEST)
        .agg(getattr(value, how)().alias(name) for how, values in aggregates.items() for name, value in values.items())
        .collect(engine="streaming")
        for stretch in stretches
    ]
    requests = pl.concat(parts)
    if len(parts) > 1:  # few requests are in more than one stretch; only these are aggregated again
        is_split = requests["request"].is_duplicated()
        again = (getattr(col(*values), how)() for how, values in aggregates.items())
        merged = requests.filter(is_split).group_by("request").agg(*again)
        requests = pl.concat([requests.filter(~is_split), merged])
    requests = requests.filter(col("due_ns").is_not_null())
    if token_ns:
        requests = _with_generation(requests, stretches, token_ns)
    return _with_unions(requests, stretches) if timed else requests


def _aggregates(token_ns: int) -> dict[str, dict[str, pl.Expr]]:
    """Return the columns that requests have, by the way in which those of their rows become one."""
    own = ~FOR_OTHERS
    steady = ~col("warmup")
    prefill = col("phase") == "prefill"
    tokens = col("tokens").cast(pl.Int64)
    generation = col("new_tokens").cast(pl.Int64) * token_ns
    return {
        "min": {
            "qos": col("qos").to_physical(),
            "session_id": col("session_id"),
            **{name: pl.when(own).then(name) for name in ("due_ns", "start_ns")},
        },
        "max": {
            "warmup": col("warmup"),
            "prefill_end_ns": pl.when(prefill & own).then("end_ns"),
            "done_ns": pl.when(own).then(col("end_ns") + generation),
        },
        "sum": {
            "blocked_ns": PLAN_WAIT * own,
            **{f"{cause}_wait_ns": waited(cause) * own for cause in CAUSES},
            "generation_ns": generation,
            "reads": READS & prefill & steady,
            "hits": OK & SERVED & prefill & steady,
            "prompt_tokens": tokens * (PROMPT & steady),
            "prompt_hit_tokens": tokens * (PROMPT & OK & SERVED & steady),
        },
    }


def _with_unions(requests: pl.DataFrame, stretches: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """Add io_ns, queue_ns and plan_wait_ns; split requests are computed from all stretches at once."""
    rows = [stretch.filter(~FOR_OTHERS).select(REQUEST, *STAMPS) for stretch in stretches]
    loaded = (
        stretch if len(rows) == 1 else stretch.collect(engine="streaming").lazy()  # else it is read five times
        for stretch in rows
    )
    lengths = pl.concat(sum_unions(stretch) for stretch in loaded)
    split = lengths.filter(col("request").is_duplicated())["request"].unique().implode()
    if len(split[0]):
        is_split = col("request").is_in(split)
        whole = pl.concat(stretch.filter(is_split) for stretch in rows)
        lengths = pl.concat([lengths.filter(~is_split), sum_unions(whole)])
    times = lengths.select(
        "request", "io_ns", queue_ns=col("ready_ns") - col("io_ns"), plan_wait_ns=col("due_ns") - col("ready_ns")
    )
    return requests.join(times, on="request", how="left")


def _with_generation(requests: pl.DataFrame, stretches: Sequence[pl.LazyFrame], token_ns: int) -> pl.DataFrame:
    """Add the generation of ops with several rows to done_ns.

    An op generates when its last own row has ended; its tokens are on its first row. After a hit,
    further rows of its own are those that store the object in faster tiers.
    """
    op = (REQUEST, "position")
    has_tokens = (col("seq") == 0) & (col("new_tokens") > 0)
    tokens = col("new_tokens").cast(pl.Int64)
    ends = [stretch.filter(col("seq") > 0, ~FOR_OTHERS).select(*op, "end_ns") for stretch in stretches]
    later = pl.concat(rows.collect(engine="streaming") for rows in ends).lazy()
    # Few ops have several rows, so each stretch is joined by itself, and only those are kept.
    firsts = (stretch.filter(has_tokens).select(*op, tokens) for stretch in stretches)
    both = [rows.join(later, on=["request", "position"]).collect(engine="streaming") for rows in firsts]
    done = (col("end_ns") + col("new_tokens") * token_ns).max().alias("op_done_ns")
    joined = requests.join(pl.concat(both).group_by("request").agg(done), on="request", how="left")
    return joined.with_columns(pl.max_horizontal("done_ns", "op_done_ns").alias("done_ns")).drop("op_done_ns")


def sum_unions(rows: pl.LazyFrame) -> pl.DataFrame:
    """Return the length in ns of the union of each request's intervals.

    Begins and ends are sorted apart. Then the i-th end adds the time since the i-th begin or the
    end before it, whichever is later. Request and stamp are packed into one integer, so that one sort
    serves all requests.

    Args:
        rows: one row per move, with `request` and STAMPS.

    Returns:
        One row per request: io_ns (start to end), ready_ns (ready to end), due_ns (due to end).
    """
    bounds = rows.select(
        low=col("request").min(), high=col("request").max(), first=col("due_ns").min(), last=col("end_ns").max()
    )
    low, high, first, last = bounds.collect(engine="streaming").row(0)
    if low is None:
        columns = ("request", "io_ns", "ready_ns", "due_ns")
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64))
    bits = (last - first).bit_length()
    if (high - low).bit_length() + bits > 63:
        is_lower = col("request") <= (low + high) // 2
        halves = (rows.filter(is_lower), rows.filter(~is_lower))
        return pl.concat([sum_unions(half) for half in halves])

    def pack(stamp: str) -> Ints:
        packed = (col("request") - low) * (1 << bits) + (col(stamp) - first)
        return ascending(rows.select(packed.alias(stamp)).collect(engine="streaming")[stamp])

    ends = pack("end_ns")
    groups = np.concatenate([[0], np.flatnonzero(np.diff(ends >> bits)) + 1])
    due, ready, io = (_sum_unions(pack(stamp), ends, groups) for stamp in STAMPS[:-1])
    requests = (ends[groups] >> bits) + low
    return pl.DataFrame({"request": requests, "io_ns": io, "ready_ns": ready, "due_ns": due})


def _sum_unions(begins: Ints, ends: Ints, groups: Ints) -> Ints:
    """Return the length of each group's union.

    The last end of a group is before every begin of the next one, so the minimum ignores it.
    """
    added = ends - begins
    np.minimum(added[1:], np.diff(ends), out=added[1:])
    sums: Ints = np.add.reduceat(added, groups)
    return sums
