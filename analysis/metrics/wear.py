"""Amplification: bytes that tiers and devices move for a byte that is asked for, and what that does to a drive."""

import polars as pl

from analysis.log.columns import OK, SERVED, SIDES, SIZE, STORED
from analysis.log.log import Log
from analysis.metrics.machine import after_warm_up, judged_ns
from replayer.schema import TIERS

_DAY_S = 86_400


def amplification(log: Log) -> pl.LazyFrame:
    """Bytes moved per byte asked for, evictions included, and what that does to a drive; null where nothing was.

    read_amplification: tokens that nvme read / tokens_generated: what storage reads for each token, as kv-cache.py's
        papers use the word.
    read_bytes_ratio: bytes read from all tiers / bytes of hits.
    write_amplification: bytes written to all tiers / bytes of stores.
    nvme_write_amplification: bytes written to nvme / bytes of stores.
    nvme_write_bytes_per_day: bytes written to nvme / elapsed_s × 86,400: at the replay's pace, which is the workload's
        own under pace open at --speedup 1.
    drive_writes_per_day: nvme_write_bytes_per_day / (--drive-tb × 10^12), the drive's DWPD at that pace; null where
        that is not given.
    endurance_years: --tbw × 10^12 / (nvme_write_bytes_per_day × 365.25); null where that is not given.
    """
    read, written = (
        pl.sum_horizontal(SIZE.filter(SIDES[f"{tier}_{side}"]).sum() for tier in TIERS) for side in ("read", "write")
    )
    hits, stored, nvme = (SIZE.filter(rows).sum() for rows in (OK & SERVED, OK & STORED, SIDES["nvme_write"]))
    per_day = nvme / log.elapsed_s * _DAY_S
    life, drive = (pl.lit(given, pl.Float64) * 1e12 for given in (log.targets.tbw, log.targets.drive_tb))
    tokens, generated = pl.col("tokens").filter(SIDES["nvme_read"]).sum(), pl.col("new_tokens").sum()
    counted = log.cells.select(
        read_amplification=pl.when(generated > 0).then(tokens / generated),
        read_bytes_ratio=pl.when(hits > 0).then(read / hits),
        write_amplification=pl.when(stored > 0).then(written / stored),
        nvme_write_amplification=pl.when(stored > 0).then(nvme / stored),
    )
    rates = log.rated.select(
        nvme_write_bytes_per_day=per_day,
        drive_writes_per_day=per_day / drive,
        endurance_years=pl.when(per_day > 0).then(life / (per_day * 365.25)),
    )
    return pl.concat([counted, rates], how="horizontal")


def device(log: Log) -> pl.LazyFrame:
    """The kernel's counters beside the log, from device.parquet, without the warm-up; null where there are none.

    device_read_bytes, device_written_bytes: of the block device under the cache.
    device_read_ratio: device_read_bytes / nvme_read_bytes: below 0.9 a cache served reads.
    device_write_ratio: device_written_bytes / nvme_write_bytes.
    device_utilisation: share of the time with any request in flight, of a cut run until the cut.
    cpu_share: cores that the replayer kept busy / cores there are, in that time.
    system_cpu_share: cores of its host that anything kept busy, the replayer included / their number, in that time.
    """
    weight, judged = after_warm_up(log), judged_ns(log)
    span = judged.sum()
    busy = (pl.col("system_cpu") / pl.col("host_cores") * judged).sum()
    own = ~pl.col("shared")
    read, written = ((pl.col(f"{name}_bytes") * weight).filter(own) for name in ("read", "written"))
    known = pl.col("read_bytes").filter(own).count() > 0
    counters = log.device.select(
        device_read_bytes=pl.when(known).then(read.sum().round().cast(pl.Int64)),
        device_written_bytes=pl.when(known).then(written.sum().round().cast(pl.Int64)),
        device_utilisation=(pl.col("utilisation") * judged).filter(own).sum()
        / pl.when(known).then(judged.filter(own & pl.col("utilisation").is_not_null()).sum()),
        cpu_share=pl.when(span > 0).then(
            (pl.col("process_cpu") * judged).sum() / span * pl.col("rank").n_unique() / log.cores
        ),
        system_cpu_share=pl.when(span > 0).then(busy / span),
    )
    logical = log.cells.select(
        pl.col("size_bytes").filter(SIDES[f"nvme_{side}"]).sum().alias(side) for side in ("read", "write")
    )
    return (
        pl.concat([counters, logical], how="horizontal")
        .with_columns(
            device_read_ratio=pl.when(pl.col("read") > 0).then(pl.col("device_read_bytes") / pl.col("read")),
            device_write_ratio=pl.when(pl.col("write") > 0).then(pl.col("device_written_bytes") / pl.col("write")),
        )
        .drop("read", "write")
    )
