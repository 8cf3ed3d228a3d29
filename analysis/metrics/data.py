"""Bytes that decoding reads and that prefill writes."""

import polars as pl

from analysis.log import ELAPSED_S, GIB, OK, SERVED, SIZE, STORED
from replayer.schema import TIERS


def data(log: pl.LazyFrame) -> pl.LazyFrame:
    """decode_read_bytes = bytes of hits in phase decode, decode_read_gib_s that over elapsed_s.

    prefill_write_bytes = bytes of stores (recomputed KV and promoted objects included); each in all and per tier.
    """
    decode, stored = OK & SERVED & (pl.col("phase") == "decode"), OK & STORED
    return log.select(
        decode_read_bytes=SIZE.filter(decode).sum(),
        decode_read_gib_s=SIZE.filter(decode).sum() / GIB / ELAPSED_S,
        prefill_write_bytes=SIZE.filter(stored).sum(),
        **{f"{tier}_decode_read_bytes": SIZE.filter(decode & (pl.col("from_tier") == tier)).sum() for tier in TIERS},
        **{f"{tier}_prefill_write_bytes": SIZE.filter(stored & (pl.col("to_tier") == tier)).sum() for tier in TIERS},
    )
