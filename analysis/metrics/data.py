"""Bytes and tokens that decoding reads, prefill writes, and nvme moves."""

from typing import Final

import polars as pl

from analysis.log.columns import GIB, OK, SERVED, SIDES, SIZE, STORED
from analysis.log.log import Log
from analysis.metrics.metric import Declared, Metric
from replayer.schema import TIERS


def data(log: Log) -> pl.LazyFrame:
    """Bytes and tokens that decoding reads, prefill writes, and nvme moves.

    decode_read_bytes: Σ bytes of hits in phase decode.
    decode_read_gib_s: decode_read_bytes / elapsed_s.
    {tier}_decode_read_bytes: the part of decode_read_bytes that the tier served.
    prefill_write_bytes: Σ bytes of stores, including those of recomputed KV and of promoted
        objects.
    {tier}_prefill_write_bytes: the part of prefill_write_bytes that went to the tier.
    nvme_tokens_processed: Σ tokens of moves from or to nvme, including demotions and copies.
    nvme_tok_s: nvme_tokens_processed / elapsed_s.
    """
    decode, stored = OK & SERVED & (pl.col("phase") == "decode"), OK & STORED
    processed = pl.col("tokens").filter(SIDES["nvme_read"] | SIDES["nvme_write"]).sum()
    totals = log.cells.select(
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
    return pl.concat([totals, rates], how="horizontal")


METRICS: Final[Declared] = {
    data: (
        Metric("decode_read_bytes", "bytes", "work", "decode reads"),
        Metric("decode_read_gib_s", "GiB/s", "speed", "decode reads", "higher", short="decode GiB/s"),
        Metric("{tier}_decode_read_bytes", "bytes", "work", "decode reads from {tier}"),
        Metric("prefill_write_bytes", "bytes", "work", "prefill writes"),
        Metric("{tier}_prefill_write_bytes", "bytes", "work", "prefill writes to {tier}"),
        Metric("nvme_tokens_processed", "tokens", "work", "tokens moved from or to nvme", tier="nvme"),
        Metric("nvme_tok_s", "tok/s", "speed", "tokens moved from or to nvme", "higher", tier="nvme"),
    ),
}
