"""Hit rates under each of their definitions; a hit rate without its definition means nothing."""

import polars as pl

from analysis.log import OK, READS, SERVED
from replayer.schema import TIERS
from tracegen.schema import ENUMS

_TOKENS = pl.col("tokens").cast(pl.Int64)
_OWN = pl.col("source") == "user"


def hit_rate(log: pl.LazyFrame) -> pl.LazyFrame:
    """hit_rate = hits / reads, by ops and (hit_rate_tokens) by tokens; in all, per source, per tier that served.

    hit_rate_reuse: without source user, a request's reads of its own object. hit_rate_refs = hits / (reads + writes),
    what block-trace papers call hit rate. recomputed_tokens = tokens of misses and bypasses, an op counted once.
    Null where there was nothing to hit.
    """
    hit, bypass = OK & SERVED, pl.col("move") == "bypass"
    # The one row of a write op that is not an eviction.
    writes = (pl.col("op") == "write") & pl.col("move").is_in(["store", "bypass"])
    return log.select(
        hit_rate=_rate(hit, READS),
        hit_rate_tokens=_rate(hit, READS, _TOKENS),
        hit_rate_reuse=_rate(hit & ~_OWN, READS & ~_OWN),
        hit_rate_reuse_tokens=_rate(hit & ~_OWN, READS & ~_OWN, _TOKENS),
        hit_rate_refs=_rate(hit, READS | writes),
        hit_rate_refs_tokens=_rate(hit, READS | writes, _TOKENS),
        recomputed_tokens=_TOKENS.filter((pl.col("move") == "miss") | (bypass & (pl.col("seq") == 0))).sum(),
        **{f"{tier}_hit_rate": _rate(hit & (pl.col("from_tier") == tier), READS) for tier in TIERS},
        **{
            f"{source}_hit_rate": _rate(hit & (pl.col("source") == source), READS & (pl.col("source") == source))
            for source in ENUMS["source"]
        },
    )


def _rate(part: pl.Expr, whole: pl.Expr, weight: pl.Expr | None = None) -> pl.Expr:
    weighted = pl.lit(1, pl.Int64) if weight is None else weight
    total = pl.when(whole).then(weighted).otherwise(0).sum()
    return pl.when(total > 0).then(pl.when(part).then(weighted).otherwise(0).sum() / total)
