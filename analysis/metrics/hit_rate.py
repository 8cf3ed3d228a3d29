"""Hit rates by each of their definitions: a hit rate means nothing without its definition."""

from typing import Final

import polars as pl
from polars import col

from analysis.log.columns import FIRST_TOUCH, MAX_REQUESTS, OK, PROMPT, READS, SERVED
from analysis.log.log import Log
from analysis.metrics.metric import Declared, Metric, divide
from replayer.schema import TIERS
from tracegen.schema import ENUMS

_ROWS = col("rows")
_TOKENS = col("tokens")
_from_tier = col("from_tier")
_source = col("source")


def hit_rate(log: Log) -> pl.LazyFrame:
    """Hit rates by each of their definitions; null without a read. A read that failed is not a hit.

    prompt_tokens: Σ tokens of prompt ops: reads and writes of phase prefill, except writes of
        documents that RAG ingests.
    compulsory_tokens: Σ tokens of compulsory misses: prompt ops that are writes, the first touch of
        an object, which no cache can hit.
    hit_rate_prompt: hits among prompt ops / prompt ops, including compulsory misses: by blocks,
        what Mooncake calls hit rate.
    hit_rate_prompt_tokens: Σ tokens of hits among prompt ops / prompt_tokens: what vLLM calls hit
        rate.
    hit_rate_sessions: mean of hit_rate_prompt_tokens over sessions (conversations) with a prompt:
        what WEKA calls hit rate.
    hit_rate_sessions_p5, hit_rate_sessions_p50: P5 and P50 of hit_rate_prompt_tokens over the same
        sessions.
    hit_rate: hits / reads, by ops, without compulsory misses. Here and below only reads of phase
        prefill count: a request's decode reads of its own object are no reuse.
    hit_rate_tokens: Σ tokens of hits / Σ tokens of reads.
    hit_rate_refs: hits / (reads + writes) of all phases, decode reads included, as kv-cache.py
        counts.
    hit_rate_requests: mean of hits / reads over requests that read.
    {source}_hit_rate: hits / reads of the source.
    {tier}_hit_rate: hits that the tier served / reads from any tier.
    """
    hit = OK & SERVED
    reads = READS & (col("phase") == "prefill")
    found = hit & reads
    per_request = (
        log.every_request.lazy().filter(col("reads") > 0).select(hit_rate_requests=(col("hits") / col("reads")).mean())
    )
    per_op = log.cells.select(
        prompt_tokens=_TOKENS.filter(PROMPT).sum(),
        compulsory_tokens=_TOKENS.filter(PROMPT & FIRST_TOUCH).sum(),
        hit_rate_prompt=_divide(hit & PROMPT, PROMPT),
        hit_rate_prompt_tokens=_divide(hit & PROMPT, PROMPT, _TOKENS),
        hit_rate=_divide(found, reads),
        hit_rate_tokens=_divide(found, reads, _TOKENS),
        hit_rate_refs=_divide(hit, READS | FIRST_TOUCH),
        **{
            f"{source}_hit_rate": _divide(found & (_source == source), reads & (_source == source))
            for source in ENUMS["source"]
        },
        **{f"{tier}_hit_rate": _divide(found & (_from_tier == tier), reads) for tier in TIERS},
    )
    return pl.concat([per_op, per_request, _rate_sessions(log)], how="horizontal")


def _rate_sessions(log: Log) -> pl.LazyFrame:
    """Compute the distribution of hit rates over sessions."""
    rank = col("request") // MAX_REQUESTS
    sessions = (
        log.every_request.lazy()
        .group_by(rank.alias("rank"), "session_id")
        .agg(col("prompt_tokens", "prompt_hit_tokens").sum())
    )
    rate = col("prompt_hit_tokens") / col("prompt_tokens")
    return (
        sessions.filter(col("prompt_tokens") > 0)
        .select(rate.alias("rate").sort())
        .select(
            # a list is added up in its order; a column in parts, which differ from call to call
            hit_rate_sessions=col("rate").implode().list.mean().first(),
            hit_rate_sessions_p5=col("rate").quantile(0.05, "linear"),
            hit_rate_sessions_p50=col("rate").quantile(0.5, "linear"),
        )
    )


def _divide(hits: pl.Expr, rows: pl.Expr, weight: pl.Expr = _ROWS) -> pl.Expr:
    """Divide the weight of hits by the weight of rows; null without rows."""
    return divide(weight.filter(hits).sum(), weight.filter(rows).sum())


def _declare(name: str, label: str) -> Metric:
    """Describe a hit rate."""
    return Metric(name, "share", "work", label, "higher")


METRICS: Final[Declared] = {
    hit_rate: (
        Metric("prompt_tokens", "tokens", "work", "prompt tokens"),
        Metric("compulsory_tokens", "tokens", "work", "tokens touched first (compulsory misses)"),
        _declare("hit_rate_prompt", "prompt blocks from the cache, first touches included"),
        _declare("hit_rate_prompt_tokens", "prompt tokens from the cache, first touches included"),
        _declare("hit_rate_sessions", "prompt tokens from the cache, mean of sessions"),
        _declare("hit_rate_sessions_p5", "prompt tokens from the cache, P5 of sessions"),
        _declare("hit_rate_sessions_p50", "prompt tokens from the cache, P50 of sessions"),
        _declare("hit_rate", "re-reads that hit (hits / reads), first touches left out"),
        _declare("hit_rate_tokens", "tokens of re-reads that hit"),
        _declare("hit_rate_refs", "hits / (reads + writes), decode included"),
        _declare("hit_rate_requests", "hits / reads per request, mean"),
        _declare("{source}_hit_rate", "re-reads that hit, source {source}"),
        _declare("{tier}_hit_rate", "re-reads that hit in {tier}"),
    )
}
