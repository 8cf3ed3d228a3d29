"""Bytes and tokens that decoding reads, prefill writes, and NVMe handles."""

import polars as pl

from analysis.log.columns import GIB, OK, SERVED, SIDES, SIZE, STORED
from analysis.log.log import Log
from replayer.schema import TIERS


def data(log: Log) -> pl.LazyFrame:
    """What was moved for whom.

    decode_read_bytes: bytes of hits in phase decode.
    decode_read_gib_s: decode_read_bytes / elapsed_s, in GiB.
    {tier}_decode_read_bytes: those served by the tier.
    prefill_write_bytes: bytes of stores, those of recomputed KV and of promoted objects included.
    {tier}_prefill_write_bytes: those into the tier.
    nvme_tokens_processed: Σ tokens of moves to or from nvme, demotions included.
    nvme_tok_s: nvme_tokens_processed / elapsed_s.
    """
    decode, stored = OK & SERVED & (pl.col("phase") == "decode"), OK & STORED
    processed = pl.col("tokens").filter(SIDES["nvme_read"] | SIDES["nvme_write"]).sum()
    counted = log.cells.select(
        decode_read_bytes=SIZE.filter(decode).sum(),
        **{f"{tier}_decode_read_bytes": SIZE.filter(decode & (pl.col("from_tier") == tier)).sum() for tier in TIERS},
        prefill_write_bytes=SIZE.filter(stored).sum(),
        **{f"{tier}_prefill_write_bytes": SIZE.filter(stored & (pl.col("to_tier") == tier)).sum() for tier in TIERS},
        nvme_tokens_processed=processed,
    )
    rates = log.rated.select(
        decode_read_gib_s=SIZE.filter(decode).sum() / GIB / log.elapsed_s,
        nvme_tok_s=processed / log.elapsed_s,
    )
    return pl.concat([counted, rates], how="horizontal")
