"""Tokens that pass through NVMe."""

import polars as pl

from analysis.log import ELAPSED_S, SIDES


def nvme_tokens(log: pl.LazyFrame) -> pl.LazyFrame:
    """nvme_tokens_processed = Σ tokens of moves to or from nvme, demotions included; nvme_tok_s over elapsed_s."""
    processed = pl.col("tokens").cast(pl.Int64).filter(SIDES["nvme_read"] | SIDES["nvme_write"]).sum()
    return log.select(nvme_tokens_processed=processed, nvme_tok_s=processed / ELAPSED_S)
