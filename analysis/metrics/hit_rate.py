"""Hit rates under each of their definitions; a hit rate without its definition means nothing."""

import polars as pl

from analysis.log.columns import FIRST_TOUCH, MAX_REQUESTS, OK, PROMPT, READS, SERVED
from analysis.log.log import Log
from replayer.schema import TIERS
from tracegen.schema import ENUMS

_ROWS, _TOKENS = pl.col("rows"), pl.col("tokens")
_OWN = pl.col("source") == "user"


def hit_rate(log: Log) -> pl.LazyFrame:
    """Shares of what was asked for that was found; null where nothing was. A read that failed is no hit.

    prompt_tokens: Σ tokens of what prompts consist of: reads and writes of phase prefill, documents that RAG ingests
        left out.
    compulsory_misses: the writes among them: what is touched for the first time, which no cache can hold.
    compulsory_tokens: Σ their tokens.
    hit_rate_prompt, hit_rate_prompt_tokens: hits among them / all of them, compulsory misses included, by ops (blocks)
        and by tokens: what vLLM, Mooncake and WEKA call hit rate.
    hit_rate_sessions: hit_rate_prompt_tokens of each session (conversation), as the mean over sessions with a prompt.
    hit_rate_sessions_p5, hit_rate_sessions_p50: what 95% and half of the sessions have, or more.
    hit_rate: hits / reads, by ops: compulsory misses left out.
    hit_rate_tokens: the same by tokens.
    hit_rate_reuse, hit_rate_reuse_tokens: without source user, a request's decode reads of its own object.
    hit_rate_refs, hit_rate_refs_tokens: hits / (reads + writes) of all phases, decode reads included.
    hit_rate_requests: hits / reads of each request, as the mean over requests that read.
    {source}_hit_rate: hits / reads of the source.
    {tier}_hit_rate: hits that the tier served / all reads.
    {tier}_hit_rate_reuse: the same without source user.
    """
    hit = OK & SERVED
    of_requests = log.requests.filter(pl.col("reads") > 0).select(
        hit_rate_requests=(pl.col("hits") / pl.col("reads")).mean()
    )
    of_ops = log.cells.select(
        prompt_tokens=_TOKENS.filter(PROMPT).sum(),
        compulsory_misses=_ROWS.filter(PROMPT & FIRST_TOUCH).sum(),
        compulsory_tokens=_TOKENS.filter(PROMPT & FIRST_TOUCH).sum(),
        hit_rate_prompt=_rate(hit & PROMPT, PROMPT),
        hit_rate_prompt_tokens=_rate(hit & PROMPT, PROMPT, _TOKENS),
        hit_rate=_rate(hit, READS),
        hit_rate_tokens=_rate(hit, READS, _TOKENS),
        hit_rate_reuse=_rate(hit & ~_OWN, READS & ~_OWN),
        hit_rate_reuse_tokens=_rate(hit & ~_OWN, READS & ~_OWN, _TOKENS),
        hit_rate_refs=_rate(hit, READS | FIRST_TOUCH),
        hit_rate_refs_tokens=_rate(hit, READS | FIRST_TOUCH, _TOKENS),
        **{f"{source}_hit_rate": _rate(_of(hit, source), _of(READS, source)) for source in ENUMS["source"]},
        **{f"{tier}_hit_rate": _rate(hit & (pl.col("from_tier") == tier), READS) for tier in TIERS},
        **{
            f"{tier}_hit_rate_reuse": _rate(hit & ~_OWN & (pl.col("from_tier") == tier), READS & ~_OWN)
            for tier in TIERS
        },
    )
    return pl.concat([of_ops, of_requests, _of_sessions(log)], how="horizontal")


def _of_sessions(log: Log) -> pl.LazyFrame:
    rank = pl.col("request") // MAX_REQUESTS
    sessions = log.requests.group_by(rank.alias("rank"), "session_id").agg(
        pl.col("prompt_tokens", "prompt_hit_tokens").sum()
    )
    rate = pl.col("prompt_hit_tokens") / pl.col("prompt_tokens")
    return (
        sessions.filter(pl.col("prompt_tokens") > 0)
        .select(rate.alias("rate").sort())
        .select(
            hit_rate_sessions=pl.col("rate").mean(),
            hit_rate_sessions_p5=pl.col("rate").quantile(0.05, "linear"),
            hit_rate_sessions_p50=pl.col("rate").quantile(0.5, "linear"),
        )
    )


def _of(rows: pl.Expr, source: str) -> pl.Expr:
    return rows & (pl.col("source") == source)


def _rate(part: pl.Expr, whole: pl.Expr, weight: pl.Expr = _ROWS) -> pl.Expr:
    total = weight.filter(whole).sum()
    return pl.when(total > 0).then(weight.filter(part).sum() / total)
