"""Hit rates under each of their definitions; a hit rate without its definition means nothing."""

import polars as pl

from analysis.log import Log
from analysis.terms import OK, READS, SERVED
from replayer.schema import TIERS
from tracegen.schema import ENUMS

_ROWS, _TOKENS = pl.col("rows"), pl.col("tokens")
_OWN = pl.col("source") == "user"


def hit_rate(log: Log) -> pl.LazyFrame:
    """Shares of reads that found their KV; null where there was nothing to find. A read that failed is no hit.

    hit_rate: hits / reads, by ops.
    hit_rate_tokens: the same by tokens.
    hit_rate_reuse, hit_rate_reuse_tokens: without source user, a request's decode reads of its own object.
    hit_rate_refs, hit_rate_refs_tokens: hits / (reads + writes), what block-trace papers call hit rate.
    hit_rate_requests: hits / reads of each request, as the mean over requests that read.
    {source}_hit_rate: hits / reads of the source.
    {tier}_hit_rate: hits that the tier served / all reads.
    {tier}_hit_rate_reuse: the same without source user.
    """
    hit = OK & SERVED
    # The one row of a write op that is not an eviction.
    writes = (pl.col("op") == "write") & pl.col("move").is_in(["store", "bypass"])
    of_requests = log.requests.filter(pl.col("reads") > 0).select(
        hit_rate_requests=(pl.col("hits") / pl.col("reads")).mean()
    )
    of_ops = log.cells.select(
        hit_rate=_rate(hit, READS),
        hit_rate_tokens=_rate(hit, READS, _TOKENS),
        hit_rate_reuse=_rate(hit & ~_OWN, READS & ~_OWN),
        hit_rate_reuse_tokens=_rate(hit & ~_OWN, READS & ~_OWN, _TOKENS),
        hit_rate_refs=_rate(hit, READS | writes),
        hit_rate_refs_tokens=_rate(hit, READS | writes, _TOKENS),
        **{f"{source}_hit_rate": _rate(_of(hit, source), _of(READS, source)) for source in ENUMS["source"]},
        **{f"{tier}_hit_rate": _rate(hit & (pl.col("from_tier") == tier), READS) for tier in TIERS},
        **{
            f"{tier}_hit_rate_reuse": _rate(hit & ~_OWN & (pl.col("from_tier") == tier), READS & ~_OWN)
            for tier in TIERS
        },
    )
    return pl.concat([of_ops, of_requests], how="horizontal")


def _of(rows: pl.Expr, source: str) -> pl.Expr:
    return rows & (pl.col("source") == source)


def _rate(part: pl.Expr, whole: pl.Expr, weight: pl.Expr = _ROWS) -> pl.Expr:
    total = weight.filter(whole).sum()
    return pl.when(total > 0).then(weight.filter(part).sum() / total)
